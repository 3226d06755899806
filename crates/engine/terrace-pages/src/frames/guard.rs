//! Holding a page: optimistically, shared, exclusively.
//!
//! A guard releases its latch when dropped. Only an [`Exclusive`] can change a page, and it can be
//! had only by whoever is inside the gate (has a [`WriteGuard`]), so that no change falls into a cut.

use std::marker::PhantomData;

use terrace_base::sync::atomic::Ordering;
use terrace_base::sync::panicking;
use terrace_base::{Error, PageId};

use crate::enter::retry::{Attempt, Retry};
use crate::enter::write_guard::WriteGuard;
use crate::frames::Frames;
use crate::frames::frame::{CUT_PENDING, Class, Frame, MOVING, NO_PAGE};
use crate::frames::latch::Version;
use crate::frames::table::Word;
use crate::frames::view::View;
use crate::map::Place;
use crate::parts::data_file::{DATA_FILE, DATA_START};

/// A page that is being read without any latch. What is read must be validated before it is
/// believed.
pub struct Optimistic<'a> {
    pub(super) frames: &'a Frames,
    pub(super) frame: u32,
    pub(super) pid: PageId,
    pub(super) version: Version,
}

impl<'a> Optimistic<'a> {
    fn header(&self) -> &'a Frame {
        self.frames.pool.frame(self.frame)
    }

    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// The frame that the page is in, for [`crate::PageStore::optimistic_in`].
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// The bytes, which may be garbage until [`Optimistic::validate`] agrees.
    #[inline]
    pub fn view(&self) -> View<'a> {
        self.frames.pool.view(self.frame)
    }

    /// Whether everything read through [`Optimistic::view`] so far is sound.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.header().latch.validate(self.version)
    }

    /// [`Optimistic::is_valid`] as an attempt: `Conflict` when not.
    #[inline]
    pub fn validate(&self) -> Attempt<()> {
        if self.is_valid() {
            Ok(())
        } else {
            Err(Retry::Conflict)
        }
    }

    /// What to answer when the bytes made no sense: `Conflict` if the page changed meanwhile, or
    /// else the page is really damaged.
    #[cold]
    pub fn torn(&self, what: &str) -> Retry {
        if self.is_valid() {
            Retry::Fail(self.frames.damaged(self.pid, what))
        } else {
            Retry::Conflict
        }
    }

    /// The same page under a shared latch, if nothing has changed. Does not wait.
    pub fn upgrade_shared(self) -> Attempt<Shared<'a>> {
        self.share().ok_or(Retry::Conflict)
    }

    fn share(&self) -> Option<Shared<'a>> {
        let latch = &self.header().latch;
        if !latch.try_shared() {
            return None;
        }
        let shared = Shared {
            frames: self.frames,
            frame: self.frame,
            pid: self.pid,
        };
        latch.validate(self.version).then_some(shared)
    }

    /// The same page under the exclusive latch, if nothing has changed and no thread holds it. Does
    /// not wait.
    pub fn upgrade_exclusive<'d>(self, door: &'d WriteGuard<'a>) -> Attempt<Exclusive<'d>>
    where
        'a: 'd,
    {
        if self.header().latch.upgrade(self.version) {
            Ok(Exclusive::held(self.frames, self.frame, self.pid, door))
        } else {
            Err(Retry::Conflict)
        }
    }

    /// Raises or sets hint bits: replaces the two bytes at `at` (even) with what `f` makes of them,
    /// under a shared latch that is only tried. Never marks the page as changed. Returns whether
    /// it was done.
    pub fn hint(&self, at: usize, f: impl FnMut(u16) -> Option<u16>) -> bool {
        self.share().is_some_and(|shared| shared.hint(at, f))
    }
}

/// A page under the shared latch: it stays as it is (hint bits aside) while the guard lives.
pub struct Shared<'a> {
    pub(super) frames: &'a Frames,
    pub(super) frame: u32,
    pub(super) pid: PageId,
}

