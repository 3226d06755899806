//! A trie of B+trees for many threads, here with one. Values lie in its leaves.

use super::Rival;
use masstree::{MassTree, RangeBound};

pub struct Map(MassTree<u64>);

impl Default for Map {
    fn default() -> Self {
        Map(MassTree::new())
    }
}

impl Rival<[u8]> for Map {
    fn insert(&mut self, key: &[u8], val: u64) {
        self.0.insert(key, val);
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get_with_guard(key, &self.0.guard())
    }
    fn scan(&self, from: &[u8], n: usize) -> u64 {
        let (mut sum, mut left) = (0u64, n);
        if n > 0 {
            // The way over whole leaves, which is its fastest.
            self.0.scan_intra_leaf_batch(
                RangeBound::Included(from),
                RangeBound::Unbounded,
                |_, val| {
                    sum = sum.wrapping_add(val);
                    left -= 1;
                    left > 0
                },
                &self.0.guard(),
            );
        }
        sum
    }
}

/// Integers are keys of eight bytes.
impl Rival<u64> for Map {
    fn insert(&mut self, key: &u64, val: u64) {
        self.insert(&key.to_be_bytes()[..], val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        self.get(&key.to_be_bytes()[..])
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        self.scan(&from.to_be_bytes()[..], n)
    }
}
