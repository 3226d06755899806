//! A disk that keeps nothing: for the log of a snapshot, to which nothing is ever written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::disk::{Disk, DiskFile};

/// A disk that keeps nothing.
pub struct Nothing;

/// A file that has a length and no bytes.
#[derive(Default)]
struct Empty(AtomicU64);

impl Disk for Nothing {
    fn open(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(Empty::default()))
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.create(name)
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

impl DiskFile for Empty {
    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.allocate(offset, buf.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0
            .fetch_max(offset.saturating_add(len), Ordering::Relaxed);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}
