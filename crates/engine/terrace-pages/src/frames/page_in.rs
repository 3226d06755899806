//! Taking a page that is not in memory, to fill a frame with it.

use terrace_base::sync::atomic::Ordering;
use terrace_base::{PageId, Result};

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::Class;
use crate::frames::page;
use crate::frames::table::Word;
use crate::map::Place;
use crate::parts::cause::Came;

/// A page that a thread has taken to read it. Whoever waits for the page looks again when this goes: the page is
/// in memory then, or where it was, also after a panic.
pub(crate) struct Claimed<'s> {
    frames: &'s Frames,
    pub pid: PageId,
    pub place: Place,
    pub slot: u64,
    frame: u32,
    is_in: bool,
}

impl<'s> Claimed<'s> {
    /// What the page is read into.
    ///
    /// # Safety
    /// At most one at a time, and none is used after [`Claimed::put_in`].
    pub(crate) unsafe fn bytes(&self) -> &'s mut [u8] {
        // SAFETY: the frame was taken off the free list or emptied by this thread, so it is this
        // thread's alone: whoever comes here with an outdated word finds no page and lets go. No
        // latch is needed, and none is held during the read, so that no thread waits for a disk here.
        unsafe { self.frames.pool.bytes_mut(self.frame) }
    }

    /// The page is in this frame from now on, with this use count at least.
    pub(crate) fn put_in(mut self, class: Class, uses: u8) -> Result<()> {
        let (frames, pid) = (self.frames, self.pid);
        let header = frames.pool.frame(self.frame);
        if !header.latch.exclusive_while(|| !frames.is_halted()) {
            return frames.common.health.check_poison();
        }
        header.class.store(class as u8, Ordering::Relaxed);
        let leads = u8::from(matches!(class, Class::Inner | Class::Top));
        header.begin(uses.max(leads), Came::now());
        header.dirty.store(0, Ordering::Release);
        frames.count_class(self.frame, class);
        header.page.store(pid.0, Ordering::Release);
        // The place may be retagged while the word still shows it, so it is taken from there.
        while let Word::Loading(now) = frames.table.load(pid) {
            header.place.store(now.bits(), Ordering::Release);
            let word = Word::Resident(self.frame);
            if frames.table.swap(pid, Word::Loading(now), word) {
                break;
            }
        }
        header.latch.release_exclusive();
        self.is_in = true;
        Ok(())
    }

    /// A page with nothing on it is there from now on, whatever it was.
    pub(crate) fn put_in_empty(self) -> Result<()> {
        // SAFETY: these are the only ones, and gone before the page is in.
        let bytes = unsafe { self.bytes() };
        bytes.fill(0);
        page::begin(bytes, self.pid, Class::Cold);
        self.put_in(Class::Cold, 0)
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if !self.is_in && !planted(Planted::ClaimsAreLost) {
            self.frames.give_up_loading(self.pid);
            self.frames.give(self.frame);
        }
        self.frames.end_of_read(self.pid);
    }
}

impl Frames {
    /// Takes a page that is not in memory for this thread to read it into this frame, which is given back if
    /// another thread was faster.
    pub(crate) fn claim(&self, pid: PageId, place: Place, frame: u32) -> Option<Claimed<'_>> {
        let slot = place.slot();
        let taken = slot.is_some() && self.table.swap(pid, Word::Out(place), Word::Loading(place));
        match slot {
            Some(slot) if taken => Some(Claimed {
                frames: self,
                pid,
                place,
                slot,
                frame,
                is_in: false,
            }),
            _ => {
                self.give(frame);
                None
            }
        }
    }

    /// Whoever waits for this page looks again.
    pub(super) fn end_of_read(&self, pid: PageId) {
        let (lock, signal) = self.common.signals.read_of(pid);
        drop(lock.lock());
        signal.notify_all();
    }

    /// The page stays where it was, whatever its place is called by now.
    fn give_up_loading(&self, pid: PageId) {
        while let Word::Loading(place) = self.table.load(pid) {
            if self.table.swap(pid, Word::Loading(place), Word::Out(place)) {
                return;
            }
        }
    }
}
