//! Which page leaves memory: the clock over cold frames.
//!
//! Only cold and inner pages are replaced; hot pages never leave page by page (their records do, by
//! demotion), unless there are too many of them or writing has stopped. A dirty page is passed over and the cleaner is told; who finds nothing clean and holds
//! nothing cleans a batch itself.
//!
//! Inner pages lead to records of many other pages, so one of them is worth more than a page of
//! records that happened to be read: the clock counts their uses down much more slowly. Most of its
//! frames are a stream of pages of records that are read once.

use terrace_base::PageId;
use terrace_base::checksum::mix;
use terrace_base::sync::atomic::Ordering;

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::{CUT_PENDING, Class, MOVING, NO_PAGE, WRITING};
use crate::frames::table::Word;
use crate::map::Place;

/// Turns of the clock before a thread gives up looking for a clean page: use counts are at most 3.
const TURNS: usize = 5;

/// Clean pages that an operation may need at a time, as it reads some and makes others: with fewer in all it
/// could throw out one of its own, again and again.
const FEW_CLEAN: u64 = 4;

/// Dirty pages after which the search for a clean one is given up: it may be inside the gate, with
/// latches, and where nearly all are dirty five turns would be millions of headers.
const MOST_PASSED_OVER: usize = 1024;

/// The hand passes by an inner page so often for each use that it counts down, while there are few of
/// them. Beside hot pages the clock has a fiftieth of the frames for pages of records, and it turns
/// round once in as many misses; so an inner page with all its uses stays for some two misses per
/// frame, within which half as many inner pages as there are frames are asked for several times each.
const PATIENCE: u64 = 32;
/// While there are too many, the hand takes one in this many that it passes by, used or not: all of them
/// are used, by more than the pages of records are.
const CROWDED: u64 = 2;

/// How the number of inner pages in memory compares with what is to be kept.
#[derive(Clone, Copy)]
enum InnerPages {
    Few,
    Enough,
    TooMany,
}

impl Frames {
    /// A frame of its own for the caller if that needs no waiting: free, or with a clean cold page.
    pub(crate) fn spare_frame(&self) -> Option<u32> {
        if let Some(frame) = self.take_free() {
            return Some(frame);
        }
        let (found, dirty) = self.evict_counting(false);
        let taken = self.lent.count() + self.hot_frames();
        let may_leave = self.common.frames().saturating_sub(taken);
        if (dirty as u64 + FEW_CLEAN > may_leave || self.clean_frames_are_few())
            && let Some(frame) = found
        {
            // Where nearly all pages that may leave are dirty, who makes a page would throw out what he has just read
            // to be able to make it, again and again. So something is written first.
            self.give(frame);
            return None;
        }
        found
    }

    /// Whether so few frames are clean that a page which was read for an operation is likely to be the next
    /// to go. While a checkpoint is being made some dirty ones count twice, and it is not known.
    fn clean_frames_are_few(&self) -> bool {
        // Those in memory alone are not dirty, and never leave.
        let alone = self.common.counters.memory.get();
        let taken = self.lent.count() + self.common.counters.dirty.get() + alone;
        let in_cut = self.cut.is_made();
        !in_cut && self.common.frames().saturating_sub(taken) < FEW_CLEAN
    }

