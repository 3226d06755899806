//! One thread of a benchmark: draws operations, runs them, times them, and checks every answer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::Instant;

use crate::Error;
use crate::distribution::Chooser;
use crate::latency::Latencies;
use crate::newest::Newest;
use crate::permutation::Permutation;
use crate::plan::{Load, Plan};
use crate::records::{KeySpace, ValueShape, check_value, fill_value};
use crate::rng::{Rng, mix};
use crate::target::{Target, TargetResult};
use crate::workload::{LONGEST_SCAN, Operation, Workload};

/// Records that a loading thread takes at a time.
const LOAD_STEP: u64 = 256;

/// What the threads of a benchmark and their coordinator share.
pub(crate) struct Shared<'a> {
    pub target: &'a dyn Target,
    pub plan: &'a Plan,
    pub keys: KeySpace,
    pub chooser: Chooser,
    pub newest: Newest,
    /// Ends the run.
    pub stop: AtomicBool,
    /// Rises when latencies begin to count anew.
    pub epoch: AtomicU32,
    /// How often the hot set has moved.
    pub moves: AtomicUsize,
    pub tallies: Vec<Tally>,
    /// Threads that have not returned yet.
    pub running: AtomicUsize,
    failure: Mutex<Option<Error>>,
    coordinator: Thread,
    load_order: Permutation,
    load_next: AtomicU64,
}

/// What one thread has done so far. On cache lines of its own: it is written after every operation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub ops: AtomicU64,
    /// Keys and values that the user has written.
    pub user_bytes: AtomicU64,
    /// Records that came out of scans.
    pub scanned: AtomicU64,
    /// Values that were read and found right.
    pub checked: AtomicU64,
    /// Read-modify-writes.
    pub changes: AtomicU64,
}

impl Tally {
    /// Only its own thread writes a tally, so this needs no atomic addition.
    #[inline]
    fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

impl<'a> Shared<'a> {
    /// To be called on the coordinator's thread.
    pub fn new(target: &'a dyn Target, plan: &'a Plan) -> Self {
        Shared {
            target,
            plan,
            keys: KeySpace::new(plan.records, plan.layout, plan.seed),
            chooser: Chooser::new(plan.distribution, plan.records, plan.seed),
            newest: Newest::new(plan.records),
            stop: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            moves: AtomicUsize::new(0),
            tallies: (0..plan.threads).map(|_| Tally::default()).collect(),
            running: AtomicUsize::new(0),
            failure: Mutex::new(None),
            coordinator: std::thread::current(),
            load_order: Permutation::new(plan.records, mix(plan.seed ^ 4)),
            load_next: AtomicU64::new(0),
        }
    }

    /// The sum of one counter over all threads.
    pub fn total(&self, counter: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        self.tallies
            .iter()
            .map(|tally| counter(tally).load(Ordering::Relaxed))
            .sum()
    }

    /// Keeps the first failure and ends the run.
    pub fn fail(&self, error: Error) {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The first failure, if there was one.
    pub fn take_failure(&self) -> Result<(), Error> {
        let failure = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        failure.map_or(Ok(()), Err)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counts a thread out and wakes the coordinator when the thread ends, even by a panic: the
/// coordinator would wait for ever otherwise.
struct Leave<'a, 'b>(&'a Shared<'b>);

impl Drop for Leave<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
        self.0.running.fetch_sub(1, Ordering::Release);
        self.0.coordinator.unpark();
    }
}

/// One thread.
pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    tally: &'a Tally,
    number: u64,
    rng: Rng,
    latencies: Latencies,
    /// Values to write and values read, kept to spare allocations.
    value: Vec<u8>,
    out: Vec<u8>,
    writes: u64,
}

impl<'a> Worker<'a> {
    /// The thread of this number; to be counted into `running` by whoever starts it.
    pub fn new(shared: &'a Shared<'a>, number: usize, workload: Workload) -> Self {
        Worker {
            shared,
            tally: &shared.tallies[number],
            number: number as u64,
            rng: Rng::new(mix(shared.plan.seed
                ^ mix(number as u64 + 10)
                ^ mix(shared.plan.draws))),
            latencies: Latencies::new(workload),
            value: Vec::with_capacity(shared.plan.value_bytes),
            out: Vec::with_capacity(shared.plan.value_bytes),
            writes: 0,
        }
    }

