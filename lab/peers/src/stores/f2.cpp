// F2 behind a few C functions, which f2.rs declares. Compiled by build.rs against a checkout of microsoft/FASTER.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "core/f2.h"
#include "device/file_system_disk.h"

using namespace FASTER::core;
using namespace std::chrono_literals;

namespace {

constexpr size_t kWords = 15;
constexpr size_t kValueBytes = kWords * sizeof(uint64_t);
constexpr uint64_t kPage = uint64_t{Address::kMaxOffset} + 1;

struct Key {
  uint64_t number;
  static constexpr uint32_t size() { return sizeof(Key); }
  KeyHash GetHash() const { return KeyHash{FasterHashHelper<uint64_t>::compute(number)}; }
  bool operator==(const Key& other) const { return number == other.number; }
  bool operator!=(const Key& other) const { return number != other.number; }
};

struct Value {
  uint64_t words[kWords];
  static constexpr uint32_t size() { return sizeof(Value); }
};
static_assert(sizeof(Value) == kValueBytes);

// Values that may change in place are guarded by a count that is odd while one is written. The guards stand beside
// the records, many keys to one, so that they take no memory of the logs.
constexpr size_t kGuards = 4096;
std::atomic<uint32_t> guards[kGuards];

std::atomic<uint32_t>& guard_of(const Key& key) {
  return guards[(key.number * 0x9e3779b97f4a7c15) >> 52];
}
static_assert(kGuards == size_t{1} << (64 - 52));

void copy_out(const Value& value, uint8_t* out) {
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t word = __atomic_load_n(&value.words[i], __ATOMIC_RELAXED);
    std::memcpy(out + 8 * i, &word, 8);
  }
}

void copy_in(Value& value, const uint8_t* from) {
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t word;
    std::memcpy(&word, from + 8 * i, 8);
    __atomic_store_n(&value.words[i], word, __ATOMIC_RELAXED);
  }
}

void copy_out_guarded(const Key& key, const Value& value, uint8_t* out) {
  auto& guard = guard_of(key);
  while (true) {
    uint32_t before = guard.load(std::memory_order_acquire);
    if (before % 2 == 0) {
      copy_out(value, out);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (guard.load(std::memory_order_relaxed) == before) return;
    }
    std::this_thread::yield();
  }
}

class Guarded {
 public:
  explicit Guarded(const Key& key) : guard_(guard_of(key)) {
    uint32_t before = guard_.load(std::memory_order_relaxed);
    while (before % 2 == 1 ||
           !guard_.compare_exchange_weak(before, before + 1, std::memory_order_acquire)) {
      std::this_thread::yield();
      before = guard_.load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Guarded() { guard_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<uint32_t>& guard_;
};

// An operation that waits. It may be copied to the heap while it does; the thread that began it stays in its call,
// so what the pointers show lives on.
class Operation : public IAsyncContext {
 public:
  typedef Key key_t;
  typedef Value value_t;
  Operation(Key key, std::atomic<int>* ended) : key_{key}, ended_{ended} {}
  const Key& key() const { return key_; }
  static constexpr uint32_t value_size() { return sizeof(Value); }
  static constexpr uint32_t value_size(const Value&) { return sizeof(Value); }

  template <class C>
  static void Ended(IAsyncContext* context, Status status) {
    CallbackContext<C> operation{context};
    operation->ended_->store(static_cast<int>(status), std::memory_order_release);
  }

 protected:
  Key key_;
  std::atomic<int>* ended_;
};

class Reading : public Operation {
 public:
  Reading(Key key, std::atomic<int>* ended, uint8_t* out) : Operation{key, ended}, out_{out} {}
  void Get(const Value& value) { copy_out(value, out_); }
  void GetAtomic(const Value& value) { copy_out_guarded(key_, value, out_); }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }

 private:
  uint8_t* out_;
};

class Writing : public Operation {
 public:
  Writing(Key key, std::atomic<int>* ended, const uint8_t* from)
    : Operation{key, ended}, from_{from} {}
  void Put(Value& value) { copy_in(value, from_); }
  bool PutAtomic(Value& value) {
    Guarded guarded{key_};
    copy_in(value, from_);
    return true;
  }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }

 private:
  const uint8_t* from_;
};

typedef void (*Change)(void* with, const uint8_t* old, uint8_t* changed);

class Changing : public Operation {
 public:
  Changing(Key key, std::atomic<int>* ended, Change change, void* with, std::atomic<bool>* missing)
    : Operation{key, ended}, change_{change}, with_{with}, missing_{missing} {}
  void RmwInitial(Value& value) {
    const uint8_t none[kValueBytes] = {};
    missing_->store(true, std::memory_order_relaxed);
    copy_in(value, none);
  }
  void RmwCopy(const Value& old_value, Value& value) {
    uint8_t old[kValueBytes], changed[kValueBytes];
    missing_->store(false, std::memory_order_relaxed);
    copy_out(old_value, old);
    change_(with_, old, changed);
    copy_in(value, changed);
  }
  bool RmwAtomic(Value& value) {
    Guarded guarded{key_};
    RmwCopy(value, value);
    return true;
  }

