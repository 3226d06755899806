//! What is known to be durable: the last checkpoint, its map file, and space for those to come.

use std::sync::Arc;

use terrace_base::disk::DiskFile;
use terrace_base::{AlignedBuf, Error, Result};

use crate::disk::data_file::DATA_FILE;
use crate::map::Superblock;
use crate::map::superblock::{SUPERBLOCK_BYTES, superblock_offset};

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
        .map_err(|e| Error::io("writing the superblock of", DATA_FILE, e))?;
    data.sync().map_err(|e| Error::io("syncing", DATA_FILE, e))
}
