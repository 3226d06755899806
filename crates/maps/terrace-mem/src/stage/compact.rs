//! Compact B+tree: every node full, no pointers, children found by arithmetic (section 4.2, 4.3).
//!
//! The keys lie end to end; entry `i` of the level above is a separator for node `i` of the one
//! below. Separators of byte strings are cut to what tells two nodes apart.

use crate::family::{Family, FixedKeys, KeyRun};
use alloc::vec;
use alloc::vec::Vec;

/// Keys of a node.
const FULL: usize = 32;

pub struct CompactTree<F: Family> {
    keys: F::Fixed,
    /// Separators, the lowest level first.
    levels: Vec<F::Fixed>,
}

impl<F: Family> CompactTree<F> {
    pub fn build(run: &F::Run, from: usize, to: usize) -> Self {
        Self::over(F::Fixed::of(run, from, to))
    }

    /// The tree over these keys.
    pub fn over(keys: F::Fixed) -> Self {
        let mut level = F::Run::default();
        let mut sep = F::Buf::default();
        for i in (0..keys.len()).step_by(FULL) {
            F::store(keys.get(i), &mut sep);
            if i > 0 {
                F::shorten(keys.get(i - 1), &mut sep);
            }
            level.push(F::load(&sep));
        }
        let mut levels = vec![F::Fixed::of(&level, 0, level.len())];
        while level.len() > FULL {
            let mut next = F::Run::default();
            for i in (0..level.len()).step_by(FULL) {
                next.push(level.get(i));
            }
            level = next;
            levels.push(F::Fixed::of(&level, 0, level.len()));
        }
        CompactTree { keys, levels }
    }

    pub fn keys(&self) -> &F::Fixed {
        &self.keys
    }

    pub fn bytes(&self) -> usize {
        let spine = self.levels.capacity() * size_of::<F::Fixed>();
        self.keys.heap() + spine + self.levels.iter().map(|l| l.heap()).sum::<usize>()
    }

    #[inline]
    pub fn seek(&self, key: F::Ref<'_>) -> usize {
        let mut node = 0;
        for level in self.levels.iter().rev() {
            let from = node * FULL;
            let to = (from + FULL).min(level.len());
            node = level.upper_bound(from, to, key).max(from + 1) - 1;
        }
        let from = node * FULL;
        self.keys
            .lower_bound(from, (from + FULL).min(self.keys.len()), key)
    }

    #[inline]
    pub fn find(&self, key: F::Ref<'_>, mut likely: impl FnMut(usize)) -> Option<usize> {
        let i = self.seek(key);
        likely(i);
        (i < self.keys.len() && F::cmp(self.keys.get(i), key).is_eq()).then_some(i)
    }
}
