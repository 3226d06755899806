//! Making a store and opening one.

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::checkpoints::checkpoint::CutInfo;
use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::map::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::map::{
    MapFile, MapReader, MapWriter, PageMap, Place, PlaceTable, Rebuild, Superblock, Superblocks,
    Words,
};
use crate::options::{Layout, StoreOptions};
use crate::parts::durable::{Durable, write_superblock};
use crate::store::PageStore;
use crate::table::{FreePages, Table, Word};

/// What a disk writes as a whole, at least.
const SECTOR: usize = 512;

/// Whether a directory holds a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// No data file, or one that was never finished.
    Absent,
    /// A data file with something in its superblocks.
    Present,
}

impl PageStore {
    /// Looks whether there is a store on `disk`. A creation that was cut off counts as none.
    pub fn presence(disk: &dyn Disk) -> Result<Presence> {
        let names = disk
            .list()
            .map_err(|e| Error::io("listing", "the directory", e))?;
        if !names.iter().any(|n| n == DATA_FILE) {
            return Ok(Presence::Absent);
        }
        let data = disk
            .open(DATA_FILE)
            .map_err(|e| Error::io("opening", DATA_FILE, e))?;
        let len = data
            .len()
            .map_err(|e| Error::io("measuring", DATA_FILE, e))?;
        if len < DATA_START {
            // Creation reserves this much before anything is written.
            return if !is_zero(disk, len)? {
                Err(Error::corrupt(
                    DATA_FILE,
                    None,
                    "this is not a data file of Terrace",
                ))
            } else {
                Ok(Presence::Absent)
            };
        }
        for offset in SUPERBLOCK_OFFSETS {
            let block = read_block(&*data, offset, len)?;
            let begun = |sector: &[u8]| sector.iter().any(|b| *b != 0);
            // A superblock begins in its first sector and ends in its last; the very first one may
            // have been torn between, while the block was still zero.
            if begun(&block[..SECTOR]) && begun(&block[SUPERBLOCK_BYTES - SECTOR..]) {
                return Ok(Presence::Present);
            }
        }
        Ok(Presence::Absent)
    }

    /// Makes an empty store of generation 1 with `database` as its random identity.
    pub fn create(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        database: u64,
        info: &CutInfo,
    ) -> Result<PageStore> {
        let layout = Layout::new(&options, 0)?;
        let data = disk
            .create(DATA_FILE)
            .map_err(|e| Error::io("creating", DATA_FILE, e))?;
        data.allocate(0, DATA_START)
            .map_err(|e| Error::io("reserving", DATA_FILE, e))?;
        let name = MapFile::name(1);
        let map_file = disk
            .create(&name)
            .map_err(|e| Error::io("creating", &name, e))?;
        let mut sink = |offset: u64, bytes: &[u8]| {
            map_file
                .write_at(bytes, offset)
                .map_err(|e| Error::io("writing", &name, e))
        };
        let map = MapWriter::create(database, 1, 1, 0, &mut sink)?.finish(&mut sink)?;
        map_file
            .sync()
            .map_err(|e| Error::io("syncing", &name, e))?;
        data.sync()
            .map_err(|e| Error::io("syncing", DATA_FILE, e))?;
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
        let superblock = Superblock {
            page_bytes: options.page_bytes as u32,
            database,
            generation: 1,
            epoch: 1,
            pages: 0,
            slots: 0,
            map,
            log_position: info.log_position,
            learnt: info.learnt,
            next_structure: info.next_structure,
            next_sequence: info.next_sequence,
            catalog_root: info.catalog_root,
            clean: info.clean,
        };
        write_superblock(&*data, &superblock)?;
        let table = Table::new(layout.max_pages)?;
        let durable = Durable {
            superblock,
            epoch: 2,
            map_file,
        };
        let map = PageMap::new(0);
        let store = PageStore::assemble(
            options,
            layout,
            disk,
            data,
            table,
            map,
            FreePages::default(),
            durable,
            None,
        )?;
        store.reserve_next_maps();
        Ok(store)
    }

    /// Reads the superblock that an opening would use.
    pub fn read_superblock(disk: &dyn Disk) -> Result<Superblocks> {
        let data = disk
            .open(DATA_FILE)
            .map_err(|e| Error::io("opening", DATA_FILE, e))?;
        let len = data
            .len()
            .map_err(|e| Error::io("measuring", DATA_FILE, e))?;
        let blocks = [
            read_block(&*data, SUPERBLOCK_OFFSETS[0], len)?,
            read_block(&*data, SUPERBLOCK_OFFSETS[1], len)?,
        ];
        Superblocks::read([&blocks[0], &blocks[1]], None)
    }

