//! Making a store of pages that come from elsewhere: for restoring a backup.
//!
//! Invariant: the superblock is written last, when everything that it names is durable; until then the
//! directory counts as one without a store.

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::checkpoints::checkpoint::CutInfo;
use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::frames::page;
use crate::map::{MapFile, MapWriter, Place, Superblock, Tag};
use crate::options::PAGE_SIZES;
use crate::parts::durable::write_superblock;

/// Bytes that are written at a time: past a mebibyte no device gains.
const BATCH_BYTES: usize = 1 << 20;

/// What a store is that is built.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Size of a page in bytes.
    pub page_bytes: usize,
    /// Identity of the new store, drawn at random.
    pub database: u64,
    /// Page numbers lie below.
    pub pages: u64,
    /// How many of them come.
    pub live: u64,
    /// An epoch in which none of the pages was changed later.
    pub epoch: u64,
}

/// See the module's text.
pub struct StoreBuilder {
    disk: Arc<dyn Disk>,
    data: Arc<dyn DiskFile>,
    build: Build,
    places: Vec<Place>,
    buffer: AlignedBuf,
    /// Bytes of the buffer that are filled.
    filled: usize,
    /// The slot of the first page in the buffer.
    first: u64,
}

impl StoreBuilder {
    /// Begins one on an empty disk.
    ///
    /// # Errors
    /// A page size that there is not, `DiskFull`, those of the disk.
    pub fn new(disk: Arc<dyn Disk>, build: Build) -> Result<StoreBuilder> {
        if !PAGE_SIZES.contains(&build.page_bytes) || build.pages > PageId::MAX.0 {
            return Err(Error::invalid(format!(
                "there are no stores of {} pages of {} bytes",
                build.pages, build.page_bytes
            )));
        }
        let data = disk
            .create(DATA_FILE)
            .map_err(|e| Error::io("creating", DATA_FILE, e))?;
        data.allocate(0, DATA_START + build.live * build.page_bytes as u64)
            .map_err(|e| Error::io("reserving", DATA_FILE, e))?;
        let batch = (BATCH_BYTES / build.page_bytes).max(1) * build.page_bytes;
        Ok(StoreBuilder {
            disk,
            data,
            places: vec![Place::FREE; build.pages as usize],
            build,
            buffer: AlignedBuf::zeroed(batch),
            filled: 0,
            first: 0,
        })
    }

    /// Takes a page, sealed as it was written.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not those of this page, or it came before; those of the disk.
    pub fn push(&mut self, pid: PageId, bytes: &[u8]) -> Result<()> {
        let check = page::verify(bytes, pid, 0)?;
        let at = self.filled / self.build.page_bytes;
        let slot = self.first + at as u64;
        let place = self.places.get_mut(pid.0 as usize);
        let place = place.filter(|place| place.is_free() && slot < self.build.live);
        let Some(place) = place else {
            return Err(Error::corrupt(
                DATA_FILE,
                None,
                format!("{pid} comes twice, or is none that there should be"),
            ));
        };
        *place = Place::used(slot, check, Tag::IMAGE);
        self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.filled > 0 {
            let offset = DATA_START + self.first * self.build.page_bytes as u64;
            self.data
                .write_at(&self.buffer[..self.filled], offset)
                .map_err(|e| Error::io("writing", DATA_FILE, e))?;
            self.first += (self.filled / self.build.page_bytes) as u64;
            self.filled = 0;
        }
        Ok(())
    }

    /// All pages have come: writes where they lie, and the superblock.
    ///
    /// # Errors
    /// `Corrupt` when some are missing; those of the disk.
    pub fn finish(mut self, info: &CutInfo) -> Result<()> {
        self.flush()?;
        let build = self.build;
        if self.first != build.live {
            return Err(Error::corrupt(
                DATA_FILE,
                None,
                format!("{} pages came of {}", self.first, build.live),
            ));
        }
        let name = MapFile::name(1);
        let file = self
            .disk
            .create(&name)
            .map_err(|e| Error::io("creating", &name, e))?;
        let mut sink = |offset: u64, bytes: &[u8]| {
            file.write_at(bytes, offset)
                .map_err(|e| Error::io("writing", &name, e))
        };
        let mut writer = MapWriter::create(build.database, 1, 1, build.pages, &mut sink)?;
        for place in &self.places {
            writer.push_base(*place, &mut sink)?;
        }
        let map = writer.finish(&mut sink)?;
        file.sync().map_err(|e| Error::io("syncing", &name, e))?;
        self.data
            .sync()
            .map_err(|e| Error::io("syncing", DATA_FILE, e))?;
        self.disk
            .sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
        let superblock = Superblock {
            page_bytes: build.page_bytes as u32,
            database: build.database,
            generation: 1,
            epoch: build.epoch,
            pages: build.pages,
            slots: build.live,
            map,
            log_position: info.log_position,
            learnt: info.learnt,
            next_structure: info.next_structure,
            next_sequence: info.next_sequence,
            catalog_root: info.catalog_root,
            clean: info.clean,
        };
        write_superblock(&*self.data, &superblock)
    }
}