    /// Loads its share of the records.
    pub fn load(mut self) -> Latencies {
        let shared = self.shared;
        let _leave = Leave(shared);
        let records = shared.plan.records;
        if shared.plan.load == Load::Together {
            if let Err(error) = self.load_together() {
                shared.fail(error);
            }
            return self.latencies;
        }
        while !shared.stopped() {
            let from = shared.load_next.fetch_add(LOAD_STEP, Ordering::Relaxed);
            if from >= records {
                break;
            }
            for at in from..records.min(from + LOAD_STEP) {
                let record = match shared.plan.load {
                    Load::Random | Load::Together => shared.load_order.apply(at),
                    Load::Sorted | Load::Skip => at,
                };
                if let Err(error) = self.put(record, 0, Operation::Insert) {
                    shared.fail(error);
                }
                if shared.stopped() {
                    break;
                }
            }
        }
        self.latencies
    }

    /// Loads all records by one call.
    fn load_together(&mut self) -> Result<(), Error> {
        let shared = self.shared;
        let mut feed = |take: &mut dyn FnMut(&[u8], &[u8]) -> TargetResult<()>| {
            for at in 0..shared.plan.records {
                if shared.stopped() {
                    break;
                }
                let key = shared.keys.number(shared.load_order.apply(at));
                fill_value(key, 0, shared.plan.values(), &mut self.value);
                let begin = Instant::now();
                take(&key.to_be_bytes(), &self.value)?;
                self.done(Operation::Insert, begin);
                Tally::add(&self.tally.user_bytes, shared.plan.record_bytes());
            }
            Ok(())
        };
        let loaded = shared.target.load(&mut feed);
        loaded.map_err(Error::target("load the records"))
    }

    /// Runs operations until told to stop.
    pub fn run(mut self) -> Latencies {
        let shared = self.shared;
        let _leave = Leave(shared);
        let mut epoch = 0;
        while !shared.stopped() {
            let now = shared.epoch.load(Ordering::Relaxed);
            if now != epoch {
                epoch = now;
                self.latencies.clear();
            }
            if let Err(error) = self.step() {
                shared.fail(error);
            }
        }
        self.latencies
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.shared.plan.workload.draw(&mut self.rng) {
            Operation::Read => self.read(),
            Operation::Update => self.update(),
            Operation::Insert => self.insert(),
            Operation::Scan => self.scan(),
            Operation::ReadModifyWrite => self.read_modify_write(),
            Operation::Transfer => self.transfer(),
            Operation::MultiGet => self.read_many(),
        }
    }

    fn choose(&mut self) -> u64 {
        let shared = self.shared;
        if shared.plan.workload.favours_newest() {
            let rank = shared.chooser.rank(&mut self.rng);
            return shared.newest.finished() - 1 - rank;
        }
        shared
            .chooser
            .record(&mut self.rng, shared.moves.load(Ordering::Relaxed))
    }

    fn read(&mut self) -> Result<(), Error> {
        let key = self.shared.keys.number(self.choose());
        self.out.clear();
        let begin = Instant::now();
        let found = self.shared.target.get(&key.to_be_bytes(), &mut self.out);
        self.done(Operation::Read, begin);
        if !found.map_err(Error::target("read a record"))? {
            return Err(missing(key));
        }
        check(key, self.shared.plan.values(), &self.out)?;
        Tally::add(&self.tally.checked, 1);
        Ok(())
    }

    fn update(&mut self) -> Result<(), Error> {
        let record = self.choose();
        self.writes += 1;
        // A version that no other write has, so that a mixture of two values is not a value.
        let version = (self.number + 1) << 40 | self.writes;
        self.put(record, version, Operation::Update)
    }

    fn insert(&mut self) -> Result<(), Error> {
        let shared = self.shared;
        let Some(record) = shared.newest.begin(|| shared.stopped()) else {
            return Ok(());
        };
        if record >= shared.keys.limit() {
            return Err(Error::Plan(format!(
                "all {} keys that this layout leaves room for are inserted; \
                 load more records, run for a shorter time, or use hashed keys",
                shared.keys.limit()
            )));
        }
        self.put(record, 0, Operation::Insert)?;
        shared.newest.finish(record);
        Ok(())
    }

    fn put(&mut self, record: u64, version: u64, operation: Operation) -> Result<(), Error> {
        let plan = self.shared.plan;
        let key = self.shared.keys.number(record);
        fill_value(key, version, plan.values(), &mut self.value);
        let checked = operation == Operation::Update && plan.checked_updates;
        let begin = Instant::now();
        let found = if checked {
            self.shared.target.update(&key.to_be_bytes(), &self.value)
        } else {
            self.shared
                .target
                .put(&key.to_be_bytes(), &self.value)
                .map(|()| true)
        };
        self.done(operation, begin);
        if !found.map_err(Error::target("write a record"))? {
            return Err(missing(key));
        }
        Tally::add(&self.tally.user_bytes, plan.record_bytes());
        Ok(())
    }

