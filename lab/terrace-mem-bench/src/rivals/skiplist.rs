//! A lock-free skip list.

use super::rival::Rival;
use crossbeam_skiplist::SkipMap as Map;

#[derive(Default)]
pub struct Ints(Map<u64, u64>);

#[derive(Default)]
pub struct Bytes(Map<Box<[u8]>, u64>);

impl Rival<u64> for Ints {
    fn insert(&mut self, key: &u64, val: u64) {
        self.0.insert(*key, val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get(key).map(|e| *e.value())
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        self.0
            .range(*from..)
            .take(n)
            .fold(0, |sum, e| sum.wrapping_add(*e.value()))
    }
}

impl Rival<[u8]> for Bytes {
    fn insert(&mut self, key: &[u8], val: u64) {
        self.0.insert(key.into(), val);
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(|e| *e.value())
    }
    fn scan(&self, from: &[u8], n: usize) -> u64 {
        let from: Box<[u8]> = from.into();
        self.0
            .range(from..)
            .take(n)
            .fold(0, |sum, e| sum.wrapping_add(*e.value()))
    }
}
