//! The superblock: which checkpoint is the last, in two blocks of the data file written in turn.
//!
//! What always holds:
//! - Generation g lies in block g mod 2, so the block of the last durable generation is never
//!   written to, and a torn one is tried again in the same block.
//! - A superblock is written only after everything that it names is durable.
//! - A generation older than the newest durable one is never opened; see [`Superblocks`].

use terrace_base::checksum::{mix, seeded};
use terrace_base::codec::{Reader, u32_at, u64_at};
use terrace_base::{Error, PageId, Result};

/// The newest version of the format that this program reads and writes, and the oldest, which it writes as long as nothing
/// needs a newer one: from [`HOT_IN_MEMORY`] on hot tiers may lie in memory alone, and replay may begin before the cut of a
/// checkpoint; from [`UNLOGGED_IN_MEMORY`] on also those of structures without log, of which the log then has a part, and
/// a structure may be made to stay in the file.
pub const NEWEST_VERSION: u32 = UNLOGGED_IN_MEMORY;
/// See [`NEWEST_VERSION`].
pub const HOT_IN_MEMORY: u32 = 2;
/// See [`NEWEST_VERSION`].
pub const UNLOGGED_IN_MEMORY: u32 = 3;
/// See [`NEWEST_VERSION`].
pub const OLDEST_VERSION: u32 = 1;
/// Name of the data file.
pub const DATA_FILE: &str = "data";
/// Bytes of a superblock: the unit of direct I/O.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Where the two superblocks lie: apart, so that one large bad sector cannot hit both.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 32768];
/// Where slot 0 begins.
pub const SLOTS_OFFSET: u64 = 65536;
/// Bytes of a superblock for what was learnt while running.
pub const LEARNT_BYTES: usize = 40;

/// Generations, numbers of map files and sequence numbers of the log lie below: no database reaches this number,
/// and one more of each is still a number.
pub const NUMBER_LIMIT: u64 = 1 << 62;
/// Epochs lie below: they rise with each checkpoint, and frames have 32 bits for them.
pub const EPOCH_LIMIT: u32 = u32::MAX - 1;

pub(super) const MAGIC: [u8; 8] = *b"TERRACE\0";
/// The checksum is here in every version, so that one can tell a newer version from damage.
pub(super) const CHECKSUM_AT: usize = SUPERBLOCK_BYTES - 8;
/// Page sizes that slots can have: from one block of direct I/O to the largest whose offsets in
/// a page still fit 16 bits.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;

/// What a checkpoint leaves in the superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Version of the format: the oldest whose programs would not misread what there is.
    pub version: u32,
    /// Bytes of a page and of a slot.
    pub page_bytes: u32,
    /// Drawn at random when the database was made; every other file carries it.
    pub database: u64,
    /// Number of the checkpoint.
    pub generation: u64,
    /// Epoch that ended with the cut.
    pub epoch: u64,
    /// Page numbers given out lie below.
    pub pages: u64,
    /// Slots of the data file.
    pub slots: u64,
    /// The map file and how much of it counts.
    pub map: super::MapFile,
    /// Where replay of the log begins; the log's own encoding.
    pub log_position: [u8; 24],
    /// What was learnt while running; nothing that is promised rests on it. The encoding of whoever
    /// learnt it.
    pub learnt: [u8; LEARNT_BYTES],
    /// Number for the next structure.
    pub next_structure: u32,
    /// Sequence number of the first record of the log behind the cut. Replay may begin before it.
    pub next_sequence: u64,
    /// Of structures without log what the log has from this sequence number to [`Superblock::next_sequence`] is replayed,
    /// and nothing else.
    pub unlogged_from: u64,
    /// The catalog's root page.
    pub catalog_root: PageId,
    /// Whether the database was closed with this checkpoint, and nothing has been logged since.
    pub clean: bool,
}

/// What the two blocks hold.
#[derive(Clone, Debug)]
pub struct Superblocks {
    /// The newest valid one.
    pub newest: Superblock,
    /// Generation of the other, if that one is valid too. It is for information: never open it.
    pub other: Option<u64>,
}

