//! The checkpoint: a consistent cut of all pages, made durable while work goes on.
//!
//! 1. The gate closes for an instant: the map's layers move on, the epoch rises, the log position is
//!    noted.
//! 2. Every page that was dirty at the cut is written as it was then, to free slots.
//! 3. The changes of the page map go to the map file; data and map file are synced.
//! 4. The superblock is written and synced. Only then are the replaced slots free.
//!
//! Up to step 4 anything that fails aborts the checkpoint and nothing is lost. From the first write
//! of the superblock on, a failure poisons the store: nobody knows which image is durable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::disk::DiskFile;
use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::disk::data_file::DATA_FILE;
use crate::disk::write::Purpose;
use crate::frames::frame::{CUT_PENDING, Class, NO_PAGE};
use crate::map::superblock::{EPOCH_LIMIT, LEARNT_BYTES, NUMBER_LIMIT};
use crate::map::{
    DeltaCursor, FoldCursor, MapFile, MapWriter, Place, STEP, Superblock, base_bytes,
    journal_bytes, should_fold,
};
use crate::parts::durable::{Durable, NextMap, Reserved, write_superblock};
use crate::parts::pace::Pace;
use crate::store::PageStore;

/// What layers above add to the superblock, as of the instant of the cut.
#[derive(Clone, Debug)]
pub struct CutInfo {
    /// Where replay begins; the log's encoding.
    pub log_position: [u8; 24],
    /// What is to be known again after the next opening, of what was learnt while running; nothing that
    /// is promised rests on it.
    pub learnt: [u8; LEARNT_BYTES],
    /// Number for the next structure.
    pub next_structure: u32,
    /// Sequence number of the first record to be replayed.
    pub next_sequence: u64,
    /// The catalog's root page.
    pub catalog_root: PageId,
    /// Whether the database is being closed and nothing will be logged after the cut.
    pub clean: bool,
}

/// How a checkpoint went.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointReport {
    /// Its generation.
    pub generation: u64,
    /// Pages written for it.
    pub pages: u64,
    /// Of them hot ones.
    pub hot_pages: u64,
    /// Time until nobody was inside the gate.
    pub drained: Duration,
    /// Time the gate was closed, draining included.
    pub closed: Duration,
    /// The whole of it.
    pub total: Duration,
}

/// Until the checkpoint is over.
struct LentAhead<'s>(&'s PageStore);

impl Drop for LentAhead<'_> {
    fn drop(&mut self) {
        self.0.end_lending();
    }
}

/// A gentle checkpoint looks so often, while it leaves the device to others, whether it must go on.
const SLICE: Duration = Duration::from_millis(2);

/// Of the frames of which something was saved, one part in so many is chosen at a time, those of which most
/// was.
const URGENT_PART: u64 = 32;

impl PageStore {
    /// Makes a checkpoint. `at_cut` runs while the gate is closed, so it must be quick. The caller
    /// holds nothing. One checkpoint runs at a time; a second one waits.
    ///
    /// # Errors
    /// `DiskFull` when there was no space for it: it was given up, nothing is lost. Anything after
    /// which the durable state is unknown poisons the store.
    pub fn checkpoint(
        &self,
        pace: Pace,
        at_cut: &mut dyn FnMut() -> CutInfo,
    ) -> Result<CheckpointReport> {
        self.checkpoint_then(pace, at_cut, &mut || Ok(()), &mut |_| Ok(()))
    }

