//! Reading large values while other records change.

mod common;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use common::*;
use terrace_base::disk::{Disk, DiskFile};
use terrace_pages::PageStore;
use terrace_sim::SimDisk;
use terrace_tier::{Change, LockTable, Structure, TierContext, TierOptions};

/// A record lock that somebody else takes and gives back changed whenever a page is read.
#[derive(Default)]
struct Restless {
    lock: OnceLock<(Arc<LockTable>, usize)>,
    reads: AtomicUsize,
}

struct RestlessDisk(Arc<dyn Disk>, Arc<Restless>);
struct RestlessFile(Arc<dyn DiskFile>, Arc<Restless>);

/// Reads after which there is peace, so that a test that would go on for ever fails instead.
const MOST_READS: usize = 20_000;

impl Disk for RestlessDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RestlessFile(self.0.open(name)?, self.1.clone())))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RestlessFile(self.0.create(name)?, self.1.clone())))
    }
    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open_buffered(name)
    }
    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.create_buffered(name)
    }
    fn delete(&self, name: &str) -> io::Result<()> {
        self.0.delete(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
}

impl DiskFile for RestlessFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if let Some((locks, slot)) = self.1.lock.get()
            && self.1.reads.fetch_add(1, Ordering::Relaxed) < MOST_READS
        {
            locks.lock(*slot).release_changed();
        }
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(offset, len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// A value of more pages than there is memory for, whose record's lock other records share that change
/// all the time.
fn a_long_value_is_read<M: Method>() {
    let restless = Arc::new(Restless::default());
    let disk = RestlessDisk(SimDisk::new(1).shared(), restless.clone());
    let store = PageStore::create(Arc::new(disk), options(600 << 10, 4096), 7, &cut()).unwrap();
    let context = TierContext::new(Arc::new(store), 1 << 14);
    let _cleaner = terrace_pages::Cleaner::start(context.store.clone()).unwrap();
    let structure = two_tiers::<M>(&context, &TierOptions::default());
    let long: Vec<u8> = (0..2_000_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    let put = |key: &[u8], value: &[u8]| {
        let done = structure.write(key, Change::Put(value), None, &mut || ());
        assert!(done.unwrap());
    };
    put(b"long", &long);
    for i in 0..50u32 {
        put(&i.to_be_bytes(), &[7; 100]);
    }
    let slot = context.locks.slot(structure.id(), b"long");
    assert!(restless.lock.set((context.locks.clone(), slot)).is_ok());
    let mut value = Vec::new();
    assert!(structure.get(b"long", &mut value).unwrap());
    assert!(value == long);
    let (reads, pages) = (restless.reads.load(Ordering::Relaxed), long.len() / 4000);
    assert!(
        pages / 2 < reads && reads < 4 * pages,
        "{reads} reads of {pages} pages"
    );
}

#[test]
fn a_reader_of_a_long_value_is_not_held_up_by_changes_of_others() {
    a_long_value_is_read::<BTree>();
    a_long_value_is_read::<HashTable>();
    a_long_value_is_read::<Heap>();
}