 protected:
  Status DeepCopy_Internal(IAsyncContext*& copy) override {
    return IAsyncContext::DeepCopy_Internal(*this, copy);
  }

 private:
  Change change_;
  void* with_;
  std::atomic<bool>* missing_;
};

// Requests to read so far, and their bytes.
std::atomic<uint64_t> reads{0}, read_bytes{0};

typedef std::chrono::steady_clock Clock;

// A device that serves requests one after the other, each for a time in proportion to its bytes; none is done before
// the latency has passed. It is that of terrace_bench::device. Without a rate it is the one below.
class Device {
 public:
  bool is_paced() const { return rate_.load(std::memory_order_acquire) != 0; }

  void pace(uint64_t rate, uint64_t latency_ns, uint64_t request_bytes, uint64_t least_bytes) {
    std::lock_guard<std::mutex> lock{mutex_};
    latency_ = std::chrono::nanoseconds{latency_ns};
    request_bytes_ = request_bytes;
    least_bytes_ = least_bytes;
    rate_.store(rate, std::memory_order_release);
  }

  // Books a request; when it is done.
  Clock::time_point book(uint64_t bytes) {
    std::lock_guard<std::mutex> lock{mutex_};
    auto now = Clock::now();
    uint64_t rate = rate_.load();
    if (rate == 0) return now;
    uint64_t nanos = std::max(bytes, least_bytes_) * 1'000'000'000 / (request_bytes_ * rate);
    free_at_ = std::max(free_at_, now) + std::chrono::nanoseconds{nanos};
    return std::max(free_at_, now + latency_);
  }

 private:
  std::atomic<uint64_t> rate_{0};
  std::chrono::nanoseconds latency_{0};
  uint64_t request_bytes_ = 1, least_bytes_ = 0;
  std::mutex mutex_;
  Clock::time_point free_at_{};
};
Device device;

class CountedFile;

// Its handler of requests, with those beside them that the device of a certain speed has not done yet.
class CountedHandler : public FASTER::environment::QueueIoHandler {
 public:
  typedef CountedFile async_file_t;
  using QueueIoHandler::QueueIoHandler;

  struct Request {
    Clock::time_point done;
    IAsyncContext* context;
    AsyncIOCallback callback;
    Status status;
    size_t bytes;
    bool operator<(const Request& other) const { return done > other.done; }
  };

  void add(Request request) {
    std::lock_guard<std::mutex> lock{mutex_};
    requests_.push(request);
    waiting_.fetch_add(1);
  }

  bool TryComplete() {
    if (waiting_.load() == 0) return QueueIoHandler::TryComplete();
    std::unique_lock<std::mutex> lock{mutex_};
    if (requests_.empty() || requests_.top().done > Clock::now()) {
      lock.unlock();
      // Of the time when it was not paced.
      return QueueIoHandler::TryComplete();
    }
    waiting_.fetch_sub(1);
    Request request = requests_.top();
    requests_.pop();
    lock.unlock();
    request.callback(request.context, request.status, request.bytes);
    return true;
  }

 private:
  std::mutex mutex_;
  std::atomic<size_t> waiting_{0};
  std::priority_queue<Request> requests_;
};

class CountedFile : public FASTER::environment::QueueFile {
 public:
  using QueueFile::QueueFile;

  Status Open(FASTER::environment::FileCreateDisposition disposition,
              const FASTER::environment::FileOptions& options, CountedHandler* handler,
              bool* exists = nullptr) {
    handler_ = handler;
    return QueueFile::Open(disposition, options, handler, exists);
  }

