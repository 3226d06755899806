//! Page writes: out of place, many at a time, from private copies.
//!
//! A page is copied under its shared latch into a batch buffer, its hints as they happen to be, its
//! checksum is computed there, the batch goes to one run of free slots, and only then is each page
//! registered, if it is still what was copied. Nobody's latch is held during the write.

use std::time::Instant;

use terrace_base::sync::atomic::Ordering;
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::faults::{Planted, planted};
use crate::frames::frame::{CUT_PENDING, Class, Frame, NO_PAGE, WRITING};
use crate::frames::latch::Version;
use crate::frames::page;
use crate::map::{PageMap, Place, Registered, Words};
use crate::parts::pace::Pace;
use crate::parts::undo::page_memory;
use crate::store::PageStore;

/// Why pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To make frames clean: the current content.
    Clean,
    /// For the checkpoint: the content at the cut.
    Cut,
}

/// One page in a batch.
struct Copied {
    frame: u32,
    pid: PageId,
    /// Epoch of the content that was copied.
    epoch: u32,
    version: Version,
    check: u16,
}

impl PageStore {
    /// Writes a batch of dirty cold pages that the clock comes to next; returns how many pages
    /// became clean. The caller holds nothing.
    pub(crate) fn clean_some(&self) -> Result<usize> {
        self.check_poison()?;
        let hot_too = self.hot_pages_may_leave();
        let keeps_tops = self.keeps_tops();
        let start = self.clock.clean_hand.load(Ordering::Relaxed);
        let mut picks = Vec::with_capacity(self.layout.write_batch);
        let mut owed = false;
        for pass in 0..2 {
            for index in self.pool.round(start, hot_too) {
                let header = self.pool.frame(index);
                if header.dirty.load(Ordering::Relaxed) != 0
                    && (pass == 1 || header.used.load(Ordering::Relaxed) == 0)
                    && !header.has(WRITING)
                    && !(keeps_tops && header.class() == Class::Top)
                {
                    if header.has(CUT_PENDING) {
                        owed = true;
                        continue;
                    }
                    picks.push(index);
                    if picks.len() == self.layout.write_batch {
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
        let cleaned = self.write_pages(&picks, Purpose::Clean)?;
        // Pages that a checkpoint still owes can be cleaned once it has them.
        self.cut.set_cleaning_waits(owed && cleaned == 0);
        self.note_progress();
        Ok(cleaned)
    }

    /// Writes these frames' pages in batches; returns how many were registered.
    pub(crate) fn write_pages(&self, picks: &[u32], purpose: Purpose) -> Result<usize> {
        if picks.is_empty() {
            return Ok(0);
        }
        // In the order of their numbers: who reads such pages one after the other finds them side by side.
        let mut picks = picks.to_vec();
        for batch in picks.chunks_mut(self.layout.write_batch) {
            batch.sort_by_cached_key(|frame| self.pool.frame(*frame).page.load(Ordering::Relaxed));
        }
        let mut picks = picks.as_slice();
        let enters = match purpose {
            Purpose::Clean => planted(Planted::CleanerEnters),
            Purpose::Cut => planted(Planted::CutWritesEnter),
        };
        let _inside = enters.then(|| self.pass_waiting());
        let mut buffer = self.write_buffers.take();
        let mut done = 0;
        let mut result = Ok(());
        while !picks.is_empty() && result.is_ok() {
            let n = picks.len().min(self.layout.write_batch);
            match self.write_batch(&picks[..n], purpose, &mut buffer) {
                Ok((consumed, registered)) => {
                    picks = &picks[consumed..];
                    done += registered;
                }
                Err(e) => result = Err(e),
            }
        }
        self.write_buffers.give(buffer);
        result.map(|()| done)
    }

    /// One run of slots, one write. Returns how many picks were consumed and how many registered.
    fn write_batch(
        &self,
        picks: &[u32],
        purpose: Purpose,
        buffer: &mut AlignedBuf,
    ) -> Result<(usize, usize)> {
        let page_bytes = self.page_bytes();
        let run = self.allocate_slots(picks.len() as u64)?;
        let mut copied: Vec<Copied> = Vec::with_capacity(run.len as usize);
        let mut consumed = 0;
        for &index in picks {
            if copied.len() as u64 == run.len {
                break;
            }
            consumed += 1;
            let at = copied.len() * page_bytes;
            let into = &mut buffer[at..at + page_bytes];
            copied.extend(self.copy_out(index, purpose, into));
        }
        let used = copied.len() as u64;
        let offset = DATA_START + run.first * page_bytes as u64;
        let written = if used == 0 {
            Ok(())
        } else {
            self.counters.page_writes.fetch_add(used, Ordering::Relaxed);
            self.data
                .write_at(&buffer[..used as usize * page_bytes], offset)
        };
        {
            let mut map = self.map.lock();
            for slot in run.first + used..run.first + run.len {
                map.release(slot);
            }
            self.note_slots(&map);
        }
        if let Err(e) = written {
            // The slots were reserved, so this is no lack of space that could pass.
            for c in &copied {
                self.end_writing(c, |_| {});
            }
            return Err(self.poison(&Error::io("writing", DATA_FILE, e)));
        }
        let mut registered = 0;
        for (i, c) in copied.iter().enumerate() {
            let slot = run.first + i as u64;
            registered += usize::from(match purpose {
                Purpose::Clean => self.register_clean(c, slot),
                Purpose::Cut => self.register_cut(c, slot),
            });
        }
        Ok((consumed, registered))
    }

    /// Copies a frame's page into `into` and completes the copy; `None` if there is nothing to
    /// write.
    fn copy_out(&self, index: u32, purpose: Purpose, into: &mut [u8]) -> Option<Copied> {
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
            Purpose::Cut => pending || (dirty != 0 && dirty <= cut),
        };
        // Through the view, because hint bits may change under the shared latch.
        if !wanted || self.pool.view(index).copy_to(0, into).is_err() {
            header.clear(WRITING);
            header.latch.release_shared();
            return None;
        }
        let mut epoch = dirty;
        if purpose == Purpose::Cut {
            epoch = cut;
            if pending {
                if planted(Planted::UndoNotApplied) {
                    self.undo.forget(index);
                } else {
                    self.undo.apply(index, into);
                }
                header.clear(CUT_PENDING);
                self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
            } else {
                // The cut has its copy from now on: whoever changes the page next need save nothing.
                header.dirty.store(cut + 1, Ordering::Release);
            }
            self.counters
                .checkpoint_page_writes
                .fetch_add(1, Ordering::Relaxed);
            if header.class() == Class::Hot {
                self.counters
                    .checkpoint_hot_writes
                    .fetch_add(1, Ordering::Relaxed);
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
    fn end_writing(&self, c: &Copied, f: impl FnOnce(bool)) {
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
            self.free_frames.lock().push(c.frame);
        }
    }

    /// The current content was written: the page is clean if nobody has changed it meanwhile.
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
                        self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
                        registered = true;
                    }
                    Registered::Late => {}
                    Registered::Refused => map.release(slot),
                }
            } else {
                map.release(slot);
                self.counters
                    .discarded_writes
                    .fetch_add(1, Ordering::Relaxed);
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
                        self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
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
            self.poison(&Error::Poisoned {
                cause: format!("the place of {pid} changed by itself"),
            });
        }
    }

    /// Writes the pages that were freed after the cut, many at a time, until no more than `leave` bytes
    /// are saved; tells whether there were any. On failure they are all kept.
    pub(crate) fn write_freed(&self, epoch: u32, leave: u64, pace: Pace) -> Result<bool> {
        let most = pace.batch(self.layout.write_batch, self.page_bytes());
        let mut any = false;
        let mut copies: Vec<(PageId, Box<[u8]>)> = Vec::new();
        loop {
            let mut bytes: u64 = copies.iter().map(|(_, page)| page_memory(page)).sum();
            while copies.len() < most && self.undo.bytes() > leave + bytes {
                let Some(copy) = self.undo.take_page() else {
                    break;
                };
                bytes += page_memory(&copy.1);
                copies.push(copy);
            }
            if copies.is_empty() {
                return Ok(any);
            }
            any = true;
            let start = Instant::now();
            match self.write_copies(&copies, epoch) {
                Ok(done) => {
                    self.counters
                        .dirty
                        .fetch_sub(done as u64, Ordering::Relaxed);
                    for (_, page) in copies.drain(..done) {
                        self.undo.page_done(page);
                    }
                    self.note_progress();
                    self.leave_device(done, start, pace);
                }
                Err(e) => {
                    for (pid, page) in copies {
                        self.undo.keep_page(pid, page);
                    }
                    return Err(e);
                }
            }
        }
    }

    /// Writes the first of these pages, as many as there is a run of slots for; returns how many.
    fn write_copies(&self, copies: &[(PageId, Box<[u8]>)], epoch: u32) -> Result<usize> {
        let run = self.allocate_slots(copies.len() as u64)?;
        let copies = &copies[..run.len as usize];
        let page_bytes = self.page_bytes();
        let mut buffer = self.write_buffers.take();
        let into = &mut buffer[..copies.len() * page_bytes];
        let mut checks = Vec::with_capacity(copies.len());
        for ((pid, copy), into) in copies.iter().zip(into.chunks_exact_mut(page_bytes)) {
            into.copy_from_slice(copy);
            checks.push(page::seal(into, *pid, epoch));
        }
        for counter in [
            &self.counters.page_writes,
            &self.counters.checkpoint_page_writes,
        ] {
            counter.fetch_add(run.len, Ordering::Relaxed);
        }
        let written = self
            .data
            .write_at(into, DATA_START + run.first * page_bytes as u64);
        self.write_buffers.give(buffer);
        if let Err(e) = written {
            return Err(self.poison(&Error::io("writing", DATA_FILE, e)));
        }
        let mut map = self.map.lock();
        for (slot, ((pid, _), check)) in (run.first..).zip(copies.iter().zip(checks)) {
            let newest = self.place(*pid);
            match map.register(*pid, newest, slot, check, u64::from(epoch)) {
                Registered::Newest(place) => self.store_place(*pid, newest, place),
                Registered::Late => {}
                Registered::Refused => map.release(slot),
            }
        }
        self.note_slots(&map);
        Ok(copies.len())
    }
}
