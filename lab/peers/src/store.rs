//! What a store must offer to be measured here, and how that becomes a target of `terrace-bench`.
//!
//! Invariant: what is not the store's own is the same for all: where bytes, files and time are read from, and
//! that a read-modify-write is atomic.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use terrace_bench::device::Device;
use terrace_bench::{Counters, Target, TargetResult, resident};

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// How a store is opened.
pub struct Opening<'a> {
    /// An empty folder.
    pub folder: &'a Path,
    /// The bytes of memory that it is given.
    pub memory: u64,
    /// Keys and values that are loaded, in bytes.
    pub data: u64,
    /// Threads that use it.
    pub threads: usize,
    /// The device that takes its time while it is measured, if it is not the one below.
    pub paced: Option<Paced>,
}

/// A device of a certain speed: `terrace_bench::device`.
#[derive(Clone, Copy)]
pub struct Paced {
    /// How fast it is.
    pub device: Device,
    /// Fewer bytes take as long as this many.
    pub least_bytes: u64,
}

/// A store; every method may be called by many threads at once. A put that has returned survives the end of the
/// process where the store has a log.
pub trait Store: Sync {
    /// Reads the value of a key into `out`, which is empty; whether there is one.
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool>;

    /// Writes a value.
    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()>;

    /// Writes many, as its documents advise where many are loaded.
    fn put_all(&self, records: &[Record]) -> TargetResult<()> {
        records
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    /// Atomically replaces a value by what `change` makes of it, which may be called more than once, and says
    /// whether there was one; nothing from a store that has no such thing.
    fn change(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> Option<TargetResult<bool>> {
        let _ = (key, change);
        None
    }

    /// Reads many records; `visit` is given which of the keys it is, and the value if there is one. A store that
    /// knows no better way reads one after the other.
    fn get_many(
        &self,
        keys: &[[u8; 8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> TargetResult<()> {
        let mut value = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            value.clear();
            let found = self.get(key, &mut value)?;
            visit(i, found.then_some(&value[..]));
        }
        Ok(())
    }

    /// Visits up to `limit` records in the order of keys, the first at `from` or behind it.
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()>;

    /// From now on its device is the paced one that it was opened with, or the one below.
    fn pace(&self, on: bool) {
        let _ = on;
    }

    /// Requests to read that it has made, and their bytes, if it counts them.
    fn reads(&self) -> Option<(u64, u64)> {
        None
    }

    /// Brings what was loaded to its final place, as far as the store does that when it is asked.
    fn settle(&self) -> TargetResult<()> {
        Ok(())
    }
}

/// Locks of read-modify-writes: many more than threads.
const LOCKS: usize = 1024;
/// What the counts of the system's bytes are told in.
const PAGE_BYTES: u64 = 4096;

/// A store with what is the same for all.
pub struct Measured {
    store: Box<dyn Store>,
    folder: PathBuf,
    locks: Vec<Mutex<()>>,
    load_batch: usize,
    /// Records of a load that are not written yet; nothing once the load has ended.
    loading: Mutex<Option<Vec<Record>>>,
}

impl Measured {
    /// A store whose files are in this folder; this many records are loaded at once, 1 for one after the other.
    pub fn new(store: Box<dyn Store>, folder: &Path, load_batch: usize) -> Measured {
        Measured {
            store,
            load_batch,
            loading: Mutex::new((load_batch > 1).then(Vec::new)),
            folder: folder.into(),
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }
    }

    /// As [`Store::pace`].
    pub fn pace(&self, on: bool) {
        self.store.pace(on);
    }
}

/// Bytes of the files of a folder that are on the disk.
fn file_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| {
        let Ok(about) = entry.metadata() else {
            // It went meanwhile.
            return 0;
        };
        if about.is_dir() {
            return file_bytes(&entry.path());
        }
        use std::os::unix::fs::MetadataExt;
        about.blocks() * 512
    });
    bytes.sum()
}

/// Bytes that this process has read from and written to disks.
fn device_bytes() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    (field("read_bytes:"), field("write_bytes:"))
}

impl Target for Measured {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        self.store.get(key, out)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let batch = {
            let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(records) = loading.as_mut() else {
                drop(loading);
                return self.store.put(key, value);
            };
            records.push((key.to_vec(), value.to_vec()));
            if records.len() < self.load_batch {
                return Ok(());
            }
            std::mem::take(records)
        };
        self.store.put_all(&batch)
    }

    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool> {
        self.read_modify_write(key, &mut |_, new| new.extend_from_slice(value))
    }

    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        if let Some(changed) = self.store.change(key, change) {
            return changed;
        }
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let lock = &self.locks[key.iter().fold(7, mix) as usize % LOCKS];
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        if !self.store.get(key, &mut old)? {
            return Ok(false);
        }
        change(&old, &mut new);
        self.store.put(key, &new)?;
        Ok(true)
    }

    fn get_many(
        &self,
        keys: &[[u8; 8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> TargetResult<()> {
        self.store.get_many(keys, visit)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        self.store.scan(from, limit, visit)
    }

    fn counters(&self) -> TargetResult<Counters> {
        let (read, written) = device_bytes();
        let (read_requests, read) = self.store.reads().unwrap_or((0, read));
        let files = file_bytes(&self.folder);
        Ok(Counters {
            page_bytes: PAGE_BYTES,
            page_reads: read / PAGE_BYTES,
            read_requests,
            page_writes: written / PAGE_BYTES,
            disk_bytes_written: written,
            disk_bytes: Some(files),
            data_file_bytes: Some(files),
            processor_us: resident::processor_us().unwrap_or(0),
            ..Counters::default()
        })
    }

    fn settle(&self) -> TargetResult<()> {
        let rest = self
            .loading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(rest) = rest {
            self.store.put_all(&rest)?;
        }
        self.store.settle()
    }
}
