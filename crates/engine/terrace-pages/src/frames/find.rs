//! Finding a page that is in memory: its frame, and the guard that one asks for.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;

use crate::enter::door::Door;
use crate::enter::interrupt::{Attempt, Interrupt};
use crate::frames::guard::{Exclusive, Optimistic, Shared, Ticket};
use crate::store::PageStore;
use crate::table::Word;

impl PageStore {
    /// The page for optimistic reading, if it is in memory. O(1).
    #[inline]
    pub fn optimistic(&self, pid: PageId) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch(frame))
    }

    /// The same where nothing but what is at `at` is about to be read, beside the header: the lines
    /// behind that would only push out others.
    #[inline]
    pub fn optimistic_at(&self, pid: PageId, at: usize) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch_line(frame, at))
    }

    /// Asks the processor for what whoever latches this page looks at first, and for the line of it that has
    /// the byte at `at`: for pages whose turn comes soon, so that they are not waited for one after the
    /// other. Nothing happens where the page is not in memory. O(1).
    #[inline]
    pub fn prefetch_at(&self, pid: PageId, at: usize) {
        if let Word::Resident(frame) = self.table.load(pid) {
            self.pool.prefetch_header(frame);
            self.pool.prefetch_line(frame, 0);
            self.pool.prefetch_line(frame, at);
        }
    }

    /// The page for optimistic reading, if it is in this frame, which may be any number: then it is found
    /// without the page table. O(1).
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
            store: self,
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
                there.ok_or(Interrupt::Conflict)
            }
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
    }

    /// The page under its shared latch, if it is in memory; waits for an exclusive holder.
    pub fn shared(&self, pid: PageId) -> Attempt<Shared<'_>> {
        self.shared_in(self.resident(pid)?, pid)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn shared_in(&self, frame: u32, pid: PageId) -> Attempt<Shared<'_>> {
        let header = self.pool.frame(frame);
        // Who has latches and waits for the latch of another page than it meant may wait for itself.
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.shared_while(stays) {
            return Err(Interrupt::Conflict);
        }
        let guard = Shared {
            store: self,
            frame,
            pid,
        };
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// The page under its exclusive latch, if it is in memory; waits for the holders.
    pub fn exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        self.exclusive_in(self.resident(pid)?, pid, door)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn exclusive_in<'d, 'a: 'd>(
        &'a self,
        frame: u32,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let header = self.pool.frame(frame);
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.exclusive_while(stays) {
            return Err(Interrupt::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// Like [`PageStore::exclusive`], but `Conflict` instead of waiting.
    pub fn try_exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let frame = self.resident(pid)?;
        if !self.pool.frame(frame).latch.try_exclusive() {
            return Err(Interrupt::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    pub(crate) fn resident(&self, pid: PageId) -> Attempt<u32> {
        match self.table.load(pid) {
            Word::Resident(frame) => Ok(frame),
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
    }

    /// Whether there is a page of this number. A hint: it may be freed at any time.
    pub fn exists(&self, pid: PageId) -> bool {
        !matches!(self.table.load(pid), Word::Out(place) if place.is_free())
    }

    /// Whether the page is in memory now. A hint: it may leave at any time.
    pub fn is_resident(&self, pid: PageId) -> bool {
        matches!(self.table.load(pid), Word::Resident(_))
    }

    /// Reads the four bytes at `at` of the page that `ticket` was taken of; `None` if the frame
    /// holds another page by now or somebody is changing it.
    pub fn ticket_u32(&self, ticket: Ticket, at: usize) -> Option<u32> {
        let header = self.pool.frame(ticket.frame);
        let version = header.latch.optimistic()?;
        if header.page.load(Ordering::Acquire) != ticket.pid.0 {
            return None;
        }
        let value = self.pool.view(ticket.frame).u32(at).ok()?;
        header.latch.validate(version).then_some(value)
    }
}
