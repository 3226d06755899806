//! The checkpoint: a consistent cut of all pages, made durable while work goes on.
//!
//! 1. The gate closes for an instant: the map's layers move on, the epoch rises, the log position is
//!    noted.
//! 2. Every page that was dirty at the cut is written as it was then, to free slots.
//! 3. The changes of the page map go to the map file; data and map file are synced.
//! 4. The superblock is written and synced. Only then are the replaced slots free.
//!
//! Up to step 4 anything that fails aborts the checkpoint and nothing is lost. From the first write
//! of the superblock on, a failure poisons the store: it is not known which image is durable.

use std::time::{Duration, Instant};

use terrace_base::{Error, PageId, Result};

use crate::disk::Storage;
use crate::frames::Frames;
use crate::frames::copy::Purpose;
use crate::map::superblock::{EPOCH_LIMIT, NUMBER_LIMIT};
use crate::map::{MapFile, STEP};
use crate::parts::common::Common;
use crate::parts::counters::Count;
use crate::parts::durable::{CheckpointMeta, Durable};
use crate::parts::large::Large;
use crate::parts::pace::Pace;
use crate::parts::undo::page_memory;

/// How a checkpoint went.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointReport {
    /// Its generation.
    pub generation: u64,
    /// Pages written for it.
    pub pages: u64,
    /// Of them hot ones.
    pub hot_pages: u64,
    /// Time until no thread was inside the gate.
    pub drained: Duration,
    /// Time the gate was closed, draining included.
    pub closed: Duration,
    /// The whole of it.
    pub total: Duration,
}

/// Until the checkpoint is over.
struct ReservedAhead<'s>(&'s Frames);

impl Drop for ReservedAhead<'_> {
    fn drop(&mut self) {
        self.0.end_lending();
    }
}

/// A checkpoint that is being made, at this pace.
pub(crate) struct Checkpoint<'s> {
    pub storage: &'s Storage,
    pub pace: Pace<'s>,
}

/// A gentle checkpoint looks so often, while it leaves the device to others, whether it must go on.
const SLICE: Duration = Duration::from_millis(2);

/// Of the frames of which something was saved, one part in this many is chosen at a time, those of which most
/// was.
const URGENT_PART: u64 = 32;

