//! Transactions under the concurrency checker: the real record locks, watches, tiers, gate and log, with the
//! protocol of a commit over them, in random orders of steps.
//!
//! The oracle: replayed one after the other in the order of the log, each transaction has read exactly what
//! is there then; one that only reads fits somewhere between its begin and its end, and so does, at each step of
//! every transaction, what it has read so far; and what the tiers hold in the end is what the log says. Nine
//! broken rules are each found.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use shuttle::scheduler::RandomScheduler;
use terrace_access::Window;
use terrace_base::sync::thread;
use terrace_sim::SimDisk;
use terrace_tier::fault::{Fault, plant};
use terrace_tier::policy::Sampled;
use terrace_tier::{Change, Content, RecordLock, Structure, TierContext, TierOptions, Watch};
use terrace_wal::{Log, LogOptions};

const MEMORY: u64 = 1 << 20;
/// Few keys over fewer locks, so that locks are shared.
const KEYS: usize = 6;
const LOCKS: usize = 3;
/// Rounds in which what has moved on is looked at again.
const ROUNDS: u32 = 8;

/// What is broken in the protocol, where that is not a fault of a lower layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
// Not all of them are found in the orders that are tried.
#[allow(dead_code)]
enum Broken {
    /// Nothing.
    Nothing,
    /// A range is read again before the append instead of being watched.
    RangeReadAgain,
    /// A commit does not tell who watches.
    NoMark,
    /// Who begins to watch does not wait for those inside the gate.
    NoGrace,
    /// A key is watched only after its record was read.
    KeyWatchedLate,
    /// What was read is validated before the log is taken, not while it is held.
    ValidatedOutside,
    /// A lock that another thread holds does not count.
    HeldIgnored,
    /// Reads do not look at locks.
    UnlockedRead,
    /// What was read is not validated.
    Unvalidated,
    /// A lock is let go of before all changes are made.
    ReleasedEarly,
    /// Of several keys under a lock one is looked at again.
    OneRefreshed,
    /// A fault of the tiers.
    Tier(Fault),
}

type Value = Option<u64>;

/// A transaction as it went.
#[derive(Clone, Debug)]
struct Done {
    reads: Vec<(usize, Value)>,
    range: Option<(usize, usize, BTreeMap<usize, u64>)>,
    writes: Vec<(usize, Value)>,
    /// Commits before its begin, and before its end.
    between: (u64, u64),
}

struct World {
    context: Arc<TierContext>,
    tree: Arc<Tree>,
    log: Log,
    keys: Vec<Vec<u8>>,
    broken: Broken,
    initial: BTreeMap<usize, u64>,
    /// Transactions that are in the log, by their place there, and those that only read.
    logged: Mutex<BTreeMap<u64, Done>>,
    only_read: Mutex<Vec<Done>>,
    commits: AtomicU64,
}

/// Something that was read, with the content of its lock.
struct Read {
    key: usize,
    slot: usize,
    value: Value,
    content: Content,
}

struct Ranged {
    low: usize,
    high: usize,
    watch: Arc<Watch>,
    seen: u64,
    found: BTreeMap<usize, u64>,
}

/// What a transaction has read. The keys of the records are watched, or their locks are looked at.
#[derive(Default)]
struct Seen {
    reads: Vec<Read>,
    range: Option<Ranged>,
    keys: Option<(Arc<Watch>, u64)>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

impl World {
    fn new(broken: Broken) -> World {
        let disk = SimDisk::new(1);
        let store =
            terrace_pages::PageStore::create(disk.shared(), options(MEMORY, 4096), 7, &cut());
        let context = TierContext::new(Arc::new(store.unwrap()), 512);
        let tiers = TierOptions {
            policy: Arc::new(Sampled {
                admit_per_mille: 1000,
            }),
            inclusive: shuttle_number(2) == 0,
            ..TierOptions::default()
        };
        let tree = two_tiers::<BTree>(&context, &tiers);
        let mut keys: Vec<Vec<u8>> = (0u32..)
            .map(|n| format!("k{n:04}").into_bytes())
            .filter(|key| context.locks.slot(tree.id(), key) < LOCKS)
            .take(KEYS)
            .collect();
        keys.sort();
        let log = LogOptions {
            segment_bytes: 64 << 10,
            first_segment_bytes: 64 << 10,
            buffer_bytes: 8 << 10,
            seed: Some(1),
            ..LogOptions::default()
        };
        let mut world = World {
            log: Log::create(SimDisk::new(2).shared(), log, 0).unwrap(),
            initial: BTreeMap::new(),
            logged: Mutex::default(),
            only_read: Mutex::default(),
            commits: AtomicU64::new(0),
            context,
            tree,
            keys,
            broken,
        };
        for key in 0..KEYS {
            if shuttle_number(3) > 0 {
                let value = 1000 + key as u64;
                let put = world.tree.write(
                    &world.keys[key],
                    Change::Put(&value.to_be_bytes()),
                    None,
                    &mut || (),
                );
                assert!(put.unwrap());
                world.initial.insert(key, value);
            }
        }
        // Nothing is hot where no key is there.
        (0..4).for_each(|_| _ = world.tree.sweep_once().unwrap());
        world
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == broken
    }

