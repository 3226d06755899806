//! Compact skip list: the keys end to end; each sixteenth is a tower, each sixteenth of these a higher one
//! (section 4.2, 4.3). A tower is the key itself at its place, so that nothing is there twice: a search goes
//! right over the highest towers, and then down and right over those of each height.

use crate::family::{Family, FixedKeys};
use crate::search::partition_point;

/// Keys between two towers.
const TOWER: usize = 16;

pub struct Towers<F: Family> {
    keys: F::Fixed,
    /// Keys between two of the highest towers.
    top: usize,
}

impl<F: Family> Towers<F> {
    pub fn build(run: &F::Run, from: usize, to: usize) -> Self {
        Self::over(F::Fixed::of(run, from, to))
    }

    /// The skip list over these keys.
    pub fn over(keys: F::Fixed) -> Self {
        let mut top = 1;
        while top * TOWER < keys.len() {
            top *= TOWER;
        }
        Towers { keys, top }
    }

    pub fn keys(&self) -> &F::Fixed {
        &self.keys
    }

    pub fn bytes(&self) -> usize {
        self.keys.heap()
    }

    #[inline]
    pub fn seek(&self, key: F::Ref<'_>) -> usize {
        let n = self.keys.len();
        // All keys before `at` are less.
        let (mut at, mut height) = (0, self.top);
        while height > 1 {
            // How many towers of this height, from the one at `at` on, are less: at least one, or none of all.
            let towers = TOWER.min((n - at).div_ceil(height));
            let less = partition_point(0, towers, |i| {
                F::cmp(self.keys.get(at + i * height), key).is_lt()
            });
            at += less.saturating_sub(1) * height;
            height /= TOWER;
        }
        self.keys.lower_bound(at, (at + TOWER).min(n), key)
    }

    #[inline]
    pub fn find(&self, key: F::Ref<'_>, mut likely: impl FnMut(usize)) -> Option<usize> {
        let i = self.seek(key);
        likely(i);
        (i < self.keys.len() && F::cmp(self.keys.get(i), key).is_eq()).then_some(i)
    }
}
