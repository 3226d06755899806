//! The entries of one part in order, from either end, out of both stages.

use super::part::{Dynamic, Fixed};
use crate::family::Family;
use crate::two_stage::{DynamicCursor, DynamicStage, KeyCursor, StaticStage};
use std::cmp::Ordering;

/// Gives the entries of `from..to` to `see` in order, backwards if told so, until that returns
/// false. Deleted ones are passed by. O(log n + passed).
///
/// Who calls holds the latch of the part: under it the segment and the dynamic stage belong
/// together, since a merge removes nothing meanwhile, and what it publishes has what is in both.
pub fn walk<F: Family, V>(
    dynamic: &Dynamic<F, V>,
    fixed: &Fixed<F, V>,
    (from, to): (Option<F::Ref<'_>>, Option<F::Ref<'_>>),
    back: bool,
    mut see: impl FnMut(F::Ref<'_>, &V) -> bool,
) {
    // A stage whose next key is behind the end is done: the latch is not held for a walk over the
    // rest of the part.
    let inside = |key: F::Ref<'_>| match (back, from, to) {
        (false, _, Some(to)) => F::cmp(key, to).is_lt(),
        (true, Some(from), _) => F::cmp(key, from).is_ge(),
        _ => true,
    };
    let mut pos = match back {
        false => dynamic.tree.seek(from, || {}),
        true => dynamic.tree.seek_before(to),
    };
    pos = pos.filter(|at| inside(at.key()));
    let mut cursor = fixed.keys.as_ref().and_then(|keys| {
        let rank = match (back, from, to) {
            (false, Some(from), _) => return keys.seek_cursor(from),
            (false, None, _) => 0,
            (true, _, Some(to)) => keys.seek(to).checked_sub(1)?,
            (true, _, None) => keys.len() - 1,
        };
        Some(keys.cursor(rank))
    });
    cursor = cursor.filter(|at| inside(at.key()));
    loop {
        let order = match (&pos, &cursor) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(pos), Some(cursor)) if back => F::cmp(cursor.key(), pos.key()),
            (Some(pos), Some(cursor)) => F::cmp(pos.key(), cursor.key()),
        };
        // An entry of both stages is what the dynamic one says.
        let mut more = true;
        if order.is_le()
            && let Some(at) = &mut pos
        {
            if let Some(val) = &at.val().val {
                more = see(at.key(), val);
            }
            let moved = if back { at.prev() } else { at.next() };
            if !moved || !inside(at.key()) {
                pos = None;
            }
        }
        if order.is_ge()
            && let Some(at) = &mut cursor
        {
            if order.is_gt() {
                more = see(at.key(), &fixed.vals[at.rank()]);
            }
            let moved = if back { at.prev() } else { at.next() };
            if !moved || !inside(at.key()) {
                cursor = None;
            }
        }
        if !more {
            return;
        }
    }
}
