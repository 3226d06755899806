//! Making pages and freeing them: page numbers, their frames, and the accounts of both.

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::enter::door::Door;
use crate::enter::interrupt::{Attempt, Interrupt};
use crate::faults::{Planted, planted};
use crate::frames::frame::{CUT_PENDING, Class, NO_PAGE, WRITING};
use crate::frames::guard::Exclusive;
use crate::frames::page;
use crate::map::Place;
use crate::parts::promise::Space;
use crate::store::PageStore;
use crate::table::Word;

impl PageStore {
    /// A new page: zeroed, exclusively latched, dirty. O(1).
    ///
    /// # Errors
    /// `NoFrame` when no frame can be had without waiting, `HotFull` when a hot page was asked for
    /// and the hot class is at its cap.
    pub fn allocate<'d, 'a: 'd>(
        &'a self,
        door: &'d Door<'a>,
        class: Class,
    ) -> Attempt<Exclusive<'d>> {
        if class == Class::Hot {
            let full = self.lacks_hot_pages(0);
            self.shares.note_hot_wanted(full);
            if full {
                return Err(Interrupt::HotFull);
            }
        }
        let Some(frame) = self.spare_frame() else {
            return Err(Interrupt::NoFrame);
        };
        let header = self.pool.frame(frame);
        // Held only for an instant by others: somebody who came with an outdated word.
        if !header.latch.exclusive_while(|| !self.is_halted()) {
            return Err(Interrupt::Conflict);
        }
        // SAFETY: the exclusive latch was just taken, and the frame was taken off the free list, so
        // no other slice of it exists.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        bytes.fill(0);
        header.class.store(class as u8, Ordering::Relaxed);
        header.used.store(1, Ordering::Relaxed);
        header.flags.store(0, Ordering::Release);
        match self.take_page_number(frame, door) {
            Ok(Some(pid)) => {
                page::begin(bytes, pid, class);
                header.dirty.store(door.epoch(), Ordering::Release);
                self.counters.dirty.fetch_add(1, Ordering::Relaxed);
                self.count_class(frame, class);
                Ok(Exclusive::created(self, frame, pid, door))
            }
            refused => {
                header.latch.release_unchanged();
                self.free_frames.lock().push(frame);
                let error = refused.err().unwrap_or_else(|| self.no_page_number());
                Err(Interrupt::Fail(error))
            }
        }
    }

    /// The table of pages is full.
    #[cold]
    pub(crate) fn no_page_number(&self) -> Error {
        Error::MemoryTooSmall {
            what: "the page table (an eighth of the memory)".into(),
            given: self.options.memory,
            needed: self.options.memory * 2,
        }
    }

    /// Numbers of pages that must remain for others.
    pub(crate) fn numbers_kept_from(&self, space: Space) -> u64 {
        // As for slots: what is replayed was let in once.
        match self.claims.is_reserve_open() || planted(Planted::NoNumbersKept) {
            true => 0,
            false => self.layout.kept_numbers(space),
        }
    }

    /// Gives a frame, whose exclusive latch the caller holds, the number of a free page; `None` when
    /// the table is full, or what is left of it is promised to others or kept for them. The place moves from the word to
    /// the frame under the map mutex, so that no retag falls between.
    fn take_page_number(&self, frame: u32, door: &Door<'_>) -> Result<Option<PageId>> {
        let _map = self.map.lock();
        let mut free = self.free_pages.lock();
        if !door.may_make() {
            let left = (self.table.limit() + free.count).saturating_sub(self.table.count());
            if left <= self.claims.promised().new + self.numbers_kept_from(door.space()) {
                return Ok(None);
            }
        }
        let (pid, place) = if let Some(pid) = free.head {
            let Word::Out(place) = self.table.load(pid) else {
                return Err(Error::Poisoned {
                    cause: format!("{pid} is in the chain of free pages and in use"),
                });
            };
            let next = place.link();
            free.head = (!next.is_none()).then_some(next);
            free.count -= 1;
            (pid, place.with_link(PageId(0)))
        } else {
            let pid = PageId(self.table.count());
            if pid.0 >= self.table.limit() {
                return Ok(None);
            }
            self.table.set_count(pid.0 + 1);
            (pid, Place::FREE)
        };
        let header = self.pool.frame(frame);
        header.place.store(place.bits(), Ordering::Release);
        header.page.store(pid.0, Ordering::Release);
        self.table.store(pid, Word::Resident(frame));
        Ok(Some(pid))
    }

    /// Frees a page whose exclusive latch the caller holds; the latch goes with it.
    pub(crate) fn release_page(&self, frame: u32, pid: PageId, epoch: u32) {
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
        self.counters
            .dirty
            .fetch_sub(owes - u64::from(copied), Ordering::Relaxed);
        {
            let mut map = self.map.lock();
            let newest = Place::from_bits(header.place.load(Ordering::Acquire));
            let place = map.free_page(pid, newest);
            let mut free = self.free_pages.lock();
            let link = free.head.unwrap_or(PageId::NONE);
            self.table.store(pid, Word::Out(place.with_link(link)));
            free.head = Some(pid);
            free.count += 1;
            self.note_slots(&map);
        }
        self.uncount_class(frame, header.class());
        header.page.store(NO_PAGE, Ordering::Release);
        header.dirty.store(0, Ordering::Release);
        header.clear(CUT_PENDING);
        let writing = header.has(WRITING);
        header.latch.release_exclusive();
        if !writing {
            self.free_frames.lock().push(frame);
        }
    }

    /// Frees a page that nobody names any more, without reading it where it is not in memory. O(1).
    ///
    /// # Errors
    /// `Conflict` when it is being read in, or is free.
    pub fn free_unread(&self, door: &Door<'_>, pid: PageId) -> Attempt<()> {
        let place = match self.table.load(pid) {
            Word::Resident(_) => {
                self.exclusive(pid, door)?.free();
                return Ok(());
            }
            Word::Out(place) if !place.is_free() => place,
            _ => return Err(Interrupt::Conflict),
        };
        // As if it were being read in: who wants it waits, and finds that there is no such page.
        if !self.table.swap(pid, Word::Out(place), Word::Loading(place)) {
            return Err(Interrupt::Conflict);
        }
        {
            let mut map = self.map.lock();
            // It may have been retagged until the mutex was had, and is not any more.
            let newest = match self.table.load(pid) {
                Word::Loading(now) => now,
                _ => place,
            };
            let place = map.free_page(pid, newest);
            let mut free = self.free_pages.lock();
            let link = free.head.unwrap_or(PageId::NONE);
            self.table.store(pid, Word::Out(place.with_link(link)));
            free.head = Some(pid);
            free.count += 1;
            self.note_slots(&map);
        }
        self.end_of_read(pid);
        Ok(())
    }

    /// Takes a frame that gets a page, or whose page changes class, into the accounts. Whoever calls
    /// this holds its exclusive latch.
    pub(crate) fn count_class(&self, frame: u32, class: Class) {
        match class {
            Class::Hot => self.counters.hot.fetch_add(1, Ordering::Relaxed),
            Class::Inner => self.counters.inner.fetch_add(1, Ordering::Relaxed),
            Class::Top => self.counters.tops.fetch_add(1, Ordering::Relaxed),
            Class::Cold => 0,
        };
        self.pool.note_not_hot(frame, class != Class::Hot);
    }

    /// Takes it out again.
    pub(crate) fn uncount_class(&self, frame: u32, class: Class) {
        match class {
            Class::Hot => self.counters.hot.fetch_sub(1, Ordering::Relaxed),
            Class::Inner => self.counters.inner.fetch_sub(1, Ordering::Relaxed),
            Class::Top => self.counters.tops.fetch_sub(1, Ordering::Relaxed),
            Class::Cold => 0,
        };
        self.pool.note_not_hot(frame, false);
    }
}
