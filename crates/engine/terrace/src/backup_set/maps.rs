//! Where the pages of a point are: its map, written and read a stretch at a time.
//!
//! ```text
//! point-N.map     for each page, in the order of their numbers, 36 bytes:
//!                 page (5), slot then (5), point whose file has it (5), place there (5), hash (16)
//! ```
//!
//! Invariants: none is ever changed once a manifest names it; no caller is given an entry of one whose checksum
//! does not fit, or one that is in no order.

use std::sync::Arc;

use terrace_base::checksum::{Sum, mix};
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{Error, Result};

use crate::backup_set::damage::{damaged, missing};
use crate::backup_set::manifest::{FileInfo, Point};
use crate::backup_set::names::map_name;

const ENTRY_BYTES: usize = 36;
/// Numbers of five bytes.
const MOST: u64 = 1 << 40;
/// Entries that are read and written at a time: 288 KiB.
const AT_ONCE: usize = 8192;

/// Where a page of a point is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number.
    pub page: u64,
    /// Its slot in the data file when the point was made.
    pub slot: u64,
    /// The point whose file has it.
    pub file: u64,
    /// Pages before it in that file.
    pub index: u64,
    /// Of all of it.
    pub hash: u128,
}

impl Entry {
    /// Whether it names the same bytes in the same place.
    pub fn is_same_place(&self, other: &Entry) -> bool {
        (self.page, self.file, self.index, self.hash)
            == (other.page, other.file, other.index, other.hash)
    }
}

/// An entry in as little memory as it takes in a map: there is one for each page.
#[derive(Clone, Copy)]
pub struct Packed([u8; ENTRY_BYTES]);

/// Bytes of memory of one.
pub const PACKED_BYTES: u64 = ENTRY_BYTES as u64;

impl Packed {
    /// `None` if it has a number that the format has no room for.
    pub fn of(entry: &Entry) -> Option<Packed> {
        let mut bytes = [0; ENTRY_BYTES];
        let numbers = [entry.page, entry.slot, entry.file, entry.index];
        for (into, number) in bytes.chunks_exact_mut(5).zip(numbers) {
            if number >= MOST {
                return None;
            }
            into.copy_from_slice(&number.to_le_bytes()[..5]);
        }
        bytes[20..].copy_from_slice(&entry.hash.to_le_bytes());
        Some(Packed(bytes))
    }

    fn number(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number[..5].copy_from_slice(&self.0[at..at + 5]);
        u64::from_le_bytes(number)
    }

    /// The page's number.
    pub fn page(&self) -> u64 {
        self.number(0)
    }

    /// The file that has it, and the place there.
    pub fn place(&self) -> (u64, u64) {
        (self.number(10), self.number(15))
    }

    /// All of it.
    pub fn entry(&self) -> Entry {
        let mut hash = [0; 16];
        hash.copy_from_slice(&self.0[20..]);
        let (file, index) = self.place();
        Entry {
            page: self.page(),
            slot: self.number(5),
            file,
            index,
            hash: u128::from_le_bytes(hash),
        }
    }
}

fn sum_of(set: u64, number: u64) -> Sum {
    Sum::new(mix(set, mix(number, 1)))
}

/// Writes a map, its entries in ascending order of their pages.
pub struct MapWriter {
    name: String,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    written: u64,
    sum: Sum,
}

