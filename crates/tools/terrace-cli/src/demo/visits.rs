//! The visits over one store: by several threads, up to an end that all stores have in common, and what came of it.

use anyhow::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use terrace_bench::numbers::{count as number, ratio};
use terrace_bench::resident;

use super::people::{GROUP, People};
use super::store::{Moved, Store};
use crate::progress;

/// One run over a store.
#[derive(Clone, Debug)]
pub struct Visits {
    /// What the store is called.
    pub name: &'static str,
    pub threads: usize,
    /// How many groups of visits to make.
    pub groups: u64,
    /// When to stop even if there are more; groups that are begun are finished.
    pub time: Duration,
    pub quiet: bool,
}

/// What a store has done.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub name: &'static str,
    /// Groups of visits made: these first ones.
    pub groups: u64,
    /// Of how many.
    pub of_groups: u64,
    /// From the first visit until all counts were in their place.
    pub seconds: f64,
    /// Loading.
    pub load_seconds: f64,
    /// Between the store and its device meanwhile.
    pub moved: Moved,
    /// Reads of the device by a visit in the last quarter, if there was one.
    pub late_reads: Option<f64>,
    /// Bytes read from and written to devices meanwhile, as the operating system has counted.
    pub system: Option<[u64; 2]>,
    /// The most resident memory of the process, from opening the store to the end of the visits.
    pub peak_resident: Option<u64>,
    pub disk_bytes: u64,
}

impl Outcome {
    pub fn visits(&self) -> u64 {
        self.groups * GROUP
    }

    pub fn per_second(&self) -> f64 {
        self.visits() as f64 / self.seconds.max(1e-9)
    }

    /// The amount for each visit.
    pub fn each(&self, n: u64) -> f64 {
        n as f64 / self.visits().max(1) as f64
    }
}

#[derive(Default)]
struct Shared {
    next: AtomicU64,
    /// Set when time is over, or something failed.
    stop: AtomicBool,
    running: AtomicUsize,
    /// Where the last quarter began, and what was moved until then.
    quarter: Mutex<Option<(u64, Moved)>>,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Visits {
    /// Loads the store and makes the visits. `peak_is_from_here`: whether the most memory is that since it was opened.
    pub fn run(
        &self,
        store: &impl Store,
        people: &People,
        peak_is_from_here: bool,
    ) -> Result<Outcome> {
        let bar = progress::things(people.count, self.quiet);
        bar.set_prefix(format!("{:<9} loading ", self.name));
        let began = Instant::now();
        store.load(people, &|taken| bar.set_position(taken))?;
        let load_seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let mut outcome = self.visits(store, people)?;
        outcome.load_seconds = load_seconds;
        outcome.peak_resident = resident::peak().filter(|_| peak_is_from_here);
        outcome.disk_bytes = store.disk_bytes();
        Ok(outcome)
    }

    fn visits(&self, store: &impl Store, people: &People) -> Result<Outcome> {
        let shared = Shared {
            running: AtomicUsize::new(self.threads),
            ..Shared::default()
        };
        let bar = progress::things(self.groups, self.quiet);
        bar.set_prefix(format!("{:<9} visiting", self.name));
        let (before, system_before) = (store.moved(), resident::device_bytes());
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    // Counted out even by a panic, or the loop below would never end.
                    let _leave = Leave(&shared);
                    if let Err(error) = self.work(store, people, &shared) {
                        let mut failure = lock(&shared.failure);
                        failure.get_or_insert(error);
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            while shared.running.load(Ordering::Acquire) > 0 {
                std::thread::sleep(Duration::from_millis(20));
                let passed = began.elapsed();
                if passed >= self.time {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                let groups = shared.next.load(Ordering::Relaxed);
                let visits = (groups * GROUP).max(1) as f64;
                let reads = store.moved().since(before).reads;
                bar.set_position(groups);
                bar.set_message(format!(
                    "{} visits/s, {} device reads each",
                    number((visits / passed.as_secs_f64().max(1e-9)).round()),
                    ratio(reads as f64 / visits)
                ));
            }
        });
        if let Some(error) = lock(&shared.failure).take() {
            return Err(error);
        }
        let groups = shared.next.load(Ordering::Relaxed);
        let visited = store.moved();
        store.settle()?;
        let seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let late = lock(&shared.quarter).map(|(begun, at)| {
            let visits = (groups - begun) * GROUP;
            visited.since(at).reads as f64 / visits.max(1) as f64
        });
        let system = resident::device_bytes().zip(system_before);
        Ok(Outcome {
            name: self.name,
            groups,
            of_groups: self.groups,
            seconds,
            moved: store.moved().since(before),
            late_reads: late.filter(|_| groups == self.groups),
            system: system.map(|(now, then)| [now[0] - then[0], now[1] - then[1]]),
            ..Outcome::default()
        })
    }

    fn work(&self, store: &impl Store, people: &People, shared: &Shared) -> Result<()> {
        while !shared.stop.load(Ordering::Relaxed) {
            // Taken only in order and then finished: what is done is always a beginning of all.
            let take = |next| (next < self.groups).then_some(next + 1);
            let taken = shared
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            let Ok(group) = taken else { break };
            if group == self.groups - self.groups / 4 {
                *lock(&shared.quarter) = Some((group, store.moved()));
            }
            store.visit(people, group)?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}