    /// Opens the store as of its last checkpoint. `options.page_bytes` is replaced by what the
    /// store was made with.
    pub fn open(disk: Arc<dyn Disk>, mut options: StoreOptions) -> Result<PageStore> {
        let superblock = PageStore::read_superblock(&*disk)?.newest;
        options.page_bytes = superblock.page_bytes as usize;
        let layout = Layout::new(&options, superblock.pages)?;
        let data = disk
            .open(DATA_FILE)
            .map_err(|e| Error::io("opening", DATA_FILE, e))?;
        let len = data
            .len()
            .map_err(|e| Error::io("measuring", DATA_FILE, e))?;
        // The file may have been cut since: what is missing of it is not needed, and may be somebody
        // else's by now. Also what bounds the memory that a damaged superblock may ask for.
        let in_file = len.saturating_sub(DATA_START) / options.page_bytes as u64;
        let slots = superblock.slots.min(in_file);
        let name = MapFile::name(superblock.map.number);
        let map_file = disk.open(&name).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(
                &name,
                None,
                "the file that says where every page lies is missing",
            ),
            _ => Error::io("opening", &name, e),
        })?;
        let mut words = Opening(Table::new(layout.max_pages)?);
        words.0.set_count(superblock.pages);
        let mut rebuild = Rebuild::new(&mut words, &name, superblock.pages, slots);
        let mut reader = MapReader::new(&superblock)?;
        let mut buffer = AlignedBuf::zeroed(65536);
        while let Some((offset, len)) = reader.next_read() {
            map_file
                .read_at(&mut buffer[..len], offset)
                .map_err(|e| match e.kind() {
                    std::io::ErrorKind::UnexpectedEof => {
                        Error::corrupt(&name, offset, "the file ends too early")
                    }
                    _ => Error::io("reading", &name, e),
                })?;
            reader.decode(&buffer[..len], |pid, place| rebuild.apply(pid, place))?;
        }
        let mut free = FreePages::default();
        let map = rebuild.finish(|words, pid| {
            let link = free.head.unwrap_or(PageId::NONE);
            words.set(pid, Place::FREE.with_link(link));
            free.head = Some(pid);
            free.count += 1;
        });
        let map = map.map_err(|e| match slots < superblock.slots {
            true => Error::corrupt(
                DATA_FILE,
                len,
                format!("the file ends here, but pages lie behind it ({e})"),
            ),
            false => e,
        })?;
        // As it is below its limit.
        let epoch = u32::try_from(superblock.epoch.saturating_add(1))
            .map_err(|_| Error::corrupt(DATA_FILE, None, "the epoch is out of range"))?;
        let durable = Durable {
            superblock,
            epoch,
            map_file,
        };
        PageStore::assemble(
            options, layout, disk, data, words.0, map, free, durable, None,
        )
    }

    /// Sees to it that the checkpoint that was opened is durable: the sync of its superblock may have failed,
    /// or may never have come to be, and yet the superblock is read. To be called before anything is done
    /// that takes it for the last one. Writes what is there already, into the same place: a sync alone may
    /// find nothing to do where the cache has let go of what it could not write.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn confirm(&self) -> Result<()> {
        self.disk
            .sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
        write_superblock(&*self.data, &self.durable.lock().superblock)
    }

    /// Deletes map files that a checkpoint left behind when it was cut off. To be called once it is
    /// known that no newer checkpoint than the opened one was ever durable: what lies there may be
    /// all that is left of that one.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn remove_leftovers(&self) -> Result<()> {
        let number = self.durable.lock().superblock.map.number;
        let names = self
            .disk
            .list()
            .map_err(|e| Error::io("listing", "the directory", e))?;
        for name in names {
            let is_left = |n| n != number && !self.is_next_map(n);
            if MapFile::number_of(&name).is_some_and(is_left) {
                self.disk
                    .delete(&name)
                    .map_err(|e| Error::io("deleting", &name, e))?;
            }
        }
        self.reserve_next_maps();
        Ok(())
    }

    /// The superblock of the last durable checkpoint.
    pub fn superblock(&self) -> Superblock {
        self.durable.lock().superblock.clone()
    }
}

/// Whether the first `len` bytes of the data file, which may be no multiple of a block, are zeros.
fn is_zero(disk: &dyn Disk, len: u64) -> Result<bool> {
    let mut bytes = vec![0; len as usize];
    let data = disk
        .open_buffered(DATA_FILE)
        .map_err(|e| Error::io("opening", DATA_FILE, e))?;
    data.read_at(&mut bytes, 0)
        .map_err(|e| Error::io("reading", DATA_FILE, e))?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

fn read_block(data: &dyn DiskFile, offset: u64, len: u64) -> Result<AlignedBuf> {
    let mut block = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    if offset + SUPERBLOCK_BYTES as u64 <= len {
        data.read_at(&mut block, offset)
            .map_err(|e| Error::io("reading", DATA_FILE, e))?;
    }
    Ok(block)
}

/// The table while nobody else looks at it.
struct Opening(Table);

impl Words for Opening {
    fn place(&self, pid: PageId) -> Place {
        match self.0.load(pid) {
            Word::Out(place) => place,
            _ => Place::FREE,
        }
    }

    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool {
        self.0.swap(pid, Word::Out(from), Word::Out(to))
    }
}

impl PlaceTable for Opening {
    fn set(&mut self, pid: PageId, place: Place) {
        self.0.store(pid, Word::Out(place));
    }
}
