//! Compact B+tree: every node full, no pointers, children found by arithmetic (section 4.2, 4.3).
//!
//! The keys lie end to end; entry `i` of the level above is a separator for node `i` of the one
//! below. Separators of byte strings are cut to what tells two nodes apart.

use super::sorted::Above;
use crate::family::{Family, FixedKeys, KeyRun};
use crate::plan::Stage;
use alloc::vec;
use alloc::vec::Vec;

/// Keys of a node.
const FULL: usize = 32;

/// Separators, the lowest level first.
pub struct Levels<F: Family>(Vec<F::Fixed>);

impl<F: Family> Above<F> for Levels<F> {
    const STAGE: Stage = Stage::CompactBTree;

    fn over(keys: &F::Fixed) -> Self {
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
        Levels(levels)
    }

    #[inline]
    fn seek(&self, keys: &F::Fixed, key: F::Ref<'_>) -> usize {
        let mut node = 0;
        for level in self.0.iter().rev() {
            let from = node * FULL;
            let to = (from + FULL).min(level.len());
            node = level.upper_bound(from, to, key).max(from + 1) - 1;
        }
        let from = node * FULL;
        keys.lower_bound(from, (from + FULL).min(keys.len()), key)
    }

    fn heap(&self) -> usize {
        let spine = self.0.capacity() * size_of::<F::Fixed>();
        spine + self.0.iter().map(|l| l.heap()).sum::<usize>()
    }
}
