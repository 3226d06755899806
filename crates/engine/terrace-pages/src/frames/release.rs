//! Giving a page back: its frame and its number, and the accounts of classes.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::{CUT_PENDING, Class, NO_PAGE, WRITING};
use crate::frames::table::Word;
use crate::map::{PageMap, Place};
use crate::parts::counters::Count;

impl Frames {
    /// Frees a page whose exclusive latch the caller holds; the latch goes with it.
    pub(super) fn release_page(&self, frame: u32, pid: PageId, epoch: u32) {
        let header = self.pool.frame(frame);
        let dirty = header.dirty.load(Ordering::Relaxed);
        let cut = self.cut.epoch();
        let pending = header.has(CUT_PENDING);
        let owed = pending || (dirty != 0 && dirty <= cut && dirty < epoch);
        let copied = owed && !planted(Planted::FreedWithoutCopy);
        if copied {
            // SAFETY: the caller holds the exclusive latch and gives up the page.
            let mut copy: Box<[u8]> = unsafe { self.pool.bytes(frame) }.into();
            self.undo.apply(frame, &mut copy);
            self.undo.save_page(pid, copy);
        }
        // A dirty page owes one write, and one more if it changed while the cut still needs it; one
        // of them is the copy's from now on.
        let owes = u64::from(dirty != 0) + u64::from(pending);
        self.common.counters.dirty.sub(owes - u64::from(copied));
        {
            let mut map = self.map.lock();
            let newest = Place::from_bits(header.place.load(Ordering::Acquire));
            self.give_number(&mut map, pid, newest);
        }
        self.uncount_class(frame, header.class());
        header.page.store(NO_PAGE, Ordering::Release);
        header.dirty.store(0, Ordering::Release);
        header.clear(CUT_PENDING);
        let writing = header.has(WRITING);
        header.latch.release_exclusive();
        if !writing {
            self.give(frame);
        }
    }

    /// Puts the number of a page, which no other thread looks at, into the chain of free ones.
    pub(super) fn give_number(&self, map: &mut PageMap, pid: PageId, newest: Place) {
        let place = map.free_page(pid, newest);
        let mut free = self.free_pages.lock();
        let link = free.head.unwrap_or(PageId::NONE);
        self.table.store(pid, Word::Out(place.with_link(link)));
        free.head = Some(pid);
        free.count += 1;
        self.note_slots(map);
    }

    /// Takes a frame that gets a page, or whose page changes class, into the accounts. Whoever calls
    /// this holds its exclusive latch.
    pub(super) fn count_class(&self, frame: u32, class: Class) {
        self.accounts(class).for_each(|account| account.add(1));
        self.pool.note_not_hot(frame, !class.is_hot());
    }

    /// Takes it out again.
    pub(super) fn uncount_class(&self, frame: u32, class: Class) {
        self.accounts(class).for_each(|account| account.sub(1));
        self.pool.note_not_hot(frame, false);
    }

    fn accounts(&self, class: Class) -> impl Iterator<Item = &Count> {
        let counters = &self.common.counters;
        let own = match class {
            Class::Cold | Class::Hot => None,
            Class::Memory => Some(&counters.memory),
            Class::Inner => Some(&counters.inner),
            Class::Top => Some(&counters.tops),
        };
        let hot = class.is_hot().then_some(&counters.hot);
        own.into_iter().chain(hot)
    }
}
