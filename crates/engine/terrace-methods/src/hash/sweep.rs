//! What the sweep of a hot tier does to a bucket: pack it into its predecessor.

use terrace_access::{Attempt, Retry, WriteGuard};

use super::HashTable;
use super::layout::{Span, capacity};
use super::split::copies;
use super::split_point::{last_fitting, sizes_of};
use crate::FULL;

/// Part of a page that packing must move, unless it empties the bucket, to be worth rewriting both.
const WORTH_PACKING: usize = 32;
/// The same for closing up, where the pages may have to be written for it alone.
const WORTH_CLOSING_UP: usize = 10;

/// Partitions of a bucket whose way is looked at before it is packed; a bucket that has more is nearly empty.
const MOST_LOOKED_AT: usize = 64;

impl HashTable {
    /// See [`terrace_access::Ordered::try_compact`]. O(records).
    pub(crate) fn compact(&self, door: &WriteGuard<'_>, hash: u64, fill: f64) -> Attempt<()> {
        if self.refine(door)? {
            // The directory has changed under this write guard: what else is to be done, under the next.
            return Err(Retry::Conflict);
        }
        // Packing leaves alone what is not in memory, so it is asked for first.
        let (grains, _) = self.size()?;
        let mut at = hash;
        for _ in 0..2 {
            let Some(held) = self.latch(door, at, false)? else {
                break;
            };
            let Span { low, last } = held.span;
            drop(held);
            let mut grain = low;
            for _ in 0..MOST_LOOKED_AT {
                self.way(grain)?;
                match grains.span(grain).last {
                    end if end >= last => break,
                    end => grain = end + 1,
                }
            }
            match low.checked_sub(1) {
                Some(left) => at = left,
                None => break,
            }
        }
        self.pack(door, hash, fill).map(|_| ())
    }

    /// See [`terrace_access::Sweep::try_pack`]. O(records).
    pub(crate) fn pack(&self, door: &WriteGuard<'_>, hash: u64, fill: f64) -> Attempt<bool> {
        self.pack_worth(door, hash, fill, WORTH_PACKING)
    }

    /// See [`terrace_access::Ordered::try_close_up`]: one bucket. O(records).
    pub(crate) fn close_up(&self, door: &WriteGuard<'_>, hash: u64) -> Attempt<Option<u64>> {
        self.pack_worth(door, hash, FULL, WORTH_CLOSING_UP)?;
        let held = self.latch(door, hash, false)?;
        Ok(held.and_then(|held| held.span.last.checked_add(1)))
    }

    /// Packs, if it frees the bucket or moves one part in `worth` of a page.
    fn pack_worth(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        fill: f64,
        worth: usize,
    ) -> Attempt<bool> {
        let Some(held) = self.latch(door, hash, false)? else {
            return Ok(false);
        };
        let Ok(pair) = self.neighbour(door, held, true)? else {
            return Ok(false);
        };
        let page_bytes = self.store.page_bytes();
        let most = (capacity(page_bytes) as f64 * fill.clamp(0.0, 1.0)) as usize;
        // Nothing is copied when there is nothing to be gained.
        if pair.left.load() * capacity(page_bytes) as f64
            > (most - most.min(page_bytes / worth)) as f64
            && pair.right.count() > 0
        {
            return Ok(false);
        }
        let (grains, _) = self.size()?;
        let copies = copies(&[&pair.left, &pair.right]);
        let items = self.records(&[&pair.left, &pair.right], &copies)?;
        let sizes = sizes_of(&items);
        let had = pair.left.count();
        let total: usize = sizes.iter().map(|size| size.1).sum();
        if total <= most || had == items.len() {
            return match self.divide(door, pair, &items, None)? {
                Some(_) => Ok(false),
                None => {
                    // Best effort: damage shows itself again to whoever needs the page.
                    match self.contract(door) {
                        Err(Retry::Fail(e)) => Err(Retry::Fail(e)),
                        _ => Ok(true),
                    }
                }
            };
        }
        if let Some((boundary, moved)) = last_fitting(&grains, &sizes, had..items.len(), most)
            && moved >= page_bytes / worth
        {
            self.divide(door, pair, &items, Some(boundary))?;
        }
        Ok(false)
    }
}
