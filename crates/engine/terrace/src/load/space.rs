//! What all loaders of a database take together: memory, and files in its folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::disk::Disk;
use terrace_base::process::Owner;
use terrace_base::{Error, Result};
use terrace_pages::PageStore;

/// See the module's text.
pub struct Space {
    pub disk: Arc<dyn Disk>,
    /// The process that loads: a child that it forks must leave threads and files alone.
    pub owner: Owner,
    memory: AtomicU64,
    file_bytes: AtomicU64,
    bytes_written: AtomicU64,
}

impl Space {
    pub fn new(disk: Arc<dyn Disk>) -> Arc<Space> {
        Arc::new(Space {
            disk,
            owner: Owner::here(),
            memory: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        })
    }

    /// Bytes of memory that loaders have now.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Bytes of their files now.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written to such files.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// So many bytes were written to a file, which is so much longer now.
    pub fn wrote(&self, bytes: u64) {
        self.file_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file of so many bytes is gone.
    pub fn deleted(&self, bytes: u64) {
        self.file_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory of a database for which its pages make room.
pub struct Memory {
    space: Arc<Space>,
    store: Arc<PageStore>,
    bytes: u64,
}

impl Memory {
    /// Takes memory: half of what others have left of twice the `usual`, so that all loaders together never have
    /// more than that, however many there are.
    ///
    /// # Errors
    /// When there is none left, or what makes room for it fails.
    pub fn take(
        space: &Arc<Space>,
        store: &Arc<PageStore>,
        (least, usual): (u64, u64),
    ) -> Result<Memory> {
        let share = |taken: u64| (2 * usual).saturating_sub(taken) / 2;
        let grant = |taken: u64| Some(share(taken)).filter(|bytes| *bytes >= least);
        let add = |taken: u64| grant(taken).map(|bytes| taken + bytes);
        let before = space
            .memory
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .map_err(|_| {
                Error::invalid(
                    "so many loaders are open that there is no memory for one more; finish one, or open the database with more",
                )
            })?;
        let memory = Memory {
            space: space.clone(),
            store: store.clone(),
            bytes: share(before),
        };
        store.take_extra_bytes(memory.bytes);
        store.make_room_for_extra()?;
        Ok(memory)
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.space.owner.is_here() {
            return;
        }
        self.space.memory.fetch_sub(self.bytes, Ordering::Relaxed);
        self.store.give_extra_bytes(self.bytes);
        self.store.rebalance();
    }
}
