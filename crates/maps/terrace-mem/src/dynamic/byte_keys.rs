//! Byte-string keys of a node: one buffer that all lie in, where each lies, and heads.
//!
//! The head of a key is its first eight bytes, as a number, behind a beginning that all keys of
//! the node share. A search goes over the heads and looks at whole keys only among equal ones.
//! Keys lie in the buffer in the order they came in, so an insert moves none of them.

use super::numbers::Numbers;
use super::{CAP, NodeKeys};
use crate::family::ByteFamily;
use crate::prefix::common_prefix;
use crate::search::partition_point;
use crate::simd;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::cmp::Ordering;

/// A node with more key bytes than this is split early, so that no insert moves many bytes.
const MAX_BYTES: usize = 32 << 10;

/// An inner node is not split early while it has no more separators than this, however long they
/// are: with few children in each node the tree would grow too high for [`super::Pos`].
const LEAST_FANOUT: usize = 20;

/// The buffer grows by this much at a time: little slack, few reallocations.
const GRAIN: usize = 256;

/// The most bytes of a shared beginning: it lies in the node itself.
const MOST_SHARED: usize = 24;

/// Up to `N` sorted byte strings.
#[derive(Default)]
pub struct ByteKeys<const N: usize> {
    /// A beginning that all keys share; they may share more.
    shared: ArrayVec<u8, MOST_SHARED>,
    /// The keys, and others that were taken out since the buffer was last packed.
    bytes: Vec<u8>,
    heads: Numbers<N>,
    starts: ArrayVec<u32, N>,
    lens: ArrayVec<u16, N>,
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

impl<const N: usize> ByteKeys<N> {
    /// The keys that only a comparison of whole keys tells from `probe`: those before are less,
    /// those behind are greater.
    #[inline]
    fn alike(&self, probe: &[u8]) -> (usize, usize) {
        let n = self.heads.len();
        let shared = &self.shared[..];
        // Most often it is all of it, which takes no call.
        let same = common_prefix(shared, probe);
        if same < shared.len() && same < probe.len() {
            return match shared[same] < probe[same] {
                true => (n, n),
                false => (0, 0),
            };
        }
        let h = head(&probe[same..]);
        let lo = self.heads.rank(h);
        let mut hi = lo;
        while hi < n && self.heads.all()[hi] == h {
            hi += 1;
        }
        (lo, hi)
    }

    /// The first index whose key is not `before`.
    #[inline]
    fn partition(&self, probe: &[u8], before: impl Fn(&[u8]) -> bool) -> usize {
        let (lo, hi) = self.alike(probe);
        partition_point(lo, hi, |i| before(self.get(i)))
    }

    /// Sets how much of the first key is the shared beginning, and the heads that go with it.
    fn share(&mut self, shared: usize) {
        self.shared.clear();
        if self.heads.len() == 0 {
            return;
        }
        let shared = shared.min(MOST_SHARED);
        let mut beginning = ArrayVec::new();
        beginning.extend(self.get(0)[..shared].iter().copied());
        self.shared = beginning;
        for i in 0..self.heads.len() {
            let head = head(&self.get(i)[shared..]);
            self.heads.set(i, head);
        }
    }

    /// Copies the keys, which lie in `from`, into a buffer without gaps, and shares all that the
    /// keys share.
    fn pack(&mut self, from: &[u8]) {
        let mut bytes = Vec::new();
        bytes.reserve_exact(self.live().next_multiple_of(GRAIN));
        for (start, &len) in self.starts.iter_mut().zip(&self.lens) {
            let at = bytes.len() as u32;
            bytes.extend_from_slice(&from[*start as usize..][..usize::from(len)]);
            *start = at;
        }
        self.bytes = bytes;
        if let Some(last) = self.heads.len().checked_sub(1) {
            self.share(common_prefix(self.get(0), self.get(last)));
        }
    }

    /// Bytes of the keys that are there.
    fn live(&self) -> usize {
        self.bytes(0, self.lens.len())
    }
}

impl<const N: usize> NodeKeys<ByteFamily> for ByteKeys<N> {
    #[inline]
    fn len(&self) -> usize {
        self.heads.len()
    }
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.starts[i] as usize..][..usize::from(self.lens[i])]
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
        let (mut lo, mut hi) = self.alike(probe);
        while lo < hi {
            let mid = (lo + hi) / 2;
            match self.get(mid).cmp(probe) {
                Ordering::Less => lo = mid + 1,
                Ordering::Equal => return Ok(mid),
                Ordering::Greater => hi = mid,
            }
        }
        Err(lo)
    }
    #[inline]
    fn warm(&self) {
        simd::prefetch(&self.bytes, self.bytes.len().saturating_sub(1));
    }
    fn insert(&mut self, i: usize, key: &[u8]) {
        if self.heads.len() == 0 {
            self.shared.clear();
            self.bytes.clear();
        } else if !key.starts_with(&self.shared) {
            self.share(common_prefix(&self.shared, key));
        }
        let (at, n) = (self.bytes.len(), key.len());
        if self.bytes.capacity() < at + n {
            self.bytes
                .reserve_exact((at + n).next_multiple_of(GRAIN) - at);
        }
        self.bytes.extend_from_slice(key);
        self.heads.insert(i, head(&key[self.shared.len()..]));
        self.starts.insert(i, at as u32);
        self.lens.insert(i, n as u16);
    }
    fn remove(&mut self, from: usize, to: usize) {
        self.heads.remove(from, to);
        self.starts.drain(from..to);
        self.lens.drain(from..to);
        if self.bytes.len() > 2 * self.live() + GRAIN {
            let bytes = core::mem::take(&mut self.bytes);
            self.pack(&bytes);
        }
    }
    fn split_off(&mut self, at: usize) -> Self {
        let mut right = ByteKeys {
            shared: ArrayVec::new(),
            bytes: Vec::new(),
            heads: self.heads.split_off(at),
            starts: self.starts.drain(at..).collect(),
            lens: self.lens.drain(at..).collect(),
        };
        let bytes = core::mem::take(&mut self.bytes);
        self.pack(&bytes);
        right.pack(&bytes);
        right
    }
    fn bytes(&self, from: usize, to: usize) -> usize {
        self.lens[from..to]
            .iter()
            .map(|&len| usize::from(len))
            .sum()
    }
    fn heap(&self) -> usize {
        self.bytes.capacity()
    }
    #[inline]
    fn is_full(&self) -> bool {
        let least = if N > CAP { LEAST_FANOUT } else { 2 };
        self.len() == N || (self.bytes.len() > MAX_BYTES && self.heads.len() > least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that share much, that share nothing, and that are the beginning of others.
    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
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
            let mut keys = ByteKeys::<CAP>::default();
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
        let mut keys = ByteKeys::<CAP>::default();
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
