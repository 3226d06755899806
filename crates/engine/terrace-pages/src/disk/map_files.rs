//! The map files and the superblock: what of a checkpoint says where its pages lie, and space for those to come.

use std::sync::Arc;

use terrace_base::disk::DiskFile;
use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::disk::Storage;
use crate::map::{
    DeltaCursor, FoldCursor, MapFile, MapWriter, Place, STEP, Superblock, base_bytes,
    journal_bytes, should_fold,
};
use crate::parts::data_file::{DATA_FILE, io};
use crate::parts::durable::{CheckpointMeta, Durable, NextMap, Reserved, write_superblock};

impl Storage {
    /// Step 3: a new map file if that is due and there is space for it, or more of the journal, for
    /// which space is reserved.
    pub(crate) fn write_some_map(
        &self,
        durable: &Durable,
        info: &CheckpointMeta,
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
            Err(e) if !self.common().health.is_poisoned() => {
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
        self.common().health.check_poison()?;
        let slots = slots.max(self.frames.lock_map().counts().total);
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
        let slots = slots.max(self.frames.lock_map().counts().total);
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

    fn reserve_next_map(&self, reserved: &mut Reserved, number: u64, slots: u64) -> Result<()> {
        let name = MapFile::name(number);
        // Numbers of pages are used again, so there are not many more than there were slots at a time.
        let to = base_bytes(slots.max(self.frames.page_numbers())) + journal_bytes(slots);
        let (file, from) = match &reserved.next {
            Some(next) if next.number == number && next.bytes >= to => return Ok(()),
            Some(next) if next.number == number => (next.file.clone(), next.bytes),
            _ => {
                let made = self.disk.create(&name);
                (made.map_err(io("creating", &name))?, 0)
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
        info: &CheckpointMeta,
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
                    self.disk.create(&name).map_err(io("creating", &name))?
                }
            }
        } else {
            durable.map_file.clone()
        };
        let mut sink = |offset: u64, bytes: &[u8]| {
            self.common().counters.map_bytes.add(bytes.len() as u64);
            file.allocate(offset, bytes.len() as u64)
                .and_then(|()| file.write_at(bytes, offset))
                .map_err(io("writing", &name))
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
                done = self.frames.lock_map().fold_base(
                    &self.frames,
                    &mut cursor,
                    pages,
                    &mut places,
                    STEP,
                )?;
                for place in &places {
                    writer.push_base(*place, &mut sink)?;
                }
            }
            let mut done = false;
            while !done {
                changes.clear();
                done = self.frames.lock_map().fold_overrides(
                    &mut cursor,
                    pages,
                    &mut changes,
                    STEP,
                )?;
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
                done = self.frames.lock_map().cut_delta(
                    &self.frames,
                    &mut cursor,
                    &mut changes,
                    STEP,
                )?;
                for (pid, place) in &changes {
                    writer.push(*pid, *place, &mut sink)?;
                }
            }
            writer.finish(&mut sink)?
        };
        // A failed sync leaves it unknown what is on disk, so there is no going on.
        let synced = file
            .sync()
            .map_err(io("syncing", &name))
            .and_then(|()| self.data.sync().map_err(io("syncing", DATA_FILE)));
        let synced = synced.and_then(|()| {
            if fold {
                self.disk
                    .sync_directory()
                    .map_err(io("syncing", "the directory"))
            } else {
                Ok(())
            }
        });
        synced.map_err(|e| self.common().poison(&e))?;
        let version = self.format_version();
        let superblock = Superblock {
            version,
            generation,
            epoch: u64::from(epoch),
            pages,
            slots: self.frames.lock_map().counts().total,
            ..info.superblock(last.page_bytes, last.database, map)
        };
        Ok((superblock, file))
    }

    /// Step 4. Any failure from here on poisons.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        // A statement of its own: the mutex is not held during the write.
        let committed = self.frames.lock_map().commit();
        committed
            .and_then(|()| write_superblock(&*self.data, superblock))
            .map_err(|e| self.common().poison(&e))
    }

    pub fn confirm(&self) -> Result<()> {
        self.disk
            .sync_directory()
            .map_err(io("syncing", "the directory"))?;
        write_superblock(&*self.data, &self.durable.lock().superblock)
    }

    pub fn remove_leftovers(&self) -> Result<()> {
        let number = self.durable.lock().superblock.map.number;
        let names = self.disk.list().map_err(io("listing", "the directory"))?;
        for name in names {
            let next = self
                .map_reserved
                .lock()
                .next
                .as_ref()
                .map(|next| next.number);
            let is_left = |n| n != number && next != Some(n);
            if MapFile::number_of(&name).is_some_and(is_left) {
                self.disk.delete(&name).map_err(io("deleting", &name))?;
            }
        }
        self.reserve_next_maps();
        Ok(())
    }

    pub fn superblock(&self) -> Superblock {
        self.durable.lock().superblock.clone()
    }

    pub fn format_version(&self) -> u32 {
        self.format_version.load(Ordering::SeqCst)
    }

    pub fn raise_format(&self, version: u32) {
        self.format_version.fetch_max(version, Ordering::SeqCst);
    }
}
