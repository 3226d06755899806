//! Writing the map file: a base table with the place of every page, then a journal of changes.
//!
//! What always holds: bytes that a durable superblock counts are never written again; a checkpoint
//! adds whole chunks behind them, or begins a new file.

use super::place::{Place, SLOT_LIMIT};
use terrace_base::checksum::{mix, seeded};
use terrace_base::{AlignedBuf, Error, PageId, Result};

/// Version of all files that a superblock names.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of the file's header: the unit of direct I/O, of which every chunk is a multiple too.
pub(super) const BLOCK: usize = 4096;
/// Most bytes of a chunk, and the memory that writing and reading need.
pub const CHUNK_BYTES: usize = 65536;
/// Checksum, kind, count, generation, first page.
pub(super) const CHUNK_HEADER: usize = 32;
/// Slot (5), check (2).
pub(super) const BASE_ENTRY: usize = 7;
/// Page (5), slot (5), check (2).
pub(super) const JOURNAL_ENTRY: usize = 12;
/// Entries of a full chunk of the base table.
pub(super) const BASE_ENTRIES: u64 = ((CHUNK_BYTES - CHUNK_HEADER) / BASE_ENTRY) as u64;
/// Entries of a full chunk of the journal.
pub(super) const JOURNAL_ENTRIES: u64 = ((CHUNK_BYTES - CHUNK_HEADER) / JOURNAL_ENTRY) as u64;

pub(super) const MAGIC: [u8; 8] = *b"TERRMAP\0";
pub(super) const HEADER_CHECKSUM_AT: usize = BLOCK - 8;
pub(super) const KIND_BASE: u32 = 1;
pub(super) const KIND_JOURNAL: u32 = 2;

/// Below this the journal is kept however small the base table is: one full chunk.
const FOLD_MIN: u64 = CHUNK_BYTES as u64;
/// The journal may be an eighth of the base table: what opening reads twice, and what a checkpoint
/// writes again on average, are both bounded by it.
const FOLD_SHARE: u64 = 8;

/// Which map file counts, and how much of it: part of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapFile {
    /// The number in the file's name.
    pub number: u64,
    /// Pages in the base table; those beyond are free unless the journal has them.
    pub base_pages: u64,
    /// Bytes of header and base table.
    pub base_bytes: u64,
    /// Bytes of the journal behind them.
    pub journal_bytes: u64,
    /// Running checksum over the checksums of header and chunks: a chunk that was lost and left an
    /// older one in its place is found, although that one is whole in itself.
    pub chain: u64,
}

/// Whether the next checkpoint should write a new base table instead of adding to the journal.
pub fn should_fold(file: &MapFile) -> bool {
    file.journal_bytes > FOLD_MIN.max(file.base_bytes / FOLD_SHARE)
}

impl MapFile {
    /// Name of the map file of a number.
    pub fn name(number: u64) -> String {
        format!("map-{number}")
    }

    /// The number in a map file's name.
    pub fn number_of(name: &str) -> Option<u64> {
        let number = name.strip_prefix("map-")?.parse().ok()?;
        (MapFile::name(number) == name).then_some(number)
    }

    /// Numbers that no writer writes.
    pub(super) fn implausible(&self, pages: u64) -> Option<String> {
        if pages > PageId::MAX.0 + 1 {
            return Some(format!("{pages} pages"));
        }
        if self.base_pages > pages || self.base_bytes != base_bytes(self.base_pages) {
            return Some(format!(
                "a base table of {} pages in {} bytes, of {pages} pages in all",
                self.base_pages, self.base_bytes
            ));
        }
        if !self.journal_bytes.is_multiple_of(BLOCK as u64)
            || self.base_bytes.checked_add(self.journal_bytes).is_none()
        {
            return Some(format!("a journal of {} bytes", self.journal_bytes));
        }
        None
    }
}

