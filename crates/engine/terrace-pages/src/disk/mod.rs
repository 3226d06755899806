//! Pages on disk: the files, their space, who may go in to use it up, what is kept for pinned images, writing
//! pages. What is public of it is told at [`crate::PageStore`].

pub(crate) mod clean;
pub(crate) mod entry;
pub(crate) mod map_files;
pub(crate) mod pins;
pub(crate) mod space;
pub(crate) mod write;

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::sync::atomic::AtomicU32;
use terrace_base::sync::{Mutex, MutexGuard};

use crate::frames::Frames;
use crate::parts::buffers::Buffers;
use crate::parts::common::Common;
use crate::parts::durable::{Durable, Reserved};
use crate::parts::gate::Gate;
use crate::parts::pinned::Pinned;

/// What a store has on disk: its files, their space, and what is kept for pinned images.
pub(crate) struct Storage {
    gate: Gate,
    disk: Arc<dyn Disk>,
    data: Arc<dyn DiskFile>,
    /// Held by who changes the length of the data file: bytes of the disk that it leaves to others when it grows.
    growing: Mutex<u64>,
    buffers: Buffers,
    durable: Mutex<Durable>,
    map_reserved: Mutex<Reserved>,
    pinned: Pinned,
    /// See [`crate::PageStore::raise_format`].
    format_version: AtomicU32,
    /// Last: see there.
    frames: Frames,
}

impl Storage {
    pub fn new(
        frames: Frames,
        disk: Arc<dyn Disk>,
        data: Arc<dyn DiskFile>,
        durable: Durable,
    ) -> Storage {
        let common = frames.common();
        Storage {
            gate: Gate::new(durable.epoch.max(1)),
            disk,
            data,
            growing: Mutex::default(),
            buffers: Buffers::new(common.layout.write_batch, common.page_bytes()),
            format_version: AtomicU32::new(durable.superblock.version),
            durable: Mutex::new(durable),
            map_reserved: Mutex::default(),
            pinned: Pinned::default(),
            frames,
        }
    }

    /// What all parts go by.
    #[inline]
    pub fn common(&self) -> &Common {
        self.frames.common()
    }

    #[inline]
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The gate through which goes who changes pages.
    #[inline]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The file with the pages.
    pub fn data(&self) -> &Arc<dyn DiskFile> {
        &self.data
    }

    /// Where it is, with all other files.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The last checkpoint; whoever makes one holds this all the time.
    pub fn durable(&self) -> MutexGuard<'_, Durable> {
        self.durable.lock()
    }
}
