//! A trie of B+trees for many threads, here with one. Values lie in its leaves. Integers alone: among addresses
//! its scans leave out the key that they begin at (version 0.9.5).

use super::rival::Rival;
use masstree::{MassTree, RangeBound};

/// Integers are keys of eight bytes.
pub struct Ints(MassTree<u64>);

impl Default for Ints {
    fn default() -> Self {
        Ints(MassTree::new())
    }
}

impl Rival<u64> for Ints {
    fn insert(&mut self, key: &u64, val: u64) {
        self.0.insert(&key.to_be_bytes(), val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get_with_guard(&key.to_be_bytes(), &self.0.guard())
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        let (mut sum, mut left) = (0u64, n);
        if n > 0 {
            // The way over whole leaves, which is its fastest.
            self.0.scan_intra_leaf_batch(
                RangeBound::Included(&from.to_be_bytes()),
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
