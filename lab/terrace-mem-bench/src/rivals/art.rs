//! An adaptive radix tree.

use super::rival::Rival;
use rart::{AdaptiveRadixTree, ArrayKey};

pub struct Ints(AdaptiveRadixTree<ArrayKey<8>, u64>);

/// The addresses are shorter than 63 bytes; the key ends with a zero byte.
pub struct Bytes(AdaptiveRadixTree<ArrayKey<64>, u64>);

impl Default for Ints {
    fn default() -> Self {
        Ints(AdaptiveRadixTree::new())
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes(AdaptiveRadixTree::new())
    }
}

fn text(key: &[u8]) -> ArrayKey<64> {
    ArrayKey::new_from_str(std::str::from_utf8(key).unwrap_or_default())
}

impl Rival<u64> for Ints {
    fn insert(&mut self, key: &u64, val: u64) {
        self.0.insert_k(&(*key).into(), val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get_k(&(*key).into()).copied()
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        let from: ArrayKey<8> = (*from).into();
        self.0
            .range(from..)
            .take(n)
            .fold(0, |sum, (_, v)| sum.wrapping_add(*v))
    }
}

impl Rival<[u8]> for Bytes {
    fn insert(&mut self, key: &[u8], val: u64) {
        self.0.insert_k(&text(key), val);
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get_k(&text(key)).copied()
    }
    fn scan(&self, from: &[u8], n: usize) -> u64 {
        self.0
            .range(text(from)..)
            .take(n)
            .fold(0, |sum, (_, v)| sum.wrapping_add(*v))
    }
}
