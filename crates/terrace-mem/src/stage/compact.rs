//! Compact B+tree: every node full, no pointers, children found by arithmetic (section 4.2, 4.3).
//!
//! A compact skip list is the same with smaller nodes: what is a separator there is a key of a higher
//! tower here, and a search goes right over them where it halves there.
//!
//! The keys lie end to end; entry `i` of the level above is a separator for node `i` of the one
//! below. Separators of byte strings are cut to what tells two nodes apart.

use super::KeyRun;
use crate::family::Family;
use alloc::vec;
use alloc::vec::Vec;

/// Keys of a node of a B+tree.
pub const FULL: usize = 32;

/// Keys between two towers of a skip list.
#[cfg(feature = "pairs")]
pub const TOWER: usize = 16;

pub struct CompactTree<F: Family, const NODE: usize> {
    keys: F::Run,
    /// Separators, the lowest level first.
    levels: Vec<F::Run>,
}

impl<F: Family, const NODE: usize> CompactTree<F, NODE> {
    pub fn build(run: &F::Run, from: usize, to: usize) -> Self {
        let mut keys = F::Run::default();
        keys.reserve(to - from, run.key_bytes(from, to));
        keys.append(run, from, to);
        let mut lowest = F::Run::default();
        let mut sep = F::Buf::default();
        for i in (0..keys.len()).step_by(NODE) {
            F::store(keys.get(i), &mut sep);
            if i > 0 {
                F::shorten(keys.get(i - 1), &mut sep);
            }
            lowest.push(F::load(&sep));
        }
        let mut levels = vec![lowest];
        while let Some(top) = levels.last_mut()
            && top.len() > NODE
        {
            let mut next = F::Run::default();
            for i in (0..top.len()).step_by(NODE) {
                next.push(top.get(i));
            }
            top.shrink();
            levels.push(next);
        }
        if let Some(top) = levels.last_mut() {
            top.shrink();
        }
        CompactTree { keys, levels }
    }

    pub fn keys(&self) -> &F::Run {
        &self.keys
    }

    pub fn bytes(&self) -> usize {
        let spine = self.levels.capacity() * size_of::<F::Run>();
        self.keys.heap() + spine + self.levels.iter().map(|l| l.heap()).sum::<usize>()
    }

    #[inline]
    pub fn seek(&self, key: F::Ref<'_>) -> usize {
        let mut node = 0;
        for level in self.levels.iter().rev() {
            let from = node * NODE;
            let to = (from + NODE).min(level.len());
            node = level.upper_bound(from, to, key).max(from + 1) - 1;
        }
        let from = node * NODE;
        let (mut lo, mut hi) = (from, (from + NODE).min(self.keys.len()));
        while lo < hi {
            let mid = (lo + hi) / 2;
            if F::cmp(self.keys.get(mid), key).is_lt() {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        lo
    }

    #[inline]
    pub fn find(&self, key: F::Ref<'_>, mut likely: impl FnMut(usize)) -> Option<usize> {
        let i = self.seek(key);
        likely(i);
        (i < self.keys.len() && F::cmp(self.keys.get(i), key).is_eq()).then_some(i)
    }
}
