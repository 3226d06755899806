//! Scans pay for merging what they stumble over.
//!
//! A page of an upper level that a scan has to read from disk is one that it would not read if all lay in the
//! last level. Each such read is charged to the page; when as much has come together as merging it further
//! down costs, that is done. So scans cost at most about twice what they would with the best choice in
//! hindsight. Lookups are not charged: filters keep them from pages that do not have the key.
//!
//! What is merged stays so until records come down again. Where hardly any do, a page is bought early, as who lives in
//! the snow does not rent skis.

use terrace_base::Result;
use terrace_pages::Space;

use super::{Lsm, State};

/// Pages that are merged in one go, each with some pages below it: about as many pages as a step has.
const AT_ONCE: usize = 4;

impl Lsm {
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
