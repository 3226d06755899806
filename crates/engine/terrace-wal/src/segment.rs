//! Segment files: making one durable before its first use, finding those that are there.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_base::checksum::mix;
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{
    HEADER_BYTES, NOTE_SLOTS, SUCCESSOR_COPIES, SegmentHeader, encode_note, encode_successor,
    names_successor, newest_note,
};
use crate::options::{LogOptions, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES};

/// An open segment file.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) incarnation: u64,
    /// Newest generation that the file names.
    pub(crate) generation: u64,
    /// Its length; if the file is not `complete`, that of the file.
    pub(crate) bytes: u64,
    /// Whether the file is as long as its header says. A crash while it was made may leave less.
    pub(crate) complete: bool,
    /// Whether it was sealed, and the log goes on in the next segment.
    pub(crate) has_successor: bool,
    /// Index of the note slot to write next.
    next_note: AtomicUsize,
    /// Up to where the device has been told to begin.
    handed: AtomicU64,
}

/// Bytes written to a segment from which on the device is told to begin with them. Else the operating
/// system begins when it likes, after half a minute say, with all at once, and reads wait meanwhile;
/// and the sync of a full segment would take as long.
const HAND_OVER_BYTES: u64 = 1 << 20;
/// What was written last is not handed over: its page is written again, and one that is on its way to
/// the device would have to be made writable again.
pub(crate) const KEPT_BACK_BYTES: u64 = 128 << 10;
/// The parts handed over begin and end with pages of the operating system. The first one, in which the
/// notes are, stays out.
pub(crate) const PART_BYTES: u64 = 64 << 10;

/// How long a segment is to be made.
pub(crate) struct Size {
    /// In bytes.
    pub(crate) bytes: u64,
    /// The same where the disk has too little space for that, at least.
    pub(crate) least: u64,
    /// The file that it takes, of `bytes` bytes or of more, as [`Disk::reuse_buffered`] returns it.
    pub(crate) file: Option<(Arc<dyn DiskFile>, u64)>,
}

/// Why a segment could not be made.
pub(crate) enum PrepareError {
    /// Nothing was changed that matters; may be tried again.
    Refused(Error),
    /// It is unknown what is durable.
    Fatal(Error),
}

impl Segment {
    /// Makes segment `number` and makes its space and its header durable. The directory is still to
    /// be synced; only then may a block go there, so that a header that is missing later is damage
    /// and not a crash.
    ///
    /// It takes the file of `size`, or makes one. If the disk has too little space for that, it may be
    /// shorter.
    pub(crate) fn prepare(
        disk: &dyn Disk,
        options: &LogOptions,
        number: u32,
        generation: u64,
        size: Size,
    ) -> std::result::Result<Segment, PrepareError> {
        let name = file_name(&options.prefix, number);
        let refused = |error| {
            // What was begun only takes space.
            let _ = disk.delete(&name);
            PrepareError::Refused(error)
        };
        let Size {
            mut bytes, least, ..
        } = size;
        let file = match size.file {
            Some((file, its)) => {
                bytes = its;
                file
            }
            None => {
                let file = disk
                    .create_buffered(&name)
                    .map_err(|e| refused(Error::io("creating", &name, e)))?;
                while let Err(e) = file.allocate(0, bytes) {
                    let error = Error::io("reserving space for", &name, e);
                    let shorter = bytes / 2 / 4096 * 4096;
                    if shorter < least.max(MIN_SEGMENT_BYTES) || !error.is_disk_full() {
                        let free = disk.free_bytes().ok();
                        return Err(refused(error.with_space(least.min(bytes), free)));
                    }
                    bytes = shorter;
                    // A part of it may have been had.
                    file.set_len(0)
                        .map_err(|e| refused(Error::io("cutting", &name, e)))?;
                }
                file
            }
        };
        let header = SegmentHeader {
            number,
            incarnation: incarnation(options, number),
            generation,
            segment_bytes: bytes,
        };
        file.write_at(&header.page(), 0)
            .map_err(|e| match Error::io("writing", &name, e) {
                full if full.is_disk_full() => refused(full),
                other => PrepareError::Fatal(other),
            })?;
        file.sync()
            .map_err(|e| PrepareError::Fatal(Error::io("syncing", &name, e)))?;
        Ok(Segment {
            number,
            name,
            file,
            incarnation: header.incarnation,
            generation,
            bytes,
            complete: true,
            has_successor: false,
            next_note: AtomicUsize::new(0),
            handed: AtomicU64::new(PART_BYTES),
        })
    }