/// One block, judged.
enum Block {
    /// No Terrace was ever here (or nothing but zeros).
    Foreign,
    /// Ours, but damaged: what is wrong.
    Damaged(String),
    /// Ours and whole, in a version that this program does not know.
    Version(u32),
    Valid(Box<Superblock>),
}

/// Offset in the data file of the superblock of a generation.
pub fn superblock_offset(generation: u64) -> u64 {
    SUPERBLOCK_OFFSETS[(generation % 2) as usize]
}

/// Offset in the data file of a slot; `None` if it does not fit 64 bits.
pub fn slot_offset(slot: u64, page_bytes: u32) -> Option<u64> {
    slot.checked_mul(u64::from(page_bytes))?
        .checked_add(SLOTS_OFFSET)
}

impl Superblock {
    /// Writes the block to go to [`superblock_offset`] of its generation into `block`, of which
    /// the first [`SUPERBLOCK_BYTES`] are overwritten; `false` if it is shorter.
    pub fn encode(&self, block: &mut [u8]) -> bool {
        let Some(block) = block.get_mut(..SUPERBLOCK_BYTES) else {
            return false;
        };
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.page_bytes.to_le_bytes());
        for number in [
            self.database,
            self.generation,
            self.epoch,
            self.pages,
            self.slots,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let map = &self.map;
        for number in [
            map.number,
            map.base_pages,
            map.base_bytes,
            map.journal_bytes,
            map.chain,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.log_position);
        out.extend_from_slice(&self.learnt);
        out.extend_from_slice(&self.next_sequence.to_le_bytes());
        out.extend_from_slice(&self.catalog_root.0.to_le_bytes());
        out.extend_from_slice(&self.next_structure.to_le_bytes());
        out.push(u8::from(self.clean));
        if self.version >= UNLOGGED_IN_MEMORY {
            out.extend_from_slice(&self.unlogged_from.to_le_bytes());
        }
        block.fill(0);
        block[..out.len()].copy_from_slice(&out);
        let checksum = block_checksum(block, (self.generation % 2) as usize);
        block[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        true
    }

    fn decode(block: &[u8], index: usize) -> Block {
        if block.len() < SUPERBLOCK_BYTES || !block.starts_with(&MAGIC) {
            return Block::Foreign;
        }
        let block = &block[..SUPERBLOCK_BYTES];
        if u64_at(block, CHECKSUM_AT) != Some(block_checksum(block, index)) {
            return Block::Damaged("the checksum is wrong".into());
        }
        let version = match u32_at(block, MAGIC.len()) {
            Some(version @ OLDEST_VERSION..=NEWEST_VERSION) => version,
            version => return Block::Version(version.unwrap_or_default()),
        };
        match Superblock::fields(version, &block[MAGIC.len() + 4..])
            .map(|fields| (fields.implausible(index), fields))
        {
            None => Block::Damaged("a field has an impossible value".into()),
            Some((Some(what), _)) => Block::Damaged(what),
            Some((None, fields)) => Block::Valid(Box::new(fields)),
        }
    }

    fn fields(version: u32, bytes: &[u8]) -> Option<Superblock> {
        let mut r = Reader::new(bytes);
        let mut superblock = Superblock {
            version,
            page_bytes: r.u32()?,
            database: r.u64()?,
            generation: r.u64()?,
            epoch: r.u64()?,
            pages: r.u64()?,
            slots: r.u64()?,
            map: super::MapFile {
                number: r.u64()?,
                base_pages: r.u64()?,
                base_bytes: r.u64()?,
                journal_bytes: r.u64()?,
                chain: r.u64()?,
            },
            log_position: r.bytes(24)?.try_into().ok()?,
            learnt: r.bytes(LEARNT_BYTES)?.try_into().ok()?,
            next_sequence: r.u64()?,
            unlogged_from: 0,
            catalog_root: PageId(r.u64()?),
            next_structure: r.u32()?,
            clean: match r.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        };
        superblock.unlogged_from = match version >= UNLOGGED_IN_MEMORY {
            true => r.u64()?,
            false => superblock.next_sequence,
        };
        Some(superblock)
    }

    /// Numbers that no writer writes, although the checksum is right.
    fn implausible(&self, index: usize) -> Option<String> {
        if self.generation % 2 != index as u64 {
            return Some(format!(
                "generation {} is in the wrong block",
                self.generation
            ));
        }
        for (what, number) in [
            ("generation", self.generation),
            ("map file", self.map.number),
            ("record of the log", self.next_sequence),
        ] {
            if number >= NUMBER_LIMIT {
                return Some(format!("a {what} of number {number}"));
            }
        }
        if self.unlogged_from > self.next_sequence {
            let from = self.unlogged_from;
            return Some(format!(
                "record {from} of the log before {}",
                self.next_sequence
            ));
        }
        if self.epoch >= u64::from(EPOCH_LIMIT) {
            return Some(format!("an epoch of {}", self.epoch));
        }
        if !PAGE_BYTES.contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return Some(format!("a page size of {} bytes", self.page_bytes));
        }
        if self.slots > super::SLOT_LIMIT || slot_offset(self.slots, self.page_bytes).is_none() {
            return Some(format!("{} slots", self.slots));
        }
        self.map.implausible(self.pages)
    }
}

