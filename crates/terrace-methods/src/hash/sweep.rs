//! What the sweep of a hot tier does to a bucket: pack it into its predecessor.

use terrace_access::{Attempt, Door, Interrupt};

use super::HashTable;
use super::cut::{last_fitting, sizes_of};
use super::layout::capacity;
use super::split::copies;

/// Part of a page that packing must move, unless it empties the bucket, to be worth rewriting both.
const WORTH_PACKING: usize = 32;

impl HashTable {
    /// See [`terrace_access::Sweep::try_pack`]. O(records).
    pub(crate) fn pack(&self, door: &Door<'_>, hash: u64, fill: f64) -> Attempt<bool> {
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
            > (most - most.min(page_bytes / WORTH_PACKING)) as f64
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
                        Err(Interrupt::Fail(e)) => Err(Interrupt::Fail(e)),
                        _ => Ok(true),
                    }
                }
            };
        }
        if let Some((boundary, moved)) = last_fitting(&grains, &sizes, had..items.len(), most)
            && moved >= page_bytes / WORTH_PACKING
        {
            self.divide(door, pair, &items, Some(boundary))?;
        }
        Ok(false)
    }
}
