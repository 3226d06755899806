//! Byte-string keys of a node: all of them end to end in one buffer, where each ends, and heads.
//!
//! The head of a key is its first eight bytes, as a number, behind what all keys of the node are
//! known to share. A search goes over the heads and looks at whole keys only among equal ones.

use super::{CAP, NodeKeys};
use crate::family::{ByteFamily, common_prefix};
use crate::simd;
use arrayvec::ArrayVec;

/// A node with more key bytes than this is split early, so that no insert moves many bytes.
const MAX_BYTES: usize = 32 << 10;

/// The buffer grows by this much at a time: little slack, few reallocations.
const GRAIN: usize = 256;

/// Up to [`CAP`] sorted byte strings.
#[derive(Default)]
pub struct ByteKeys {
    heads: ArrayVec<u64, CAP>,
    ends: ArrayVec<u32, CAP>,
    /// Bytes that all keys share; they may share more.
    skip: u32,
    bytes: Vec<u8>,
}

#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

impl ByteKeys {
    #[inline]
    fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] as usize }
    }

    /// The keys that only a comparison of whole keys tells from `probe`: those before are less,
    /// those behind are greater.
    #[inline]
    fn alike(&self, probe: &[u8]) -> (usize, usize) {
        let (n, skip) = (self.ends.len(), self.skip as usize);
        if n == 0 {
            return (0, 0);
        }
        if skip > 0 {
            let cut = skip.min(probe.len());
            match self.bytes[..skip].cmp(&probe[..cut]) {
                std::cmp::Ordering::Less => return (n, n),
                std::cmp::Ordering::Greater => return (0, 0),
                std::cmp::Ordering::Equal => {}
            }
        }
        let h = head(&probe[skip..]);
        let lo = simd::count_less(&self.heads, h);
        let mut hi = lo;
        while hi < n && self.heads[hi] == h {
            hi += 1;
        }
        (lo, hi)
    }

    /// The first index whose key is not `before`.
    #[inline]
    fn partition(&self, probe: &[u8], before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut lo, mut hi) = self.alike(probe);
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

    /// Sets what all keys share, and the heads that go with it.
    fn set_skip(&mut self, skip: usize) {
        self.skip = skip as u32;
        self.heads = (0..self.ends.len())
            .map(|i| head(&self.get(i)[skip..]))
            .collect();
    }

    /// Sets the skip to all that the keys share.
    fn stretch(&mut self) {
        if let Some(last) = self.ends.len().checked_sub(1) {
            self.set_skip(common_prefix(self.get(0), self.get(last)));
        }
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
        self.partition(probe, |k| k < probe)
    }
    #[inline]
    fn upper_bound(&self, probe: &[u8]) -> usize {
        self.partition(probe, |k| k <= probe)
    }
    #[inline]
    fn find(&self, probe: &[u8]) -> Result<usize, usize> {
        let i = self.lower_bound(probe);
        let there = self.heads.get(i).is_some_and(|&h| {
            probe.get(self.skip as usize..).map(head) == Some(h) && self.get(i) == probe
        });
        if there { Ok(i) } else { Err(i) }
    }
    fn insert(&mut self, i: usize, key: &[u8]) {
        let skip = self.skip as usize;
        if self.ends.is_empty() {
            self.skip = 0;
        } else if key.get(..skip) != Some(&self.bytes[..skip]) {
            self.set_skip(common_prefix(&self.bytes[..skip], key));
        }
        self.heads.insert(i, head(&key[self.skip as usize..]));
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
        self.heads.drain(from..to);
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
        self.heads.truncate(at);
        self.stretch();
        let mut right = ByteKeys {
            ends,
            bytes,
            ..ByteKeys::default()
        };
        right.stretch();
        right
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

    /// Keys that share much, that share nothing, and that are the beginning of others.
    #[test]
    fn heads_are_right_whatever_the_keys_share() {
        let all: Vec<Vec<u8>> = ["", "a", "com.gmail@", "com.gmail@a"]
            .iter()
            .map(|key| key.as_bytes().to_vec())
            .chain((0..20u32).map(|i| format!("com.gmail@smith{:04}", i * 37 % 20).into_bytes()))
            .chain((0..3).map(|i| vec![b'x'; 40 * i + 40]))
            .chain([b"com.gmail@smith0003\0".to_vec(), vec![255; 9]])
            .collect();
        for from in 0..all.len() {
            let mut model: Vec<&[u8]> = Vec::new();
            let mut keys = ByteKeys::default();
            for key in all[from..].iter().chain(&all[..from]) {
                let at = model.partition_point(|k| *k < &key[..]);
                assert_eq!(keys.find(key), Err(at));
                model.insert(at, key);
                keys.insert(at, key);
                for probe in &all {
                    let (lo, hi) = (
                        model.partition_point(|k| *k < &probe[..]),
                        model.partition_point(|k| *k <= &probe[..]),
                    );
                    assert_eq!((keys.lower_bound(probe), keys.upper_bound(probe)), (lo, hi));
                    assert_eq!(keys.find(probe), if lo < hi { Ok(lo) } else { Err(lo) });
                }
                if model.len() == 12 {
                    let right = keys.split_off(4);
                    assert_eq!(right.find(model[7]), Ok(3));
                    model.truncate(4);
                }
            }
            keys.remove(0, model.len());
            assert_eq!(keys.find(b"a"), Err(0));
            keys.insert(0, b"b");
            assert_eq!((keys.find(b"a"), keys.find(b"b")), (Err(0), Ok(0)));
        }
    }

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
