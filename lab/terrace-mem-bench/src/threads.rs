//! Maps that several threads use at once: reads, and half reads and half updates, by one thread and by
//! several.

use crate::keys::KeySet;
use crate::workload::{Plan, Probes};
use crossbeam_skiplist::SkipMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;
use terrace_mem::{ConcurrentHybridMap, IndexKey, Probe};

/// A map that threads share.
trait Shared<Q: ?Sized>: Sync {
    fn insert(&self, key: &Q, val: u64);
    fn get(&self, key: &Q) -> Option<u64>;
}

impl<K, Q> Shared<Q> for ConcurrentHybridMap<K, u64>
where
    K: IndexKey,
    Q: Probe<K> + ?Sized,
{
    fn insert(&self, key: &Q, val: u64) {
        ConcurrentHybridMap::insert(self, key, val);
    }
    fn get(&self, key: &Q) -> Option<u64> {
        ConcurrentHybridMap::get(self, key)
    }
}

impl Shared<u64> for SkipMap<u64, u64> {
    fn insert(&self, key: &u64, val: u64) {
        SkipMap::insert(self, *key, val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| *entry.value())
    }
}

impl Shared<[u8]> for SkipMap<Box<[u8]>, u64> {
    fn insert(&self, key: &[u8], val: u64) {
        SkipMap::insert(self, key.into(), val);
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| *entry.value())
    }
}

/// Operations a second by the clock: each thread does `ops`, and begins elsewhere among the probes.
fn rate(threads: usize, ops: usize, act: impl Fn(usize) + Sync) -> f64 {
    let barrier = Barrier::new(threads + 1);
    let secs = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (act, barrier) = (&act, &barrier);
            scope.spawn(move || {
                let from = ops * thread / threads;
                barrier.wait();
                (from..ops).chain(0..from).for_each(act);
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        start.elapsed().as_secs_f64()
    });
    (threads * ops) as f64 / secs
}

fn measure<S: KeySet + Sync>(
    (set, name): (&str, &str),
    map: &dyn Shared<S::Key>,
    (keys, probes): (&S, &Probes<S>),
    (plan, threads): (&Plan, usize),
) {
    for i in 0..plan.entries {
        map.insert(keys.get(i), i as u64);
    }
    let ops = probes.zipf.len();
    let read = |i: usize| {
        assert!(map.get(probes.zipf.get(i)).is_some(), "a key is lost");
    };
    let half = |i: usize| {
        let key = probes.zipf.get(i);
        if i.is_multiple_of(2) {
            black_box(map.get(key));
        } else {
            map.insert(key, i as u64);
        }
    };
    let cell = |act: &(dyn Fn(usize) + Sync)| {
        let (one, all) = (rate(1, ops, act), rate(threads, ops, act));
        let (in_millions, by_one) = (all / 1e6, all / one);
        format!(
            "{:.2} M/s by one thread, {in_millions:.2} by {threads} ({by_one:.2})",
            one / 1e6
        )
    };
    println!(
        "{set} {name}: reads {}; half updates {}",
        cell(&read),
        cell(&half)
    );
}

/// What is measured of each set of keys: the concurrent map, and the skip list of crossbeam.
pub trait Threaded: KeySet + Sync + Sized {
    /// Prints the rates of each map by one thread and by several, and their ratio.
    fn threads(&self, set: &str, probes: &Probes<Self>, plan: &Plan, threads: usize);
}

impl Threaded for Vec<u64> {
    fn threads(&self, set: &str, probes: &Probes<Self>, plan: &Plan, threads: usize) {
        let (with, how) = ((self, probes), (plan, threads));
        let map = ConcurrentHybridMap::<u64, u64>::new();
        measure((set, "hybrid-concurrent"), &map, with, how);
        drop(map);
        measure(
            (set, "crossbeam-skiplist"),
            &SkipMap::<u64, u64>::new(),
            with,
            how,
        );
    }
}

impl Threaded for crate::emails::Emails {
    fn threads(&self, set: &str, probes: &Probes<Self>, plan: &Plan, threads: usize) {
        let (with, how) = ((self, probes), (plan, threads));
        let map = ConcurrentHybridMap::<Vec<u8>, u64>::new();
        measure((set, "hybrid-concurrent"), &map, with, how);
        drop(map);
        let map = SkipMap::<Box<[u8]>, u64>::new();
        measure((set, "crossbeam-skiplist"), &map, with, how);
    }
}