impl Shared<'_> {
    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// The bytes.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.frames.pool.view(self.frame)
    }

    /// See [`Optimistic::hint`].
    pub fn hint(&self, at: usize, f: impl FnMut(u16) -> Option<u16>) -> bool {
        self.frames.pool.hint(self.frame, at, f)
    }

    /// The page is latched, so bytes that make no sense are damage.
    #[cold]
    pub fn torn(&self, what: &str) -> Retry {
        Retry::Fail(self.frames.damaged(self.pid, what))
    }

    /// Where to look later, without any latch, whether the page is still this page and what its
    /// bytes say then (a membership counter, say).
    pub fn ticket(&self) -> Ticket {
        Ticket {
            frame: self.frame,
            pid: self.pid,
        }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.frames.pool.frame(self.frame).latch.release_shared();
    }
}

/// A place to look at a page again without searching for it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(super) frame: u32,
    pub(super) pid: PageId,
}

/// A page under the exclusive latch.
pub struct Exclusive<'d> {
    frames: &'d Frames,
    frame: u32,
    pid: PageId,
    epoch: u32,
    changed: bool,
    /// As that of its write guard.
    unwinding: bool,
    _inside: PhantomData<&'d WriteGuard<'d>>,
}

impl<'d> Exclusive<'d> {
    /// Wraps a latch that the caller has just taken.
    pub(crate) fn held<'a: 'd>(
        frames: &'a Frames,
        frame: u32,
        pid: PageId,
        door: &'d WriteGuard<'a>,
    ) -> Exclusive<'d> {
        Exclusive {
            frames,
            frame,
            pid,
            epoch: door.epoch(),
            changed: false,
            unwinding: door.unwinding(),
            _inside: PhantomData,
        }
    }

    /// Wraps the latch of a page that was just made, which is dirty already.
    pub(crate) fn created<'a: 'd>(
        frames: &'a Frames,
        frame: u32,
        pid: PageId,
        door: &'d WriteGuard<'a>,
    ) -> Exclusive<'d> {
        let mut guard = Exclusive::held(frames, frame, pid, door);
        guard.changed = true;
        guard
    }

    fn header(&self) -> &'d Frame {
        self.frames.pool.frame(self.frame)
    }

    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// Moves the page to another class, in its header and in the accounts; to [`Class::Memory`] only one that was just
    /// made.
    pub fn set_class(&mut self, class: Class) -> Attempt<()> {
        self.change(crate::frames::page::CLASS_AT, 1)?[0] = class as u8;
        self.frames.uncount_class(self.frame, self.class());
        let header = self.header();
        header.class.store(class as u8, Ordering::Relaxed);
        // It was just made, and owes no write any more.
        if class == Class::Memory && header.dirty.swap(0, Ordering::AcqRel) != 0 {
            self.frames.common.counters.dirty.sub(1);
        }
        self.frames.count_class(self.frame, class);
        Ok(())
    }

    /// The page's class.
    pub fn class(&self) -> Class {
        self.header().class()
    }

    /// The bytes, through the same accessors as all readers use.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.frames.pool.view(self.frame)
    }

    /// The bytes as a slice.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: this guard holds the exclusive latch, and the borrow of `self` keeps `change`
        // away while the slice lives.
        unsafe { self.frames.pool.bytes(self.frame) }
    }

    /// The `len` bytes at `at`, to be changed. What they were is kept for a checkpoint that still
    /// has to write this page as it was at its cut.
    ///
    /// # Errors
    /// Damage, when the range is not inside the page.
    #[inline]
    pub fn change(&mut self, at: usize, len: usize) -> Attempt<&mut [u8]> {
        self.touch(at, len)?;
        if self.header().has(CUT_PENDING) {
            let old = &self.bytes()[at..at + len];
            self.frames.undo.save(self.frame, at, old);
        }
        Ok(self.raw(at, len))
    }

    /// The `len` bytes at `at`, to be filled; what they were means nothing to any reader (free space
    /// of the page), so nothing is kept of it.
    #[inline]
    pub fn fill(&mut self, at: usize, len: usize) -> Attempt<&mut [u8]> {
        self.touch(at, len)?;
        Ok(self.raw(at, len))
    }

    /// Changes hint bits, as readers do: the page does not become dirty. See [`Optimistic::hint`].
    pub fn hint(&mut self, at: usize, f: impl FnMut(u16) -> Option<u16>) -> bool {
        self.frames.pool.hint(self.frame, at, f)
    }

    /// The whole page, to be rewritten (split, merge, compaction).
    #[inline]
    pub fn change_all(&mut self) -> Attempt<&mut [u8]> {
        self.change(0, self.frames.common.page_bytes())
    }

    fn raw(&mut self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: this guard holds the exclusive latch and is borrowed mutably while the slice
        // lives.
        let page = unsafe { self.frames.pool.bytes_mut(self.frame) };
        &mut page[at..at + len]
    }

    /// Before the first change: the page becomes dirty in this epoch, and if the checkpoint still
    /// needs its content at the cut, the undo begins here.
    #[inline]
    fn touch(&mut self, at: usize, len: usize) -> Attempt<()> {
        if at
            .checked_add(len)
            .is_none_or(|end| end > self.frames.common.page_bytes())
        {
            return Err(self.torn("a range ends past the page"));
        }
        if !self.changed {
            self.changed = true;
            crate::faults::changing();
            let header = self.header();
            let dirty = header.dirty.load(Ordering::Relaxed);
            if dirty != self.epoch && header.class() != Class::Memory {
                if dirty == 0 {
                    self.frames.common.counters.dirty.add(1);
                } else if dirty <= self.frames.cut.epoch() {
                    header.set(CUT_PENDING);
                    // One more page write is owed: that of the content at the cut.
                    self.frames.common.counters.dirty.add(1);
                }
                header.dirty.store(self.epoch, Ordering::Release);
            }
        }
        Ok(())
    }

    /// The page is latched, so bytes that make no sense are damage.
    #[cold]
    pub fn torn(&self, what: &str) -> Retry {
        Retry::Fail(self.frames.damaged(self.pid, what))
    }

    /// Gives the page back to the store: its number may be used again at once. An optimistic
    /// reader that is still on it will fail to validate.
    pub fn free(mut self) {
        self.changed = true;
        self.frames.release_page(self.frame, self.pid, self.epoch);
        self.pid = PageId(NO_PAGE);
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.pid.0 == NO_PAGE {
            // `free` released the latch together with the frame.
            return;
        }
        let latch = &self.header().latch;
        if self.changed && panicking() && !self.unwinding {
            // No thread may see what is perhaps half changed.
            self.frames.common.halt("a change of a page");
            latch.abandon();
        } else if self.changed {
            latch.release_exclusive()
        } else {
            latch.release_unchanged()
        }
    }
}

