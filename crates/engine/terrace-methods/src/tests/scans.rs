//! Scans of a heap in the order in which its rows lie, while they move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_access::conformance::{Check, Failure, Fixture, KeyKind, Random, Subject, settled};
use terrace_access::{
    AccessMethod, Flags, InStorage, NoRoom, Plan, StoredScan, Sweep, Touch, Value, Window,
};
use terrace_base::{Error, Result};
use terrace_pages::Class;

use super::faults::Planted;
use super::fixture::heaps;
use crate::fault::{Fault, plant};
use crate::{Heap, overflow};

type Rows = Subject<Heap>;

/// Keys that are there all the while, and those that come and go.
const STABLE: usize = 500;
const ALL: usize = 800;

fn ensure(right: bool, why: impl FnOnce() -> String) -> Check {
    if right { Ok(()) } else { Err(Failure(why())) }
}

fn key(i: usize) -> Vec<u8> {
    KeyKind::Random.key(i, 0)
}

fn edit(heap: &Rows, key: &[u8], plan: Plan<'_>) -> Result<()> {
    let done = settled(&heap.store, || {
        let door = heap.store.enter()?;
        let method = &heap.method;
        method.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    })?;
    match done.before {
        Some((_, Some(large))) if done.changed => overflow::free(&heap.store, large),
        _ => Ok(()),
    }
}

fn put(heap: &Rows, key: &[u8], len: usize) -> Result<()> {
    // Which row it is can be told from its value.
    let value: Vec<u8> = key.iter().copied().cycle().take(len).collect();
    let value = match len > 900 {
        true => Value::Large(overflow::write(&heap.store, &value)?),
        false => Value::Inline(&value),
    };
    edit(heap, key, Plan::Put(value, Flags::NONE))
}

/// One change of any kind. Keys of one thread are `own` of several.
fn change(heap: &Rows, random: &mut Random, own: impl Fn(usize) -> usize) -> Result<()> {
    let i = own(random.below(ALL));
    let key = key(i);
    match random.below(100) {
        0..30 if i >= STABLE => edit(heap, &key, Plan::Erase),
        0..2 => settled(&heap.store, || {
            let door = heap.store.enter()?;
            heap.method.try_pack(&door, &key, 0.9)
        })
        .map(|_| ()),
        2..4 => settled(&heap.store, || heap.method.try_gather(&heap.store.enter()?)),
        4..12 => put(heap, &key, 1000 + random.below(2000)),
        _ => put(heap, &key, random.below(400)),
    }
}

fn filled(pages: usize) -> Rows {
    let heap = heaps(Class::Cold).create(4096, pages).unwrap();
    let mut random = Random::new(3);
    for i in 0..ALL {
        put(&heap, &key(i), random.below(300)).unwrap();
    }
    heap
}

/// What has come out of a scan so far.
struct Seen {
    scan: StoredScan,
    times: BTreeMap<Vec<u8>, usize>,
    window: Window,
}

impl Seen {
    fn begun(heap: &Rows) -> Option<Seen> {
        let scan = heap.method.begin_stored()?;
        Some(Seen {
            scan,
            times: BTreeMap::new(),
            window: Window::new(),
        })
    }

    /// One step; false when it was the last.
    fn step(&mut self, heap: &Rows) -> std::result::Result<bool, Failure> {
        let more = settled(&heap.store, || {
            heap.method.try_stored(&self.scan, &mut self.window)
        });
        let more = more.map_err(|e| Failure(e.to_string()))?;
        for i in 0..self.window.len() {
            let (key, value) = (self.window.key(i), self.window.value(i));
            let own = key.iter().cycle().zip(value).all(|(a, b)| a == b);
            ensure(own, || "a row has the value of another".into())?;
            *self.times.entry(key.to_vec()).or_default() += 1;
        }
        Ok(more)
    }

    fn check(&self) -> Check {
        for i in 0..ALL {
            let times = self.times.get(&key(i)).copied().unwrap_or(0);
            let right = if i < STABLE { times == 1 } else { times <= 1 };
            ensure(right, || format!("row {i} of {STABLE} came {times} times"))?;
        }
        Ok(())
    }
}

/// Scans at work together with one thread that changes rows in between.
fn scans_among_changes(seed: u64) -> Check {
    let heap = filled(2000);
    let mut random = Random::new(seed);
    let mut scans: Vec<Seen> = Vec::new();
    let mut ended = 0;
    while ended < 30 {
        for _ in 0..random.below(20) {
            let changed = change(&heap, &mut random, |i| i);
            changed.map_err(|e| Failure(e.to_string()))?;
        }
        if random.percent(10) {
            scans.extend(Seen::begun(&heap));
        }
        if scans.is_empty() {
            continue;
        }
        let i = random.below(scans.len());
        let more = scans[i].step(&heap)?;
        if !more {
            scans[i].check()?;
            ended += 1;
        }
        // Some are given up.
        if !more || random.below(500) == 0 {
            heap.method.end_stored(&scans.swap_remove(i).scan);
        }
    }
    for seen in scans {
        heap.method.end_stored(&seen.scan);
    }
    let mut pages = 0;
    let checked = heap.method.verify(&mut |_, _, _| Ok(()), &mut |_| {
        pages += 1;
        Ok(())
    });
    checked.map_err(|e| Failure(e.to_string()))?;
    ensure(heap.store.live_pages() == pages, || "lost pages".into())
}