  Status Read(size_t offset, uint32_t length, uint8_t* buffer, IAsyncContext& context,
              AsyncIOCallback callback) const {
    reads.fetch_add(1, std::memory_order_relaxed);
    read_bytes.fetch_add(length, std::memory_order_relaxed);
    if (!device.is_paced()) return QueueFile::Read(offset, length, buffer, context, callback);
    return later(::pread(fd_, buffer, length, offset), length, context, callback);
  }

  Status Write(size_t offset, uint32_t length, const uint8_t* buffer, IAsyncContext& context,
               AsyncIOCallback callback) {
    if (!device.is_paced()) return QueueFile::Write(offset, length, buffer, context, callback);
    return later(::pwrite(fd_, buffer, length, offset), length, context, callback);
  }

 private:
  Status later(ssize_t moved, uint32_t length, IAsyncContext& context, AsyncIOCallback callback) const {
    IAsyncContext* copy;
    RETURN_NOT_OK(context.DeepCopy(copy));
    Status status = moved < 0 ? Status::IOError : Status::Ok;
    size_t bytes = moved < 0 ? 0 : static_cast<size_t>(moved);
    handler_->add({device.book(length), copy, callback, status, bytes});
    return Status::Ok;
  }

  CountedHandler* handler_ = nullptr;
};

// As in its own benchmark: segments of a GiB, chunks of 32 entries.
typedef FASTER::device::FileSystemDisk<CountedHandler, uint64_t{1} << 30> Disk;
typedef F2Kv<Key, Value, Disk, FASTER::index::MemHashIndex<Disk>,
             FASTER::index::ColdIndex<Disk, FASTER::index::ColdLogHashIndexDefinition<32>>>
    Store;

// How often a thread says that it looks at no page any more; its own benchmark does so every 64 operations.
constexpr uint32_t kRefreshInterval = 64;

// A thread's session begins with its first operation and ends with the thread: a thread with a session that does
// nothing keeps all others from using pages again.
struct Session {
  Store* store = nullptr;
  uint32_t operations = 0;
  ~Session() {
    if (store) store->StopSession();
  }
};

void enter(Store& store) {
  // The library's number of this thread must outlive the session, so it is made first.
  Thread::id();
  thread_local Session session;
  if (session.store != &store) {
    // Naps are as long as they say, not 50 microseconds longer.
    prctl(PR_SET_TIMERSLACK, 1UL);
    // None can begin while a compaction removes what it has moved.
    while (store.AutoCompactionScheduled()) std::this_thread::sleep_for(1ms);
    store.StartSession();
    session.store = &store;
  }
  if (++session.operations % kRefreshInterval == 0) store.Refresh();
}

constexpr int kWaiting = -1;

// The library has nothing that sleeps until the device has answered. A thread that only yields takes the processor
// from the others, and from compactions: with two processors that was slower.
constexpr auto kNap = 10us;

Status wait(Store& store, Status status, const std::atomic<int>& ended) {
  if (status != Status::Pending) return status;
  while (true) {
    int result = ended.load(std::memory_order_acquire);
    if (result != kWaiting) return static_cast<Status>(result);
    store.CompletePending(false);
    result = ended.load(std::memory_order_acquire);
    if (result != kWaiting) return static_cast<Status>(result);
    std::this_thread::sleep_for(kNap);
  }
}

// Runs what may throw; 1 for found or done, 0 for not found, -1 with a text for an error.
template <class F>
int told(char* error, size_t error_bytes, F run) {
  try {
    Status status = run();
    if (status == Status::Ok) return 1;
    if (status == Status::NotFound) return 0;
    std::snprintf(error, error_bytes, "%s", StatusStr(status));
  } catch (const std::exception& exception) {
    std::snprintf(error, error_bytes, "%s", exception.what());
  } catch (...) {
    std::snprintf(error, error_bytes, "an unknown exception");
  }
  return -1;
}

// A share of a log's pages that may change in place, so that four pages are left that may not.
double mutable_share(double wanted, uint64_t bytes) {
  double pages = static_cast<double>(bytes / kPage);
  return std::min(wanted, (pages - 3.5) / pages);
}

}  // namespace

