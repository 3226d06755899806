//! What scans have paid for merging, page by page. See [`super::seek_compaction`].

use terrace_base::PageId;
use terrace_base::sync::Mutex;

/// Pages that wait to be merged down, at most.
const MOST_DUE: usize = 64;

/// Writes have stopped where fewer than one record came down for this many reads that were charged.
const CALM: u64 = 64;
/// Records that are known of, at most, as a part of the reads: it does not take long to learn that they have
/// stopped.
const KNOWN: u64 = 16;
/// This many times less is charged then before a page is merged down.
const EARLY: u64 = 8;

/// A level, and the first key of a page of it.
pub(super) type Place = (usize, Vec<u8>);

/// What scans have paid, page by page. Hints: lost at an opening.
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
    /// One more read, with `changes` changes since the opening; whether hardly any come. After `most` reads what
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
    /// A scan has read this page, which begins at `low`, and merging it down is worth `worth` reads. Makes
    /// `counters` counters first if there are none; returns whether it did.
    pub(super) fn charge(
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

    pub(super) fn next(&self) -> Option<Place> {
        self.0.lock().due.pop()
    }

    /// Bytes of the counters, which go.
    pub fn forget(&self) -> u64 {
        std::mem::take(&mut self.0.lock().reads).len() as u64
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