    fn slot(&self, key: usize) -> usize {
        self.context.locks.slot(self.tree.id(), &self.keys[key])
    }

    /// The value of a key, and the content of its lock that it belongs to.
    fn read(&self, key: usize) -> Read {
        let mut value = Vec::new();
        let slot = self.slot(key);
        let (found, content) = if self.is(Broken::UnlockedRead) {
            let found = self.tree.get(&self.keys[key], &mut value).unwrap();
            thread::yield_now();
            (found, self.context.locks.read_waiting(slot).content())
        } else {
            let (found, version) = self
                .tree
                .get_versioned(&self.keys[key], &mut value)
                .unwrap();
            (found, version.content())
        };
        Read {
            key,
            slot,
            value: found.then(|| number(&value)),
            content,
        }
    }

    /// Reads a range, window by window.
    fn scan(&self, low: usize, high: usize) -> BTreeMap<usize, u64> {
        let (mut window, mut found) = (Window::new(), BTreeMap::new());
        window.set_limit(2);
        let mut from = self.keys[low].clone();
        let end = self.keys.get(high);
        loop {
            self.tree.scan_up(&from, &mut window).unwrap();
            for i in 0..window.len() {
                let key = self
                    .keys
                    .iter()
                    .position(|key| key == window.key(i))
                    .unwrap();
                if key < high {
                    found.insert(key, number(window.value(i)));
                }
            }
            match window.high.take() {
                Some(next) if end.is_none_or(|end| next < *end) => from = next,
                _ => return found,
            }
        }
    }

    fn is_still(&self, read: &Read, ours: &BTreeSet<usize>) -> bool {
        let (content, held) = self.context.locks.content(read.slot);
        let held = held && !ours.contains(&read.slot) && !self.is(Broken::HeldIgnored);
        content == read.content && !held
    }

    fn stands(&self, seen: &Seen, ours: &BTreeSet<usize>) -> bool {
        let reads = match &seen.keys {
            _ if self.is(Broken::Unvalidated) => true,
            Some((watch, marks)) => watch.marks() == *marks,
            None => seen.reads.iter().all(|r| self.is_still(r, ours)),
        };
        let range = seen.range.as_ref().is_none_or(|range| match self.broken {
            Broken::RangeReadAgain => true,
            _ => range.watch.marks() == range.seen,
        });
        reads && range
    }

    /// Looks again at what has moved on; whether all of it has the values that were read.
    fn refresh(&self, seen: &mut Seen) -> bool {
        if self.is(Broken::Unvalidated) {
            return true;
        }
        for _ in 0..ROUNDS {
            let marks = seen.keys.as_ref().map(|(watch, _)| watch.marks());
            let reads = &mut seen.reads;
            let mut moved = BTreeSet::new();
            for i in 0..reads.len() {
                if self.is_still(&reads[i], &BTreeSet::new()) {
                    continue;
                }
                if self.is(Broken::OneRefreshed) && moved.contains(&reads[i].slot) {
                    let (content, _) = self.context.locks.content(reads[i].slot);
                    reads[i].content = content;
                    continue;
                }
                moved.insert(reads[i].slot);
                let now = self.read(reads[i].key);
                if now.value != reads[i].value {
                    return false;
                }
                reads[i] = now;
                if self.is(Broken::OneRefreshed) {
                    let (slot, content) = (reads[i].slot, reads[i].content);
                    reads
                        .iter_mut()
                        .filter(|read| read.slot == slot)
                        .for_each(|read| read.content = content);
                }
            }
            if let (Some((watch, seen)), Some(marks)) = (&mut seen.keys, marks) {
                *seen = marks;
                if watch.marks() == marks {
                    return true;
                }
            }
            if moved.is_empty() {
                return true;
            }
        }
        true
    }