    /// Takes a clean cold page out of memory and returns its frame, and how many dirty pages were passed
    /// over. If `any`, because writing has stopped and reading is to go on, whatever is clean may go, however
    /// far away it is.
    pub(crate) fn evict_counting(&self, any: bool) -> (Option<u32>, usize) {
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
            let class = header.class();
            if class == Class::Memory || keeps_tops && class == Class::Top {
                continue;
            }
            if header.uses() > 0 {
                let is_inner = class == Class::Inner;
                if is_inner && matches!(inner, InnerPages::Few) && !self.one_in(PATIENCE) {
                    continue;
                }
                let must_go =
                    is_inner && matches!(inner, InnerPages::TooMany) && self.one_in(CROWDED);
                if !must_go {
                    header.count_down();
                    continue;
                }
            }
            if header.page.load(Ordering::Relaxed) == NO_PAGE {
                continue;
            }
            if header.dirty.load(Ordering::Relaxed) != 0 || header.has(WRITING | CUT_PENDING) {
                dirty += 1;
                if dirty == 4 {
                    self.common.signals.want_cleaning();
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
        self.common.signals.want_cleaning();
        (None, dirty)
    }

    /// Whether hot pages are replaced like cold ones for once, because there are more of them than
    /// their class may have: after opening with less memory than before, say. Otherwise they could
    /// fill all frames, and no reader could read anything.
    fn hot_pages_may_leave(&self) -> bool {
        self.hot_frames() > self.hot_frames_at_most()
    }

    /// Whether there are few enough inner pages to keep them longer, or so many that some must go.
    fn inner_pages(&self) -> InnerPages {
        let (inner, hot) = (self.inner_frames(), self.hot_frames());
        let taken = inner + hot + self.top_frames() + self.lent.count();
        match self.shares.inner_kept() {
            // While hot pages have not yet made the room, pages of records must not be without any.
            Some(kept)
                if inner <= kept
                    && taken + self.common.layout.floor() / 2 <= self.common.frames() =>
            {
                InnerPages::Few
            }
            Some(kept) if inner > kept => InnerPages::TooMany,
            _ => InnerPages::Enough,
        }
    }

    /// True once in `times` calls, at random, as it were, so that it is not always the same page.
    fn one_in(&self, times: u64) -> bool {
        let passes = self.clock.passes.fetch_add(1, Ordering::Relaxed);
        mix(passes, 0).is_multiple_of(times)
    }

    /// Empties one frame if its page is clean and no thread holds it.
    fn evict_frame(&self, index: u32, hot_too: bool) -> bool {
        let header = self.pool.frame(index);
        if !header.latch.try_exclusive() {
            return false;
        }
        let pid = header.page.load(Ordering::Relaxed);
        if pid == NO_PAGE
            || header.dirty.load(Ordering::Relaxed) != 0
            || header.class() == Class::Memory
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
        if header.class() == Class::Cold {
            self.common.counters.left[header.came() as usize].note(header.hits());
        }
        let place = Place::from_bits(header.place.swap(MOVING, Ordering::AcqRel));
        self.table.store(PageId(pid), Word::Out(place));
        self.uncount_class(index, header.class());
        header.page.store(NO_PAGE, Ordering::Release);
        header.latch.release_exclusive();
        self.common.counters.evictions.add(1);
        true
    }

    /// Up to a batch of dirty cold pages that the clock comes to next, to be cleaned, and whether there are others that
    /// a checkpoint still owes.
    pub(crate) fn pick_to_clean(&self) -> (Vec<u32>, bool) {
        let hot_too = self.hot_pages_may_leave();
        let keeps_tops = self.keeps_tops();
        let start = self.clock.clean_hand.load(Ordering::Relaxed);
        let mut picks = Vec::with_capacity(self.common.layout.write_batch);
        let mut owed = false;
        for pass in 0..2 {
            for index in self.pool.round(start, hot_too) {
                let header = self.pool.frame(index);
                if header.dirty.load(Ordering::Relaxed) != 0
                    && (pass == 1 || header.uses() == 0)
                    && !header.has(WRITING)
                    && !(keeps_tops && header.class() == Class::Top)
                {
                    if header.has(CUT_PENDING) {
                        owed = true;
                        continue;
                    }
                    picks.push(index);
                    if picks.len() == self.common.layout.write_batch {
                        break;
                    }
                }
            }
            // Recently used pages too, but only if there is little else.
            if picks.len() >= 4 {
                break;
            }
        }
        if let Some(last) = picks.last() {
            self.clock.clean_hand.store(last + 1, Ordering::Relaxed);
        }
        (picks, owed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::Pace;
    use crate::testing::{info, store};

    /// Who reads one page and makes others would go on for ever: each attempt threw out what it had read.
    #[test]
    fn the_only_clean_page_is_not_handed_out_before_something_is_written() {
        something_is_written_first(0);
        // They are clean too, and do not leave.
        something_is_written_first(100);
    }

    fn something_is_written_first(hot: usize) {
        let store = store();
        let make_of = |class| {
            let door = store.enter().unwrap();
            store.allocate(&door, class).map(|page| page.pid())
        };
        let make = || make_of(Class::Cold);
        (0..hot).for_each(|_| _ = make_of(Class::Hot).unwrap());
        let clean = make().unwrap();
        store.checkpoint(Pace::Fast, &mut info).unwrap();
        let frames = store.storage().frames();
        while !frames.free.lock().is_empty() {
            if let Err(interrupt) = make() {
                store.settle(interrupt).unwrap();
            }
        }
        // The clock comes to the clean one first, and passes by no dirty one that is not in use.
        for (_, header) in frames.pool.iter() {
            let is_clean = header.page.load(Ordering::Relaxed) == clean.0;
            header
                .used
                .store(if is_clean { 0 } else { 3 }, Ordering::Relaxed);
        }
        assert!(store.is_resident(clean));
        let mut tries = 0;
        while let Some(frame) = frames.spare_frame() {
            // What is missing now is read, and it is tried again.
            frames.give(frame);
            store.fault_in(clean).unwrap();
            tries += 1;
            assert!(hot > 0 && tries < 8);
        }
        store.storage().make_frames().unwrap();
        assert!(frames.spare_frame().is_some());
    }
}
