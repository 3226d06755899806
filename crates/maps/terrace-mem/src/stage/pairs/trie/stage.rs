//! A trie as a static stage, for keys of either form.

use super::cursor::TrieCursor;
use super::ints::FindInt;
use super::nodes::{Child, Trie};
use crate::family::{Family, IntFamily, KeyRun, StaticStage};
use crate::plan::{Plan, Stage};
use crate::simd;
use alloc::vec::Vec;
use core::any::TypeId;

impl<F: Family, S: FindInt> StaticStage<F> for Trie<S> {
    type Cursor<'a>
        = TrieCursor<'a, S>
    where
        Self: 'a;

    fn build(run: &F::Run, from: usize, to: usize, _: &Plan<F::Run>) -> Self {
        Trie::build::<F>(run, from, to)
    }
    fn len(&self) -> usize {
        self.n
    }
    #[inline]
    fn find(
        &self,
        key: F::Ref<'_>,
        _: impl FnOnce() -> u64,
        likely: impl FnMut(usize),
    ) -> Option<usize> {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        match TypeId::of::<F>() == TypeId::of::<IntFamily>() {
            true => S::find_int(self, IntFamily::of_bytes(bytes), likely),
            false => self.find(bytes, likely),
        }
    }
    fn seek(&self, key: F::Ref<'_>) -> usize {
        self.seek(F::as_bytes(key, &mut [0; 8]))
    }
    fn cursor(&self, rank: usize) -> TrieCursor<'_, S> {
        self.cursor(rank)
    }
    fn decode(&self, into: &mut F::Run) {
        self.decode::<F>(into);
    }
    fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &F::Run,
        _: usize,
        before: &mut Vec<u32>,
    ) -> Option<Self> {
        let bytes = new.key_bytes(0, new.len());
        self.merge(live, n, (&new.plain(), new.len(), bytes), before)
    }
    fn cuts(&self) -> bool {
        true
    }
    fn cut(&self, at: usize) -> Option<(Self, Self)> {
        self.cut(at)
    }
    fn prefetch(&self, _: F::Ref<'_>, _: impl FnOnce() -> u64) {
        if let Child::Node(place) = self.root {
            simd::prefetch(&self.nodes, place);
        }
    }
    fn key_bytes(&self) -> usize {
        self.key_bytes
    }
    fn bytes(&self) -> usize {
        self.nodes.len() + self.tails.len() + self.lens.heap() + self.starts.heap()
    }
    fn stage(&self) -> Stage {
        S::STAGE
    }
}
