//! The first words of the file: what it is, and in which state it was left.
//!
//! Two copies, a page each; the newer one with a right checksum counts (rule 1: the checksum is the switch). Here is the
//! format alone, so that a file can be looked at before there is a memory over it.

use terrace_base::checksum::mix;
use terrace_base::{Error, Result};

/// The word that says that a map is being made here.
pub const MARK: usize = 64;
/// What it says.
pub const MAKING: u64 = u64::from_le_bytes(*b"TERRAMAK");

/// Whether the first bytes of a file say that a map is being made in it.
pub fn is_being_made(bytes: &[u8]) -> bool {
    bytes.get(MARK * 8..(MARK + 1) * 8) == Some(&MAKING.to_le_bytes()[..])
}

/// The first word of every file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TERRACPM");
/// Version of the format.
pub const VERSION: u64 = 2;
/// Words of one copy that mean something; the last is the checksum.
const WORDS: usize = 18;
/// Word numbers of the copies.
const COPIES: [usize; 2] = [0, 512];
/// Chunks at most: the largest file has half as many, and for each one some words are kept in memory.
const MOST_CHUNKS: u64 = 1 << 17;
/// The most bytes of a file: places of segments, of 4096 bytes each, have 25 bits in memory.
pub const MOST_BYTES: u64 = 4096 << 25;
/// Bytes before the tails of the partitions.
pub const SUPERBLOCK_BYTES: u64 = 8192;

/// What the map was when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Pairs of a leaf: at most 28.
    pub slots: u32,
    /// Records of a log segment: at most 126.
    pub records: u32,
    /// Partitions of the log, a power of two, at most 64.
    pub partitions: u32,
    /// Bytes of a chunk, a multiple of 4096.
    pub chunk: u64,
}

/// In which state the map was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is open, or its process ended without closing it.
    Open,
    /// It was closed.
    Closed,
}

/// What a superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Raised with each write.
    pub generation: u64,
    /// Shape of everything.
    pub shape: Shape,
    /// The most bytes that the file may have.
    pub capacity: u64,
    /// A number that no other map has.
    pub map_id: u64,
    /// What keys and values are: see `key.rs`.
    pub kinds: u64,
    /// How it was left.
    pub state: State,
    /// Whether fences of its last life survive a power cut.
    pub is_power_safe: bool,
    /// The boot in which it was opened last.
    pub boot: u128,
    /// Device and inode of the file when it was opened last.
    pub identity: (u64, u64),
    /// Number of the leftmost leaf.
    pub first_leaf: u32,
}

impl Superblock {
    /// The words of the copy that is not the newest, and where it lies.
    pub fn next_copy(&self) -> (usize, [u64; WORDS]) {
        (COPIES[(self.generation % 2) as usize], self.encode())
    }

    fn encode(&self) -> [u64; WORDS] {
        let shape = u64::from(self.shape.slots)
            | u64::from(self.shape.records) << 8
            | u64::from(self.shape.partitions) << 16;
        let flags = u64::from(self.state == State::Open) | u64::from(self.is_power_safe) << 1;
        let mut words = [
            MAGIC,
            VERSION,
            self.generation,
            shape,
            self.shape.chunk,
            self.capacity,
            self.map_id,
            self.kinds,
            flags,
            self.boot as u64,
            (self.boot >> 64) as u64,
            self.identity.0,
            self.identity.1,
            u64::from(self.first_leaf),
            0,
            0,
            0,
            0,
        ];
        words[WORDS - 1] = check(&words);
        words
    }

    fn decode(words: &[u64; WORDS]) -> Option<Superblock> {
        if words[0] != MAGIC || words[1] != VERSION || words[WORDS - 1] != check(words) {
            return None;
        }
        Some(Superblock {
            generation: words[2],
            shape: Shape {
                slots: (words[3] & 0xff) as u32,
                records: (words[3] >> 8 & 0xff) as u32,
                partitions: (words[3] >> 16 & 0xff) as u32,
                chunk: words[4],
            },
            capacity: words[5],
            map_id: words[6],
            kinds: words[7],
            state: if words[8] & 1 == 1 {
                State::Open
            } else {
                State::Closed
            },
            is_power_safe: words[8] >> 1 & 1 == 1,
            boot: u128::from(words[9]) | u128::from(words[10]) << 64,
            identity: (words[11], words[12]),
            first_leaf: u32::try_from(words[13]).ok()?,
        })
    }

    /// The newest of the first bytes of a file, as [`Superblock::of_words`] says it.
    pub fn of_bytes(bytes: &[u8], name: &str) -> Result<Option<Superblock>> {
        let words = bytes.chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        Superblock::of_words(&words.collect::<Vec<u64>>(), name)
    }

    /// The newest that can be read; `None` if these words hold nothing but zeros where they would be.
    pub fn of_words(words: &[u64], name: &str) -> Result<Option<Superblock>> {
        let foreign = |what: &str| {
            Err(Error::Corrupt {
                file: name.to_owned(),
                offset: Some(0),
                what: what.to_owned(),
                way_out: "give the path of another file, or restore this one from a backup",
            })
        };
        if (words.len() as u64) < SUPERBLOCK_BYTES / 8 {
            return foreign("it is too short for a map in persistent memory");
        }
        let mut newest: Option<Superblock> = None;
        let mut empty = true;
        let mut other = None;
        for at in COPIES {
            let mut copy = [0; WORDS];
            for (i, word) in copy.iter_mut().enumerate() {
                *word = words[at + i];
            }
            empty &= copy.iter().all(|word| *word == 0);
            if copy[0] == MAGIC && copy[1] != VERSION && copy[WORDS - 1] == check(&copy) {
                other = Some(copy[1]);
            }
            if let Some(read) = Superblock::decode(&copy)
                && newest.is_none_or(|known| known.generation < read.generation)
            {
                newest = Some(read);
            }
        }
        if let (Some(version), None) = (other, &newest) {
            return foreign(&format!(
                "its format has version {version}, and this program knows {VERSION} only"
            ));
        }
        if newest.is_none() && empty {
            return Ok(None);
        }
        let Some(newest) = newest else {
            return foreign(
                "no superblock of it has a right checksum; it may be another kind of file",
            );
        };
        let Shape {
            slots,
            records,
            partitions,
            chunk,
        } = newest.shape;
        let is_sound = (2..=28).contains(&slots)
            && (1..=126).contains(&records)
            && (1..=64).contains(&partitions)
            && partitions.is_power_of_two()
            && (4096..=1 << 30).contains(&chunk)
            && chunk % 4096 == 0
            && newest.capacity <= MOST_BYTES
            && newest.capacity / chunk <= MOST_CHUNKS;
        if !is_sound {
            return foreign("its superblock names sizes that no map has");
        }
        Ok(Some(newest))
    }
}

fn check(words: &[u64; WORDS]) -> u64 {
    words[..WORDS - 1]
        .iter()
        .fold(MAGIC, |sum, word| mix(sum, *word))
        | 1
}
