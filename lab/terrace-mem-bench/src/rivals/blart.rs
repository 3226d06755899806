//! An adaptive radix tree with the interface of a `BTreeMap`. None of its keys may be the beginning of
//! another, so that byte strings end with a zero byte, which none of them has.

use super::rival::Rival;
use blart::TreeMap;

#[derive(Default)]
pub struct Ints(TreeMap<[u8; 8], u64>);

/// The addresses are shorter than 63 bytes.
#[derive(Default)]
pub struct Bytes(TreeMap<Box<[u8]>, u64>);

/// Calls `act` with a key and its end.
fn ended<R>(key: &[u8], act: impl FnOnce(&[u8]) -> R) -> R {
    let mut buf = [0; 64];
    buf[..key.len()].copy_from_slice(key);
    act(&buf[..=key.len()])
}

impl Rival<u64> for Ints {
    fn insert(&mut self, key: &u64, val: u64) {
        self.0.insert(key.to_be_bytes(), val);
    }
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get(&key.to_be_bytes()).copied()
    }
    fn scan(&self, from: &u64, n: usize) -> u64 {
        self.0
            .range(from.to_be_bytes()..)
            .take(n)
            .fold(0u64, |sum, (_, v)| sum.wrapping_add(*v))
    }
}

impl Rival<[u8]> for Bytes {
    fn insert(&mut self, key: &[u8], val: u64) {
        let done = ended(key, |key| self.0.try_insert(key.into(), val));
        done.expect("no key is the beginning of another");
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        ended(key, |key| self.0.get(key).copied())
    }
    fn scan(&self, from: &[u8], n: usize) -> u64 {
        ended(from, |from| {
            self.0
                .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded))
                .take(n)
                .fold(0u64, |sum, (_, v)| sum.wrapping_add(*v))
        })
    }
}
