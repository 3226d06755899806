//! Keys end to end, with something above them that says where to look for one.

use super::fixed::merged;
use crate::family::{Family, FixedKeys, KeyCursor, StaticStage};
use crate::plan::{Plan, Stage};
use alloc::vec::Vec;

/// What lies above sorted keys.
pub trait Above<F: Family>: Send + Sync {
    /// What it makes of the keys.
    const STAGE: Stage;
    /// What lies above these keys.
    fn over(keys: &F::Fixed) -> Self;
    /// How many of the keys are less than `key`.
    fn seek(&self, keys: &F::Fixed, key: F::Ref<'_>) -> usize;
    /// Bytes on the heap.
    fn heap(&self) -> usize;
}

/// Sorted keys, and what lies above them.
pub struct Sorted<F: Family, A: Above<F>> {
    keys: F::Fixed,
    above: A,
}

impl<F: Family, A: Above<F>> Sorted<F, A> {
    fn over(keys: F::Fixed) -> Self {
        Sorted {
            above: A::over(&keys),
            keys,
        }
    }
}

impl<F: Family, A: Above<F>> StaticStage<F> for Sorted<F, A> {
    type Cursor<'a>
        = SortedCursor<'a, F>
    where
        Self: 'a;

    fn build(run: &F::Run, from: usize, to: usize, _: &Plan<F::Run>) -> Self {
        Self::over(F::Fixed::of(run, from, to))
    }
    #[inline]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline]
    fn find(
        &self,
        key: F::Ref<'_>,
        _: impl FnOnce() -> u64,
        mut likely: impl FnMut(usize),
    ) -> Option<usize> {
        let i = self.seek(key);
        likely(i);
        (i < self.keys.len() && F::cmp(self.keys.get(i), key).is_eq()).then_some(i)
    }
    #[inline]
    fn seek(&self, key: F::Ref<'_>) -> usize {
        self.above.seek(&self.keys, key)
    }
    fn cursor(&self, rank: usize) -> SortedCursor<'_, F> {
        SortedCursor(&self.keys, rank)
    }
    fn decode(&self, into: &mut F::Run) {
        self.keys.decode(into);
    }
    fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &F::Run,
        _: usize,
        before: &mut Vec<u32>,
    ) -> Option<Self> {
        Some(Self::over(merged::<F>(&self.keys, live, n, new, before)))
    }
    fn prefetch(&self, _: F::Ref<'_>, _: impl FnOnce() -> u64) {
        self.keys.prefetch_middle();
    }
    fn key_bytes(&self) -> usize {
        self.keys.key_bytes()
    }
    fn bytes(&self) -> usize {
        self.keys.heap() + self.above.heap()
    }
    fn stage(&self) -> Stage {
        A::STAGE
    }
}

/// A place in sorted keys.
pub struct SortedCursor<'a, F: Family>(&'a F::Fixed, usize);

impl<F: Family> KeyCursor<F> for SortedCursor<'_, F> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        self.0.get(self.1)
    }
    #[inline]
    fn rank(&self) -> usize {
        self.1
    }
    #[inline]
    fn next(&mut self) -> bool {
        let more = self.1 + 1 < self.0.len();
        self.1 += usize::from(more);
        more
    }
    #[inline]
    fn prev(&mut self) -> bool {
        let more = self.1 > 0;
        self.1 -= usize::from(more);
        more
    }
}
