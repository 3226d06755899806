//! Making pages, and freeing such as are not in memory.

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::enter::retry::{Attempt, Retry};
use crate::enter::write_guard::WriteGuard;
use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::Class;
use crate::frames::guard::Exclusive;
use crate::frames::page;
use crate::frames::table::Word;
use crate::map::Place;
use crate::parts::cause::Came;

impl Frames {
    pub fn allocate<'d, 'a: 'd>(
        &'a self,
        door: &'d WriteGuard<'a>,
        class: Class,
    ) -> Attempt<Exclusive<'d>> {
        if class.is_hot() {
            let full = self.lacks_hot_pages(0);
            self.shares.note_hot_wanted(full);
            if full {
                return Err(Retry::HotFull);
            }
        }
        let Some(frame) = self.spare_frame() else {
            return Err(Retry::NoFrame);
        };
        let header = self.pool.frame(frame);
        // Held only for an instant by another thread that came with an outdated word.
        if !header.latch.exclusive_while(|| !self.is_halted()) {
            return Err(Retry::Conflict);
        }
        // SAFETY: the exclusive latch was just taken, and the frame was taken off the free list, so
        // no other slice of it exists.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        bytes.fill(0);
        header.class.store(class as u8, Ordering::Relaxed);
        header.begin(1, Came::Made);
        match self.take_page_number(frame, door) {
            Ok(Some(pid)) => {
                page::begin(bytes, pid, class);
                if class != Class::Memory || planted(Planted::HotGetsPlace) {
                    header.dirty.store(door.epoch(), Ordering::Release);
                    self.common.counters.dirty.add(1);
                }
                self.count_class(frame, class);
                Ok(Exclusive::created(self, frame, pid, door))
            }
            refused => {
                header.latch.release_unchanged();
                self.give(frame);
                let error = refused.err().unwrap_or_else(|| self.no_page_number());
                Err(Retry::Fail(error))
            }
        }
    }

    /// The table of pages is full.
    #[cold]
    pub(crate) fn no_page_number(&self) -> Error {
        Error::MemoryTooSmall {
            what: "the page table (an eighth of the memory)".into(),
            given: self.common.options.memory,
            needed: self.common.options.memory * 2,
        }
    }

    /// Gives a frame, whose exclusive latch the caller holds, the number of a free page; `None` when
    /// the table is full, or what is left of it is promised to others or kept for them. The place moves from the word to
    /// the frame under the map mutex, so that no retag falls between.
    fn take_page_number(&self, frame: u32, door: &WriteGuard<'_>) -> Result<Option<PageId>> {
        let _map = self.map.lock();
        let mut free = self.free_pages.lock();
        if let Some(others) = door.numbers_of_others()
            && self.numbers_left() + free.count <= others
        {
            return Ok(None);
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

    pub fn free_unread(&self, door: &WriteGuard<'_>, pid: PageId) -> Attempt<()> {
        let place = match self.table.load(pid) {
            Word::Resident(_) => {
                self.exclusive(pid, door)?.free();
                return Ok(());
            }
            Word::Out(place) if !place.is_free() => place,
            _ => return Err(Retry::Conflict),
        };
        // As if it were being read in: who wants it waits, and finds that there is no such page.
        if !self.table.swap(pid, Word::Out(place), Word::Loading(place)) {
            return Err(Retry::Conflict);
        }
        {
            let mut map = self.map.lock();
            // It may have been retagged until the mutex was had, and is not any more.
            let newest = match self.table.load(pid) {
                Word::Loading(now) => now,
                _ => place,
            };
            self.give_number(&mut map, pid, newest);
        }
        self.end_of_read(pid);
        Ok(())
    }

    pub fn live_pages(&self) -> u64 {
        let alone = self.common.counters.memory.get();
        self.pages_in_use().saturating_sub(alone)
    }

    pub fn pages_in_use(&self) -> u64 {
        // Both are of one moment only under this lock.
        let free = self.free_pages.lock();
        self.table.count().saturating_sub(free.count)
    }

    /// Numbers that new pages can have, those of freed ones too.
    pub(crate) fn numbers_free(&self) -> u64 {
        self.table.limit().saturating_sub(self.pages_in_use())
    }
}
