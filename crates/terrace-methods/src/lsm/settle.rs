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
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::Ordering;
use terrace_base::{PageId, Result};
use terrace_pages::{Interrupt, PageStore, Space};

use super::level::Level;
use super::{Lsm, State};

/// Counters of a byte for each frame of the memory: upper levels have some pages for each frame where data is
/// much larger than memory. Two pages that share one are merged a little early.
const COUNTERS_PER_FRAME: u64 = 4;
/// Fewest and most of them.
const COUNTERS: (u64, u64) = (1 << 10, 1 << 20);
/// Pages that wait to be merged down, at most.
const MOST_DUE: usize = 64;
/// Of them are merged in one go, each with some pages below it: about as many pages as a step has.
const AT_ONCE: usize = 4;

/// Writes have stopped where fewer than one record came down for so many reads that were charged.
const CALM: u64 = 64;
/// Records that are known of, at most, as a part of the reads: it does not take long to learn that they have
/// stopped.
const KNOWN: u64 = 16;
/// So many times less is charged then before a page is merged down.
const EARLY: u64 = 8;

/// A level, and the first key of a page of it.
type Place = (usize, Vec<u8>);

/// See the module's text. Hints: lost at an opening.
#[derive(Default)]
pub(crate) struct Charges(Mutex<Charged>);

#[derive(Default)]
struct Charged {
    /// Reads of pages, by page number.
    reads: Vec<u8>,
    due: Vec<Place>,
    lately: Lately,
}

/// Reads that were charged lately, and records that came down meanwhile.
#[derive(Default)]
struct Lately {
    reads: u64,
    records: u64,
    /// Changes when that was counted last.
    changes: u64,
}

impl Lately {
    /// One more read, with so many changes since the opening; whether hardly any come. After so many reads what
    /// was before fades.
    fn is_calm(&mut self, changes: u64, most: u64) -> bool {
        let came = changes.saturating_sub(self.changes);
        self.changes = changes;
        self.records = (self.records + came).min(most / KNOWN);
        self.reads += 1;
        if self.reads >= most {
            (self.reads, self.records) = (self.reads / 2, self.records / 2);
        }
        self.reads >= most / 2 && self.records * CALM < self.reads
    }
}

impl Charges {
    /// A scan has read this page, which begins at `low`, and merging it down is worth so many reads. Makes so
    /// many counters first if there are none; returns whether it did.
    fn charge(
        &self,
        page: PageId,
        (level, low): (usize, &[u8]),
        worth: u64,
        (counters, changes): (u64, u64),
    ) -> bool {
        let charged = &mut *self.0.lock();
        let made = charged.reads.is_empty();
        if made {
            charged.reads = vec![0; counters as usize];
        }
        let worth = match charged.lately.is_calm(changes, counters) {
            true => (worth / EARLY).max(1),
            false => worth,
        };
        let at = (page.0 % charged.reads.len() as u64) as usize;
        let reads = &mut charged.reads[at];
        *reads = reads.saturating_add(1);
        if u64::from(*reads) >= worth.min(u64::from(u8::MAX)) && charged.due.len() < MOST_DUE {
            *reads = 0;
            charged.due.push((level, low.to_vec()));
        }
        made
    }

    fn next(&self) -> Option<Place> {
        self.0.lock().due.pop()
    }

    /// Bytes of the counters, which go.
    pub fn forget(&self) -> u64 {
        std::mem::take(&mut self.0.lock().reads).len() as u64
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_merged_down_once_its_reads_have_paid_for_it() {
        let charges = Charges::default();
        let charge = |page, level| charges.charge(PageId(page), (level, b"a"), 17, (1024, 0));
        assert!(charge(1, 1), "counters are made");
        for _ in 0..16 {
            charge(2, 2);
        }
        for _ in 0..15 {
            assert!(!charge(1, 1));
        }
        assert_eq!(charges.next(), None);
        charge(1, 1);
        assert_eq!(charges.next(), Some((1, b"a".to_vec())));
        assert_eq!(charges.next(), None);
        charge(2, 2);
        assert_eq!(charges.next(), Some((2, b"a".to_vec())));
    }

    /// However many pages are read in between, each is charged.
    #[test]
    fn reads_of_many_pages_are_not_forgotten() {
        let charges = Charges::default();
        let mut settled = 0;
        for round in 0..17 {
            for page in 0..20_000u64 {
                let key = page.to_be_bytes();
                // One record comes down for each.
                let changes = round * 20_000 + page;
                charges.charge(PageId(page), (1, &key), 17, (1 << 16, changes));
                while charges.next().is_some() {
                    settled += 1;
                    assert_eq!(round, 16);
                }
            }
        }
        assert_eq!(settled, 20_000);
    }

    #[test]
    fn where_no_records_come_pages_are_merged_down_early() {
        let mut lately = Lately::default();
        let mut changes = 0;
        // A burst now and then, of one record for twenty reads.
        for read in 0..50_000 {
            changes += if read % 1000 == 0 { 50 } else { 0 };
            assert!(!lately.is_calm(changes, 4096), "{read}");
        }
        let calm = (0..50_000)
            .filter(|_| lately.is_calm(changes, 4096))
            .count();
        assert!(calm > 40_000, "{calm}");
        changes += 1_000_000;
        assert!(!lately.is_calm(changes, 4096));
    }
}