impl MapWriter {
    /// One of this number: that of a new point.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn create(disk: &dyn Disk, set: u64, number: u64) -> Result<MapWriter> {
        let name = map_name(number);
        let file = disk
            .create_buffered(&name)
            .map_err(|e| Error::io("creating", &name, e))?;
        Ok(MapWriter {
            name,
            file,
            buffer: Vec::with_capacity(AT_ONCE * ENTRY_BYTES),
            written: 0,
            sum: sum_of(set, number),
        })
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// Those of the disk; a number that the format has no room for.
    pub fn push(&mut self, entry: &Entry) -> Result<()> {
        let packed = Packed::of(entry).ok_or_else(|| {
            Error::invalid(format!(
                "a number of {entry:?} does not fit five bytes of {}",
                self.name
            ))
        })?;
        self.buffer.extend_from_slice(&packed.0);
        match self.buffer.len() >= AT_ONCE * ENTRY_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.sum.add(&self.buffer);
        self.file
            .write_at(&self.buffer, self.written)
            .map_err(|e| Error::io("writing", &self.name, e))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable; what the manifest is to say.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<FileInfo> {
        self.flush()?;
        self.file
            .sync()
            .map_err(|e| Error::io("syncing", &self.name, e))?;
        Ok(FileInfo {
            bytes: self.written,
            checksum: self.sum.value(),
        })
    }
}

/// Reads a map.
pub struct MapReader {
    name: String,
    file: Arc<dyn DiskFile>,
    bytes: u64,
    /// Bytes that were read into the buffer or given out.
    at: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were given out.
    given: usize,
    /// The page of the last one.
    last: Option<u64>,
}

impl MapReader {
    /// Opens the map of a point and reads all of it once, to check it.
    ///
    /// # Errors
    /// `Corrupt` for anything but what was written.
    pub fn open(disk: &dyn Disk, set: u64, point: &Point) -> Result<MapReader> {
        let (number, info) = (point.map_number(), point.map);
        let name = map_name(number);
        let file = disk.open_buffered(&name).map_err(|e| missing(&name, e))?;
        let len = file.len().map_err(|e| Error::io("measuring", &name, e))?;
        if len < info.bytes || !info.bytes.is_multiple_of(ENTRY_BYTES as u64) {
            return Err(damaged(&name, len, "the file ends too early"));
        }
        let mut reader = MapReader {
            name,
            file,
            bytes: info.bytes,
            at: 0,
            buffer: Vec::new(),
            given: 0,
            last: None,
        };
        let mut sum = sum_of(set, number);
        while reader.fill()? {
            sum.add(&reader.buffer);
        }
        if sum.value() != info.checksum {
            let what = "its checksum does not fit";
            return Err(damaged(&reader.name, None, what));
        }
        reader.rewind();
        Ok(reader)
    }

    /// Begins with the first one again.
    pub fn rewind(&mut self) {
        (self.at, self.given, self.last) = (0, 0, None);
        self.buffer.clear();
    }

    /// Entries that it has.
    pub fn count(&self) -> u64 {
        self.bytes / ENTRY_BYTES as u64
    }

    /// Reads the next stretch into the buffer; whether there was one.
    fn fill(&mut self) -> Result<bool> {
        let left = (self.bytes - self.at).min((AT_ONCE * ENTRY_BYTES) as u64);
        self.buffer.resize(left as usize, 0);
        self.given = 0;
        if left == 0 {
            return Ok(false);
        }
        self.file
            .read_at(&mut self.buffer, self.at)
            .map_err(|e| Error::io("reading", &self.name, e))?;
        self.at += left;
        Ok(true)
    }

    /// The next one as it lies there.
    ///
    /// # Errors
    /// Those of the disk, `Corrupt` if it is not behind the one before.
    pub fn next_packed(&mut self) -> Result<Option<Packed>> {
        if self.given == self.buffer.len() && !self.fill()? {
            return Ok(None);
        }
        let mut bytes = [0; ENTRY_BYTES];
        bytes.copy_from_slice(&self.buffer[self.given..self.given + ENTRY_BYTES]);
        self.given += ENTRY_BYTES;
        let packed = Packed(bytes);
        let page = packed.page();
        if self.last.is_some_and(|last| page <= last) {
            return Err(damaged(&self.name, None, "its pages are in no order"));
        }
        self.last = Some(page);
        Ok(Some(packed))
    }

    /// The next one.
    ///
    /// # Errors
    /// As [`MapReader::next_packed`].
    pub fn next(&mut self) -> Result<Option<Entry>> {
        Ok(self.next_packed()?.map(|packed| packed.entry()))
    }

    /// The one of this page, which lies behind all that were asked for before.
    ///
    /// # Errors
    /// As [`MapReader::next_packed`].
    pub fn seek(&mut self, page: u64, ahead: &mut Option<Entry>) -> Result<Option<Entry>> {
        loop {
            match ahead {
                Some(entry) if entry.page > page => return Ok(None),
                Some(entry) if entry.page == page => return Ok(ahead.take()),
                _ => {}
            }
            *ahead = self.next()?;
            if ahead.is_none() {
                return Ok(None);
            }
        }
    }
}