    /// Opens segment `number`, which must be there; `None` if its header is not valid.
    pub(crate) fn open(
        disk: &dyn Disk,
        options: &LogOptions,
        number: u32,
    ) -> Result<Option<Segment>> {
        let name = file_name(&options.prefix, number);
        let file = disk
            .open_buffered(&name)
            .map_err(|e| Error::io("opening", &name, e))?;
        let length = file.len().map_err(|e| Error::io("examining", &name, e))?;
        let mut page = vec![0; HEADER_BYTES.min(length) as usize];
        file.read_at(&mut page, 0)
            .map_err(|e| Error::io("reading", &name, e))?;
        let Some(header) = SegmentHeader::decode(&page)
            .filter(|h| h.number == number && h.segment_bytes <= MAX_SEGMENT_BYTES)
        else {
            return Ok(None);
        };
        let note = newest_note(&page, header.incarnation);
        Ok(Some(Segment {
            number,
            name,
            incarnation: header.incarnation,
            generation: header
                .generation
                .max(note.map_or(0, |(generation, _)| generation)),
            bytes: header.segment_bytes.min(length),
            complete: length >= header.segment_bytes,
            has_successor: names_successor(&page, header.incarnation),
            file,
            next_note: AtomicUsize::new(note.map_or(0, |(_, slot)| 1 - slot)),
            handed: AtomicU64::new(PART_BYTES),
        }))
    }

    /// Notes durably that `generation` is durable, in space that the segment has anyway. While no other thread
    /// uses it.
    pub(crate) fn note(&self, generation: u64) -> Result<()> {
        self.write_note(generation)?;
        self.file
            .sync()
            .map_err(|e| Error::io("syncing", &self.name, e))
    }

    /// The same, without making it durable.
    pub(crate) fn write_note(&self, generation: u64) -> Result<()> {
        let slot = self.next_note.fetch_xor(1, Ordering::Relaxed);
        let at = NOTE_SLOTS[slot & 1];
        let note = encode_note(self.incarnation, at, generation);
        self.file
            .write_at(&note, at)
            .map_err(|e| Error::io("writing", &self.name, e))
    }

    /// Marks a sealed segment, in space that it has anyway: the next one is durably there, and blocks may
    /// go to it. Without this mark it may be absent, and one that cannot be read would look so.
    pub(crate) fn mark_successor(&self) -> Result<()> {
        for copy in SUCCESSOR_COPIES {
            self.file
                .write_at(&encode_successor(self.incarnation, copy), copy)
                .map_err(|e| Error::io("writing", &self.name, e))?;
        }
        Ok(())
    }

    /// Whether so much has been written since the last [`Segment::hand_over`] that it is time for one.
    pub(crate) fn is_to_hand_over(&self, written_to: u64) -> bool {
        written_to >= self.handed.load(Ordering::Relaxed) + HAND_OVER_BYTES + KEPT_BACK_BYTES
    }

    /// Tells the device to begin with what was written, but for the last of it.
    pub(crate) fn hand_over(&self, written_to: u64) {
        let to = written_to.saturating_sub(KEPT_BACK_BYTES) / PART_BYTES * PART_BYTES;
        let from = self.handed.fetch_max(to, Ordering::Relaxed);
        if to > from {
            self.file.write_back(from, to - from);
        }
    }

    /// What the checksums of its blocks are salted with.
    pub(crate) fn salt(&self, options: &LogOptions) -> u64 {
        if options.planted(Fault::NoSalt) {
            0
        } else {
            self.incarnation
        }
    }
}

/// Name of a segment's file.
pub(crate) fn file_name(prefix: &str, number: u32) -> String {
    format!("{prefix}{number:08x}")
}

/// Numbers of the segment files in the directory, ascending.
pub(crate) fn list(disk: &dyn Disk, options: &LogOptions) -> Result<Vec<u32>> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the directory", e))?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| {
            let digits = name.strip_prefix(options.prefix.as_str())?;
            let number = u32::from_str_radix(digits, 16).ok()?;
            (file_name(&options.prefix, number) == *name).then_some(number)
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A number that no earlier life of the file had.
fn incarnation(options: &LogOptions, number: u32) -> u64 {
    if let Some(seed) = options.seed {
        return mix(seed, number as u64);
    }
    // The hasher's keys are random, from the operating system; the clock is a second source.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(number);
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    mix(hasher.finish(), nanos)
}