/// Bytes of header and base table for a number of pages (at most [`PageId::MAX`] of them).
pub fn base_bytes(pages: u64) -> u64 {
    let rest = (pages % BASE_ENTRIES) as usize;
    let last = if rest == 0 {
        0
    } else {
        chunk_bytes(rest, BASE_ENTRY)
    };
    (pages / BASE_ENTRIES * CHUNK_BYTES as u64) + (BLOCK + last) as u64
}

/// Bytes of a journal of this number of changes, at most.
pub fn journal_bytes(changes: u64) -> u64 {
    (changes / JOURNAL_ENTRIES + 1) * CHUNK_BYTES as u64
}

/// Bytes of a chunk with `count` entries.
pub(super) fn chunk_bytes(count: usize, entry: usize) -> usize {
    (CHUNK_HEADER + count * entry).next_multiple_of(BLOCK)
}

/// Checksum of a chunk, bound to where and when it belongs; its own eight bytes are left out.
pub(super) fn chunk_checksum(
    database: u64,
    number: u64,
    generation: u64,
    offset: u64,
    chunk: &[u8],
) -> u64 {
    seeded(
        mix(mix(database, number), mix(generation, offset)),
        &chunk[8.min(chunk.len())..],
    )
}

/// Checksum of the header.
pub(super) fn header_checksum(database: u64, number: u64, header: &[u8]) -> u64 {
    seeded(
        mix(database, number),
        &header[..HEADER_CHECKSUM_AT.min(header.len())],
    )
}

/// Slot and check of a place; free is the slot that no file has.
fn put_place(out: &mut [u8], place: Place) {
    let (slot, check) = match place.slot() {
        Some(slot) => (slot, place.check()),
        None => (SLOT_LIMIT, 0),
    };
    out[..5].copy_from_slice(&slot.to_le_bytes()[..5]);
    out[5..7].copy_from_slice(&check.to_le_bytes());
}

/// Takes finished blocks: offset in the map file, bytes (both multiples of 4 KiB; the address too).
pub type Sink<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// Writes one checkpoint's part of a map file, chunk by chunk. After an error it is of no use:
/// what it wrote counts for nothing until a superblock names it.
pub struct MapWriter {
    database: u64,
    generation: u64,
    file: MapFile,
    /// Pages of the base table still to come.
    base_left: u64,
    kind: u32,
    count: usize,
    buffer: AlignedBuf,
}

