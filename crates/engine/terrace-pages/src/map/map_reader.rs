//! Reading a map file, one chunk of memory at a time, believing nothing in it.

use super::map_file::{
    BASE_ENTRIES, BASE_ENTRY, BLOCK, CHUNK_BYTES, CHUNK_HEADER, FORMAT_VERSION, HEADER_CHECKSUM_AT,
    JOURNAL_ENTRIES, JOURNAL_ENTRY, KIND_BASE, KIND_JOURNAL, MAGIC, MapFile, chunk_bytes,
    chunk_checksum, header_checksum,
};
use super::place::{Place, SLOT_LIMIT, Tag};
use super::superblock::Superblock;
use terrace_base::checksum::mix;
use terrace_base::codec::{Reader, u32_at, u64_at};
use terrace_base::{Error, PageId, Result};

/// Reads a map file as a superblock describes it: ask [`MapReader::next_read`] what to read, hand
/// it to [`MapReader::decode`], until there is nothing more.
pub struct MapReader {
    file: MapFile,
    database: u64,
    generation: u64,
    pages: u64,
    offset: u64,
    chain: u64,
    /// Generation of the chunk before: it never falls.
    last: u64,
}

impl MapReader {
    /// Reads the file that `superblock` names.
    pub fn new(superblock: &Superblock) -> Result<MapReader> {
        let Superblock {
            map: file,
            database,
            generation,
            pages,
            ..
        } = *superblock;
        if let Some(what) = file.implausible(pages) {
            return Err(Error::corrupt(MapFile::name(file.number), None, what));
        }
        Ok(MapReader {
            file,
            database,
            generation,
            pages,
            offset: 0,
            chain: 0,
            last: 0,
        })
    }

    /// Offset and length (at most 64 KiB) of what to decode next; `None` when all has been read.
    pub fn next_read(&self) -> Option<(u64, usize)> {
        let end = match self.offset {
            0 => BLOCK as u64,
            at if at < self.file.base_bytes => self.file.base_bytes,
            _ => self.file.base_bytes + self.file.journal_bytes,
        };
        let left = end.saturating_sub(self.offset);
        (left > 0).then(|| (self.offset, left.min(CHUNK_BYTES as u64) as usize))
    }

    /// Takes the bytes that [`MapReader::next_read`] asked for, and gives the records in them to
    /// `apply`, in the order in which they count: later ones replace earlier ones.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        mut apply: impl FnMut(PageId, Place) -> Result<()>,
    ) -> Result<()> {
        let Some((_, len)) = self.next_read() else {
            return Err(Error::invalid(
                "the map file has been read to its end already",
            ));
        };
        let Some(bytes) = bytes.get(..len) else {
            return Err(self.damaged(format!("{} bytes of {len} are there", bytes.len())));
        };
        let used = if self.offset == 0 {
            self.header(bytes)?
        } else {
            self.chunk(bytes, &mut apply)?
        };
        self.offset += used as u64;
        if self.next_read().is_none() && self.chain != self.file.chain {
            return Err(self.damaged("the chunks are not those that the superblock names".into()));
        }
        Ok(())
    }

    fn header(&mut self, header: &[u8]) -> Result<usize> {
        if !header.starts_with(&MAGIC) {
            return Err(self.damaged("this is not a map file".into()));
        }
        let checksum = u64_at(header, HEADER_CHECKSUM_AT).unwrap_or_default();
        if checksum != header_checksum(self.database, self.file.number, header) {
            return Err(self.damaged("the checksum of the header is wrong".into()));
        }
        let expected = [
            (16, self.database),
            (24, self.file.number),
            (40, self.file.base_pages),
        ];
        let same = expected
            .iter()
            .all(|(at, number)| u64_at(header, *at) == Some(*number));
        let made = u64_at(header, 32).unwrap_or(u64::MAX);
        if u32_at(header, 8) != Some(FORMAT_VERSION) || !same || made > self.generation {
            return Err(self.damaged("the header does not fit the superblock".into()));
        }
        (self.chain, self.last) = (checksum, made);
        Ok(BLOCK)
    }

    fn chunk(
        &mut self,
        bytes: &[u8],
        apply: &mut impl FnMut(PageId, Place) -> Result<()>,
    ) -> Result<usize> {
        let fields = || {
            let mut r = Reader::new(bytes);
            Some((r.u64()?, r.u32()?, r.u32()?, r.u64()?, r.u64()?))
        };
        let Some((checksum, kind, count, generation, first)) = fields() else {
            return Err(self.damaged("the chunk has no header".into()));
        };
        let in_base = self.offset < self.file.base_bytes;
        let (want, entry, most) = match in_base {
            true => (
                KIND_BASE,
                BASE_ENTRY,
                BASE_ENTRIES.min(self.file.base_pages.saturating_sub(self.base_first())),
            ),
            false => (KIND_JOURNAL, JOURNAL_ENTRY, JOURNAL_ENTRIES),
        };
        let count_fits = if in_base {
            u64::from(count) == most
        } else {
            count > 0 && u64::from(count) <= most
        };
        if kind != want || !count_fits {
            return Err(self.damaged(format!("a chunk of kind {kind} with {count} entries")));
        }
        let len = chunk_bytes(count as usize, entry);
        let Some(chunk) = bytes.get(..len) else {
            return Err(self.damaged(format!(
                "a chunk of {len} bytes, where {} are left",
                bytes.len()
            )));
        };
        if checksum
            != chunk_checksum(
                self.database,
                self.file.number,
                generation,
                self.offset,
                chunk,
            )
        {
            return Err(self.damaged("the checksum of a chunk is wrong".into()));
        }
        if generation < self.last || generation > self.generation {
            return Err(self.damaged(format!("a chunk of generation {generation}")));
        }
        let expected = if in_base { self.base_first() } else { 0 };
        if first != expected {
            return Err(self.damaged(format!(
                "a chunk that begins with page {first} instead of {expected}"
            )));
        }
        let mut r = Reader::new(&chunk[CHUNK_HEADER..]);
        for pid in first..first + u64::from(count) {
            let pid = if in_base {
                Some(pid)
            } else {
                r.bytes(5).map(number)
            };
            let slot = r.bytes(5).map(number);
            let (Some(pid), Some(slot), Some(check)) = (pid, slot, r.u16()) else {
                return Err(self.damaged("a chunk ends within an entry".into()));
            };
            let free = slot == SLOT_LIMIT;
            if pid >= self.pages {
                return Err(self.damaged(format!("page {pid} of {}", self.pages)));
            }
            // A slot may lie beyond the file's end by now, if a later record replaces this one.
            let place = if free {
                Place::FREE
            } else {
                Place::used(slot, check, Tag::IMAGE)
            };
            apply(PageId(pid), place)?;
        }
        self.chain = mix(self.chain, checksum);
        self.last = generation;
        Ok(len)
    }

    /// The first page of the base chunk at the offset.
    fn base_first(&self) -> u64 {
        self.offset.saturating_sub(BLOCK as u64) / CHUNK_BYTES as u64 * BASE_ENTRIES
    }

    fn damaged(&self, what: String) -> Error {
        Error::corrupt(MapFile::name(self.file.number), self.offset, what)
    }
}

/// Five bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
