//! Compact skip list: the keys end to end; each sixteenth is a tower, each sixteenth of these a higher one
//! (section 4.2, 4.3). A tower is the key itself at its place, so that nothing is there twice: a search goes
//! right over the highest towers, and then down and right over those of each height.

use crate::family::{Family, FixedKeys};
use crate::plan::Stage;
use crate::search::partition_point;
use crate::stage::sorted::Above;

/// Keys between two towers.
const TOWER: usize = 16;

/// Keys between two of the highest towers.
pub struct Towers(usize);

impl<F: Family> Above<F> for Towers {
    const STAGE: Stage = Stage::CompactSkipList;

    fn over(keys: &F::Fixed) -> Self {
        let mut top = 1;
        while top * TOWER < keys.len() {
            top *= TOWER;
        }
        Towers(top)
    }

    #[inline]
    fn seek(&self, keys: &F::Fixed, key: F::Ref<'_>) -> usize {
        let n = keys.len();
        // All keys before `at` are less.
        let (mut at, mut height) = (0, self.0);
        while height > 1 {
            // How many towers of this height, from the one at `at` on, are less: at least one, or none of all.
            let towers = TOWER.min((n - at).div_ceil(height));
            let less = partition_point(0, towers, |i| {
                F::cmp(keys.get(at + i * height), key).is_lt()
            });
            at += less.saturating_sub(1) * height;
            height /= TOWER;
        }
        keys.lower_bound(at, (at + TOWER).min(n), key)
    }

    fn heap(&self) -> usize {
        0
    }
}
