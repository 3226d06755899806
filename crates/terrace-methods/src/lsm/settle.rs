//! Scans pay for merging what they stumble over.
//!
//! A page of an upper level that a scan has to read from disk is one that it would not read if all lay in the
//! last level. Each such read is charged to the page; when as much has come together as merging it further
//! down costs, that is done. So scans cost at most about twice what they would with the best choice in
//! hindsight. Lookups are not charged: filters keep them from pages that do not have the key.

use std::collections::BTreeMap;

use terrace_access::Attempt;
use terrace_base::Result;
use terrace_base::sync::Mutex;
use terrace_pages::{Interrupt, Space};

use super::level::Level;
use super::{Lsm, State};

/// Pages whose charges are remembered at once; with more, those that were charged least are forgotten.
const MOST_CHARGED: usize = 1024;
/// Pages that wait to be merged down, at most.
const MOST_DUE: usize = 64;
/// Of them are merged in one go.
const AT_ONCE: usize = 2;

/// A level, and the first key of a page of it.
type Place = (usize, Vec<u8>);

/// See the module's text. Hints: lost at an opening.
#[derive(Default)]
pub(crate) struct Charges(Mutex<Charged>);

#[derive(Default)]
struct Charged {
    reads: BTreeMap<Place, u64>,
    due: Vec<Place>,
}

impl Charges {
    /// A scan has read the page that begins at `low`, and merging it down is worth so many reads.
    fn charge(&self, level: usize, low: &[u8], worth: u64) {
        let charged = &mut *self.0.lock();
        let place = (level, low.to_vec());
        let reads = charged.reads.entry(place).or_default();
        *reads += 1;
        if *reads >= worth && charged.due.len() < MOST_DUE {
            let place = (level, low.to_vec());
            charged.reads.remove(&place);
            charged.due.push(place);
        }
        while charged.reads.len() > MOST_CHARGED {
            charged.reads.retain(|_, reads| {
                *reads /= 2;
                *reads > 0
            });
        }
    }

    fn next(&self) -> Option<Place> {
        self.0.lock().due.pop()
    }
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
            && let Err(Interrupt::Miss(_)) = read
        {
            let number = usize::from(level.number);
            let below = (0..number).rev().filter_map(|n| state.level(n));
            let pages = below.map(|l| l.figures().pages).find(|pages| *pages > 0);
            let each = pages.unwrap_or(0).div_ceil(level.figures().pages.max(1));
            self.charges.charge(number, low, 1 + 2 * each);
        }
        read
    }

    /// Merges some pages down that scans have paid for. For the thread that makes steps ahead of need.
    pub(crate) fn settle_charged(&self, state: &State) -> Result<()> {
        for _ in 0..AT_ONCE {
            let Some((number, low)) = self.charges.next() else {
                return Ok(());
            };
            let _at_work = self.work.begin();
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
            self.carry_out(state, &job, Space::Migration)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_merged_down_once_its_reads_have_paid_for_it() {
        let charges = Charges::default();
        for _ in 0..16 {
            charges.charge(1, b"a", 17);
            charges.charge(2, b"a", 17);
        }
        assert_eq!(charges.next(), None);
        charges.charge(1, b"a", 17);
        assert_eq!(charges.next(), Some((1, b"a".to_vec())));
        assert_eq!(charges.next(), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let charges = Charges::default();
        for i in 0..100_000u32 {
            charges.charge(1, &i.to_be_bytes(), 2);
            charges.charge(1, b"often", 1_000_000);
        }
        let charged = charges.0.lock();
        assert!(charged.reads.len() <= MOST_CHARGED + 1);
        assert!(charged.reads.contains_key(&(1, b"often".to_vec())));
    }
}