    fn scan(&mut self) -> Result<(), Error> {
        let shared = self.shared;
        let first = shared.keys.number(self.choose());
        let limit = 1 + self.rng.below(LONGEST_SCAN);
        let mut scan = Scan::new(shared, first);
        let begin = Instant::now();
        let result = shared
            .target
            .scan(&first.to_be_bytes(), limit as usize, &mut |key, value| {
                scan.visit(key, value);
            });
        self.done(Operation::Scan, begin);
        result.map_err(Error::target("scan a range"))?;
        let count = scan.finish(Some(first))?;
        if count > limit {
            return Err(Error::Wrong(format!(
                "a scan from {first:#018x} gave {count} records when {limit} were asked for"
            )));
        }
        Tally::add(&self.tally.scanned, count);
        Tally::add(&self.tally.checked, count);
        Ok(())
    }

    fn read_modify_write(&mut self) -> Result<(), Error> {
        let plan = self.shared.plan;
        let key = self.shared.keys.number(self.choose());
        let mut wrong = None;
        let begin = Instant::now();
        let found = self
            .shared
            .target
            .read_modify_write(&key.to_be_bytes(), &mut |old, new| match check(
                key,
                plan.values(),
                old,
            ) {
                Ok(version) => fill_value(key, version + 1, plan.values(), new),
                Err(error) => {
                    wrong = Some(error);
                    new.extend_from_slice(old);
                }
            });
        self.done(Operation::ReadModifyWrite, begin);
        if let Some(error) = wrong {
            return Err(error);
        }
        if !found.map_err(Error::target("change a record"))? {
            return Err(missing(key));
        }
        Tally::add(&self.tally.user_bytes, plan.record_bytes());
        Tally::add(&self.tally.checked, 1);
        Tally::add(&self.tally.changes, 1);
        Ok(())
    }

    /// Raises the versions of two records in one transaction: none may be lost, which the last look at all
    /// records shows.
    fn transfer(&mut self) -> Result<(), Error> {
        let plan = self.shared.plan;
        let from = self.shared.keys.number(self.choose());
        let mut to = from;
        while to == from {
            to = self.shared.keys.number(self.choose());
        }
        let numbers = [from, to];
        let keys = numbers.map(u64::to_be_bytes);
        let mut wrong = None;
        let begin = Instant::now();
        let mut change = |i: usize, old: &[u8], new: &mut Vec<u8>| {
            new.clear();
            match check(numbers[i], plan.values(), old) {
                Ok(version) => fill_value(numbers[i], version + 1, plan.values(), new),
                Err(error) => {
                    wrong = Some(error);
                    new.extend_from_slice(old);
                }
            }
        };
        let found = self.shared.target.transfer(&keys, &mut change);
        self.done(Operation::Transfer, begin);
        if let Some(error) = wrong {
            return Err(error);
        }
        if !found.map_err(Error::target("change two records"))? {
            return Err(missing(from));
        }
        Tally::add(&self.tally.user_bytes, 2 * plan.record_bytes());
        Tally::add(&self.tally.checked, 2);
        Tally::add(&self.tally.changes, 2);
        Ok(())
    }

    fn read_many(&mut self) -> Result<(), Error> {
        let plan = self.shared.plan;
        let numbers: Vec<u64> = (0..plan.together)
            .map(|_| self.shared.keys.number(self.choose()))
            .collect();
        let keys: Vec<[u8; 8]> = numbers.iter().map(|n| n.to_be_bytes()).collect();
        let mut wrong = None;
        let begin = Instant::now();
        let read = self.shared.target.get_many(&keys, &mut |i, value| {
            let checked = match value {
                Some(value) => check(numbers[i], plan.values(), value).map(|_| ()),
                None => Err(missing(numbers[i])),
            };
            if let Err(error) = checked {
                wrong.get_or_insert(error);
            }
        });
        self.done(Operation::MultiGet, begin);
        read.map_err(Error::target("read many records"))?;
        match wrong {
            Some(error) => Err(error),
            None => {
                Tally::add(&self.tally.checked, plan.together as u64);
                Ok(())
            }
        }
    }

    #[inline]
    fn done(&mut self, operation: Operation, begin: Instant) {
        self.latencies.record(operation, begin.elapsed());
        Tally::add(&self.tally.ops, 1);
    }
}

/// Checks what a scan gives: order, values, and that no loaded record between the first and the
/// last is missing.
struct Scan<'a> {
    shared: &'a Shared<'a>,
    before: Option<u64>,
    first: Option<u64>,
    count: u64,
    versions: u64,
    wrong: Option<Error>,
}

impl<'a> Scan<'a> {
    fn new(shared: &'a Shared<'a>, from: u64) -> Self {
        let before = from.checked_sub(1);
        Scan {
            shared,
            before,
            first: None,
            count: 0,
            versions: 0,
            wrong: None,
        }
    }

