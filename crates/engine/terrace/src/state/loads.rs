//! What all loaders of a database take together: memory, and files in its folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::disk::Disk;
use terrace_base::process::Owner;
use terrace_base::{Error, Result};
use terrace_pages::PageStore;

/// What the names of these files begin with; a number follows.
const PREFIX: &str = "load-";

/// The name of a file with this number.
pub fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// Removes what loaders of a process that has crashed have left.
pub fn remove_leftovers(disk: &dyn Disk) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the directory", e))?;
    let is_mine = |name: &&String| {
        let number = name.strip_prefix(PREFIX);
        number.is_some_and(|n| n.len() == 16 && n.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    for name in names.iter().filter(is_mine) {
        disk.delete(name)
            .map_err(|e| Error::io("deleting", name, e))?;
    }
    Ok(())
}

/// The memory and the files that all loaders of a database take together.
pub struct Space {
    disk: Arc<dyn Disk>,
    owner: Owner,
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

    /// The folder of the database.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Whether this is the process that loads: a child that it forks must leave threads and files alone.
    pub fn is_mine(&self) -> bool {
        self.owner.is_here()
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

    /// `bytes` bytes were written to a file, which is longer by as many now.
    pub fn wrote(&self, bytes: u64) {
        self.file_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file of `bytes` bytes is gone.
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
        least: u64,
        usual: u64,
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
        if !self.space.is_mine() {
            return;
        }
        self.space.memory.fetch_sub(self.bytes, Ordering::Relaxed);
        self.store.give_extra_bytes(self.bytes);
        self.store.rebalance();
    }
}
