//! Making a store of pages that come from elsewhere: for restoring a backup.
//!
//! Invariant: the superblock is written last, when everything that it names is durable; until then the
//! directory counts as one without a store.

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::frames::page;
use crate::map::{MapFile, MapWriter, Place, Superblock, Tag};
use crate::parts::data_file::{DATA_FILE, DATA_START, io};
use crate::parts::durable::{CheckpointMeta, write_superblock};
use crate::parts::options::PAGE_SIZES;

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

/// The data file, the superblock, the map file.
pub(crate) type Files = (Arc<dyn DiskFile>, Superblock, Arc<dyn DiskFile>);

/// A page store that is being made of pages that come from elsewhere.
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
        let data = disk.create(DATA_FILE).map_err(io("creating", DATA_FILE))?;
        data.allocate(0, DATA_START + build.live * build.page_bytes as u64)
            .map_err(io("reserving", DATA_FILE))?;
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
                .map_err(io("writing", DATA_FILE))?;
            self.first += (self.filled / self.build.page_bytes) as u64;
            self.filled = 0;
        }
        Ok(())
    }

    /// All pages have come: writes where they lie, and the superblock.
    ///
    /// # Errors
    /// `Corrupt` when some are missing; those of the disk.
    pub fn finish(self, info: &CheckpointMeta) -> Result<()> {
        self.finish_files(info).map(drop)
    }

    /// The same; also answers the data file, the superblock, and the map file.
    pub(crate) fn finish_files(mut self, info: &CheckpointMeta) -> Result<Files> {
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
        let file = self.disk.create(&name).map_err(io("creating", &name))?;
        let mut sink =
            |offset: u64, bytes: &[u8]| file.write_at(bytes, offset).map_err(io("writing", &name));
        let mut writer = MapWriter::create(build.database, 1, 1, build.pages, &mut sink)?;
        for place in &self.places {
            writer.push_base(*place, &mut sink)?;
        }
        let map = writer.finish(&mut sink)?;
        file.sync().map_err(io("syncing", &name))?;
        self.data.sync().map_err(io("syncing", DATA_FILE))?;
        self.disk
            .sync_directory()
            .map_err(io("syncing", "the directory"))?;
        let superblock = Superblock {
            epoch: build.epoch,
            pages: build.pages,
            slots: build.live,
            ..info.superblock(build.page_bytes as u32, build.database, map)
        };
        write_superblock(&*self.data, &superblock)?;
        Ok((self.data, superblock, file))
    }
}