    fn visit(&mut self, key: &[u8], value: &[u8]) {
        if let Err(error) = self.try_visit(key, value) {
            self.wrong.get_or_insert(error);
        }
    }

    fn try_visit(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let Ok(number) = key.try_into().map(u64::from_be_bytes) else {
            return Err(Error::Wrong(format!(
                "a scan gave a key of {} bytes; all keys of the benchmark have 8, so the \
                 structure holds other data: use an empty one",
                key.len()
            )));
        };
        if let Some(before) = self.before
            && self.shared.keys.scan_is_broken(before, number)
        {
            return Err(Error::Wrong(format!(
                "a scan gave {number:#018x} right after {before:#018x}: out of order, or a record \
                 between them is missing"
            )));
        }
        let version = check(number, self.shared.plan.values(), value)?;
        // What a store gives may be anything.
        self.versions = self.versions.wrapping_add(version);
        self.before = Some(number);
        self.first.get_or_insert(number);
        self.count += 1;
        Ok(())
    }

    /// How many records came, if all was well; `first` is a key that must have come first.
    fn finish(self, first: Option<u64>) -> Result<u64, Error> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        if let Some(first) = first
            && self.first != Some(first)
        {
            return Err(missing(first));
        }
        Ok(self.count)
    }
}

/// What reading everything at the end has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Audit {
    /// Records found, every one of them whole.
    pub records: u64,
    /// Read-modify-writes that the records show; as many as were made.
    pub changes: u64,
}

/// Reads everything, and compares with what was written. `progress` is told how many records are
/// read.
pub(crate) fn audit(shared: &Shared, mut progress: impl FnMut(u64)) -> Result<Audit, Error> {
    const STEP: usize = 1000;
    let (mut records, mut changes) = (0, 0u64);
    let mut from = 0u64;
    let (mut keys, mut wrong) = (std::collections::HashSet::new(), None);
    let mut each = |key: &[u8], value: &[u8]| {
        let number = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
        match check(number, shared.plan.values(), value) {
            Ok(version) => changes = changes.wrapping_add(version),
            Err(error) => wrong = wrong.take().or(Some(error)),
        }
        if !keys.insert(number) {
            let twice = Error::Wrong(format!("{number:#018x} came twice"));
            wrong = wrong.take().or(Some(twice));
        }
    };
    let visited = shared.target.visit_all(&mut each);
    let unordered = visited.map_err(Error::target("read everything"))?;
    if let Some(error) = wrong {
        return Err(error);
    }
    records += keys.len() as u64;
    progress(records);
    loop {
        if unordered {
            break;
        }
        let mut scan = Scan::new(shared, from);
        shared
            .target
            .scan(&from.to_be_bytes(), STEP, &mut |key, value| {
                scan.visit(key, value)
            })
            .map_err(Error::target("scan everything"))?;
        let last = scan.before.filter(|_| scan.count > 0);
        changes = changes.wrapping_add(scan.versions);
        let count = scan.finish(None)?;
        records += count;
        progress(records);
        match last.and_then(|last| last.checked_add(1)) {
            Some(next) if count == STEP as u64 => from = next,
            _ => break,
        }
    }
    // A run that ended amid an insert cannot be: threads finish what they have begun.
    let written = shared.newest.finished();
    // Earlier runs over the same records may have inserted others.
    let wrong = match shared.plan.load {
        Load::Skip => records < written,
        Load::Random | Load::Sorted | Load::Together => records != written,
    };
    if wrong {
        return Err(Error::Wrong(format!(
            "{records} records are there of the {written} written"
        )));
    }
    let made = shared.total(|t| &t.changes);
    let changes_only = matches!(shared.plan.workload, Workload::F | Workload::Transfer);
    let counts_changes = changes_only && shared.plan.load != Load::Skip;
    if counts_changes && changes != made {
        return Err(Error::Wrong(format!(
            "{made} changes of what was read were made, but the records show {changes}: \
             updates were lost"
        )));
    }
    Ok(Audit {
        records,
        changes: if counts_changes { changes } else { 0 },
    })
}

fn check(key: u64, shape: ValueShape, value: &[u8]) -> Result<u64, Error> {
    check_value(key, shape, value).ok_or_else(|| {
        let bytes = shape.bytes;
        Error::Wrong(format!(
            "the value of key {key:#018x} is not one that was ever written to it \
             ({} bytes came, {bytes} were written)",
            value.len()
        ))
    })
}

fn missing(key: u64) -> Error {
    Error::Wrong(format!(
        "the record {key:#018x} is missing; if loading was skipped, check that the store was \
         loaded with the same number of records and the same layout of keys"
    ))
}
