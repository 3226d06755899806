//! Byte-string keys of a node: all of them end to end in one buffer, and where each ends.

use super::{CAP, NodeKeys};
use crate::family::ByteFamily;
use arrayvec::ArrayVec;

/// A node with more key bytes than this is split early, so that no insert moves many bytes.
const MAX_BYTES: usize = 32 << 10;

/// The buffer grows by this much at a time: little slack, few reallocations.
const GRAIN: usize = 256;

/// Up to [`CAP`] sorted byte strings.
#[derive(Default)]
pub struct ByteKeys {
    ends: ArrayVec<u32, CAP>,
    bytes: Vec<u8>,
}

impl ByteKeys {
    #[inline]
    fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] as usize }
    }

    /// The first index whose key is not `before`.
    #[inline]
    fn partition(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut lo, mut hi) = (0, self.ends.len());
        while lo < hi {
            let mid = (lo + hi) / 2;
            if before(self.get(mid)) {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        lo
    }
}

impl NodeKeys<ByteFamily> for ByteKeys {
    #[inline]
    fn len(&self) -> usize {
        self.ends.len()
    }
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.start(i)..self.ends[i] as usize]
    }
    #[inline]
    fn lower_bound(&self, probe: &[u8]) -> usize {
        self.partition(|k| k < probe)
    }
    #[inline]
    fn upper_bound(&self, probe: &[u8]) -> usize {
        self.partition(|k| k <= probe)
    }
    fn insert(&mut self, i: usize, key: &[u8]) {
        let (at, old, n) = (self.start(i), self.bytes.len(), key.len());
        if self.bytes.capacity() < old + n {
            self.bytes
                .reserve_exact((old + n).next_multiple_of(GRAIN) - old);
        }
        self.bytes.resize(old + n, 0);
        self.bytes.copy_within(at..old, at + n);
        self.bytes[at..at + n].copy_from_slice(key);
        self.ends.insert(i, at as u32);
        for end in &mut self.ends[i..] {
            *end += n as u32;
        }
    }
    fn remove(&mut self, from: usize, to: usize) {
        let (a, b) = (self.start(from), self.start(to));
        self.bytes.drain(a..b);
        self.ends.drain(from..to);
        for end in &mut self.ends[from..] {
            *end -= (b - a) as u32;
        }
    }
    fn split_off(&mut self, at: usize) -> Self {
        let cut = self.start(at);
        let bytes = self.bytes.split_off(cut);
        let ends = self.ends.drain(at..).map(|end| end - cut as u32).collect();
        self.bytes
            .shrink_to(self.bytes.len().next_multiple_of(GRAIN));
        ByteKeys { ends, bytes }
    }
    fn heap(&self) -> usize {
        self.bytes.capacity()
    }
    #[inline]
    fn is_full(&self) -> bool {
        self.ends.is_full() || (self.bytes.len() > MAX_BYTES && self.ends.len() > 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_sorted_vector_of_keys() {
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut keys = ByteKeys::default();
        for i in 0..CAP as u32 {
            let key = format!("{:x}", i.wrapping_mul(2654435761) >> (i % 20)).into_bytes();
            let at = keys.lower_bound(&key);
            assert_eq!(at, model.partition_point(|k| *k < key));
            if model.get(at) != Some(&key) {
                model.insert(at, key.clone());
                keys.insert(at, &key);
            }
            assert_eq!(keys.upper_bound(&key), at + 1);
            if i % 9 == 8 {
                model.drain(1..3);
                keys.remove(1, 3);
            }
            let all: Vec<&[u8]> = (0..keys.len()).map(|i| keys.get(i)).collect();
            assert_eq!(all, model);
        }
        let right = keys.split_off(5);
        let all: Vec<&[u8]> = (0..5).map(|i| keys.get(i)).collect();
        assert_eq!(all, model[..5]);
        let all: Vec<&[u8]> = (0..right.len()).map(|i| right.get(i)).collect();
        assert_eq!(all, model[5..]);
    }
}
