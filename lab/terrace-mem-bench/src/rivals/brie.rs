//! A B+tree for integers that searches its nodes with SIMD.

use super::rival::Rival;
use brie_tree::BTree;
use brie_tree::nonmax::NonMaxU64;

#[derive(Default)]
pub struct Ints(BTree<NonMaxU64, u64>);

/// The greatest number is none of its keys: it shares the place of the one below.
fn key(key: u64) -> NonMaxU64 {
    NonMaxU64::new(key).unwrap_or(NonMaxU64::MAX)
}

impl Rival<u64> for Ints {
    fn insert(&mut self, k: &u64, val: u64) {
        self.0.insert(key(*k), val);
    }
    fn get(&self, k: &u64) -> Option<u64> {
        self.0.get(key(*k)).copied()
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        self.0
            .range(key(*from)..)
            .take(n)
            .fold(0, |sum, (_, v)| sum.wrapping_add(*v))
    }
}
