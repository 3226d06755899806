//! Which page leaves memory: the clock over cold frames.
//!
//! Only cold and inner pages are replaced; hot pages never leave page by page (their records do, by
//! demotion), unless there are too many of them or writing has stopped. A dirty page is passed over and the cleaner is told; who finds nothing clean and holds
//! nothing cleans a batch itself.
//!
//! Inner pages lead to records of many other pages, so one of them is worth more than a page of
//! records that happened to be read: the clock counts their uses down much more slowly. Most of its
//! frames are a stream of pages of records that are read once.

use terrace_base::checksum::mix;
use terrace_base::sync::atomic::Ordering;
use terrace_base::sync::yield_now;
use terrace_base::{PageId, Result};

use crate::faults::{Planted, planted};
use crate::frames::frame::{CUT_PENDING, Class, MOVING, NO_PAGE, WRITING};
use crate::map::Place;
use crate::store::PageStore;
use crate::table::Word;

/// Turns of the clock before a thread gives up looking for a clean page: use counts are at most 3.
const TURNS: usize = 5;

/// Dirty pages that a thread may pass over on its way to a clean one before it cleans some itself.
const DIRTY_SEEN: usize = 12;

/// Clean pages that an operation may need at a time, as it reads some and makes others: with fewer in all it
/// could throw out one of its own, again and again.
const FEW_CLEAN: u64 = 4;

/// Dirty pages after which the search for a clean one is given up: it may be inside the gate, with
/// latches, and where nearly all are dirty five turns would be millions of headers.
const MOST_PASSED_OVER: usize = 1024;

/// How often a reader looks again for a clean page once writing has stopped.
const PATIENCE_WHEN_STOPPED: u32 = 64;

/// The hand passes by an inner page so often for each use that it counts down, while there are few of
/// them. Beside hot pages the clock has a fiftieth of the frames for pages of records, and it turns
/// round once in as many misses; so an inner page with all its uses stays for some two misses per
/// frame, within which half as many inner pages as there are frames are asked for several times each.
const PATIENCE: u64 = 32;
/// While there are too many, the hand takes one in so many that it passes by, used or not: all of them
/// are used, by more than the pages of records are.
const CROWDED: u64 = 2;

/// How the number of inner pages in memory compares with what is to be kept.
#[derive(Clone, Copy)]
enum InnerPages {
    Few,
    Enough,
    TooMany,
}

impl PageStore {
    /// A frame of its own for the caller, who holds nothing; waits for the cleaner if need be.
    ///
    /// # Errors
    /// `Poisoned` when writing has stopped and every page in memory is dirty.
    pub(crate) fn take_frame(&self) -> Result<u32> {
        let mut patience = PATIENCE_WHEN_STOPPED;
        loop {
            let free = self.free_frames.lock().pop();
            if let Some(frame) = free {
                return Ok(frame);
            }
            let stopped = self.health.is_poisoned();
            let (found, dirty) = self.evict_counting(stopped);
            if dirty > DIRTY_SEEN && !stopped {
                // If clean frames are this rare, the pages of one path from root to leaf could keep
                // throwing each other out.
                let cleaned = self.clean_some();
                if let Some(frame) = found {
                    return Ok(frame);
                }
                cleaned?;
            } else if let Some(frame) = found {
                return Ok(frame);
            }
            if stopped && patience > 0 {
                // The last clean ones may be in the hands of others, who give them back.
                patience -= 1;
                yield_now();
                continue;
            }
            self.make_frames()?;
        }
    }

    /// A frame of its own for the caller if that needs no waiting: free, or with a clean cold page.
    pub(crate) fn spare_frame(&self) -> Option<u32> {
        if let Some(frame) = self.free_frames.lock().pop() {
            return Some(frame);
        }
        let (found, dirty) = self.evict_counting(false);
        if (dirty as u64 >= self.pool.len() as u64 / 2 || self.clean_frames_are_few())
            && let Some(frame) = found
        {
            // Where nearly all frames are dirty, who makes a page would throw out what he has just read to
            // be able to make it, again and again. So something is written first.
            self.free_frames.lock().push(frame);
            return None;
        }
        found
    }

    /// Whether so few frames are clean that a page which was read for an operation is likely to be the next
    /// to go. While a checkpoint is being made some dirty ones count twice, and it is not known.
    fn clean_frames_are_few(&self) -> bool {
        let taken = self.lent.count() + self.counters.dirty.load(Ordering::Relaxed);
        let in_cut = self.cut.is_made();
        !in_cut && self.frames().saturating_sub(taken) < FEW_CLEAN
    }