impl MapWriter {
    /// Begins a new file with a base table for `base_pages` pages, to be named by the superblock
    /// of `generation`. Next come exactly that many [`MapWriter::push_base`].
    pub fn create(
        database: u64,
        number: u64,
        generation: u64,
        base_pages: u64,
        sink: &mut Sink<'_>,
    ) -> Result<MapWriter> {
        if base_pages > PageId::MAX.0 + 1 {
            return Err(Error::invalid(format!(
                "{base_pages} pages are more than the limit of {}",
                PageId::MAX.0 + 1
            )));
        }
        let file = MapFile {
            number,
            base_pages,
            ..MapFile::default()
        };
        let mut writer = MapWriter::new(database, generation, file, KIND_BASE);
        writer.base_left = base_pages;
        let header = &mut writer.buffer[..BLOCK];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        for (at, number) in [
            (16, database),
            (24, number),
            (32, generation),
            (40, base_pages),
        ] {
            header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = header_checksum(database, number, header);
        header[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sink(0, header)?;
        header.fill(0);
        writer.file.chain = checksum;
        writer.file.base_bytes = BLOCK as u64;
        if base_pages == 0 {
            writer.kind = KIND_JOURNAL;
        }
        Ok(writer)
    }

    /// Adds to the journal of an existing file, as the last superblock gives it.
    pub fn append(database: u64, generation: u64, file: MapFile) -> MapWriter {
        MapWriter::new(database, generation, file, KIND_JOURNAL)
    }

    fn new(database: u64, generation: u64, file: MapFile, kind: u32) -> MapWriter {
        let buffer = AlignedBuf::zeroed(CHUNK_BYTES);
        MapWriter {
            database,
            generation,
            file,
            base_left: 0,
            kind,
            count: 0,
            buffer,
        }
    }

    /// Bytes of memory that a writer holds.
    pub const MEMORY_BYTES: usize = CHUNK_BYTES + BLOCK + size_of::<MapWriter>();

    /// The file as far as it is written.
    pub fn file(&self) -> &MapFile {
        &self.file
    }

    /// The place of the next page of the base table, in the order of page numbers.
    pub fn push_base(&mut self, place: Place, sink: &mut Sink<'_>) -> Result<()> {
        if self.base_left == 0 {
            return Err(Error::invalid("the base table has all its pages already"));
        }
        let at = CHUNK_HEADER + self.count * BASE_ENTRY;
        put_place(&mut self.buffer[at..at + BASE_ENTRY], place);
        self.count += 1;
        self.base_left -= 1;
        if self.count as u64 == BASE_ENTRIES || self.base_left == 0 {
            self.flush(sink)?;
        }
        if self.base_left == 0 {
            self.kind = KIND_JOURNAL;
        }
        Ok(())
    }

    /// A change, which replaces whatever was written of the page before.
    pub fn push(&mut self, pid: PageId, place: Place, sink: &mut Sink<'_>) -> Result<()> {
        if self.base_left > 0 {
            return Err(Error::invalid(format!(
                "{} pages of the base table are missing",
                self.base_left
            )));
        }
        if pid > PageId::MAX {
            return Err(Error::invalid(format!(
                "{pid} is beyond the largest page number"
            )));
        }
        let at = CHUNK_HEADER + self.count * JOURNAL_ENTRY;
        let entry = &mut self.buffer[at..at + JOURNAL_ENTRY];
        entry[..5].copy_from_slice(&pid.0.to_le_bytes()[..5]);
        put_place(&mut entry[5..], place);
        self.count += 1;
        if self.count as u64 == JOURNAL_ENTRIES {
            self.flush(sink)
        } else {
            Ok(())
        }
    }

    /// Writes what is left, and gives what the superblock must say of the file (once the file is
    /// synced).
    pub fn finish(mut self, sink: &mut Sink<'_>) -> Result<MapFile> {
        if self.base_left > 0 {
            return Err(Error::invalid(format!(
                "{} pages of the base table are missing",
                self.base_left
            )));
        }
        if self.count > 0 {
            self.flush(sink)?;
        }
        Ok(self.file)
    }

    fn flush(&mut self, sink: &mut Sink<'_>) -> Result<()> {
        let entry = if self.kind == KIND_BASE {
            BASE_ENTRY
        } else {
            JOURNAL_ENTRY
        };
        let len = chunk_bytes(self.count, entry);
        let offset = self.file.base_bytes + self.file.journal_bytes;
        let first = if self.kind == KIND_BASE {
            (offset - BLOCK as u64) / CHUNK_BYTES as u64 * BASE_ENTRIES
        } else {
            0
        };
        let chunk = &mut self.buffer[..len];
        chunk[8..12].copy_from_slice(&self.kind.to_le_bytes());
        chunk[12..16].copy_from_slice(&(self.count as u32).to_le_bytes());
        chunk[16..24].copy_from_slice(&self.generation.to_le_bytes());
        chunk[24..32].copy_from_slice(&first.to_le_bytes());
        let checksum = chunk_checksum(
            self.database,
            self.file.number,
            self.generation,
            offset,
            chunk,
        );
        chunk[..8].copy_from_slice(&checksum.to_le_bytes());
        sink(offset, chunk)?;
        chunk.fill(0);
        self.count = 0;
        self.file.chain = mix(self.file.chain, checksum);
        let part = if self.kind == KIND_BASE {
            &mut self.file.base_bytes
        } else {
            &mut self.file.journal_bytes
        };
        *part += len as u64;
        Ok(())
    }
}
