//! The record cache gives back what was written, whatever its size and whatever the store refuses.

mod common;

use common::{Fault, Memory};
use std::sync::atomic::{AtomicBool, Ordering};
use terrace_bench::record_cache::Eviction;
use terrace_bench::{Counters, RecordCache, Target, TargetResult};

const BOTH: [Eviction; 2] = [Eviction::Lru, Eviction::Clock];

/// A store that refuses puts when told to.
struct Refusing {
    store: Memory,
    refuses: AtomicBool,
}

impl Target for &Refusing {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        self.store.get(key, out)
    }
    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err("the disk is full".into());
        }
        self.store.put(key, value)
    }
    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool> {
        self.store.update(key, value)
    }
    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        self.store.read_modify_write(key, change)
    }
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        self.store.scan(from, limit, visit)
    }
    fn counters(&self) -> TargetResult<Counters> {
        self.store.counters()
    }
}

fn store() -> Refusing {
    Refusing {
        store: Memory::new(Fault::None),
        refuses: AtomicBool::new(false),
    }
}

#[test]
fn a_record_larger_than_its_part_of_the_cache_is_not_missing() {
    BOTH.into_iter().for_each(larger_than_its_part);
}

fn larger_than_its_part(eviction: Eviction) {
    let store = store();
    // Two hundred bytes for each of the 256 parts.
    let cache = RecordCache::new(&store, 256 * 200, eviction);
    let (key, value) = (7u64.to_be_bytes(), [1; 1000]);
    store.store.put(&key, &value).unwrap();
    let mut out = Vec::new();
    assert!(cache.get(&key, &mut out).unwrap());
    assert_eq!(out, value);
    assert!(cache.update(&key, &[2; 1000]).unwrap());
    let mut seen = Vec::new();
    let mut change = |old: &[u8], new: &mut Vec<u8>| {
        seen = old.to_vec();
        new.extend([3; 1000]);
    };
    assert!(cache.read_modify_write(&key, &mut change).unwrap());
    assert_eq!(seen, [2; 1000]);
    out.clear();
    assert!(cache.get(&key, &mut out).unwrap());
    assert_eq!(out, [3; 1000]);
}

#[test]
fn a_record_that_could_not_be_written_back_stays() {
    BOTH.into_iter().for_each(not_written_back);
}

fn not_written_back(eviction: Eviction) {
    let store = store();
    let cache = RecordCache::new(&store, 256 * 300, eviction);
    let keys = (0..1000u64).map(u64::to_be_bytes);
    store.refuses.store(true, Ordering::Relaxed);
    let refused = keys
        .clone()
        .filter(|key| cache.put(key, &[9; 100]).is_err());
    assert!(refused.count() > 0);
    store.refuses.store(false, Ordering::Relaxed);
    for key in keys {
        let mut out = Vec::new();
        assert!(cache.get(&key, &mut out).unwrap(), "{key:?} is lost");
        assert_eq!(out, [9; 100]);
    }
}

/// Some records are in the cache alone, some are newer there, some are in the store alone.
#[test]
fn a_scan_sees_both_the_cache_and_the_store() {
    for eviction in BOTH {
        let store = store();
        let cache = RecordCache::new(&store, 256 * 500, eviction);
        let key = |n: u64| (n * 3).to_be_bytes();
        for n in (0..2000).filter(|n| n % 2 == 0) {
            store.store.put(&key(n), &[1; 100]).unwrap();
        }
        for n in (0..2000).filter(|n| n % 3 == 0) {
            cache.put(&key(n), &[2; 100]).unwrap();
        }
        let expected = |n: u64| match (n % 3, n % 2) {
            (0, _) => Some(2),
            (_, 0) => Some(1),
            _ => None,
        };
        for (from, limit) in [(0, 5000), (7, 1), (7, 2), (500, 40), (1999, 9)] {
            let mut seen = Vec::new();
            let visit = &mut |key: &[u8], value: &[u8]| seen.push((key.to_vec(), value[0]));
            cache.scan(&key(from), limit, visit).unwrap();
            let all = (from..2000).filter_map(|n| Some((key(n).to_vec(), expected(n)?)));
            assert_eq!(seen, all.take(limit).collect::<Vec<_>>(), "from {from}");
        }
        // What left the cache is in the store.
        cache.settle().unwrap();
        let mut out = Vec::new();
        assert!(store.store.get(&key(999), &mut out).unwrap());
        assert_eq!(out, [2; 100]);
    }
}
