//! A disk whose syncs wait while a gate is closed, and whose writes fail after some more.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use terrace::{DirectIo, Disk, DiskFile, FileDisk};

/// Whether syncs go on.
#[derive(Default)]
pub struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
    /// Writes that go before all of them fail.
    left: Mutex<Option<u64>>,
}

impl Gate {
    /// Until it is opened, or what this returns is dropped: a test that fails ends the server, and that waits for syncs.
    pub fn close(&self) -> Opens<'_> {
        *self.closed.lock().unwrap() = true;
        Opens(self)
    }

    pub fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.changed.notify_all();
    }

    /// This many writes succeed from now on.
    #[allow(dead_code)] // Each binary of tests uses its own part of this.
    pub fn fail_after(&self, writes: u64) {
        *self.left.lock().unwrap() = Some(writes);
    }

    fn write(&self) -> io::Result<()> {
        match &mut *self.left.lock().unwrap() {
            Some(0) => Err(io::Error::other("the disk is broken")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap();
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
    }
}

/// Opens a gate when it is dropped.
#[must_use]
pub struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct Slow {
    disk: FileDisk,
    gate: Arc<Gate>,
}

struct SlowFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

/// A disk in a folder, and its gate.
pub fn disk(path: &Path) -> (Arc<dyn Disk>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let disk = FileDisk::open_or_create(path, DirectIo::Off).unwrap();
    let slow = Slow {
        disk,
        gate: gate.clone(),
    };
    (Arc::new(slow), gate)
}

impl Slow {
    fn file(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        let gate = self.gate.clone();
        file.map(|file| Arc::new(SlowFile { file, gate }) as Arc<dyn DiskFile>)
    }
}

impl Disk for Slow {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.open(name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.create(name))
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.open_buffered(name))
    }

    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.create_buffered(name))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.disk.delete(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
}

impl DiskFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.gate.write()?;
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
