//! Copying pages that are to be written, and noting where they were written; and which of them a checkpoint is owed.
//!
//! Invariants: a page is registered only if it is still what was copied; the frame of one that is being written goes
//! to no other page before that.

use std::ops::Range;

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::{CUT_PENDING, Class, Frame, NO_PAGE, WRITING};
use crate::frames::latch::Version;
use crate::frames::page;
use crate::map::{PageMap, Place, Registered, STEP, Words};

/// Why pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To make frames clean: the current content.
    Clean,
    /// For the checkpoint: the content at the cut.
    ActiveCheckpoint,
}

/// One page in a batch.
pub(crate) struct Copied {
    frame: u32,
    pid: PageId,
    /// Epoch of the content that was copied.
    epoch: u32,
    version: Version,
    check: u16,
}

impl Frames {
    /// The page of a frame, for who sorts frames by it.
    pub(crate) fn page_in(&self, frame: u32) -> u64 {
        self.pool.frame(frame).page.load(Ordering::Relaxed)
    }

    /// Copies a frame's page into `into` and completes the copy; `None` if there is nothing to
    /// write.
    pub(crate) fn copy_out(&self, index: u32, purpose: Purpose, into: &mut [u8]) -> Option<Copied> {
        let header = self.pool.frame(index);
        if !self.latch_shared(header) {
            return None;
        }
        let pid = PageId(header.page.load(Ordering::Acquire));
        // Claimed before anything is looked at: another writer, who may hold the latch shared, too,
        // would change it.
        if pid.0 == NO_PAGE || !header.claim(WRITING) {
            header.latch.release_shared();
            return None;
        }
        let dirty = header.dirty.load(Ordering::Acquire);
        let cut = self.cut.epoch();
        let pending = header.has(CUT_PENDING);
        let wanted = match purpose {
            Purpose::Clean => dirty != 0 && !pending,
            Purpose::ActiveCheckpoint => pending || (dirty != 0 && dirty <= cut),
        };
        // Through the view, because hint bits may change under the shared latch.
        if !wanted || self.pool.view(index).copy_to(0, into).is_err() {
            header.clear(WRITING);
            header.latch.release_shared();
            return None;
        }
        let mut epoch = dirty;
        if purpose == Purpose::ActiveCheckpoint {
            epoch = cut;
            if pending {
                if planted(Planted::UndoNotApplied) {
                    self.undo.forget(index);
                } else {
                    self.undo.apply(index, into);
                }
                header.clear(CUT_PENDING);
                self.common.counters.dirty.sub(1);
            } else {
                // The cut has its copy from now on: whoever changes the page next need save nothing.
                header.dirty.store(cut + 1, Ordering::Release);
            }
            self.common.counters.checkpoint_page_writes.add(1);
            if header.class() == Class::Hot {
                self.common.counters.checkpoint_hot_writes.add(1);
            }
        }
        // A page whose undo was applied stays dirty with what came after the cut.
        let version = if pending {
            Version::NEVER
        } else {
            header.latch.version()
        };
        header.latch.release_shared();
        let check = page::seal(into, pid, epoch);
        Some(Copied {
            frame: index,
            pid,
            epoch,
            version,
            check,
        })
    }

    /// Waits for the shared latch; `false` where it is held for ever, because the store is halted.
    fn latch_shared(&self, header: &Frame) -> bool {
        header.latch.shared_while(|| !self.is_halted())
    }

    /// Ends the write of one page: `f` gets the header while the latch is held shared and tells what
    /// to do; then the frame is free for other writes.
    pub(crate) fn end_writing(&self, c: &Copied, f: impl FnOnce(bool)) {
        let header = self.pool.frame(c.frame);
        if !self.latch_shared(header) {
            return;
        }
        let page = header.page.load(Ordering::Acquire);
        let unchanged = header.latch.version() == c.version || planted(Planted::CleanThoughChanged);
        f(page == c.pid.0 && unchanged);
        header.clear(WRITING);
        header.latch.release_shared();
        if page == NO_PAGE {
            // Freed during the write; whoever freed it left the frame to us.
            self.give(c.frame);
        }
    }

