//! Places in the file: chunks, and in them leaves, log segments and blobs.
//!
//! Nothing on the medium says what is free: leaves are those of the chain, segments those from the tails
//! on, blobs those that something refers to. Only what a chunk is for is written down, before its first
//! use. A place is free again only after the switch that dropped it was fenced (rule 11).

mod blobs;
mod superblock;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, OnceLock};
use terrace_base::checksum::mix;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

pub use blobs::BlobRef;
pub use superblock::{SUPERBLOCK_BYTES, Shape, State, Superblock};

use crate::pm::Pm;

/// Bytes of a leaf.
pub const LEAF_BYTES: u64 = 512;
/// Bytes of a log segment.
pub const SEGMENT_BYTES: u64 = 4096;
/// The most bytes of a file: places of segments in memory have 25 bits.
pub const MOST_BYTES: u64 = SEGMENT_BYTES << 25;
/// Bytes of the tails: a line for each of at most 64 partitions.
const TAIL_BYTES: u64 = 4096;
/// Files grow by this much, or by a chunk where that is more.
const GROW_BYTES: u64 = 64 << 20;
/// Chunks that only deletes and cleaning may take.
const RESERVE: usize = 2;

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
    fn code(self) -> u64 {
        match self {
            ChunkKind::Free => 0,
            ChunkKind::Leaves => 1,
            ChunkKind::Log => 2,
            ChunkKind::Blobs(class) => 3 + u64::from(class),
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
        }
    }

    /// Word of a partition's tail.
    pub fn tail(&self, partition: u32) -> usize {
        (SUPERBLOCK_BYTES / 8) as usize + partition as usize * 8
    }

    fn table(&self, chunk: u32) -> usize {
        ((SUPERBLOCK_BYTES + TAIL_BYTES) / 8) as usize + chunk as usize
    }

    /// First byte of a chunk.
    pub fn chunk_at(&self, chunk: u32) -> u64 {
        self.header + u64::from(chunk) * self.shape.chunk
    }

    /// The chunk of a byte.
    pub fn chunk_of(&self, byte: u64) -> Option<u32> {
        let chunk = byte.checked_sub(self.header)? / self.shape.chunk;
        (chunk < u64::from(self.chunks)).then_some(chunk as u32)
    }

    fn table_word(&self, chunk: u32, kind: ChunkKind) -> u64 {
        let code = kind.code();
        code | mix(self.map_id ^ code, u64::from(chunk)) << 32
    }
}

#[derive(Default)]
struct Free {
    leaves: Vec<u32>,
    segments: Vec<u32>,
    blobs: Vec<Vec<u64>>,
    /// Chunks from here on were never used.
    next_chunk: u32,
}

/// Which records of a segment are live, by bits.
pub type LiveBits = [AtomicU64; 2];

/// What of the file is in use.
pub struct Arena {
    pm: Arc<dyn Pm>,
    layout: Layout,
    free: Mutex<Free>,
    kinds: Vec<AtomicU64>,
    live: Vec<OnceLock<Box<[LiveBits]>>>,
    log_chunks: AtomicU64,
}

impl Arena {
    /// Reads what chunks are for. Nothing is free until [`Arena::release_leaf`] and the like say so.
    pub fn open(pm: Arc<dyn Pm>, layout: Layout) -> Result<Arena> {
        let arena = Arena {
            free: Mutex::new(Free {
                blobs: vec![Vec::new(); blobs::CLASSES.len()],
                ..Free::default()
            }),
            kinds: (0..layout.chunks).map(|_| AtomicU64::new(0)).collect(),
            live: (0..layout.chunks).map(|_| OnceLock::new()).collect(),
            log_chunks: AtomicU64::new(0),
            pm,
            layout,
        };
        let len = arena.pm.words().len() as u64 * 8;
        let short = |what: String| Err(Error::corrupt(arena.pm.name(), len, what));
        if len < layout.header {
            return short(format!(
                "the file ends within its first {} bytes, which every map has",
                layout.header
            ));
        }
        let mut next = 0;
        for chunk in 0..layout.chunks {
            let end = layout.chunk_at(chunk) + layout.shape.chunk;
            let word = arena.load(layout.table(chunk));
            if word == 0 {
                continue;
            }
            if end > len {
                return short(format!(
                    "the file has been cut short: chunk {chunk}, which is in use, ends at byte {end}"
                ));
            }
            let kind = arena.kind_of(chunk, word)?;
            arena.adopt(chunk, kind);
            next = chunk + 1;
        }
        arena.free.lock().next_chunk = next;
        Ok(arena)
    }