extern "C" {

struct F2Sizes {
  // In memory, in bytes.
  uint64_t hot_log, read_cache, cold_log, cold_index_log;
  // Buckets of 64 bytes.
  uint64_t hot_buckets, cold_buckets;
  // Of the logs, in bytes.
  uint64_t hot_disk, cold_disk;
};

uint64_t f2_page_bytes() { return kPage; }

void* f2_open(const char* folder, const F2Sizes* sizes, char* error, size_t error_bytes) {
  Store* store = nullptr;
  told(error, error_bytes, [&] {
    ReadCacheConfig cache{};
    cache.mem_size = sizes->read_cache;
    cache.mutable_fraction = 0.5;
    cache.pre_allocate = false;
    cache.enabled = true;
    F2CompactionConfig compaction = DEFAULT_F2_COMPACTION_CONFIG;
    compaction.hot_store.hlog_size_budget = sizes->hot_disk;
    compaction.cold_store.hlog_size_budget = sizes->cold_disk;
    std::string path{folder};
    store = new Store{
        typename Store::HotIndexConfig{sizes->hot_buckets}, sizes->hot_log, path + "/hot",
        typename Store::ColdIndexConfig{sizes->cold_buckets, sizes->cold_index_log,
                                        mutable_share(0.6, sizes->cold_index_log)},
        sizes->cold_log, path + "/cold", mutable_share(0.9, sizes->hot_log), 0, cache, compaction};
    return Status::Ok;
  });
  return store;
}

int f2_get(void* of, uint64_t key, uint8_t* out, char* error, size_t error_bytes) {
  return told(error, error_bytes, [&] {
    Store& store = *static_cast<Store*>(of);
    enter(store);
    std::atomic<int> ended{kWaiting};
    Reading reading{Key{key}, &ended, out};
    return wait(store, store.Read(reading, Operation::Ended<Reading>, 1), ended);
  });
}

// All reads are begun before one is waited for. What `found` gets is what f2_get returns.
int f2_get_many(void* of, const uint64_t* keys, size_t count, uint8_t* out, uint8_t* found,
                char* error, size_t error_bytes) {
  return told(error, error_bytes, [&] {
    Store& store = *static_cast<Store*>(of);
    std::vector<std::atomic<int>> ended(count);
    for (size_t i = 0; i < count; ++i) {
      enter(store);
      ended[i].store(kWaiting);
      Reading reading{Key{keys[i]}, &ended[i], out + i * kValueBytes};
      Status status = store.Read(reading, Operation::Ended<Reading>, 1);
      if (status != Status::Pending) ended[i].store(static_cast<int>(status));
    }
    // Also behind one that has failed all are waited for: they write to what the caller has lent.
    Status all = Status::Ok;
    for (size_t i = 0; i < count; ++i) {
      Status status = wait(store, Status::Pending, ended[i]);
      found[i] = status == Status::Ok;
      if (status != Status::Ok && status != Status::NotFound) all = status;
    }
    return all;
  });
}

// Of all stores of the process.
void f2_reads(uint64_t* requests, uint64_t* bytes) {
  *requests = reads.load();
  *bytes = read_bytes.load();
}

struct F2Device {
  uint64_t rate, latency_ns, request_bytes, least_bytes;
};

// From now on the device is as fast as this, or with a rate of 0 as the one below.
void f2_pace(const F2Device* as) {
  device.pace(as->rate, as->latency_ns, as->request_bytes, as->least_bytes);
}

int f2_put(void* of, uint64_t key, const uint8_t* value, char* error, size_t error_bytes) {
  return told(error, error_bytes, [&] {
    Store& store = *static_cast<Store*>(of);
    enter(store);
    std::atomic<int> ended{kWaiting};
    Writing writing{Key{key}, &ended, value};
    return wait(store, store.Upsert(writing, Operation::Ended<Writing>, 1), ended);
  });
}

// `change` may be called more than once, and by another thread while this one waits. A record that is not there
// is made, with zeros, and 0 returned.
int f2_change(void* of, uint64_t key, Change change, void* with, char* error, size_t error_bytes) {
  return told(error, error_bytes, [&] {
    Store& store = *static_cast<Store*>(of);
    enter(store);
    std::atomic<int> ended{kWaiting};
    std::atomic<bool> missing{false};
    Changing changing{Key{key}, &ended, change, with, &missing};
    Status status = wait(store, store.Rmw(changing, Operation::Ended<Changing>, 1), ended);
    return status == Status::Ok && missing.load() ? Status::NotFound : status;
  });
}

// Waits until no compaction runs. The thread must have no session.
void f2_settle(void* of) { static_cast<Store*>(of)->CompletePendingCompactions(); }

// No thread may have a session.
void f2_close(void* of) { delete static_cast<Store*>(of); }

}  // extern "C"
