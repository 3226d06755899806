//! A store in memory for the tests of the benchmark, with page reads as an ideal store has them.
#![allow(dead_code)] // Each test file uses its own part of this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_bench::distribution::Chooser;
use terrace_bench::records::KeySpace;
use terrace_bench::{Counters, Durations, Plan, Target, TargetResult};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a faulty store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Forgets every thousandth put.
    LosesPuts,
    /// Read-modify-write reads under one lock and writes under another.
    LosesUpdates,
    /// Flips a bit in every thousandth value read.
    FlipsBits,
    /// Leaves a record out of every hundredth scan.
    SkipsInScans,
    /// Fails the thousandth read.
    Fails,
    /// Panics at the thousandth read.
    Panics,
}

/// A map behind a lock.
pub struct Memory {
    map: RwLock<Map>,
    fault: Fault,
    calls: AtomicU64,
    /// Keys that an ideal store keeps in memory; every access to another key reads a page.
    held: BTreeSet<u64>,
    page_reads: AtomicU64,
    bytes_written: AtomicU64,
}

impl Memory {
    pub fn new(fault: Fault) -> Self {
        Memory {
            map: RwLock::default(),
            fault,
            calls: AtomicU64::new(0),
            held: BTreeSet::new(),
            page_reads: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// A store that holds exactly the best records of a plan, which it knows beforehand.
    pub fn ideal(plan: &Plan) -> Self {
        let keys = KeySpace::new(plan.records, plan.layout, plan.seed);
        let chooser = Chooser::new(plan.distribution, plan.records, plan.seed);
        let best = plan.memory_bytes / plan.record_bytes();
        let is_held = |&record: &u64| chooser.rank_of(record, 0).unwrap() < best;
        let held = (0..plan.records)
            .filter(is_held)
            .map(|record| keys.number(record))
            .collect();
        Memory {
            held,
            ..Memory::new(Fault::None)
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, key: &[u8]) -> u64 {
        let number = u64::from_be_bytes(key.try_into().unwrap());
        if !self.held.is_empty() && !self.held.contains(&number) {
            self.page_reads.fetch_add(1, Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

impl Target for Memory {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let call = self.count(key);
        let thousandth = call % 1000 == 999;
        match self.fault {
            Fault::Fails if thousandth => return Err("the disk is gone".into()),
            Fault::Panics if thousandth => panic!("a planted panic"),
            _ => {}
        }
        let map = self.read();
        let Some(value) = map.get(key) else {
            return Ok(false);
        };
        out.extend_from_slice(value);
        if thousandth && self.fault == Fault::FlipsBits {
            out[77] ^= 4;
        }
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let call = self.count(key);
        self.bytes_written
            .fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
        if self.fault == Fault::LosesPuts && call % 1000 == 500 {
            return Ok(());
        }
        self.write().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool> {
        self.count(key);
        let mut map = self.write();
        let Some(slot) = map.get_mut(key) else {
            return Ok(false);
        };
        slot.clear();
        slot.extend_from_slice(value);
        Ok(true)
    }

    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        self.count(key);
        let mut new = Vec::new();
        if self.fault == Fault::LosesUpdates {
            let old = self.read().get(key).cloned();
            std::thread::yield_now();
            let Some(old) = old else { return Ok(false) };
            change(&old, &mut new);
            self.write().insert(key.to_vec(), new);
            return Ok(true);
        }
        let mut map = self.write();
        let Some(slot) = map.get_mut(key) else {
            return Ok(false);
        };
        change(slot, &mut new);
        *slot = new;
        Ok(true)
    }

    fn transfer(
        &self,
        keys: &[[u8; 8]; 2],
        change: &mut dyn FnMut(usize, &[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        let loses = self.fault == Fault::LosesUpdates;
        let mut map = (!loses).then(|| self.write());
        let mut new = [Vec::new(), Vec::new()];
        for (i, key) in keys.iter().enumerate() {
            self.count(key);
            let old = match &map {
                Some(map) => map.get(&key[..]).cloned(),
                None => self.read().get(&key[..]).cloned(),
            };
            let Some(old) = old else { return Ok(false) };
            change(i, &old, &mut new[i]);
        }
        if loses {
            std::thread::yield_now();
            map = Some(self.write());
        }
        if let Some(map) = &mut map {
            for (key, new) in keys.iter().zip(new) {
                map.insert(key.to_vec(), new);
            }
        }
        Ok(true)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let map = self.read();
        for (at, (key, value)) in map.range(from.to_vec()..).take(limit).enumerate() {
            if self.fault == Fault::SkipsInScans && call % 100 == 99 && at == 1 {
                continue;
            }
            visit(key, value);
        }
        Ok(())
    }

    fn counters(&self) -> TargetResult<Counters> {
        Ok(Counters {
            page_bytes: 4096,
            page_reads: self.page_reads.load(Ordering::Relaxed),
            disk_bytes_written: self.bytes_written.load(Ordering::Relaxed) * 2,
            log_bytes: self.bytes_written.load(Ordering::Relaxed),
            swept_leaves: self.calls.load(Ordering::Relaxed),
            swept_fill_thousandths: self.calls.load(Ordering::Relaxed) * 950,
            gate_closed: Durations {
                buckets: vec![(1000, 5)],
                longest_ns: 700,
            },
            ..Counters::default()
        })
    }
}
