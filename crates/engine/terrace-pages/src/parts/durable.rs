//! What is known to be durable: the last checkpoint, its map file, and space for those to come.

use std::sync::Arc;

use terrace_base::disk::DiskFile;
use terrace_base::{AlignedBuf, PageId, Result};

use crate::map::superblock::{LEARNT_BYTES, OLDEST_VERSION, SUPERBLOCK_BYTES, superblock_offset};
use crate::map::{MapFile, Superblock};
use crate::parts::data_file::{DATA_FILE, io};

/// What layers above add to the superblock, as of the instant of the cut.
#[derive(Clone, Debug)]
pub struct CheckpointMeta {
    /// Where replay begins; the log's encoding.
    pub log_position: [u8; 24],
    /// What is to be known again after the next opening, of what was learnt while running; nothing that
    /// is promised rests on it.
    pub learnt: [u8; LEARNT_BYTES],
    /// Number for the next structure.
    pub next_structure: u32,
    /// Sequence number of the first record behind the cut.
    pub next_sequence: u64,
    /// Sequence number of the first record of which what is said of structures without log is replayed.
    pub unlogged_from: u64,
    /// The catalog's root page.
    pub catalog_root: PageId,
    /// Whether the database is being closed and nothing will be logged after the cut.
    pub clean: bool,
}

impl CheckpointMeta {
    /// This in the superblock of the first checkpoint of a store that has no pages.
    pub(crate) fn superblock(&self, page_bytes: u32, database: u64, map: MapFile) -> Superblock {
        Superblock {
            version: OLDEST_VERSION,
            page_bytes,
            database,
            generation: 1,
            epoch: 1,
            pages: 0,
            slots: 0,
            map,
            log_position: self.log_position,
            learnt: self.learnt,
            next_structure: self.next_structure,
            next_sequence: self.next_sequence,
            unlogged_from: self.unlogged_from,
            catalog_root: self.catalog_root,
            clean: self.clean,
        }
    }
}

/// What there is.
pub struct Durable {
    /// The superblock of the last checkpoint.
    pub superblock: Superblock,
    /// Epoch to begin with after opening.
    pub epoch: u32,
    /// The map file in use.
    pub map_file: Arc<dyn DiskFile>,
}

/// Space that is reserved for the map of the checkpoints to come.
#[derive(Default)]
pub(crate) struct Reserved {
    /// In the map file of this number: up to this byte.
    pub journal: (u64, u64),
    /// Whether there may be one behind it: not before it is known that what lies there is nothing.
    pub may_begin_next: bool,
    /// It.
    pub next: Option<NextMap>,
}

/// A map file in which there is nothing yet.
pub(crate) struct NextMap {
    pub number: u64,
    pub file: Arc<dyn DiskFile>,
    pub bytes: u64,
}

/// Writes and syncs a superblock into the slot of its generation.
pub(crate) fn write_superblock(data: &dyn DiskFile, superblock: &Superblock) -> Result<()> {
    let mut block = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    superblock.encode(&mut block);
    data.write_at(&block, superblock_offset(superblock.generation))
        .map_err(io("writing the superblock of", DATA_FILE))?;
    data.sync().map_err(io("syncing", DATA_FILE))
}
