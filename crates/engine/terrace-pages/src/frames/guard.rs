//! Holding a page: optimistically, shared, exclusively.
//!
//! A guard releases its latch when dropped. Only an [`Exclusive`] can change a page, and it can be
//! had only by whoever is inside the gate (has a [`Door`]), so that no change falls into a cut.

use std::marker::PhantomData;

use terrace_base::sync::atomic::Ordering;
use terrace_base::sync::panicking;
use terrace_base::{Error, PageId};

use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::enter::door::Door;
use crate::enter::interrupt::{Attempt, Interrupt};
use crate::frames::frame::{CUT_PENDING, Class, Frame, MOVING, NO_PAGE};
use crate::frames::latch::Version;
use crate::frames::view::View;
use crate::map::Place;
use crate::store::PageStore;
use crate::table::Word;

/// A page that is being read without any latch. What is read must be validated before it is
/// believed.
pub struct Optimistic<'a> {
    pub(crate) store: &'a PageStore,
    pub(crate) frame: u32,
    pub(crate) pid: PageId,
    pub(crate) version: Version,
}

impl<'a> Optimistic<'a> {
    fn header(&self) -> &'a Frame {
        self.store.pool.frame(self.frame)
    }

    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// The frame that the page is in, for [`PageStore::optimistic_in`].
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// The bytes, which may be garbage until [`Optimistic::validate`] agrees.
    #[inline]
    pub fn view(&self) -> View<'a> {
        self.store.pool.view(self.frame)
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
            Err(Interrupt::Conflict)
        }
    }

    /// What to answer when the bytes made no sense: `Conflict` if the page changed meanwhile, or
    /// else the page is really damaged.
    #[cold]
    pub fn torn(&self, what: &str) -> Interrupt {
        if self.is_valid() {
            Interrupt::Fail(self.store.damaged(self.pid, what))
        } else {
            Interrupt::Conflict
        }
    }

    /// The same page under a shared latch, if nothing has changed. Does not wait.
    pub fn upgrade_shared(self) -> Attempt<Shared<'a>> {
        let latch = &self.header().latch;
        if !latch.try_shared() {
            return Err(Interrupt::Conflict);
        }
        let shared = Shared {
            store: self.store,
            frame: self.frame,
            pid: self.pid,
        };
        if latch.validate(self.version) {
            Ok(shared)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// The same page under the exclusive latch, if nothing has changed and nobody holds it. Does
    /// not wait.
    pub fn upgrade_exclusive<'d>(self, door: &'d Door<'a>) -> Attempt<Exclusive<'d>>
    where
        'a: 'd,
    {
        if self.header().latch.upgrade(self.version) {
            Ok(Exclusive::held(self.store, self.frame, self.pid, door))
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// Raises or sets hint bits: replaces the two bytes at `at` (even) with what `f` makes of them,
    /// under a shared latch that is only tried. Never marks the page as changed. Returns whether
    /// it was done.
    pub fn hint(&self, at: usize, f: impl FnMut(u16) -> Option<u16>) -> bool {
        let latch = &self.header().latch;
        if !latch.try_shared() {
            return false;
        }
        let shared = Shared {
            store: self.store,
            frame: self.frame,
            pid: self.pid,
        };
        latch.validate(self.version) && shared.hint(at, f)
    }
}

/// A page under the shared latch: it stays as it is (hint bits aside) while the guard lives.
pub struct Shared<'a> {
    pub(crate) store: &'a PageStore,
    pub(crate) frame: u32,
    pub(crate) pid: PageId,
}

impl Shared<'_> {
    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// The bytes.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.store.pool.view(self.frame)
    }

    /// See [`Optimistic::hint`].
    pub fn hint(&self, at: usize, mut f: impl FnMut(u16) -> Option<u16>) -> bool {
        let Some(word) = self.store.pool.hint(self.frame, at) else {
            return false;
        };
        word.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |w| f(u16::from_le(w)).map(u16::to_le),
        )
        .is_ok()
    }

    /// The page is latched, so bytes that make no sense are damage.
    #[cold]
    pub fn torn(&self, what: &str) -> Interrupt {
        Interrupt::Fail(self.store.damaged(self.pid, what))
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
        self.store.pool.frame(self.frame).latch.release_shared();
    }
}

/// A place to look at a page again without searching for it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) frame: u32,
    pub(crate) pid: PageId,
}

/// A page under the exclusive latch.
pub struct Exclusive<'d> {
    store: &'d PageStore,
    frame: u32,
    pid: PageId,
    epoch: u32,
    changed: bool,
    /// As that of its door.
    unwinding: bool,
    _inside: PhantomData<&'d Door<'d>>,
}

impl<'d> Exclusive<'d> {
    /// Wraps a latch that the caller has just taken.
    pub(crate) fn held<'a: 'd>(
        store: &'a PageStore,
        frame: u32,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Exclusive<'d> {
        Exclusive {
            store,
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
        store: &'a PageStore,
        frame: u32,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Exclusive<'d> {
        let mut guard = Exclusive::held(store, frame, pid, door);
        guard.changed = true;
        guard
    }

    fn header(&self) -> &'d Frame {
        self.store.pool.frame(self.frame)
    }

