//! Finding a page that is in memory: its frame, and the guard that one asks for.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;

use crate::enter::retry::{Attempt, Retry};
use crate::enter::write_guard::WriteGuard;
use crate::frames::Frames;
use crate::frames::frame::CUT_PENDING;
use crate::frames::guard::{Exclusive, Optimistic, Shared, Ticket};
use crate::frames::table::Word;
use crate::map::Place;

impl Frames {
    #[inline]
    pub fn optimistic(&self, pid: PageId) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch(frame))
    }

    #[inline]
    pub fn optimistic_at(&self, pid: PageId, at: usize) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch_line(frame, at))
    }

    #[inline]
    pub fn prefetch_at(&self, pid: PageId, at: usize) {
        if let Word::Resident(frame) = self.table.load(pid) {
            self.pool.prefetch_header(frame);
            self.pool.prefetch_line(frame, 0);
            self.pool.prefetch_line(frame, at);
        }
    }

    #[inline]
    pub fn optimistic_in(&self, frame: u32, pid: PageId) -> Option<Optimistic<'_>> {
        if frame as usize >= self.pool.len() {
            return None;
        }
        self.pool.prefetch(frame);
        self.optimistic_there(frame, pid)
    }

    /// The same in a frame that there is, whose bytes have been asked for.
    #[inline]
    fn optimistic_there(&self, frame: u32, pid: PageId) -> Option<Optimistic<'_>> {
        let header = self.pool.frame(frame);
        let version = header.latch.optimistic()?;
        if header.page.load(Ordering::Acquire) != pid.0 {
            return None;
        }
        header.touch();
        Some(Optimistic {
            frames: self,
            frame,
            pid,
            version,
        })
    }

    #[inline]
    fn optimistic_with(&self, pid: PageId, prefetch: impl Fn(u32)) -> Attempt<Optimistic<'_>> {
        match self.table.load(pid) {
            Word::Resident(frame) => {
                prefetch(frame);
                let there = self.optimistic_there(frame, pid);
                there.ok_or(Retry::Conflict)
            }
            Word::Out(place) if place.is_free() => Err(Retry::Conflict),
            _ => Err(Retry::Miss(pid)),
        }
    }

    pub fn shared(&self, pid: PageId) -> Attempt<Shared<'_>> {
        self.shared_in(self.resident(pid)?, pid)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn shared_in(&self, frame: u32, pid: PageId) -> Attempt<Shared<'_>> {
        let header = self.pool.frame(frame);
        // Who has latches and waits for the latch of another page than it meant may wait for itself.
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.shared_while(stays) {
            return Err(Retry::Conflict);
        }
        let guard = Shared {
            frames: self,
            frame,
            pid,
        };
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Retry::Conflict)
        }
    }

    pub fn exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d WriteGuard<'a>,
    ) -> Attempt<Exclusive<'d>> {
        self.exclusive_in(self.resident(pid)?, pid, door)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn exclusive_in<'d, 'a: 'd>(
        &'a self,
        frame: u32,
        pid: PageId,
        door: &'d WriteGuard<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let header = self.pool.frame(frame);
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.exclusive_while(stays) {
            return Err(Retry::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Retry::Conflict)
        }
    }

    pub fn try_exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d WriteGuard<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let frame = self.resident(pid)?;
        if !self.pool.frame(frame).latch.try_exclusive() {
            return Err(Retry::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            Ok(guard)
        } else {
            Err(Retry::Conflict)
        }
    }

    pub(crate) fn resident(&self, pid: PageId) -> Attempt<u32> {
        match self.table.load(pid) {
            Word::Resident(frame) => Ok(frame),
            Word::Out(place) if place.is_free() => Err(Retry::Conflict),
            _ => Err(Retry::Miss(pid)),
        }
    }

    pub fn exists(&self, pid: PageId) -> bool {
        !matches!(self.table.load(pid), Word::Out(place) if place.is_free())
    }

    pub fn is_resident(&self, pid: PageId) -> bool {
        matches!(self.table.load(pid), Word::Resident(_))
    }

    pub fn ticket_u32(&self, ticket: Ticket, at: usize) -> Option<u32> {
        let header = self.pool.frame(ticket.frame);
        let version = header.latch.optimistic()?;
        if header.page.load(Ordering::Acquire) != ticket.pid.0 {
            return None;
        }
        let value = self.pool.view(ticket.frame).u32(at).ok()?;
        header.latch.validate(version).then_some(value)
    }

    /// Copies a page, if it is in memory as it lies in this slot: the checksum alone is another one. No use is
    /// counted, and it waits for no thread.
    pub(crate) fn copy_clean(&self, pid: PageId, slot: u64, into: &mut [u8]) -> bool {
        let Word::Resident(frame) = self.table.load(pid) else {
            return false;
        };
        let header = self.pool.frame(frame);
        if !header.latch.try_shared() {
            return false;
        }
        let place = Place::from_bits(header.place.load(Ordering::Acquire));
        // No thread changes the page under the latch, and a page that was written and not changed since is not dirty.
        let is_it = header.page.load(Ordering::Acquire) == pid.0
            && header.dirty.load(Ordering::Acquire) == 0
            && !header.has(CUT_PENDING)
            && place.slot() == Some(slot);
        let copied = is_it && self.pool.view(frame).copy_to(0, into).is_ok();
        header.latch.release_shared();
        copied
    }

    pub fn page_numbers(&self) -> u64 {
        self.table.count()
    }

    pub fn left_lately(&self, pid: PageId) -> bool {
        self.ghosts.has(pid)
    }
}