    /// As [`PageStore::checkpoint`]; calls `durable_soon` when all is written but the superblock, and gives it up
    /// for an error of that; calls `durable_now` with the generation as soon as the
    /// superblock is durable, and before any slot of the older image is given out again: whoever
    /// can refuse that older image from now on notes it here.
    ///
    /// # Errors
    /// As there; an error of `durable_now` poisons.
    pub fn checkpoint_then(
        &self,
        pace: Pace,
        at_cut: &mut dyn FnMut() -> CutInfo,
        durable_soon: &mut dyn FnMut() -> Result<()>,
        durable_now: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<CheckpointReport> {
        self.check_writable()?;
        let _watch = self.watch("a checkpoint");
        let mut durable = self.durable.lock();
        self.check_poison()?;
        self.map.lock().health()?;
        if durable.epoch >= EPOCH_LIMIT || durable.superblock.generation + 1 >= NUMBER_LIMIT {
            return Err(Error::invalid(
                "the database has made as many checkpoints as its format has numbers for; save it with `terrace dump` and load it into a new one",
            ));
        }
        let start = Instant::now();
        self.cut.set_sparing(pace.is_sparing());
        self.lend_for_cut();
        let _lent = LentAhead(self);
        let before = [
            &self.counters.checkpoint_page_writes,
            &self.counters.checkpoint_hot_writes,
        ]
        .map(|c| c.load(Ordering::Relaxed));
        let no_unlinked_pages = self.large.cut();
        let (begun, drained, closed) = self.gate.closed(|epoch| {
            // Before the gate opens again.
            let _watch = self.watch("the cut of a checkpoint");
            // An operation that failed halfway poisoned before it came out: no cut may have it.
            self.check_poison()?;
            self.map.lock().begin_cut(u64::from(epoch))?;
            self.cut.set_epoch(epoch);
            Ok::<_, Error>((at_cut(), epoch, self.table.count()))
        });
        drop(no_unlinked_pages);
        let (info, epoch, pages) = begun?;
        let _over = self.cut.progress.begin(
            self.counters.dirty.load(Ordering::Relaxed),
            self.counters.checkpoint_page_writes.load(Ordering::Relaxed),
        );
        let prepared = self
            .write_cut(epoch, pace)
            .and_then(|()| self.seal())
            .and_then(|()| self.write_some_map(&durable, &info, epoch, pages))
            .and_then(|prepared| durable_soon().map(|()| prepared));
        let (superblock, map_file) = match prepared {
            Ok(prepared) => prepared,
            Err(e) => {
                if !self.health.is_poisoned() {
                    self.abort_cut().map_err(|e| self.poison(&e))?;
                }
                return Err(e);
            }
        };
        // What the log lost meanwhile, or an operation left half done, must not become durable this way.
        self.check_poison()?;
        self.write_superblock(&superblock)?;
        let retired = (superblock.map.number != durable.superblock.map.number)
            .then(|| MapFile::name(durable.superblock.map.number));
        *durable = Durable {
            superblock,
            epoch: epoch + 1,
            map_file,
        };
        durable_now(durable.superblock.generation)
            .and_then(|()| self.complete())
            .map_err(|e| self.poison(&e))?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        {
            // What is given back here is for the next map file first, not for the growth of `data`.
            let growing = self.claims.growing.lock();
            if let Some(name) = retired {
                // A file that stays behind does no harm: it is deleted at the next opening.
                let _ = self.disk.delete(&name);
            }
            self.truncate(&growing);
            // If there is no space for it now, the next growth or checkpoint tries again.
            let _ = self.reserve_map(&durable, 0);
        }
        self.note_progress();
        let [pages, hot_pages] = [
            self.counters.checkpoint_page_writes.load(Ordering::Relaxed) - before[0],
            self.counters.checkpoint_hot_writes.load(Ordering::Relaxed) - before[1],
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
    fn write_cut(&self, cut: u32, pace: Pace) -> Result<()> {
        let batch = pace.batch(self.layout.write_batch, self.page_bytes());
        let mut picks = Vec::with_capacity(batch);
        let mut hot_too = false;
        self.cut.set_cleaning_waits(false);
        let owed = self.counters.dirty.load(Ordering::Relaxed) * self.page_bytes() as u64;
        self.note_cut_space();
        self.cut.plan_to_write(owed);
        loop {
            let mut owed = !hot_too;
            let mut index = 0;
            while index < self.pool.len() {
                self.check_poison()?;
                self.write_urgent(cut, pace, &mut picks)?;
                picks.clear();
                while index < self.pool.len() && picks.len() < batch {
                    let header = self.pool.frame(index as u32);
                    let dirty = header.dirty.load(Ordering::Acquire);
                    if header.page.load(Ordering::Acquire) != NO_PAGE
                        && (hot_too || header.class() != Class::Hot)
                        && (header.has(CUT_PENDING) || (dirty != 0 && dirty <= cut))
                    {
                        picks.push(index as u32);
                    }
                    index += 1;
                }
                owed |= !picks.is_empty();
                self.write_paced(&picks, pace)?;
            }
            // From here on hardly any of the pages that the cleaner cleans is owed.
            self.cut.set_cleaning_waits(false);
            hot_too = true;
            owed |= self.write_freed(cut, 0, pace)?;
            if !owed {
                self.cut.set_epoch(0);
                self.cut.progress.all_written();
                return Ok(());
            }
        }
    }

    /// While writers have saved much, the pages that they saved it for go first.
    fn write_urgent(&self, cut: u32, pace: Pace, picks: &mut Vec<u32>) -> Result<()> {
        let leave = self.layout.undo_bytes / 2;
        let batch = pace.batch(self.layout.write_batch, self.page_bytes());
        while self.undo.bytes() > leave {
            self.write_freed(cut, leave, pace)?;
            picks.clear();
            // To find them is a look at all of them, so it is done for a good part of them at once.
            let most = (self.undo.frames() / URGENT_PART) as usize;
            self.undo
                .fullest_frames(picks, most.max(self.layout.write_batch));
            let mut done = 0;
            for picks in picks.chunks(batch) {
                if self.undo.bytes() <= leave {
                    return Ok(());
                }
                self.check_poison()?;
                done += self.write_and_pause(picks, pace)?;
            }
            if done == 0 {
                // What is left is being written by the cleaner.
                break;
            }
        }
        Ok(())
    }

    fn write_paced(&self, picks: &[u32], pace: Pace) -> Result<()> {
        if !picks.is_empty() && self.write_and_pause(picks, pace)? == 0 {
            // All of them are being written by the cleaner.
            self.wait_for_progress();
        }
        Ok(())
    }

    /// Writes these pages as they were at the cut, and leaves the device to others for as long as the
    /// pace says.
    fn write_and_pause(&self, picks: &[u32], pace: Pace) -> Result<usize> {
        let start = Instant::now();
        let done = self.write_pages(picks, Purpose::Cut)?;
        self.note_progress();
        self.leave_device(done, start, pace);
        Ok(done)
    }

    /// Leaves the device to others after so many pages, whose write began then, for as long as the pace
    /// says.
    pub(crate) fn leave_device(&self, pages: usize, start: Instant, pace: Pace) {
        let bytes = (pages * self.page_bytes()) as u64;
        if pages == 0 {
            return;
        }
        let written = Instant::now();
        loop {
            let whole = self.pause(bytes, written - start, pace);
            let left = whole.saturating_sub(written.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    fn seal(&self) -> Result<()> {
        while !self.map.lock().seal_step(STEP)? {}
        Ok(())
    }

    /// Step 3: a new map file if that is due and there is space for it, or more of the journal, for
    /// which space is reserved.
    fn write_some_map(
        &self,
        durable: &Durable,
        info: &CutInfo,
        epoch: u32,
        pages: u64,
    ) -> Result<(Superblock, Arc<dyn DiskFile>)> {
        let map = &durable.superblock.map;
        // The file may have grown while a checkpoint was made, which reserves nothing then.
        if !should_fold(map) && self.reserve_journal(durable, 0).is_ok() {
            return self.write_map(durable, info, epoch, pages, false);
        }
        let folded = self.write_map(durable, info, epoch, pages, true);
        match folded {
            Err(e) if !self.health.is_poisoned() => {
                // A new map file that was not finished would only take up space.
                let name = MapFile::name(map.number + 1);
                self.map_reserved.lock().next = None;
                let _ = self.disk.delete(&name);
                if !e.is_disk_full() {
                    return Err(e);
                }
                self.write_map(durable, info, epoch, pages, false)
            }
            folded => folded,
        }
    }

    /// Reserves space, when there are `slots` slots, in the map file for the journal of a checkpoint after
    /// which every page lies elsewhere, and for the next map file with such a journal. So one checkpoint
    /// after the other can be made on a disk that stays full: when there is no space for more of the
    /// journal the next map file is begun, and the one before it gives back what the one after it needs.
    ///
    /// # Errors
    /// `DiskFull`.
    pub(crate) fn reserve_map(&self, durable: &Durable, slots: u64) -> Result<()> {
        // A superblock whose sync failed may be on the disk, and name the file that seems to be the next.
        // Who holds `durable` knows: a checkpoint that fails so poisons before it lets go of it.
        self.check_poison()?;
        let slots = slots.max(self.map.lock().counts().total);
        self.reserve_journal(durable, slots)?;
        let mut reserved = self.map_reserved.lock();
        if reserved.may_begin_next {
            let number = durable.superblock.map.number + 1;
            self.reserve_next_map(&mut reserved, number, slots)?;
        }
        Ok(())
    }

    /// Its first part: the journal.
    fn reserve_journal(&self, durable: &Durable, slots: u64) -> Result<()> {
        let map = &durable.superblock.map;
        let slots = slots.max(self.map.lock().counts().total);
        let from = map.base_bytes + map.journal_bytes;
        let to = from + journal_bytes(slots);
        let mut reserved = self.map_reserved.lock();
        if reserved.journal.0 == map.number && reserved.journal.1 >= to {
            return Ok(());
        }
        durable
            .map_file
            .allocate(from, to - from)
            .map_err(|e| Error::io("reserving", MapFile::name(map.number), e))?;
        reserved.journal = (map.number, to);
        Ok(())
    }

    /// It is known that no map file behind that of the last checkpoint is of any use: space for the next
    /// one is reserved from now on, if there is any.
    pub(crate) fn reserve_next_maps(&self) {
        self.map_reserved.lock().may_begin_next = true;
        let _ = self.reserve_map(&self.durable.lock(), 0);
    }

    /// Whether the map file of this number is the one kept for the next.
    pub(crate) fn is_next_map(&self, number: u64) -> bool {
        let reserved = self.map_reserved.lock();
        reserved
            .next
            .as_ref()
            .is_some_and(|next| next.number == number)
    }

    fn reserve_next_map(&self, reserved: &mut Reserved, number: u64, slots: u64) -> Result<()> {
        let name = MapFile::name(number);
        // Numbers of pages are used again, so there are not many more than there were slots at a time.
        let to = base_bytes(slots.max(self.table.count())) + journal_bytes(slots);
        let (file, from) = match &reserved.next {
            Some(next) if next.number == number && next.bytes >= to => return Ok(()),
            Some(next) if next.number == number => (next.file.clone(), next.bytes),
            _ => {
                let made = self.disk.create(&name);
                (made.map_err(|e| Error::io("creating", &name, e))?, 0)
            }
        };
        if let Err(e) = file.allocate(from, to - from) {
            if from == 0 {
                // One that cannot be relied on would only take up space.
                reserved.next = None;
                let _ = self.disk.delete(&name);
            }
            return Err(Error::io("reserving", &name, e));
        }
        reserved.next = Some(NextMap {
            number,
            file,
            bytes: to,
        });
        Ok(())
    }

    fn write_map(
        &self,
        durable: &Durable,
        info: &CutInfo,
        epoch: u32,
        pages: u64,
        fold: bool,
    ) -> Result<(Superblock, Arc<dyn DiskFile>)> {
        let last = &durable.superblock;
        let generation = last.generation + 1;
        let number = if fold {
            last.map.number + 1
        } else {
            last.map.number
        };
        let name = MapFile::name(number);
        let file = if fold {
            let mut reserved = self.map_reserved.lock();
            match reserved.next.take().filter(|next| next.number == number) {
                Some(next) => {
                    reserved.journal = (number, next.bytes);
                    next.file
                }
                None => {
                    // What was reserved for one of this number went with it when it was not finished.
                    reserved.journal = (0, 0);
                    self.disk
                        .create(&name)
                        .map_err(|e| Error::io("creating", &name, e))?
                }
            }
        } else {
            durable.map_file.clone()
        };
        let mut sink = |offset: u64, bytes: &[u8]| {
            self.counters
                .map_bytes
                .fetch_add(bytes.len() as u64, Ordering::Relaxed);
            file.allocate(offset, bytes.len() as u64)
                .and_then(|()| file.write_at(bytes, offset))
                .map_err(|e| Error::io("writing", &name, e))
        };
        let mut changes: Vec<(PageId, Place)> = Vec::new();
        let map = if fold {
            let mut writer =
                MapWriter::create(last.database, number, generation, pages, &mut sink)?;
            let mut cursor = FoldCursor::default();
            let mut places = Vec::new();
            let mut done = pages == 0;
            while !done {
                places.clear();
                done = self
                    .map
                    .lock()
                    .fold_base(self, &mut cursor, pages, &mut places, STEP)?;
                for place in &places {
                    writer.push_base(*place, &mut sink)?;
                }
            }
            let mut done = false;
            while !done {
                changes.clear();
                done = self
                    .map
                    .lock()
                    .fold_overrides(&mut cursor, pages, &mut changes, STEP)?;
                for (pid, place) in &changes {
                    writer.push(*pid, *place, &mut sink)?;
                }
            }
            writer.finish(&mut sink)?
        } else {
            let mut writer = MapWriter::append(last.database, generation, last.map);
            let mut cursor = DeltaCursor::default();
            let mut done = false;
            while !done {
                changes.clear();
                done = self
                    .map
                    .lock()
                    .cut_delta(self, &mut cursor, &mut changes, STEP)?;
                for (pid, place) in &changes {
                    writer.push(*pid, *place, &mut sink)?;
                }
            }
            writer.finish(&mut sink)?
        };
        // A failed sync leaves it unknown what is on disk, so there is no going on.
        let synced = file
            .sync()
            .map_err(|e| Error::io("syncing", &name, e))
            .and_then(|()| {
                self.data
                    .sync()
                    .map_err(|e| Error::io("syncing", DATA_FILE, e))
            });
        let synced = synced.and_then(|()| {
            if fold {
                self.disk
                    .sync_directory()
                    .map_err(|e| Error::io("syncing", "the directory", e))
            } else {
                Ok(())
            }
        });
        synced.map_err(|e| self.poison(&e))?;
        let superblock = Superblock {
            page_bytes: last.page_bytes,
            database: last.database,
            generation,
            epoch: u64::from(epoch),
            pages,
            slots: self.map.lock().counts().total,
            map,
            log_position: info.log_position,
            learnt: info.learnt,
            next_structure: info.next_structure,
            next_sequence: info.next_sequence,
            catalog_root: info.catalog_root,
            clean: info.clean,
        };
        Ok((superblock, file))
    }

    /// Step 4. Any failure from here on poisons.
    fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        // A statement of its own: the mutex is not held during the write.
        let committed = self.map.lock().commit();
        committed
            .and_then(|()| write_superblock(&*self.data, superblock))
            .map_err(|e| self.poison(&e))
    }

    fn complete(&self) -> Result<()> {
        loop {
            let mut map = self.map.lock();
            let done = map.complete_step(self, STEP)?;
            self.note_slots(&map);
            drop(map);
            self.keep_pins_small();
            if done {
                return Ok(());
            }
        }
    }

    /// Gives the checkpoint up: what it wrote counts as changes since the last one.
    fn abort_cut(&self) -> Result<()> {
        self.cut.set_epoch(0);
        for (index, header) in self.pool.iter() {
            // The latch makes sure that nobody is just about to set the flag.
            if !header.latch.shared_while(|| !self.is_halted()) {
                return self.check_poison();
            }
            if header.has(CUT_PENDING) {
                self.undo.forget(index);
                header.clear(CUT_PENDING);
                self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
            }
            header.latch.release_shared();
        }
        while let Some((_, page)) = self.undo.take_page() {
            self.undo.page_done(page);
            self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        loop {
            let mut map = self.map.lock();
            let done = map.abort_step(self, STEP)?;
            self.note_slots(&map);
            if done {
                break;
            }
        }
        self.note_progress();
        Ok(())
    }
}