impl Frames {
    /// A damaged page as an error, which says where the page was written last.
    #[cold]
    pub(crate) fn damaged(&self, pid: PageId, what: &str) -> Error {
        let place = match self.table.load(pid) {
            Word::Resident(frame) => match self.pool.frame(frame).place.load(Ordering::Relaxed) {
                MOVING => Place::FREE,
                place => Place::from_bits(place),
            },
            Word::Loading(place) | Word::Out(place) => place,
        };
        let offset = place
            .slot()
            .map(|slot| DATA_START + slot * self.common.page_bytes() as u64);
        Error::corrupt(DATA_FILE, offset, format!("{pid}: {what}"))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::testing::store;

    /// A thread has looked up where a page is, and before it gets the latch another page is there, which
    /// another thread holds: waiting for that one could last for ever, since its holder may wait for a page
    /// of the first.
    #[test]
    fn nobody_waits_for_another_page_than_it_meant() {
        let store = store();
        let (door, frames) = (store.enter().unwrap(), store.storage().frames());
        let other = store.allocate(&door, Class::Cold).unwrap();
        let frame = frames.resident(other.pid()).unwrap();
        let meant = PageId(other.pid().0 + 1);
        let answer = frames.exclusive_in(frame, meant, &door).err();
        assert!(matches!(answer, Some(Retry::Conflict)));
        let answer = frames.shared_in(frame, meant).err();
        assert!(matches!(answer, Some(Retry::Conflict)));
        drop(other);
    }
}