    fn mark(&self, seen: &mut Seen, writes: &[(usize, Value)]) {
        let watches = self.tree.watches();
        if !watches.is_watched() || self.is(Broken::NoMark) {
            return;
        }
        for (key, _) in writes {
            watches.mark(&self.keys[*key], |watch| {
                if let Some(range) = seen.range.as_mut().filter(|r| Arc::ptr_eq(&r.watch, watch)) {
                    range.seen += 1;
                }
                if let Some(keys) = seen.keys.as_mut().filter(|k| Arc::ptr_eq(&k.0, watch)) {
                    keys.1 += 1;
                }
            });
        }
    }

    fn grace(&self) {
        if !self.is(Broken::NoGrace) {
            self.context.store.grace();
        }
    }

    fn transaction(&self, plan: &Plan) {
        let begin = self.commits.load(Ordering::SeqCst);
        let mut seen = Seen::default();
        let mut left = plan.reads.clone();
        let ranged_after = shuttle_number(left.len() as u64 + 1);
        if shuttle_number(2) == 0 {
            seen.keys = Some(self.tree.watches().add_keys(None));
            self.grace();
        }
        for step in 0..=plan.reads.len() as u64 {
            if step == ranged_after
                && let Some((low, high)) = plan.range
            {
                let end = self.keys.get(high).map(Vec::as_slice);
                let (watch, marks) = self.tree.watches().add(&self.keys[low], end, None);
                self.grace();
                seen.range = Some(Ranged {
                    low,
                    high,
                    watch,
                    seen: marks,
                    found: self.scan(low, high),
                });
            }
            if let Some(key) = left.pop() {
                let late = self.is(Broken::KeyWatchedLate);
                let watch = |is: bool| {
                    let keys = seen.keys.as_ref().filter(|_| is);
                    keys.into_iter()
                        .for_each(|(watch, _)| watch.add_key(&self.keys[key]));
                };
                watch(!late);
                let read = self.read(key);
                watch(late);
                seen.reads.push(read);
            }
            // What user code would compute on.
            if self.stands(&seen, &BTreeSet::new()) {
                let end = self.commits.load(Ordering::SeqCst);
                let so_far = self.done((begin, end), &seen, &[]);
                self.only_read.lock().unwrap().push(so_far);
            }
        }
        self.commit(begin, &mut seen, &plan.writes);
        let (range, keys) = (seen.range.map(|r| r.watch), seen.keys.map(|(k, _)| k));
        for watch in range.iter().chain(&keys) {
            self.tree.watches().remove(watch);
        }
    }

    fn done(&self, between: (u64, u64), seen: &Seen, writes: &[(usize, Value)]) -> Done {
        let range = seen.range.as_ref();
        Done {
            reads: seen.reads.iter().map(|r| (r.key, r.value)).collect(),
            range: range.map(|r| (r.low, r.high, r.found.clone())),
            writes: writes.to_vec(),
            between,
        }
    }

