//! Where in the file what lies: chunks, what each is for, and what comes before the first.

use terrace_base::checksum::mix;

use super::sizes::{CLASSES, LEAF_BYTES, SEGMENT_BYTES};
use crate::superblock::{SUPERBLOCK_BYTES, Shape};

/// Bytes of the tails: a line for each of at most 64 partitions.
const TAIL_BYTES: u64 = 4096;

/// What a chunk is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Nothing yet.
    Free,
    /// Leaves.
    Leaves,
    /// Segments of the log.
    Log,
    /// Blobs of one class.
    Blobs(u8),
}

impl ChunkKind {
    pub(super) fn code(self) -> u64 {
        match self {
            ChunkKind::Free => 0,
            ChunkKind::Leaves => 1,
            ChunkKind::Log => 2,
            ChunkKind::Blobs(class) => 3 + u64::from(class),
        }
    }
}

/// Kinds of places: of blobs by class, of leaves, of segments.
pub const KINDS: usize = CLASSES.len() + 2;

impl ChunkKind {
    /// The number among those of which places are free.
    pub(super) fn class(self) -> u8 {
        match self {
            ChunkKind::Blobs(class) => class,
            ChunkKind::Leaves => CLASSES.len() as u8,
            ChunkKind::Log | ChunkKind::Free => CLASSES.len() as u8 + 1,
        }
    }

    /// Bytes of a place.
    pub(super) fn size(self) -> u64 {
        match self {
            ChunkKind::Blobs(class) => u64::from(CLASSES[class as usize]),
            ChunkKind::Leaves => LEAF_BYTES,
            ChunkKind::Log | ChunkKind::Free => SEGMENT_BYTES,
        }
    }
}

/// Sizes and places that follow from the superblock.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Shape of everything.
    pub shape: Shape,
    /// Number of the map.
    pub map_id: u64,
    /// Bytes before the first chunk.
    pub header: u64,
    /// Chunks at most.
    pub chunks: u32,
    /// The logarithm of a chunk's bytes, where they are a power of two: a division takes long.
    shift: Option<u32>,
}

impl Layout {
    /// For a map of this capacity.
    pub fn new(shape: Shape, capacity: u64, map_id: u64) -> Layout {
        let most = capacity / shape.chunk;
        let header =
            (SUPERBLOCK_BYTES + TAIL_BYTES + 8 * most).next_multiple_of(shape.chunk.min(4096));
        let chunks = capacity.saturating_sub(header) / shape.chunk;
        Layout {
            shape,
            map_id,
            header,
            chunks: chunks as u32,
            shift: shape.chunk.is_power_of_two().then(|| shape.chunk.ilog2()),
        }
    }

    /// Word of a partition's tail.
    pub fn tail(&self, partition: u32) -> usize {
        (SUPERBLOCK_BYTES / 8) as usize + partition as usize * 8
    }

    pub(super) fn table(&self, chunk: u32) -> usize {
        ((SUPERBLOCK_BYTES + TAIL_BYTES) / 8) as usize + chunk as usize
    }

    /// First byte of a chunk.
    #[inline]
    pub fn chunk_at(&self, chunk: u32) -> u64 {
        self.header + u64::from(chunk) * self.shape.chunk
    }

    /// The end of the last chunk.
    pub fn end(&self) -> u64 {
        self.chunk_at(self.chunks)
    }

    /// The chunk of a byte.
    #[inline]
    pub fn chunk_of(&self, byte: u64) -> Option<u32> {
        let within = byte.checked_sub(self.header)?;
        let chunk = match self.shift {
            Some(shift) => within >> shift,
            None => within / self.shape.chunk,
        };
        (chunk < u64::from(self.chunks)).then_some(chunk as u32)
    }

    pub(super) fn table_word(&self, chunk: u32, kind: ChunkKind) -> u64 {
        let code = kind.code();
        code | mix(self.map_id ^ code, u64::from(chunk)) << 32
    }
}
