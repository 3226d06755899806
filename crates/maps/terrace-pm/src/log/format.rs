//! What a segment and its records look like, and the checks by which they are known.

use terrace_base::checksum::mix;

use crate::arena::SEGMENT_BYTES;
use crate::faults::{Planted, planted};

/// Words of a segment.
pub const SEGMENT_WORDS: usize = (SEGMENT_BYTES / 8) as usize;

const MAGIC: u64 = 0x6765_5370;

/// What tells the check of a void record from that of another one.
const VOID: u64 = 0x6469_6f76 << 1;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The key has this value.
    Put,
    /// The key is gone.
    Delete,
}

/// A segment of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its number in the file.
    pub number: u32,
    /// Its number in the partition.
    pub ordinal: u64,
}

/// The words of a segment's header.
pub fn header(map_id: u64, partition: u32, ordinal: u64) -> [u64; 4] {
    let first = MAGIC | u64::from(partition) << 32;
    let check = mix(mix(first, ordinal), map_id) | 1;
    [first, ordinal, map_id, check]
}

/// The check of a record.
#[inline]
pub fn record_check(map_id: u64, partition: u32, words: [u64; 3]) -> u64 {
    let [key, value, sequence] = words;
    let sequence = if planted(Planted::CheckWithoutSequence) {
        sequence & 3
    } else {
        sequence
    };
    mix(
        mix(map_id ^ u64::from(partition), sequence),
        mix(key, value),
    ) | 1
}

/// The check of a record that recovery has passed over, as its blob was not whole: it says nothing any more,
/// and is no hole.
pub fn void_check(check: u64) -> u64 {
    check ^ VOID
}

/// A tail as it is stored: 48 bits of ordinal, 16 of a check.
pub fn tail_word(map_id: u64, partition: u32, ordinal: u64) -> u64 {
    let ordinal = ordinal & ((1 << 48) - 1);
    ordinal | mix(map_id ^ u64::from(partition), ordinal) >> 48 << 48
}

/// Word of a record.
#[inline]
pub fn record_at(segment: u32, index: u32) -> usize {
    segment as usize * SEGMENT_WORDS + 8 + index as usize * 4
}