#[test]
fn a_scan_has_each_row_once_however_rows_move() {
    for seed in 0..10 {
        scans_among_changes(seed).unwrap_or_else(|Failure(why)| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_row_that_a_scan_loses_is_found() {
    for fault in [Fault::SidesMixed, Fault::LargeUnnoted] {
        plant(Some(fault));
        let planted = Planted;
        let found = (0..10).find_map(|seed| scans_among_changes(seed).err());
        drop(planted);
        match found {
            None => panic!("{fault:?} was not found"),
            Some(Failure(why)) => println!("{fault:?}: {why}"),
        }
    }
}

#[test]
fn a_scan_has_each_row_once_while_threads_move_rows() {
    let heap = filled(2000);
    let done = AtomicBool::new(false);
    let threads = 3;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (heap, done) = (&heap, &done);
            scope.spawn(move || {
                let mut random = Random::new(thread as u64);
                while !done.load(Ordering::Relaxed) {
                    let own = |i: usize| (i / threads * threads + thread) % ALL;
                    change(heap, &mut random, own).unwrap();
                }
            });
        }
        let scans = || {
            for _ in 0..40 {
                let mut seen = Seen::begun(&heap).unwrap();
                while seen.step(&heap)? {}
                heap.method.end_stored(&seen.scan);
                seen.check()?;
            }
            Ok(())
        };
        let checked = scans();
        done.store(true, Ordering::Relaxed);
        checked.unwrap_or_else(|Failure(why)| panic!("{why}"));
    });
    heap.method
        .verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()))
        .unwrap();
}

#[test]
fn a_scan_reads_each_page_once() {
    let heap = heaps(Class::Cold).create(4096, 100).unwrap();
    let count = 8000;
    for i in 0..count {
        put(&heap, &key(i), 120).unwrap();
    }
    let row_pages = settled(&heap.store, || heap.method.try_row_pages()).unwrap();
    let before = heap.store.stats().page_reads;
    let mut seen = Seen::begun(&heap).unwrap();
    while seen.step(&heap).unwrap() {}
    heap.method.end_stored(&seen.scan);
    assert_eq!(seen.times.len(), count);
    let reads = heap.store.stats().page_reads - before;
    // Those of the index, which says what is large, are fewer than half as many.
    assert!(
        reads <= row_pages * 3 / 2,
        "{reads} reads, {row_pages} pages of rows"
    );
}

#[test]
fn scans_leave_no_room_behind() {
    let heap = filled(2000);
    let pages = || settled(&heap.store, || heap.method.try_row_pages()).unwrap();
    let mut random = Random::new(5);
    let mut rounds = |count| {
        for _ in 0..count {
            let i = random.below(ALL);
            put(&heap, &key(i), random.below(300)).unwrap();
        }
    };
    rounds(4000);
    let before = pages();
    for _ in 0..50 {
        let mut seen = Seen::begun(&heap).unwrap();
        while seen.step(&heap).unwrap() {
            rounds(3);
        }
        heap.method.end_stored(&seen.scan);
    }
    rounds(4000);
    let after = pages();
    assert!(
        after <= before + before / 4 + 2,
        "{before} pages, then {after}"
    );
}

#[test]
fn there_are_so_many_scans_at_most_and_one_that_ended_is_an_error() {
    let heap = filled(2000);
    let mut scans: Vec<_> = std::iter::from_fn(|| heap.method.begin_stored()).collect();
    assert_eq!(scans.len(), 4);
    let ended = scans.swap_remove(2);
    heap.method.end_stored(&ended);
    let step = |scan: &StoredScan| {
        settled(&heap.store, || {
            heap.method.try_stored(scan, &mut Window::new())
        })
    };
    assert!(matches!(step(&ended), Err(Error::Invalid { .. })));
    scans.extend(heap.method.begin_stored());
    assert_eq!(scans.len(), 4);
    scans.iter().for_each(|scan| assert!(step(scan).unwrap()));
}

/// A scan that has been told of more than it can note says so, and leaves nothing out.
#[test]
fn a_scan_that_is_overtaken_by_large_values_says_so() {
    let heap = heaps(Class::Cold).create(4096, 4000).unwrap();
    let long = |i: usize| [key(i), vec![b'k'; 1000]].concat();
    let count = 1200;
    for i in 0..count {
        put(&heap, &long(i), 10).unwrap();
    }
    let mut seen = Seen::begun(&heap).unwrap();
    // Rows come when the large values have.
    while seen.times.is_empty() {
        assert!(seen.step(&heap).unwrap());
    }
    for i in 0..count {
        put(&heap, &long(i), 1000).unwrap();
    }
    let step = seen.step(&heap);
    assert!(step.is_err_and(|Failure(why)| why.contains("large values")));
    heap.method.end_stored(&seen.scan);
    let mut value = Vec::new();
    let found = settled(&heap.store, || {
        heap.method.try_get(&long(0), Touch::No, &mut value)
    });
    assert!(found.unwrap().is_some());
}
