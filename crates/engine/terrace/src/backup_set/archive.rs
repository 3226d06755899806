//! Files of archived log: records in their order, in blocks that have a checksum each.
//!
//! ```text
//! log-N.records   header of 64 bytes, then blocks: checksum (8), first record (8), bytes (4), records (4),
//!                 then each record as its length (4) and its bytes
//! ```
//!
//! Invariants: bytes that a manifest names are never changed; what lies behind them is written over by who
//! goes on; a reader believes nothing whose checksum does not fit.

use std::sync::Arc;

use terrace_base::checksum::{mix, seeded};
use terrace_base::codec::{u32_at, u64_at};
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{Error, Result};

use crate::backup_set::damage::damaged;
use crate::backup_set::manifest::{FORMAT, LogFile};
use crate::backup_set::names::log_name;

const MAGIC: [u8; 8] = *b"TERRREC\0";
const HEADER_BYTES: u64 = 64;
const BLOCK_HEADER: usize = 24;
/// A block is written when it has become so long: the checksum of one is looked at as a whole.
const BLOCK_BYTES: usize = 256 << 10;
/// A file that is so long is followed by another one: what is forgotten goes by files.
pub const FILE_BYTES: u64 = 16 << 20;

fn header(set: u64, log: &LogFile) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&set.to_le_bytes());
    header[24..32].copy_from_slice(&log.file.to_le_bytes());
    header[32..40].copy_from_slice(&log.chain.to_le_bytes());
    header[40..48].copy_from_slice(&log.first.to_le_bytes());
    let sum = seeded(mix(set, log.file), &header[..56]);
    header[56..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn seed(set: u64, file: u64, at: u64) -> u64 {
    mix(mix(set, file), at)
}

/// Adds records to a file.
pub struct RecordsWriter {
    name: String,
    file: Arc<dyn DiskFile>,
    set: u64,
    /// What the manifest is to say of it; the records that are in no block yet are not counted.
    pub log: LogFile,
    buffer: Vec<u8>,
    records: u32,
}

impl RecordsWriter {
    /// A new file.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn create(
        disk: &dyn Disk,
        set: u64,
        file: u64,
        chain: u64,
        first: u64,
    ) -> Result<RecordsWriter> {
        let log = LogFile {
            file,
            chain,
            first,
            next: first,
            bytes: HEADER_BYTES,
            checksum: 0,
            last_ms: 0,
            marks: Vec::new(),
            leaps: Vec::new(),
        };
        let name = log_name(file);
        let opened = disk
            .create_buffered(&name)
            .map_err(|e| Error::io("creating", &name, e))?;
        opened
            .write_at(&header(set, &log), 0)
            .map_err(|e| Error::io("writing", &name, e))?;
        Ok(RecordsWriter::of(name, opened, set, log))
    }

    /// Goes on with a file.
    ///
    /// # Errors
    /// Those of the disk; `Corrupt` if it is missing or too short.
    pub fn go_on(disk: &dyn Disk, set: u64, log: &LogFile) -> Result<RecordsWriter> {
        let (name, file) = open(disk, log)?;
        Ok(RecordsWriter::of(name, file, set, log.clone()))
    }

    fn of(name: String, file: Arc<dyn DiskFile>, set: u64, log: LogFile) -> RecordsWriter {
        RecordsWriter {
            name,
            file,
            set,
            log,
            buffer: vec![0; BLOCK_HEADER],
            records: 0,
        }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        self.buffer
            .extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(record);
        self.records += 1;
        if self.buffer.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let payload = (self.buffer.len() - BLOCK_HEADER) as u32;
        self.buffer[8..16].copy_from_slice(&self.log.next.to_le_bytes());
        self.buffer[16..20].copy_from_slice(&payload.to_le_bytes());
        self.buffer[20..24].copy_from_slice(&self.records.to_le_bytes());
        let sum = seeded(
            seed(self.set, self.log.file, self.log.bytes),
            &self.buffer[8..],
        );
        self.buffer[..8].copy_from_slice(&sum.to_le_bytes());
        self.file
            .write_at(&self.buffer, self.log.bytes)
            .map_err(|e| Error::io("writing", &self.name, e))?;
        self.log.bytes += self.buffer.len() as u64;
        self.log.next += u64::from(self.records);
        self.log.checksum = mix(self.log.checksum, sum);
        self.records = 0;
        self.buffer.truncate(BLOCK_HEADER);
        self.buffer.shrink_to(2 * BLOCK_BYTES);
        Ok(())
    }

    /// Makes all of it durable; what the manifest is to say.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<LogFile> {
        self.end_block()?;
        self.file
            .sync()
            .map_err(|e| Error::io("syncing", &self.name, e))?;
        Ok(self.log)
    }
}

fn open(disk: &dyn Disk, log: &LogFile) -> Result<(String, Arc<dyn DiskFile>)> {
    let name = log_name(log.file);
    let opened = disk.open_buffered(&name).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => damaged(&name, None, "the file is missing"),
        _ => Error::io("opening", &name, e),
    })?;
    let len = opened.len().map_err(|e| Error::io("measuring", &name, e))?;
    if len < log.bytes || log.bytes < HEADER_BYTES {
        return Err(damaged(&name, len, "the file ends too early"));
    }
    Ok((name, opened))
}

/// Gives every record of a file to `each`, with its number.
///
/// # Errors
/// `Corrupt` with file and place for anything but what was written; those of the disk and of `each`.
pub fn read_records(
    disk: &dyn Disk,
    set: u64,
    log: &LogFile,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let (name, file) = open(disk, log)?;
    let read = |buffer: &mut [u8], at: u64| {
        file.read_at(buffer, at)
            .map_err(|e| Error::io("reading", &name, e))
    };
    let mut found = [0; HEADER_BYTES as usize];
    read(&mut found, 0)?;
    if found != header(set, log) {
        let what = "its header is damaged, or it is a file of another set";
        return Err(damaged(&name, 0, what));
    }
    let (mut at, mut next, mut checksum) = (HEADER_BYTES, log.first, 0);
    let mut block = Vec::new();
    while at < log.bytes {
        let bad = |what: &str| Err(damaged(&name, at, what));
        let left = log.bytes - at;
        if left < BLOCK_HEADER as u64 {
            return bad("a block is cut off here");
        }
        block.resize(BLOCK_HEADER, 0);
        read(&mut block, at)?;
        let len = u32_at(&block, 16).map_or(0, u64::from);
        if len > left - BLOCK_HEADER as u64 {
            return bad("the block here is damaged");
        }
        block.resize(BLOCK_HEADER + len as usize, 0);
        read(&mut block[BLOCK_HEADER..], at + BLOCK_HEADER as u64)?;
        let sum = u64_at(&block, 0).unwrap_or(0);
        if seeded(seed(set, log.file, at), &block[8..]) != sum || u64_at(&block, 8) != Some(next) {
            return bad("the block here is damaged");
        }
        let mut rest = &block[BLOCK_HEADER..];
        for _ in 0..u32_at(&block, 20).unwrap_or(0) {
            let record =
                u32_at(rest, 0).and_then(|len| rest.get(4..)?.split_at_checked(len as usize));
            let Some((record, behind)) = record else {
                return bad("a record reaches past the end of its block");
            };
            each(next, record)?;
            next += 1;
            rest = behind;
        }
        checksum = mix(checksum, sum);
        at += block.len() as u64;
    }
    if next != log.next || checksum != log.checksum {
        return Err(damaged(&name, None, "it has other records than it should"));
    }
    Ok(())
}