    fn commit(&self, begin: u64, seen: &mut Seen, writes: &[(usize, Value)]) {
        for _ in 0..3 {
            if !self.refresh(seen) {
                return;
            }
            if writes.is_empty() {
                if self.stands(seen, &BTreeSet::new()) {
                    let end = self.commits.load(Ordering::SeqCst);
                    let done = self.done((begin, end), seen, writes);
                    self.only_read.lock().unwrap().push(done);
                    return;
                }
                continue;
            }
            let mut reservation = self.log.reserve(8).unwrap();
            for (key, _) in writes {
                self.tree
                    .prefault(&self.keys[*key], Change::Delete)
                    .unwrap();
            }
            let door = self.context.store.enter().unwrap();
            let slots: BTreeSet<usize> = writes.iter().map(|(key, _)| self.slot(*key)).collect();
            let mut held: Vec<RecordLock<'_>> = slots
                .iter()
                .map(|slot| self.context.locks.lock(*slot))
                .collect();
            self.mark(seen, writes);
            let ranges_hold = |range: &Ranged| self.scan(range.low, range.high) == range.found;
            if self.is(Broken::RangeReadAgain) && !seen.range.as_ref().is_none_or(ranges_hold) {
                held.into_iter().for_each(RecordLock::release_unchanged);
                return;
            }
            let mut end = 0;
            let early = self.stands(seen, &slots);
            thread::yield_now();
            let check = || {
                let stands = match self.broken {
                    Broken::ValidatedOutside => early,
                    _ => self.stands(seen, &slots),
                };
                if stands {
                    end = self.commits.fetch_add(1, Ordering::SeqCst);
                }
                stands
            };
            // Looked at before, too; only what stands then is appended.
            let appended = early
                .then(|| self.log.append_if(&mut reservation, &[&[7; 8]], check))
                .flatten();
            let Some(appended) = appended else {
                held.into_iter().for_each(RecordLock::release_unchanged);
                continue;
            };
            let one = self.done((begin, end), seen, writes);
            self.logged.lock().unwrap().insert(appended.sequence, one);
            for (n, (key, value)) in writes.iter().enumerate() {
                let bytes = value.map(u64::to_be_bytes);
                let change = bytes
                    .as_ref()
                    .map_or(Change::Delete, |bytes| Change::Put(bytes));
                self.tree
                    .apply_locked(&door, &self.keys[*key], change)
                    .unwrap();
                if n == 0 && self.is(Broken::ReleasedEarly) {
                    held.drain(..).for_each(RecordLock::release_changed);
                    thread::yield_now();
                }
            }
            drop(held);
            drop(door);
            return;
        }
    }

    /// A plain put of one record, by the structure's own way.
    fn put(&self, key: usize, value: u64) {
        let begin = self.commits.load(Ordering::SeqCst);
        let mut reservation = self.log.reserve(8).unwrap();
        let mut log = || {
            let mut end = 0;
            let count = || {
                end = self.commits.fetch_add(1, Ordering::SeqCst);
                true
            };
            let appended = self
                .log
                .append_if(&mut reservation, &[&[7; 8]], count)
                .unwrap();
            let one = Done {
                reads: Vec::new(),
                range: None,
                writes: vec![(key, Some(value))],
                between: (begin, end),
            };
            self.logged.lock().unwrap().insert(appended.sequence, one);
        };
        let change = value.to_be_bytes();
        let written = self
            .tree
            .write(&self.keys[key], Change::Put(&change), None, &mut log);
        assert!(written.unwrap());
    }

