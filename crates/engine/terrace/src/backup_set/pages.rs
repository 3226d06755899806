//! The pages that were stored for a point.
//!
//! ```text
//! point-N.pages   header of 4096 bytes, then pages as they are in the data file
//! ```
//!
//! Invariant: such a file is never changed once a manifest names it.

use std::sync::Arc;

use terrace_base::checksum::{mix, seeded, wide};
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{AlignedBuf, Error, PageId, Result};
use terrace_pages::check_page;

use crate::backup_set::damage::{damaged, missing};
use crate::backup_set::manifest::{FORMAT, FileInfo};
use crate::backup_set::maps::Entry;
use crate::backup_set::names::{HEADER_BYTES, pages_name};

/// Bytes that are read and written at a time.
pub const BATCH_BYTES: usize = 1 << 20;
const MAGIC: [u8; 8] = *b"TERRPGS\0";

/// The hash by which equal pages are known.
pub fn hash_of(page: &[u8]) -> u128 {
    wide(page)
}

/// Writes the pages of a point.
pub struct PagesWriter {
    disk: Arc<dyn Disk>,
    name: String,
    file: Option<Arc<dyn DiskFile>>,
    header: AlignedBuf,
    buffer: AlignedBuf,
    filled: usize,
    written: u64,
    page_bytes: usize,
}

fn header(set: u64, point: u64, page_bytes: usize) -> AlignedBuf {
    let mut header = AlignedBuf::zeroed(HEADER_BYTES as usize);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..16].copy_from_slice(&(page_bytes as u32).to_le_bytes());
    header[16..24].copy_from_slice(&set.to_le_bytes());
    header[24..32].copy_from_slice(&point.to_le_bytes());
    let sum = seeded(mix(set, point), &header[..HEADER_BYTES as usize - 8]);
    header[HEADER_BYTES as usize - 8..].copy_from_slice(&sum.to_le_bytes());
    header
}

impl PagesWriter {
    /// For the pages of this point. The file is made with the first of them.
    pub fn new(disk: Arc<dyn Disk>, set: u64, point: u64, page_bytes: usize) -> PagesWriter {
        let batch = (BATCH_BYTES / page_bytes).max(1) * page_bytes;
        PagesWriter {
            disk,
            name: pages_name(point),
            file: None,
            header: header(set, point, page_bytes),
            buffer: AlignedBuf::zeroed(batch),
            filled: 0,
            written: 0,
            page_bytes,
        }
    }

    /// Takes a page; returns its place.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push(&mut self, page: &[u8]) -> Result<u64> {
        let index = self.written + (self.filled / self.page_bytes) as u64;
        self.buffer[self.filled..self.filled + page.len()].copy_from_slice(page);
        self.filled += page.len();
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(index)
    }

    fn flush(&mut self) -> Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let name = &self.name;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = self
                    .disk
                    .create(name)
                    .map_err(|e| Error::io("creating", name, e))?;
                file.write_at(&self.header, 0)
                    .map_err(|e| Error::io("writing", name, e))?;
                self.file.insert(file).clone()
            }
        };
        let at = HEADER_BYTES + self.written * self.page_bytes as u64;
        file.write_at(&self.buffer[..self.filled], at)
            .map_err(|e| Error::io("writing", name, e))?;
        self.written += (self.filled / self.page_bytes) as u64;
        self.filled = 0;
        Ok(())
    }

    /// Makes it durable, if there were any pages.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<Option<FileInfo>> {
        self.flush()?;
        let Some(file) = &self.file else {
            return Ok(None);
        };
        file.sync()
            .map_err(|e| Error::io("syncing", &self.name, e))?;
        Ok(Some(FileInfo {
            bytes: HEADER_BYTES + self.written * self.page_bytes as u64,
            checksum: 0,
        }))
    }
}

/// Reads pages of one file of a set.
pub struct PagesReader {
    name: String,
    file: Arc<dyn DiskFile>,
    page_bytes: usize,
    /// Pages that the file has.
    pub count: u64,
    buffer: AlignedBuf,
}

impl PagesReader {
    /// Opens the file of a point's pages, which has `bytes` bytes.
    ///
    /// # Errors
    /// `Corrupt` if it is missing, shorter, or another file.
    pub fn open(
        disk: &dyn Disk,
        set: u64,
        point: u64,
        page_bytes: usize,
        bytes: u64,
    ) -> Result<PagesReader> {
        let name = pages_name(point);
        let file = disk.open(&name).map_err(|e| missing(&name, e))?;
        let len = file.len().map_err(|e| Error::io("measuring", &name, e))?;
        if len < bytes || bytes < HEADER_BYTES {
            return Err(damaged(&name, len, "the file ends too early"));
        }
        let mut found = AlignedBuf::zeroed(HEADER_BYTES as usize);
        file.read_at(&mut found, 0)
            .map_err(|e| Error::io("reading", &name, e))?;
        if found[..] != header(set, point, page_bytes)[..] {
            let what = "its header is damaged, or it is a file of another set";
            return Err(damaged(&name, 0, what));
        }
        let batch = (BATCH_BYTES / page_bytes).max(1) * page_bytes;
        Ok(PagesReader {
            name,
            file,
            page_bytes,
            count: (bytes - HEADER_BYTES) / page_bytes as u64,
            buffer: AlignedBuf::zeroed(batch),
        })
    }

    /// Pages that are read at once, at most.
    pub fn most(&self) -> usize {
        self.buffer.len() / self.page_bytes
    }

    /// Reads `count` pages from `index` on and calls `each` with its place and its bytes, of which nothing
    /// is checked.
    ///
    /// # Errors
    /// `Corrupt` when there are fewer, those of the disk and of `each`.
    pub fn read(
        &mut self,
        index: u64,
        count: usize,
        each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let at = HEADER_BYTES + index * self.page_bytes as u64;
        if index + count as u64 > self.count || count > self.most() {
            let what = format!(
                "there are {} pages, and one behind them is named",
                self.count
            );
            return Err(damaged(&self.name, at, what));
        }
        let into = &mut self.buffer[..count * self.page_bytes];
        self.file
            .read_at(into, at)
            .map_err(|e| Error::io("reading", &self.name, e))?;
        for (i, page) in into.chunks_exact(self.page_bytes).enumerate() {
            each(index + i as u64, page)?;
        }
        Ok(())
    }

    /// Checks that these bytes, read from there, are the page that an entry names.
    ///
    /// # Errors
    /// `Corrupt` with file and place.
    pub fn check(&self, entry: &Entry, bytes: &[u8]) -> Result<()> {
        let at = HEADER_BYTES + entry.index * self.page_bytes as u64;
        if check_page(bytes, PageId(entry.page)).is_err() || hash_of(bytes) != entry.hash {
            let what = format!("page {} should be here, and is damaged", entry.page);
            return Err(damaged(&self.name, at, what));
        }
        Ok(())
    }
}