    /// Takes a clean cold page out of memory and returns its frame, and how many dirty pages were passed
    /// over. If `any`, because writing has stopped and reading is to go on, whatever is clean may go, however
    /// far away it is.
    fn evict_counting(&self, any: bool) -> (Option<u32>, usize) {
        let hot_too = any || self.hot_pages_may_leave();
        let inner = if any {
            InnerPages::Enough
        } else {
            self.inner_pages()
        };
        let start = self.clock.hand.load(Ordering::Relaxed);
        let keeps_tops = !any && self.keeps_tops();
        let mut dirty = 0;
        for index in (0..TURNS).flat_map(|_| self.pool.round(start, hot_too)) {
            self.clock.hand.store(index + 1, Ordering::Relaxed);
            let header = self.pool.frame(index);
            if keeps_tops && header.class() == Class::Top {
                continue;
            }
            let used = header.used.load(Ordering::Relaxed);
            if used > 0 {
                let is_inner = header.class() == Class::Inner;
                if is_inner && matches!(inner, InnerPages::Few) && !self.one_in(PATIENCE) {
                    continue;
                }
                let must_go =
                    is_inner && matches!(inner, InnerPages::TooMany) && self.one_in(CROWDED);
                if !must_go {
                    header.used.store(used - 1, Ordering::Relaxed);
                    continue;
                }
            }
            if header.page.load(Ordering::Relaxed) == NO_PAGE {
                continue;
            }
            if header.dirty.load(Ordering::Relaxed) != 0 || header.has(WRITING | CUT_PENDING) {
                dirty += 1;
                if dirty == 4 {
                    self.want_cleaning();
                }
                if dirty == MOST_PASSED_OVER && !any {
                    break;
                }
                continue;
            }
            if self.evict_frame(index, hot_too) {
                return (Some(index), dirty);
            }
        }
        self.want_cleaning();
        (None, dirty)
    }

    /// Whether hot pages are replaced like cold ones for once, because there are more of them than
    /// their class may have: after opening with less memory than before, say. Otherwise they could
    /// fill all frames, and nobody could read anything.
    pub(crate) fn hot_pages_may_leave(&self) -> bool {
        self.hot_frames() > self.hot_frames_at_most()
    }

    /// Whether there are few enough inner pages to keep them longer, or so many that some must go.
    fn inner_pages(&self) -> InnerPages {
        let (inner, hot) = (self.inner_frames(), self.hot_frames());
        let taken = inner + hot + self.top_frames() + self.lent.count();
        match self.inner_kept() {
            // While hot pages have not yet made the room, pages of records must not be without any.
            Some(kept) if inner <= kept && taken + self.layout.floor() / 2 <= self.frames() => {
                InnerPages::Few
            }
            Some(kept) if inner > kept => InnerPages::TooMany,
            _ => InnerPages::Enough,
        }
    }

    /// True once in so many calls, at random, as it were, so that it is not always the same page.
    fn one_in(&self, times: u64) -> bool {
        let passes = self.clock.passes.fetch_add(1, Ordering::Relaxed);
        mix(passes, 0).is_multiple_of(times)
    }

    /// Empties one frame if its page is clean and nobody holds it.
    fn evict_frame(&self, index: u32, hot_too: bool) -> bool {
        let header = self.pool.frame(index);
        if !header.latch.try_exclusive() {
            return false;
        }
        let pid = header.page.load(Ordering::Relaxed);
        if pid == NO_PAGE
            || header.dirty.load(Ordering::Relaxed) != 0
            || (header.class() == Class::Hot && !hot_too)
            || header.has(WRITING | CUT_PENDING)
            || (header.stays.load(Ordering::Relaxed) > 0 && !planted(Planted::StayingLeave))
        {
            header.latch.release_unchanged();
            return false;
        }
        if header.class() != Class::Hot {
            self.ghosts.note(PageId(pid));
        }
        let place = Place::from_bits(header.place.swap(MOVING, Ordering::AcqRel));
        self.table.store(PageId(pid), Word::Out(place));
        self.uncount_class(index, header.class());
        header.page.store(NO_PAGE, Ordering::Release);
        header.latch.release_exclusive();
        self.counters.evictions.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Makes clean frames: writes a batch of dirty cold pages, or waits for those who do. The
    /// caller holds nothing.
    ///
    /// # Errors
    /// `Poisoned` when every cold page is dirty and writing has stopped.
    pub(crate) fn make_frames(&self) -> Result<()> {
        self.counters
            .waits_for_frames
            .fetch_add(1, Ordering::Relaxed);
        if self.clean_some()? == 0 {
            self.want_cleaning();
            self.wait_for_progress();
        }
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::{CutInfo, Pace, StoreOptions};

    fn info() -> CutInfo {
        CutInfo {
            log_position: [0; 24],
            learnt: [0; crate::LEARNT_BYTES],
            next_structure: 0,
            next_sequence: 0,
            catalog_root: PageId(u64::MAX),
            clean: false,
        }
    }

    /// Who reads one page and makes others would go on for ever: each attempt threw out what it had read.
    #[test]
    fn the_only_clean_page_is_not_handed_out_before_something_is_written() {
        let disk = terrace_sim::SimDisk::new(1).shared();
        let options = StoreOptions {
            page_bytes: 4096,
            memory: 1 << 20,
        };
        let store = PageStore::create(disk, options, 1, &info()).unwrap();
        let make = || {
            let door = store.enter().unwrap();
            store.allocate(&door, Class::Cold).map(|page| page.pid())
        };
        let clean = make().unwrap();
        store.checkpoint(Pace::Fast, &mut info).unwrap();
        while !store.free_frames.lock().is_empty() {
            if let Err(interrupt) = make() {
                store.settle(interrupt).unwrap();
            }
        }
        // The clock comes to the clean one first, and passes by no dirty one that is not in use.
        for (_, header) in store.pool.iter() {
            let is_clean = header.page.load(Ordering::Relaxed) == clean.0;
            header
                .used
                .store(if is_clean { 0 } else { 3 }, Ordering::Relaxed);
        }
        assert!(store.is_resident(clean));
        assert_eq!(store.spare_frame(), None);
        store.make_frames().unwrap();
        assert!(store.spare_frame().is_some());
    }
}