    fn kind_of(&self, chunk: u32, word: u64) -> Result<ChunkKind> {
        let kind = match word & 0xff {
            1 => ChunkKind::Leaves,
            2 => ChunkKind::Log,
            code if (3..3 + blobs::CLASSES.len() as u64).contains(&code) => {
                ChunkKind::Blobs(code as u8 - 3)
            }
            _ => ChunkKind::Free,
        };
        if kind == ChunkKind::Free || word != self.layout.table_word(chunk, kind) {
            return Err(Error::corrupt(
                self.pm.name(),
                self.layout.table(chunk) as u64 * 8,
                format!("the entry of chunk {chunk} is not what was written"),
            ));
        }
        Ok(kind)
    }

    fn adopt(&self, chunk: u32, kind: ChunkKind) {
        self.kinds[chunk as usize].store(kind.code(), Relaxed);
        if kind == ChunkKind::Log {
            let count = self.layout.shape.chunk / SEGMENT_BYTES;
            self.live[chunk as usize]
                .get_or_init(|| (0..count).map(|_| Default::default()).collect());
            self.log_chunks.fetch_add(1, Relaxed);
        }
    }

    /// The memory below.
    pub fn pm(&self) -> &dyn Pm {
        &*self.pm
    }

    /// Sizes and places.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A word, as threads see it; zero past the end.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        self.pm.words().get(word).map_or(0, |w| w.load(Acquire))
    }

    /// What a chunk is for.
    pub fn kind(&self, chunk: u32) -> ChunkKind {
        let code = self
            .kinds
            .get(chunk as usize)
            .map_or(0, |k| k.load(Relaxed));
        match code {
            0 => ChunkKind::Free,
            1 => ChunkKind::Leaves,
            2 => ChunkKind::Log,
            code => ChunkKind::Blobs((code - 3) as u8),
        }
    }

    /// Whether a byte begins something of this size in a chunk of this kind.
    pub fn is_place(&self, byte: u64, kind: ChunkKind, size: u64) -> bool {
        self.layout.chunk_of(byte).is_some_and(|chunk| {
            let within = byte - self.layout.chunk_at(chunk);
            self.kind(chunk) == kind
                && within.is_multiple_of(size)
                && within + size <= self.layout.shape.chunk
        })
    }

    /// Every place of this size in chunks of this kind.
    pub fn places(&self, kind: ChunkKind, size: u64) -> Vec<u64> {
        let mut places = Vec::new();
        for chunk in (0..self.layout.chunks).filter(|chunk| self.kind(*chunk) == kind) {
            let at = self.layout.chunk_at(chunk);
            places.extend((0..self.layout.shape.chunk / size).map(|i| at + i * size));
        }
        places
    }

    /// Whether a put may begin: its leaf, its record and their followers will find room.
    pub fn has_room(&self) -> bool {
        let free = self.free.lock();
        let chunks = (self.layout.chunks - free.next_chunk) as usize;
        chunks > RESERVE || (free.leaves.len() >= 8 && free.segments.len() >= 4)
    }

    /// A chunk for this kind; its places are free.
    fn take_chunk(&self, free: &mut Free, kind: ChunkKind) -> Result<()> {
        let chunk = free.next_chunk;
        if chunk >= self.layout.chunks {
            return Err(Error::DiskFull {
                what: format!(
                    "{} has used all of its capacity (Options::capacity when it was made)",
                    self.pm.name()
                ),
            });
        }
        let at = self.layout.chunk_at(chunk);
        let end = at + self.layout.shape.chunk;
        if end > self.pm.words().len() as u64 * 8 {
            let most = self.layout.chunk_at(self.layout.chunks);
            let step = if self.layout.shape.chunk < 1 << 16 {
                0
            } else {
                GROW_BYTES
            };
            let grown = self
                .pm
                .grow((end.next_multiple_of(step.max(1))).min(most).max(end));
            if grown.is_err() {
                // Perhaps there is room for one chunk, if not for many.
                self.pm.grow(end)?;
            }
        }
        let word = self.layout.table(chunk);
        self.pm.store(word, self.layout.table_word(chunk, kind));
        self.pm.flush(word, 1);
        self.pm.fence()?;
        self.adopt(chunk, kind);
        free.next_chunk += 1;
        let (size, list): (u64, _) = match kind {
            ChunkKind::Free => return Ok(()),
            ChunkKind::Leaves => (LEAF_BYTES, 0),
            ChunkKind::Log => (SEGMENT_BYTES, 1),
            ChunkKind::Blobs(class) => (u64::from(blobs::CLASSES[class as usize]), 2),
        };
        for i in (0..self.layout.shape.chunk / size).rev() {
            let place = at + i * size;
            match (list, kind) {
                (0, _) => free.leaves.push((place / LEAF_BYTES) as u32),
                (1, _) => free.segments.push((place / SEGMENT_BYTES) as u32),
                (_, ChunkKind::Blobs(class)) => free.blobs[class as usize].push(place),
                _ => {}
            }
        }
        Ok(())
    }

    /// A leaf that nothing refers to.
    pub fn take_leaf(&self) -> Result<u32> {
        let mut free = self.free.lock();
        loop {
            if let Some(leaf) = free.leaves.pop() {
                return Ok(leaf);
            }
            self.take_chunk(&mut free, ChunkKind::Leaves)?;
        }
    }

    /// A leaf that a fenced switch has dropped.
    pub fn release_leaf(&self, leaf: u32) {
        self.free.lock().leaves.push(leaf);
    }

    /// A log segment that no tail has before it.
    pub fn take_segment(&self) -> Result<u32> {
        let mut free = self.free.lock();
        loop {
            if let Some(segment) = free.segments.pop() {
                for bits in self.live_bits(segment) {
                    bits.store(0, Relaxed);
                }
                return Ok(segment);
            }
            self.take_chunk(&mut free, ChunkKind::Log)?;
        }
    }

    /// A segment that a fenced tail has passed.
    pub fn release_segment(&self, segment: u32) {
        // The oldest is used last: nothing depends on it, but what lies in it stays readable for longer.
        self.free.lock().segments.push(segment);
    }

    /// Which records of a segment are live.
    pub fn live_bits(&self, segment: u32) -> &LiveBits {
        static NONE: LiveBits = [AtomicU64::new(0), AtomicU64::new(0)];
        let byte = u64::from(segment) * SEGMENT_BYTES;
        let found = self.layout.chunk_of(byte).and_then(|chunk| {
            let within = (byte - self.layout.chunk_at(chunk)) / SEGMENT_BYTES;
            self.live[chunk as usize].get()?.get(within as usize)
        });
        found.unwrap_or(&NONE)
    }

    /// Marks a record live or dead.
    pub fn set_live(&self, segment: u32, index: u32, live: bool) {
        let bits = &self.live_bits(segment)[(index / 64) as usize % 2];
        let bit = 1 << (index % 64);
        if live {
            bits.fetch_or(bit, AcqRel);
        } else {
            bits.fetch_and(!bit, AcqRel);
        }
    }

    /// Bytes of chunks that are in use, and of the header.
    pub fn used(&self) -> u64 {
        self.layout.chunk_at(self.free.lock().next_chunk)
    }

    /// Bytes of memory that the arena itself keeps.
    pub fn memory(&self) -> u64 {
        let free = self.free.lock();
        let lists = free.leaves.capacity() * 4 + free.segments.capacity() * 4;
        let blobs: usize = free.blobs.iter().map(|list| list.capacity() * 8).sum();
        let live = self.log_chunks.load(Relaxed) * (self.layout.shape.chunk / SEGMENT_BYTES) * 16;
        live + (lists + blobs + self.kinds.len() * 8 + self.live.len() * 24) as u64
    }
}
