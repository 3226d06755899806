//! Scans pay for merging what they stumble over.
//!
//! A page of an upper level that a scan has to read from disk is one that it would not read if all lay in the
//! last level. Each such read is charged to the page; when as much has come together as merging it further
//! down costs, that is done. So scans cost at most about twice what they would with the best choice in
//! hindsight. Lookups are not charged: filters keep them from pages that do not have the key.
//!
//! What is merged stays so until records come down again. Where hardly any do, a page is bought early: nobody
//! rents skis who lives in the snow.

use terrace_access::Attempt;
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering;
use terrace_pages::{Interrupt, PageStore, Space};

use super::level::Level;
use super::{Lsm, State};

/// Counters of a byte for each frame of the memory: upper levels have some pages for each frame where data is
/// much larger than memory. Two pages that share one are merged a little early.
const COUNTERS_PER_FRAME: u64 = 4;
/// Fewest and most of them.
const COUNTERS: (u64, u64) = (1 << 10, 1 << 20);
/// Of them are merged in one go, each with some pages below it: about as many pages as a step has.
const AT_ONCE: usize = 4;

/// How many counters a store of this memory gets.
fn counters_of(store: &PageStore) -> u64 {
    (COUNTERS_PER_FRAME * store.frames()).clamp(COUNTERS.0, COUNTERS.1)
}

impl Lsm {
    /// Passes on what came of reading a page of a level for a scan, which pays for a read from disk.
    pub(crate) fn charged<T>(
        &self,
        state: &State,
        level: &Level,
        low: &[u8],
        read: Attempt<T>,
    ) -> Attempt<T> {
        if level.number > 0
            && let Err(Interrupt::Miss(page)) = read
        {
            let number = usize::from(level.number);
            let below = (0..number).rev().filter_map(|n| state.level(n));
            let pages = below.map(|l| l.figures().pages).find(|pages| *pages > 0);
            let each = pages.unwrap_or(0).div_ceil(level.figures().pages.max(1));
            let counters = counters_of(&self.store);
            let worth = 1 + 2 * each;
            let changes = self.counters.changes.load(Ordering::Relaxed);
            let charge = (counters, changes);
            if self.charges.charge(page, (number, low), worth, charge) {
                self.store.take_extra_bytes(counters);
            }
        }
        read
    }

    /// Merges some pages down that scans have paid for. For the thread that makes steps ahead of need.
    pub(crate) fn settle_charged(&self, state: &State) -> Result<()> {
        for _ in 0..AT_ONCE {
            let Some((number, low)) = self.charges.next() else {
                return Ok(());
            };
            let _at_work = self.work.begin(&self.store);
            let Some(level) = state.level(number) else {
                continue;
            };
            let behind = [low.as_slice(), &[0]].concat();
            let slots = level.slots(&self.store, (&low, Some(&behind)), 1)?;
            let Some(slot) = slots.first().filter(|slot| slot.entry.is_some()) else {
                continue;
            };
            let has_pages = |n: &usize| state.level(*n).is_some_and(|l| l.figures().pages > 0);
            let target = (0..number).rev().find(has_pages).unwrap_or(0);
            let mut job = self.range_down(state, (number, target), slot.low.clone())?;
            if let Some(high) = &slot.high
                && job.high.as_ref().is_none_or(|end| high < end)
                && *high > job.low
            {
                job.high = Some(high.clone());
            }
            self.join_thin(state, &mut job)?;
            self.carry_out(state, &job, Space::Migration)?;
        }
        Ok(())
    }
}
