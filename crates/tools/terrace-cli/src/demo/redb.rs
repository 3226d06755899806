//! redb in the demonstration: a store of pages that many know, one file, one writer at a time.
//!
//! It has the same memory as the others: its cache. It writes as it does by itself, through the system's cache,
//! and syncs it; but its reads go around that cache where the file system lets them, as the others' do, or memory
//! that was not counted would answer them.

use anyhow::{Context, Result};
use redb::{Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use terrace::{DirectIo, Disk, DiskFile, FileDisk};
use terrace_view::http::Server;

use super::people::{People, Person, encode};
use super::stop;
use super::store::{Moved, Store};

/// What it is called.
pub const NAME: &str = "redb";
/// The name of its file.
const FILE: &str = "people.redb";
const PEOPLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("people");
/// This many people are loaded in a transaction: a cache of a few MiB holds what that changes.
const TRANSACTION: u64 = 20_000;
/// What direct reads are multiples of.
const BLOCK: u64 = 4096;

/// A database of redb.
pub struct Redb {
    db: redb::Database,
    requests: Arc<Requests>,
}

/// What it has asked for.
#[derive(Debug, Default)]
struct Requests {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    file_bytes: AtomicU64,
}

impl Redb {
    /// Makes a database in the folder.
    pub fn create(folder: &Path, memory: u64) -> Result<Redb> {
        let context = || format!("cannot create {}", folder.display());
        let requests = Arc::new(Requests::default());
        let backend = Backend::create(folder, requests.clone()).with_context(context)?;
        let mut builder = redb::Builder::new();
        builder.set_cache_size(usize::try_from(memory)?);
        let db = builder.create_with_backend(backend).with_context(context)?;
        Ok(Redb { db, requests })
    }
}

impl Store for Redb {
    fn load(&self, people: &People, told: &dyn Fn(u64)) -> Result<()> {
        let mut person = Person::default();
        let mut next = 0;
        while next < people.count {
            let mut transaction = self.db.begin_write()?;
            transaction.set_durability(Durability::None)?;
            let mut table = transaction.open_table(PEOPLE)?;
            let end = people.count.min(next + TRANSACTION);
            for number in next..end {
                stop::check()?;
                people.write(number, &mut person);
                let value = encode(0, &person.text);
                table.insert(person.key.as_slice(), value.as_slice())?;
            }
            drop(table);
            transaction.commit()?;
            next = end;
            told(next);
        }
        self.settle()
    }

    /// Only one thread at a time can write, so what is only read is read before, beside other threads.
    fn visit(&self, people: &People, group: u64) -> Result<()> {
        let mut person = Person::default();
        let reader = self.db.begin_read()?.open_table(PEOPLE)?;
        for visit in people.visits(group).filter(|visit| !visit.counts) {
            stop::check()?;
            people.write(visit.person, &mut person);
            let value = reader.get(person.key.as_slice())?;
            let value = value.as_ref().map(|value| value.value());
            people.check(visit.person, &mut person, value)?;
        }
        drop(reader);
        let transaction = self.db.begin_write()?;
        let mut table = transaction.open_table(PEOPLE)?;
        for visit in people.visits(group).filter(|visit| visit.counts) {
            stop::check()?;
            people.write(visit.person, &mut person);
            let key = std::mem::take(&mut person.key);
            let count = {
                let value = table.get(key.as_slice())?;
                let value = value.as_ref().map(|value| value.value());
                people.check(visit.person, &mut person, value)?
            };
            let value = encode(count + 1, &person.text);
            table.insert(key.as_slice(), value.as_slice())?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.begin_write()?.commit()?)
    }

    fn moved(&self) -> Moved {
        let Requests {
            reads,
            bytes_read,
            bytes_written,
            ..
        } = &*self.requests;
        Moved {
            reads: reads.load(Ordering::Relaxed),
            bytes_read: bytes_read.load(Ordering::Relaxed),
            bytes_written: bytes_written.load(Ordering::Relaxed),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let table = self.db.begin_read()?.open_table(PEOPLE)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.requests.file_bytes.load(Ordering::Relaxed)
    }

    fn page(&self, _: &Path, _: SocketAddr) -> Result<Option<Server>> {
        Ok(None)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// Its file: written through the system's cache, read around it.
struct Backend {
    written: File,
    read: Arc<dyn DiskFile>,
    /// Keeps the folder locked.
    _disk: FileDisk,
    requests: Arc<Requests>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}

impl Backend {
    fn create(folder: &Path, requests: Arc<Requests>) -> Result<Backend> {
        let disk = FileDisk::open_or_create(folder, DirectIo::Preferred)?;
        let read = disk.create(FILE)?;
        let path = folder.join(FILE);
        let written = File::options().read(true).write(true).open(path)?;
        Ok(Backend {
            written,
            read,
            _disk: disk,
            requests,
        })
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Requests {
            reads, bytes_read, ..
        } = &*self.requests;
        let end = offset + out.len() as u64;
        let (from, to) = (offset / BLOCK * BLOCK, end.next_multiple_of(BLOCK));
        reads.fetch_add(1, Ordering::Relaxed);
        bytes_read.fetch_add(to - from, Ordering::Relaxed);
        if to > self.len()? {
            // The end of a file that is no whole number of blocks.
            return self.written.read_exact_at(out, offset);
        }
        let (bytes, block) = (usize::try_from(to - from), BLOCK as usize);
        let bytes = bytes.map_err(io::Error::other)?;
        // Aligned, as direct reads want it.
        let mut buffer = vec![0; bytes + block];
        let skip = buffer.as_ptr().align_offset(block);
        let aligned = buffer
            .get_mut(skip..skip + bytes)
            .ok_or_else(|| io::Error::other("a buffer cannot be aligned"))?;
        self.read.read_at(aligned, from)?;
        let within = (offset - from) as usize;
        out.copy_from_slice(&aligned[within..within + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.requests.file_bytes.store(len, Ordering::Relaxed);
        self.written.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.written.sync_data()?;
        // What is on the device stays in no cache.
        self.read.write_back(0, 0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let bytes = data.len() as u64;
        self.requests
            .bytes_written
            .fetch_add(bytes, Ordering::Relaxed);
        self.written.write_all_at(data, offset)
    }
}