    /// The copy was written to this slot. Whether it is registered now.
    pub(crate) fn register_copy(&self, c: &Copied, slot: u64, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Clean => self.register_clean(c, slot),
            Purpose::ActiveCheckpoint => self.register_cut(c, slot),
        }
    }

    /// The current content was written: the page is clean if no thread has changed it meanwhile.
    fn register_clean(&self, c: &Copied, slot: u64) -> bool {
        let mut registered = false;
        self.end_writing(c, |unchanged| {
            let header = self.pool.frame(c.frame);
            let mut map = self.map.lock();
            if unchanged {
                let newest = Place::from_bits(header.place.load(Ordering::Acquire));
                match self.register(&mut map, c, newest, slot) {
                    Registered::Newest(place) => {
                        header.place.store(place.bits(), Ordering::Release);
                        header.dirty.store(0, Ordering::Release);
                        self.common.counters.dirty.sub(1);
                        registered = true;
                    }
                    Registered::Late => {}
                    Registered::Refused => map.release(slot),
                }
            } else {
                map.release(slot);
                self.common.counters.discarded_writes.add(1);
            }
            self.note_slots(&map);
        });
        registered
    }

    /// The content at the cut was written: that is registered whatever happened to the page since.
    fn register_cut(&self, c: &Copied, slot: u64) -> bool {
        let mut done = false;
        self.end_writing(c, |unchanged| {
            let mut map = self.map.lock();
            let newest = self.place(c.pid);
            match self.register(&mut map, c, newest, slot) {
                Registered::Newest(place) => {
                    self.store_place(c.pid, newest, place);
                    if unchanged {
                        let header = self.pool.frame(c.frame);
                        header.dirty.store(0, Ordering::Release);
                        self.common.counters.dirty.sub(1);
                    }
                    done = true;
                }
                Registered::Late => done = true,
                Registered::Refused => map.release(slot),
            }
            self.note_slots(&map);
        });
        done
    }

    fn register(&self, map: &mut PageMap, c: &Copied, newest: Place, slot: u64) -> Registered {
        let mut epoch = c.epoch;
        if planted(Planted::EpochAtCompletion) {
            epoch = epoch.max(self.cut.epoch() + 1);
        }
        map.register(c.pid, newest, slot, c.check, u64::from(epoch))
    }

    /// Puts a newly registered place where the page's place is kept. The map mutex is held, so
    /// nothing else can have changed it.
    fn store_place(&self, pid: PageId, newest: Place, place: Place) {
        if !self.retag(pid, newest, place) {
            self.common.poison(&Error::Poisoned {
                cause: format!("the place of {pid} changed by itself"),
            });
        }
    }

    /// Pages that were freed after the cut, as they were at it, were written to the slots from `first` on, sealed with
    /// these checks.
    pub(crate) fn register_freed(
        &self,
        pages: &[(PageId, Box<[u8]>)],
        first: u64,
        checks: &[u16],
        epoch: u32,
    ) {
        let mut map = self.map.lock();
        for (slot, ((pid, _), check)) in (first..).zip(pages.iter().zip(checks)) {
            let newest = self.place(*pid);
            match map.register(*pid, newest, slot, *check, u64::from(epoch)) {
                Registered::Newest(place) => self.store_place(*pid, newest, place),
                Registered::Late => {}
                Registered::Refused => map.release(slot),
            }
        }
        self.note_slots(&map);
    }

    /// Slots that were given out were not needed.
    pub(crate) fn release_slots(&self, slots: Range<u64>) {
        let mut map = self.map.lock();
        for slot in slots {
            map.release(slot);
        }
        self.note_slots(&map);
    }

    /// Frames from number `index` on that owe their content at this cut, `most` of them; those of hot pages only if
    /// `hot_too`. Returns where to go on.
    pub(crate) fn pick_owed(
        &self,
        cut: u32,
        hot_too: bool,
        mut index: u32,
        most: usize,
        picks: &mut Vec<u32>,
    ) -> u32 {
        while (index as usize) < self.pool.len() && picks.len() < most {
            let header = self.pool.frame(index);
            let dirty = header.dirty.load(Ordering::Acquire);
            if header.page.load(Ordering::Acquire) != NO_PAGE
                && (hot_too || header.class() != Class::Hot)
                && (header.has(CUT_PENDING) || (dirty != 0 && dirty <= cut))
            {
                picks.push(index);
            }
            index += 1;
        }
        index
    }

    /// Gives the checkpoint up: what it wrote counts as changes since the last one.
    pub(crate) fn abort_cut(&self) -> Result<()> {
        self.cut.set_epoch(0);
        for (index, header) in self.pool.iter() {
            // The latch makes sure that no thread is just about to set the flag.
            if !header.latch.shared_while(|| !self.is_halted()) {
                return self.common.health.check_poison();
            }
            if header.has(CUT_PENDING) {
                self.undo.forget(index);
                header.clear(CUT_PENDING);
                self.common.counters.dirty.sub(1);
            }
            header.latch.release_shared();
        }
        while let Some((_, page)) = self.undo.take_page() {
            self.undo.page_done(page);
            self.common.counters.dirty.sub(1);
        }
        loop {
            let mut map = self.map.lock();
            let done = map.abort_step(self, STEP)?;
            self.note_slots(&map);
            if done {
                break;
            }
        }
        self.common.signals.note_progress();
        Ok(())
    }
}
