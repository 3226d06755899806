//! Sizes of what lies in the file: leaves, segments of the log, and blobs by class.

use super::places::FreePlaces;
use crate::superblock::MOST_BYTES;

/// Bytes of a leaf.
pub const LEAF_BYTES: u64 = 512;

/// Bytes of a log segment.
pub const SEGMENT_BYTES: u64 = 4096;

const _: () = assert!(MOST_BYTES == SEGMENT_BYTES << 25);

/// Bytes of the places of each class, header included.
pub const CLASSES: [u32; 31] = [
    32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
    16384, 24576, 32768, 49152, 65536, 98304, 131072, 196608, 262144, 393216, 524288, 786432,
    1048576,
];

/// Bytes before key and value: lengths and birth, check.
pub const HEADER: u64 = 16;

/// Key and value together have this many bytes at most.
pub const LONGEST_BLOB: usize = 1048576 - HEADER as usize;

/// The class for this many bytes of key and value.
pub fn class_of(bytes: usize) -> Option<u8> {
    let whole = bytes as u64 + HEADER;
    CLASSES
        .iter()
        .position(|size| u64::from(*size) >= whole)
        .map(|class| class as u8)
}

/// Whether a place for this many bytes of key and value is free.
pub fn has_place(free: &FreePlaces, bytes: usize) -> bool {
    let least = class_of(bytes).unwrap_or(0);
    (least..CLASSES.len() as u8).any(|class| free.count(class) > 0)
}