impl Checkpoint<'_> {
    fn frames(&self) -> &Frames {
        self.storage.frames()
    }

    fn common(&self) -> &Common {
        self.storage.common()
    }

    /// Pages to write at once.
    fn batch(&self) -> usize {
        let common = self.common();
        self.pace
            .batch(common.layout.write_batch, common.page_bytes())
    }

    /// Makes it; see [`crate::PageStore::checkpoint_then`].
    pub fn make(
        &self,
        large: &Large,
        at_cut: &mut dyn FnMut() -> CheckpointMeta,
        durable_soon: &mut dyn FnMut() -> Result<()>,
        durable_now: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<CheckpointReport> {
        let storage = self.storage;
        let (frames, common) = (self.frames(), self.common());
        common.check_writable()?;
        let _watch = common.watch("a checkpoint");
        let mut durable = storage.durable();
        common.health.check_poison()?;
        frames.lock_map().health()?;
        if durable.epoch >= EPOCH_LIMIT || durable.superblock.generation + 1 >= NUMBER_LIMIT {
            return Err(Error::invalid(
                "the database has made as many checkpoints as its format has numbers for; save it with `terrace dump` and load it into a new one",
            ));
        }
        let start = Instant::now();
        frames.cut().set_sparing(self.pace.is_sparing());
        frames.lend_for_cut();
        let _lent = ReservedAhead(frames);
        let before = [
            &common.counters.checkpoint_page_writes,
            &common.counters.checkpoint_hot_writes,
        ]
        .map(Count::get);
        let no_unlinked_pages = large.cut();
        let (begun, drained, closed) = storage.gate().closed(|epoch| {
            // Before the gate opens again.
            let _watch = common.watch("the cut of a checkpoint");
            // An operation that failed halfway poisoned before it came out: no cut may have it.
            common.health.check_poison()?;
            frames.lock_map().begin_cut(u64::from(epoch))?;
            frames.cut().set_epoch(epoch);
            Ok::<_, Error>((at_cut(), epoch, frames.page_numbers()))
        });
        drop(no_unlinked_pages);
        let (info, epoch, pages) = begun?;
        let _over = frames.cut().progress.begin(
            common.counters.dirty.get(),
            common.counters.checkpoint_page_writes.get(),
        );
        let prepared = self
            .write_cut(epoch)
            .and_then(|()| self.seal())
            .and_then(|()| storage.write_some_map(&durable, &info, epoch, pages))
            .and_then(|prepared| durable_soon().map(|()| prepared));
        let (superblock, map_file) = match prepared {
            Ok(prepared) => prepared,
            Err(e) => {
                if !common.health.is_poisoned() {
                    frames.abort_cut().map_err(|e| common.poison(&e))?;
                }
                return Err(e);
            }
        };
        // What the log lost meanwhile, or an operation left half done, must not become durable this way.
        common.health.check_poison()?;
        storage.write_superblock(&superblock)?;
        let retired = (superblock.map.number != durable.superblock.map.number)
            .then(|| MapFile::name(durable.superblock.map.number));
        *durable = Durable {
            superblock,
            epoch: epoch + 1,
            map_file,
        };
        durable_now(durable.superblock.generation)
            .and_then(|()| self.complete())
            .map_err(|e| common.poison(&e))?;
        common.counters.checkpoints.add(1);
        storage.give_back(retired.as_deref(), &durable);
        common.signals.note_progress();
        let [pages, hot_pages] = [
            common.counters.checkpoint_page_writes.get() - before[0],
            common.counters.checkpoint_hot_writes.get() - before[1],
        ];
        Ok(CheckpointReport {
            generation: durable.superblock.generation,
            pages,
            hot_pages,
            drained,
            closed,
            total: start.elapsed(),
        })
    }

    /// Step 2: until no frame owes its content at the cut. Cold pages go first: they are few where there
    /// are two tiers, and the cleaner has to leave alone what was changed and is still owed.
    fn write_cut(&self, cut: u32) -> Result<()> {
        let (batch, frames) = (self.batch(), self.frames());
        let mut picks = Vec::with_capacity(batch);
        let mut hot_too = false;
        frames.cut().set_cleaning_waits(false);
        let owed = self.common().counters.dirty.get() * self.common().page_bytes() as u64;
        self.storage.note_cut_space();
        frames.cut().plan_to_write(owed);
        loop {
            let mut owed = !hot_too;
            let mut index = 0;
            while u64::from(index) < self.common().frames() {
                self.common().health.check_poison()?;
                self.write_urgent(cut, &mut picks)?;
                picks.clear();
                index = frames.pick_owed(cut, hot_too, index, batch, &mut picks);
                owed |= !picks.is_empty();
                self.write_paced(&picks)?;
            }
            // From here on hardly any of the pages that the cleaner cleans is owed.
            frames.cut().set_cleaning_waits(false);
            hot_too = true;
            owed |= self.write_freed(cut, 0)?;
            if !owed {
                frames.cut().set_epoch(0);
                frames.cut().progress.all_written();
                return Ok(());
            }
        }
    }

    /// While writers have saved much, the pages that they saved it for go first.
    fn write_urgent(&self, cut: u32, picks: &mut Vec<u32>) -> Result<()> {
        let undo = self.frames().undo();
        let leave = self.common().layout.undo_bytes / 2;
        let batch = self.batch();
        while undo.bytes() > leave {
            self.write_freed(cut, leave)?;
            picks.clear();
            // To find them is a look at all of them, so it is done for a good part of them at once.
            let most = (undo.frames() / URGENT_PART) as usize;
            undo.fullest_frames(picks, most.max(self.common().layout.write_batch));
            let mut done = 0;
            for picks in picks.chunks(batch) {
                if undo.bytes() <= leave {
                    return Ok(());
                }
                self.common().health.check_poison()?;
                done += self.write_and_pause(picks)?;
            }
            if done == 0 {
                // What is left is being written by the cleaner.
                break;
            }
        }
        Ok(())
    }

    fn write_paced(&self, picks: &[u32]) -> Result<()> {
        if !picks.is_empty() && self.write_and_pause(picks)? == 0 {
            // All of them are being written by the cleaner.
            self.common().signals.wait_for_progress();
        }
        Ok(())
    }

    /// Writes these pages as they were at the cut, and leaves the device to others for as long as the
    /// pace says.
    fn write_and_pause(&self, picks: &[u32]) -> Result<usize> {
        let start = Instant::now();
        let done = self.storage.write_pages(picks, Purpose::ActiveCheckpoint)?;
        self.common().signals.note_progress();
        self.leave_device(done, start);
        Ok(done)
    }

    /// Leaves the device to others after a write of `pages` pages that began at `start`, for as long as the pace
    /// says.
    fn leave_device(&self, pages: usize, start: Instant) {
        let bytes = (pages * self.common().page_bytes()) as u64;
        if pages == 0 {
            return;
        }
        let written = Instant::now();
        loop {
            let whole = self.pause(bytes, written - start);
            let left = whole.saturating_sub(written.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    fn seal(&self) -> Result<()> {
        while !self.frames().lock_map().seal_step(STEP)? {}
        Ok(())
    }

    fn complete(&self) -> Result<()> {
        loop {
            let mut map = self.frames().lock_map();
            let done = map.complete_step(self.frames(), STEP)?;
            self.frames().note_slots(&map);
            drop(map);
            self.storage.keep_pins_small();
            if done {
                return Ok(());
            }
        }
    }

    /// Writes the pages that were freed after the cut, many at a time, until no more than `leave` bytes
    /// are saved; tells whether there were any. On failure they are all kept.
    fn write_freed(&self, epoch: u32, leave: u64) -> Result<bool> {
        let (most, undo) = (self.batch(), self.frames().undo());
        let mut any = false;
        let mut copies: Vec<(PageId, Box<[u8]>)> = Vec::new();
        loop {
            let mut bytes: u64 = copies.iter().map(|(_, page)| page_memory(page)).sum();
            while copies.len() < most && undo.bytes() > leave + bytes {
                let Some(copy) = undo.take_page() else {
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
            match self.storage.write_copies(&copies, epoch) {
                Ok(done) => {
                    self.common().counters.dirty.sub(done as u64);
                    for (_, page) in copies.drain(..done) {
                        undo.page_done(page);
                    }
                    self.common().signals.note_progress();
                    self.leave_device(done, start);
                }
                Err(e) => {
                    for (pid, page) in copies {
                        undo.keep_page(pid, page);
                    }
                    return Err(e);
                }
            }
        }
    }
}