impl Superblocks {
    /// Chooses between the two blocks as read from [`SUPERBLOCK_OFFSETS`] (an empty slice for one
    /// past the end of the file). `page_bytes` is the page size wanted, if one is.
    pub fn read(blocks: [&[u8]; 2], page_bytes: Option<u32>) -> Result<Superblocks> {
        let read = match (
            Superblock::decode(blocks[0], 0),
            Superblock::decode(blocks[1], 1),
        ) {
            // A program that knows only the older version must not go back behind the newer.
            (Block::Version(version), _) => return Err(other_version(version, 0)),
            (_, Block::Version(version)) => return Err(other_version(version, 1)),
            (Block::Valid(a), Block::Valid(b)) => {
                if a.database != b.database || a.page_bytes != b.page_bytes {
                    let what = "the two superblocks are of different databases";
                    return Err(Error::corrupt(DATA_FILE, SUPERBLOCK_OFFSETS[0], what));
                }
                let (newest, other) = if a.generation > b.generation {
                    (a, b)
                } else {
                    (b, a)
                };
                Superblocks {
                    newest: *newest,
                    other: Some(other.generation),
                }
            }
            (Block::Valid(newest), _) | (_, Block::Valid(newest)) => Superblocks {
                newest: *newest,
                other: None,
            },
            (Block::Damaged(what), _) => {
                return Err(Error::corrupt(
                    DATA_FILE,
                    SUPERBLOCK_OFFSETS[0],
                    format!("no valid superblock: {what}"),
                ));
            }
            (_, Block::Damaged(what)) => {
                return Err(Error::corrupt(
                    DATA_FILE,
                    SUPERBLOCK_OFFSETS[1],
                    format!("no valid superblock: {what}"),
                ));
            }
            (Block::Foreign, Block::Foreign) => {
                return Err(Error::invalid(format!(
                    "the file \"{DATA_FILE}\" is not a Terrace database; give another directory"
                )));
            }
        };
        let found = read.newest.page_bytes;
        match page_bytes {
            Some(wanted) if wanted != found => Err(Error::invalid(format!(
                "the file \"{DATA_FILE}\" has pages of {found} bytes, and {wanted} were asked for; \
                 the page size is fixed when a database is made, so leave it out"
            ))),
            _ => Ok(read),
        }
    }
}

/// A block of another format.
fn other_version(version: u32, index: usize) -> Error {
    let at = SUPERBLOCK_OFFSETS[index];
    Error::invalid(format!(
        "the superblock at byte {at} of the file \"{DATA_FILE}\" has format version {version}, and this program reads versions {OLDEST_VERSION} to {NEWEST_VERSION}; \
         open the database with the program that wrote it"
    ))
}

/// Checksum of a block, bound to the place where it belongs.
pub(super) fn block_checksum(block: &[u8], index: usize) -> u64 {
    seeded(
        mix(u64::from_le_bytes(MAGIC), index as u64),
        &block[..CHECKSUM_AT],
    )
}
