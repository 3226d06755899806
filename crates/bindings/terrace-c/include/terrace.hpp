// Terrace for C++11: the handles of terrace.h as objects that give themselves back, failures as exceptions.
//
// A Database has to outlive what was opened through it, or that answers with errors. Objects move, and do not copy.
#ifndef TERRACE_HPP
#define TERRACE_HPP

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "terrace.h"

namespace terrace {

// What went wrong: what() says what happened, where, and the way out.
class Error : public std::runtime_error {
public:
    Error(terrace_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    terrace_status status() const { return status_; }

private:
    terrace_status status_;
};

namespace detail {
// Runs a call that takes a place for its error.
template <typename Call> void run(Call call) {
    terrace_error *error = nullptr;
    const terrace_status status = call(&error);
    if (status == TERRACE_OK) return;
    const std::string text = terrace_error_message(error);
    terrace_error_free(error);
    throw Error(status, text);
}

inline terrace_slice slice(const std::string &bytes) { return terrace_slice_of(bytes.data(), bytes.size()); }
inline std::string text(terrace_slice bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data), bytes.len);
}
// Bytes of Terrace, as a string; whether there were any.
inline bool taken(terrace_bytes bytes, std::string &to) {
    if (bytes.data == nullptr) return false;
    to.assign(reinterpret_cast<const char *>(bytes.data), bytes.len);
    terrace_bytes_free(&bytes);
    return true;
}

// A handle that gives itself back.
template <typename T, void (*Close)(T *)> class Handle {
public:
    Handle() : handle_(nullptr) {}
    explicit Handle(T *handle) : handle_(handle) {}
    Handle(Handle &&other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
    Handle &operator=(Handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { Close(handle_); }
    T *get() const { return handle_; }

private:
    T *handle_;
};

inline void close(terrace_db *db) { terrace_close(db, nullptr); }
// A transaction that is lent ends elsewhere.
inline void leave(terrace_transaction *) {}
} // namespace detail

// Records one after the other: for (Cursor c = map.range(); c.next();) use(c.key(), c.value());
class Cursor : public detail::Handle<terrace_cursor, terrace_cursor_close> {
public:
    using Handle::Handle;
    bool next() {
        detail::run([&](terrace_error **e) { return terrace_cursor_next(get(), &key_, &value_, e); });
        return key_.data != nullptr;
    }
    std::string key() const { return detail::text(key_); }
    std::string value() const { return detail::text(value_); }

private:
    terrace_slice key_ = {nullptr, 0}, value_ = {nullptr, 0};
};

// A structure of records by key.
class Map : public detail::Handle<terrace_map, terrace_map_close> {
public:
    using Handle::Handle;
    bool get(const std::string &key, std::string &value) const {
        terrace_bytes found;
        detail::run([&](terrace_error **e) { return terrace_get(handle(), detail::slice(key), &found, e); });
        return detail::taken(found, value);
    }
    void put(const std::string &key, const std::string &value, terrace_durability durability = TERRACE_DEFAULT) {
        detail::run([&](terrace_error **e) {
            return terrace_put_with(handle(), detail::slice(key), detail::slice(value), durability, e);
        });
    }
    void erase(const std::string &key, terrace_durability durability = TERRACE_DEFAULT) {
        detail::run([&](terrace_error **e) { return terrace_delete_with(handle(), detail::slice(key), durability, e); });
    }
    // Records that are there for so long, or until a time in milliseconds since 1970: of structures that are made with `expiring`.
    void put_for(const std::string &key, const std::string &value, uint64_t ms) {
        detail::run([&](terrace_error **e) { return terrace_put_for(handle(), detail::slice(key), detail::slice(value), ms, e); });
    }
    void put_until(const std::string &key, const std::string &value, uint64_t time_ms, terrace_durability durability = TERRACE_DEFAULT) {
        detail::run([&](terrace_error **e) {
            return terrace_put_until(handle(), detail::slice(key), detail::slice(value), time_ms, durability, e);
        });
    }
    // Whether the record is there; TERRACE_FOREVER has it stay.
    bool expire_in(const std::string &key, uint64_t ms) {
        bool there = false;
        detail::run([&](terrace_error **e) { return terrace_expire_in(handle(), detail::slice(key), ms, &there, e); });
        return there;
    }
    // Until when a record is there, TERRACE_FOREVER, or 0 if it is not.
    uint64_t expires(const std::string &key) const {
        uint64_t time_ms = 0;
        detail::run([&](terrace_error **e) { return terrace_expires(handle(), detail::slice(key), &time_ms, e); });
        return time_ms;
    }
    Cursor range(bool reverse = false) const { return between(nullptr, nullptr, reverse); }
    Cursor range(const std::string &from, const std::string &to, bool reverse = false) const {
        const terrace_slice low = detail::slice(from), high = detail::slice(to);
        return between(&low, &high, reverse);
    }
    terrace_map *handle() const { return Handle::get(); }

private:
    Cursor between(const terrace_slice *from, const terrace_slice *to, bool reverse) const {
        terrace_cursor *cursor = nullptr;
        detail::run([&](terrace_error **e) { return terrace_range(handle(), from, to, reverse, &cursor, e); });
        return Cursor(cursor);
    }
};

// Changes that are made together, by Database::write.
class Batch : public detail::Handle<terrace_batch, terrace_batch_destroy> {
public:
    using Handle::Handle;
    Batch &put(const Map &map, const std::string &key, const std::string &value) {
        detail::run([&](terrace_error **e) {
            return terrace_batch_put(get(), map.handle(), detail::slice(key), detail::slice(value), e);
        });
        return *this;
    }
    Batch &erase(const Map &map, const std::string &key) {
        detail::run([&](terrace_error **e) { return terrace_batch_delete(get(), map.handle(), detail::slice(key), e); });
        return *this;
    }
};

// Reads and writes of one instant; see Database::transaction.
class Transaction : public detail::Handle<terrace_transaction, detail::leave> {
public:
    using Handle::Handle;
    bool get(const Map &map, const std::string &key, std::string &value) {
        terrace_bytes found;
        detail::run([&](terrace_error **e) {
            return terrace_transaction_get(handle(), map.handle(), detail::slice(key), &found, e);
        });
        return detail::taken(found, value);
    }
    void put(const Map &map, const std::string &key, const std::string &value) {
        detail::run([&](terrace_error **e) {
            return terrace_transaction_put(handle(), map.handle(), detail::slice(key), detail::slice(value), e);
        });
    }
    void erase(const Map &map, const std::string &key) {
        detail::run([&](terrace_error **e) {
            return terrace_transaction_delete(handle(), map.handle(), detail::slice(key), e);
        });
    }
    terrace_transaction *handle() const { return Handle::get(); }
};

// The changes commit by commit, in order: for (Changes c = db.changes(); c.next();) for (terrace_change x; c.change(x);) use(x);
class Changes : public detail::Handle<terrace_changes, terrace_changes_close> {
public:
    using Handle::Handle;
    ~Changes() { terrace_bytes_free(&commit_); }
    Changes(Changes &&other) noexcept : Handle(std::move(other)), commit_(other.commit_), at_(other.at_) {
        other.commit_ = terrace_bytes();
    }
    // Waits for the next commit; whether there was one.
    bool next(uint64_t wait_ms = TERRACE_FOREVER) {
        terrace_bytes_free(&commit_);
        at_ = TERRACE_COMMIT_HEAD;
        detail::run([&](terrace_error **e) { return terrace_changes_next(get(), wait_ms, &commit_, nullptr, e); });
        return commit_.data != nullptr;
    }
    // The next change of this commit, which is lent until the next commit; whether there was one.
    bool change(terrace_change &change) { return terrace_commit_next(commit(), &at_, &change); }
    uint64_t sequence() const { return terrace_commit_sequence(commit()); }
    // From where to go on behind this commit: `from` of the options.
    std::string place() const {
        const char *place = terrace_commit_place(commit());
        return place == nullptr ? std::string() : std::string(place);
    }

private:
    terrace_slice commit() const { return terrace_slice_of(commit_.data, commit_.len); }
    terrace_bytes commit_ = terrace_bytes();
    size_t at_ = TERRACE_COMMIT_HEAD;
};

// An open database.
class Database : public detail::Handle<terrace_db, detail::close> {
public:
    explicit Database(const std::string &path, const terrace_options &options = TERRACE_OPTIONS_INIT)
        : Handle(opened(path, options)) {}
    Map tree(const std::string &name, const terrace_map_options *options = nullptr) { return made(terrace_tree, name, options); }
    Map hash(const std::string &name, const terrace_map_options *options = nullptr) { return made(terrace_hash, name, options); }
    Map table(const std::string &name, const terrace_map_options *options = nullptr) { return made(terrace_table, name, options); }
    Map lsm(const std::string &name, const terrace_map_options *options = nullptr) { return made(terrace_lsm, name, options); }
    Map map(const std::string &name) {
        terrace_map *map = nullptr;
        detail::run([&](terrace_error **e) { return terrace_map_open(get(), name.c_str(), &map, e); });
        return Map(map);
    }
    Changes changes(const terrace_changes_options *options = nullptr) {
        terrace_changes *changes = nullptr;
        detail::run([&](terrace_error **e) { return terrace_changes_begin(get(), options, &changes, e); });
        return Changes(changes);
    }
    Batch batch() {
        terrace_batch *batch = nullptr;
        detail::run([&](terrace_error **e) { return terrace_batch_create(get(), &batch, e); });
        return Batch(batch);
    }
    void write(Batch &batch, terrace_durability durability = TERRACE_DEFAULT) {
        detail::run([&](terrace_error **e) { return terrace_write(get(), batch.get(), durability, e); });
    }
    // Runs a function, again while others are faster. What it throws is thrown here, and nothing is changed then.
    void transaction(const std::function<void(Transaction &)> &function) {
        Running running{function, nullptr};
        try {
            detail::run([&](terrace_error **e) { return terrace_transact(get(), nullptr, once, &running, e); });
        } catch (const Error &) {
            if (!running.thrown) throw;
        }
        if (running.thrown) std::rethrow_exception(running.thrown);
    }
    std::string stats() {
        terrace_bytes json;
        std::string text;
        detail::run([&](terrace_error **e) { return terrace_stats(get(), &json, e); });
        detail::taken(json, text);
        return text;
    }

private:
    struct Running {
        const std::function<void(Transaction &)> &function;
        std::exception_ptr thrown;
    };
    // Nothing may be thrown through C.
    static uint32_t once(terrace_transaction *handle, void *context) {
        Running *running = static_cast<Running *>(context);
        Transaction transaction(handle);
        running->thrown = nullptr;
        try {
            running->function(transaction);
            return TERRACE_OK;
        } catch (...) {
            running->thrown = std::current_exception();
            return TERRACE_ABORTED;
        }
    }
    static terrace_db *opened(const std::string &path, const terrace_options &options) {
        terrace_db *db = nullptr;
        detail::run([&](terrace_error **e) { return terrace_open(path.c_str(), &options, &db, e); });
        return db;
    }
    template <typename Open> Map made(Open open, const std::string &name, const terrace_map_options *options) {
        terrace_map *map = nullptr;
        detail::run([&](terrace_error **e) { return open(get(), name.c_str(), options, &map, e); });
        return Map(map);
    }
};

} // namespace terrace

#endif
