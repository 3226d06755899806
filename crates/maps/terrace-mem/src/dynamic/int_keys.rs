//! Integer keys of a node: a plain array, searched with vector compares.

use super::NodeKeys;
use crate::{family::IntFamily, simd};
use arrayvec::ArrayVec;

/// Up to `N` sorted integers.
#[derive(Default)]
pub struct IntKeys<const N: usize> {
    keys: ArrayVec<u64, N>,
}

impl<const N: usize> NodeKeys<IntFamily> for IntKeys<N> {
    #[inline]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline]
    fn get(&self, i: usize) -> u64 {
        self.keys[i]
    }
    #[inline]
    fn lower_bound(&self, probe: u64) -> usize {
        simd::count_less(&self.keys, probe)
    }
    #[inline]
    fn upper_bound(&self, probe: u64) -> usize {
        // The halving would wait for one line after the other.
        simd::prefetch_whole(&self.keys);
        match probe.checked_add(1) {
            Some(next) => simd::rank_less(&self.keys, next),
            None => self.keys.len(),
        }
    }
    #[inline]
    fn find(&self, probe: u64) -> Result<usize, usize> {
        // Where keys come in order.
        if self.keys.last().is_none_or(|&last| last < probe) {
            return Err(self.keys.len());
        }
        let i = simd::count_less(&self.keys, probe);
        if self.keys.get(i) == Some(&probe) {
            Ok(i)
        } else {
            Err(i)
        }
    }
    #[inline]
    fn insert(&mut self, i: usize, key: u64) {
        self.keys.insert(i, key);
    }
    fn remove(&mut self, from: usize, to: usize) {
        self.keys.drain(from..to);
    }
    fn split_off(&mut self, at: usize) -> Self {
        IntKeys {
            keys: self.keys.drain(at..).collect(),
        }
    }
    fn bytes(&self, from: usize, to: usize) -> usize {
        (to - from) * size_of::<u64>()
    }
    fn heap(&self) -> usize {
        0
    }
    #[inline]
    fn is_full(&self) -> bool {
        self.keys.is_full()
    }
}