    /// Replays what was logged, and looks at what every reader has read.
    fn check(&self) {
        let mut states = vec![self.initial.clone()];
        for (at, done) in self.logged.lock().unwrap().values().enumerate() {
            found_if(!fits(&states[at], done), || {
                format!("{done:?} did not read {:?}", states[at])
            });
            let mut next = states[at].clone();
            for (key, value) in &done.writes {
                match value {
                    Some(value) => drop(next.insert(*key, *value)),
                    None => drop(next.remove(key)),
                }
            }
            states.push(next);
        }
        for done in self.only_read.lock().unwrap().iter() {
            let (begin, end) = done.between;
            let mut between = states[begin as usize..=end as usize].iter();
            let fits = between.any(|state| fits(state, done));
            found_if(!fits, || format!("{done:?} fits nowhere"));
        }
        let last = states.last().unwrap();
        for key in 0..KEYS {
            let mut value = Vec::new();
            let found = self.tree.get(&self.keys[key], &mut value).unwrap();
            let found = found.then(|| number(&value));
            found_if(found.as_ref() != last.get(&key), || {
                format!(
                    "the tiers have {found:?} of {key}, the log says {:?}",
                    last.get(&key)
                )
            });
        }
    }
}

/// Whether the oracle has found something, and not something else.
static FOUND: AtomicBool = AtomicBool::new(false);

fn found_if(wrong: bool, what: impl Fn() -> String) {
    if wrong {
        FOUND.store(true, Ordering::SeqCst);
        panic!("{}", what());
    }
}

fn fits(state: &BTreeMap<usize, u64>, done: &Done) -> bool {
    let reads = done
        .reads
        .iter()
        .all(|(key, value)| state.get(key) == value.as_ref());
    reads
        && done.range.as_ref().is_none_or(|(low, high, found)| {
            state
                .range(low..high)
                .map(|(k, v)| (*k, *v))
                .collect::<BTreeMap<_, _>>()
                == *found
        })
}

/// What a transaction is going to do.
#[derive(Clone, Debug)]
struct Plan {
    reads: Vec<usize>,
    range: Option<(usize, usize)>,
    writes: Vec<(usize, Value)>,
}

/// A number below `n` that belongs to the schedule.
fn shuttle_number(n: u64) -> u64 {
    use shuttle::rand::{RngCore, thread_rng};
    thread_rng().next_u64() % n
}

fn some_keys(most: u64) -> Vec<usize> {
    let mut keys: Vec<usize> = (0..KEYS).collect();
    for i in 0..KEYS {
        keys.swap(i, i + shuttle_number((KEYS - i) as u64) as usize);
    }
    keys.truncate(shuttle_number(most + 1) as usize);
    keys
}

fn a_plan(number: u64) -> Plan {
    let low = shuttle_number(KEYS as u64) as usize;
    let high = low + 1 + shuttle_number((KEYS - low) as u64) as usize;
    let mut writes: Vec<usize> = some_keys(1);
    if shuttle_number(7) > 0 {
        writes.extend(some_keys(KEYS as u64).into_iter().take(1));
    }
    writes.sort_unstable();
    writes.dedup();
    let value = |key: usize| (shuttle_number(10) >= 3).then_some(number * 10 + key as u64);
    Plan {
        reads: some_keys(2),
        range: (shuttle_number(5) < 2).then_some((low, high)),
        writes: writes.into_iter().map(|key| (key, value(key))).collect(),
    }
}

fn run(broken: Broken) {
    let world = Arc::new(World::new(broken));
    let mut threads = Vec::new();
    for who in 0..3 {
        let world = world.clone();
        threads.push(thread::spawn(move || {
            for turn in 0..2 {
                let number = 100 + who * 10 + turn;
                if shuttle_number(5) == 0 {
                    world.put(shuttle_number(KEYS as u64) as usize, number * 10);
                } else {
                    world.transaction(&a_plan(number));
                }
            }
        }));
    }
    let of = world.clone();
    threads.push(thread::spawn(move || {
        (0..4).for_each(|_| _ = of.tree.sweep_once().unwrap());
    }));
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    world.check();
    assert!(!world.tree.watches().is_watched());
}

/// Tries `orders` orders of steps.
fn check(orders: usize, run: impl Fn() + Send + Sync + 'static) {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let rounds = orders * number("TERRACE_TEST_FACTOR").unwrap_or(1) as usize;
    let seed = number("TERRACE_TEST_SEED").unwrap_or(1);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000_000);
    shuttle::Runner::new(RandomScheduler::new_from_seed(seed, rounds), config).run(run);
}

#[test]
fn what_is_committed_is_serial_in_the_order_of_the_log() {
    check(400, || run(Broken::Nothing));
}

#[test]
fn every_broken_rule_is_found() {
    let broken = [
        Broken::RangeReadAgain,
        Broken::NoMark,
        Broken::NoGrace,
        Broken::KeyWatchedLate,
        Broken::HeldIgnored,
        Broken::UnlockedRead,
        Broken::Unvalidated,
        Broken::ReleasedEarly,
        Broken::OneRefreshed,
    ];
    let mut missed = Vec::new();
    for broken in broken {
        let fault = match broken {
            Broken::Tier(fault) => Some(fault),
            _ => None,
        };
        plant(fault);
        FOUND.store(false, Ordering::SeqCst);
        let checked = std::panic::catch_unwind(|| check(MOST_ORDERS, move || run(broken)));
        plant(None);
        if checked.is_ok() || !FOUND.load(Ordering::SeqCst) {
            missed.push(broken);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Orders after which a broken rule counts as not found; most are found in some dozens.
const MOST_ORDERS: usize = 20_000;
