//! What all loaders of a database take together: memory, and files in its folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::disk::Disk;
use terrace_pages::PageStore;

/// See the module's text.
pub struct Space {
    pub disk: Arc<dyn Disk>,
    memory: AtomicU64,
    file_bytes: AtomicU64,
    bytes_written: AtomicU64,
}

impl Space {
    pub fn new(disk: Arc<dyn Disk>) -> Arc<Space> {
        Arc::new(Space {
            disk,
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
    pub fn take(space: &Arc<Space>, store: &Arc<PageStore>, bytes: u64) -> Memory {
        space.memory.fetch_add(bytes, Ordering::Relaxed);
        store.take_extra_bytes(bytes);
        store.rebalance();
        Memory {
            space: space.clone(),
            store: store.clone(),
            bytes,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.space.memory.fetch_sub(self.bytes, Ordering::Relaxed);
        self.store.give_extra_bytes(self.bytes);
        self.store.rebalance();
    }
}