    /// The page's number.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// Moves the page to another class, in its header and in the accounts.
    pub fn set_class(&mut self, class: Class) -> Attempt<()> {
        self.change(crate::frames::page::CLASS_AT, 1)?[0] = class as u8;
        self.store.uncount_class(self.frame, self.class());
        self.header().class.store(class as u8, Ordering::Relaxed);
        self.store.count_class(self.frame, class);
        Ok(())
    }

    /// The page's class.
    pub fn class(&self) -> Class {
        self.header().class()
    }

    /// The bytes, through the same accessors as all readers use.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.store.pool.view(self.frame)
    }

    /// The bytes as a slice.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: this guard holds the exclusive latch, and the borrow of `self` keeps `change`
        // away while the slice lives.
        unsafe { self.store.pool.bytes(self.frame) }
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
            self.store.undo.save(self.frame, at, old);
        }
        Ok(self.raw(at, len))
    }

    /// The `len` bytes at `at`, to be filled; what they were means nothing to anybody (free space
    /// of the page), so nothing is kept of it.
    #[inline]
    pub fn fill(&mut self, at: usize, len: usize) -> Attempt<&mut [u8]> {
        self.touch(at, len)?;
        Ok(self.raw(at, len))
    }

    /// Changes hint bits, as readers do: the page does not become dirty. See [`Optimistic::hint`].
    pub fn hint(&mut self, at: usize, mut f: impl FnMut(u16) -> Option<u16>) -> bool {
        let Some(word) = self.store.pool.hint(self.frame, at) else {
            return false;
        };
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        word.fetch_update(relaxed, relaxed, |w| f(u16::from_le(w)).map(u16::to_le))
            .is_ok()
    }

    /// The whole page, to be rewritten (split, merge, compaction).
    #[inline]
    pub fn change_all(&mut self) -> Attempt<&mut [u8]> {
        self.change(0, self.store.page_bytes())
    }

    fn raw(&mut self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: this guard holds the exclusive latch and is borrowed mutably while the slice
        // lives.
        let page = unsafe { self.store.pool.bytes_mut(self.frame) };
        &mut page[at..at + len]
    }

    /// Before the first change: the page becomes dirty in this epoch, and if the checkpoint still
    /// needs its content at the cut, the undo begins here.
    #[inline]
    fn touch(&mut self, at: usize, len: usize) -> Attempt<()> {
        if at
            .checked_add(len)
            .is_none_or(|end| end > self.store.page_bytes())
        {
            return Err(self.torn("a range ends past the page"));
        }
        if !self.changed {
            self.changed = true;
            crate::faults::changing();
            let header = self.header();
            let dirty = header.dirty.load(Ordering::Relaxed);
            if dirty != self.epoch {
                if dirty == 0 {
                    self.store.counters.dirty.fetch_add(1, Ordering::Relaxed);
                } else if dirty <= self.store.cut.epoch() {
                    header.set(CUT_PENDING);
                    // One more page write is owed: that of the content at the cut.
                    self.store.counters.dirty.fetch_add(1, Ordering::Relaxed);
                }
                header.dirty.store(self.epoch, Ordering::Release);
            }
        }
        Ok(())
    }

    /// The page is latched, so bytes that make no sense are damage.
    #[cold]
    pub fn torn(&self, what: &str) -> Interrupt {
        Interrupt::Fail(self.store.damaged(self.pid, what))
    }

    /// Gives the page back to the store: its number may be used again at once. An optimistic
    /// reader that is still on it will fail to validate.
    pub fn free(mut self) {
        self.changed = true;
        self.store.release_page(self.frame, self.pid, self.epoch);
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
            // Nobody may see what is perhaps half changed.
            self.store.halt("a change of a page");
            latch.abandon();
        } else if self.changed {
            latch.release_exclusive()
        } else {
            latch.release_unchanged()
        }
    }
}

impl PageStore {
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
            .map(|slot| DATA_START + slot * self.page_bytes() as u64);
        Error::corrupt(DATA_FILE, offset, format!("{pid}: {what}"))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::checkpoints::checkpoint::CutInfo;
    use crate::map::superblock::LEARNT_BYTES;
    use crate::options::StoreOptions;
    use terrace_sim::SimDisk;

    /// Somebody has looked up where a page is, and before it gets the latch another page is there, which
    /// somebody else holds: waiting for that one could last for ever, since its holder may wait for a page
    /// of the first.
    #[test]
    fn nobody_waits_for_another_page_than_it_meant() {
        let info = CutInfo {
            log_position: [0; 24],
            learnt: [0; LEARNT_BYTES],
            next_structure: 1,
            next_sequence: 1,
            catalog_root: PageId::NONE,
            clean: false,
        };
        let options = StoreOptions {
            page_bytes: 4096,
            ..StoreOptions::new(1 << 20)
        };
        let store = PageStore::create(SimDisk::new(1).shared(), options, 1, &info).unwrap();
        let door = store.enter().unwrap();
        let other = store.allocate(&door, Class::Cold).unwrap();
        let frame = store.resident(other.pid()).unwrap();
        let meant = PageId(other.pid().0 + 1);
        let answer = store.exclusive_in(frame, meant, &door).err();
        assert!(matches!(answer, Some(Interrupt::Conflict)));
        let answer = store.shared_in(frame, meant).err();
        assert!(matches!(answer, Some(Interrupt::Conflict)));
        drop(other);
    }
}
