//! Making a store and opening one.

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::build::{Build, StoreBuilder};
use crate::disk::Storage;
use crate::frames::Frames;
use crate::frames::table::{FreePages, Table, Word};
use crate::map::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::map::{MapFile, MapReader, PageMap, Place, PlaceTable, Rebuild, Superblocks, Words};
use crate::parts::common::Common;
use crate::parts::data_file::{DATA_FILE, DATA_START, io};
use crate::parts::durable::{CheckpointMeta, Durable};
use crate::parts::options::{Layout, StoreOptions};
use crate::store::PageStore;

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
        let names = disk.list().map_err(io("listing", "the directory"))?;
        if !names.iter().any(|n| n == DATA_FILE) {
            return Ok(Presence::Absent);
        }
        let (data, len) = open_data(disk)?;
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
        info: &CheckpointMeta,
    ) -> Result<PageStore> {
        let layout = Layout::new(&options, 0)?;
        let build = Build {
            page_bytes: options.page_bytes,
            database,
            pages: 0,
            live: 0,
            epoch: 1,
        };
        let (data, superblock, map_file) =
            StoreBuilder::new(disk.clone(), build)?.finish_files(info)?;
        let table = Table::new(layout.max_pages)?;
        let durable = Durable {
            superblock,
            epoch: 2,
            map_file,
        };
        let (map, free) = (PageMap::new(0), FreePages::default());
        let store = assemble(options, layout, (disk, data), (table, map, free), durable)?;
        store.storage().reserve_next_maps();
        Ok(store)
    }

    /// Reads the superblock that an opening would use.
    pub fn read_superblock(disk: &dyn Disk) -> Result<Superblocks> {
        let (data, len) = open_data(disk)?;
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
        let (data, len) = open_data(&*disk)?;
        // The file may have been cut since: what is missing of it is not needed, and may belong to
        // something else by now. Also what bounds the memory that a damaged superblock may ask for.
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
        assemble(options, layout, (disk, data), (words.0, map, free), durable)
    }
}

/// The data file, and how long it is.
fn open_data(disk: &dyn Disk) -> Result<(Arc<dyn DiskFile>, u64)> {
    let data = disk.open(DATA_FILE);
    let data = data.map_err(io("opening", DATA_FILE))?;
    let len = data.len().map_err(io("measuring", DATA_FILE))?;
    Ok((data, len))
}

fn assemble(
    options: StoreOptions,
    layout: Layout,
    (disk, data): (Arc<dyn Disk>, Arc<dyn DiskFile>),
    (table, map, free): (Table, PageMap, FreePages),
    durable: Durable,
) -> Result<PageStore> {
    let frames = Frames::new(Common::new(options, layout, None), table, map, free)?;
    let storage = Storage::new(frames, disk, data, durable);
    // On a full disk one can still open, and read and delete.
    let _ = storage.reserve_map(&storage.durable(), 0);
    Ok(PageStore::over(storage))
}

/// Whether the first `len` bytes of the data file, which may be no multiple of a block, are zeros.
fn is_zero(disk: &dyn Disk, len: u64) -> Result<bool> {
    let mut bytes = vec![0; len as usize];
    let data = disk
        .open_buffered(DATA_FILE)
        .map_err(io("opening", DATA_FILE))?;
    data.read_at(&mut bytes, 0)
        .map_err(io("reading", DATA_FILE))?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

fn read_block(data: &dyn DiskFile, offset: u64, len: u64) -> Result<AlignedBuf> {
    let mut block = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    if offset + SUPERBLOCK_BYTES as u64 <= len {
        data.read_at(&mut block, offset)
            .map_err(io("reading", DATA_FILE))?;
    }
    Ok(block)
}

/// The table while no other thread looks at it.
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
