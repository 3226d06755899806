//! What of the file is in use, chunk by chunk and place by place, and how it grows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, OnceLock};
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use super::layout::{ChunkKind, KINDS, Layout};
use super::places::{FreePlaces, Places};
use super::sizes::{CLASSES, LEAF_BYTES, SEGMENT_BYTES, has_place};
use crate::faults::{Planted, planted};
use crate::pm::Pm;

/// Files grow by this much, or by a chunk where that is more.
const GROW_BYTES: u64 = 64 << 20;
/// Chunks that only deletes and cleaning may take.
const RESERVE: usize = 2;
/// The file is made longer when it has room for fewer chunks than these, or for less than a quarter of what it
/// grows by: one write takes no more, and so none waits for a file system.
const AHEAD: u64 = RESERVE as u64 + 4;
/// Files of smaller chunks than this, which only tests have, grow by a chunk.
const TINY_CHUNK: u64 = 1 << 16;
/// No growing has failed since the last chunk was taken.
const NONE_FAILED: u64 = u64::MAX;

pub(super) struct Free {
    pub(super) places: FreePlaces,
    /// Chunks from here on were never used.
    next_chunk: u32,
}

/// Which records of a segment are live, by bits.
pub type LiveBits = [AtomicU64; 2];

/// What of the file is in use.
pub struct Arena {
    pm: Arc<dyn Pm>,
    layout: Layout,
    pub(super) free: Mutex<Free>,
    kinds: Vec<AtomicU64>,
    live: Vec<OnceLock<Box<[LiveBits]>>>,
    log_chunks: AtomicU64,
    /// As `Free::next_chunk`, to be looked at without the lock.
    next: AtomicU64,
    /// The number of [`Arena::next`] for which the file was last found to be long enough.
    is_ahead: AtomicU64,
    /// Held by who makes the file longer.
    growing: Mutex<()>,
    /// The chunk from which on the storage had no room.
    failed_at: AtomicU64,
    /// Places that became free since the map was opened.
    released: AtomicU64,
}

impl Arena {
    /// Reads what chunks are for. Nothing is free until [`Arena::release_leaf`] and the like say so.
    pub fn open(pm: Arc<dyn Pm>, layout: Layout) -> Result<Arena> {
        let arena = Arena {
            free: Mutex::new(Free {
                places: FreePlaces::new(layout.chunks as usize, KINDS),
                next_chunk: 0,
            }),
            kinds: (0..layout.chunks).map(|_| AtomicU64::new(0)).collect(),
            live: (0..layout.chunks).map(|_| OnceLock::new()).collect(),
            log_chunks: AtomicU64::new(0),
            next: AtomicU64::new(0),
            is_ahead: AtomicU64::new(u64::MAX),
            growing: Mutex::new(()),
            failed_at: AtomicU64::new(NONE_FAILED),
            released: AtomicU64::new(0),
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
            let places = arena.per_chunk(kind.size());
            let mut free = arena.free.lock();
            free.places.add(kind.class(), chunk, places, false);
            drop(free);
            next = chunk + 1;
        }
        arena.free.lock().next_chunk = next;
        arena.next.store(u64::from(next), Relaxed);
        Ok(arena)
    }

    fn kind_of(&self, chunk: u32, word: u64) -> Result<ChunkKind> {
        let kind = match word & 0xff {
            1 => ChunkKind::Leaves,
            2 => ChunkKind::Log,
            code if (3..3 + CLASSES.len() as u64).contains(&code) => {
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

    /// How many places of this size a chunk has.
    fn per_chunk(&self, size: u64) -> usize {
        (self.layout.shape.chunk / size) as usize
    }

    /// The memory below.
    #[inline]
    pub fn pm(&self) -> &dyn Pm {
        &*self.pm
    }

    /// Sizes and places.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A word, as threads see it; zero past the end.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        self.pm.words().get(word).map_or(0, |w| w.load(Acquire))
    }

    /// What a chunk is for.
    #[inline]
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

    /// Whether a put may begin: its leaf, its record and their followers will find room, and its blob, where it
    /// has one of this many bytes.
    #[inline]
    pub fn has_room(&self, blob: Option<usize>) -> bool {
        if self.chunks_left(self.next.load(Relaxed)) > RESERVE {
            return true;
        }
        let free = self.free.lock();
        self.chunks_left(u64::from(free.next_chunk)) > RESERVE
            || (free.places.count(ChunkKind::Leaves.class()) >= 8
                && free.places.count(ChunkKind::Log.class()) >= 4
                && blob.is_none_or(|bytes| has_place(&free.places, bytes)))
    }

    /// Chunks from this one on that can still be taken: where the storage is full those that the file has, else all.
    #[inline]
    fn chunks_left(&self, next: u64) -> usize {
        let mut chunks = u64::from(self.layout.chunks);
        if self.failed_at.load(Relaxed) != NONE_FAILED {
            let len = self.pm.words().len() as u64 * 8;
            chunks = chunks.min(len.saturating_sub(self.layout.header) / self.layout.shape.chunk);
        }
        chunks.saturating_sub(next) as usize
    }

    /// Makes the file longer before the room is needed, by one thread while others go on (rule 15). Where
    /// the storage is full the reserve has been made by then.
    #[inline]
    pub fn make_ahead(&self) {
        if planted(Planted::GrowthHeld) {
            return;
        }
        let next = self.next.load(Relaxed);
        if self.is_ahead.load(Relaxed) != next {
            self.make_longer(next);
        }
    }

    fn make_longer(&self, next: u64) {
        let chunk = self.layout.shape.chunk;
        let ahead = if chunk < TINY_CHUNK {
            AHEAD
        } else {
            AHEAD.max(GROW_BYTES / 4 / chunk)
        };
        let wanted = (next + ahead).min(u64::from(self.layout.chunks));
        let end = self.layout.chunk_at(wanted as u32);
        if end <= self.pm.words().len() as u64 * 8 {
            self.is_ahead.store(next, Relaxed);
            return;
        }
        // Where it has failed it is tried again only when there is need.
        let least = self
            .layout
            .chunk_at((next + RESERVE as u64 + 1).min(wanted) as u32);
        if self.failed_at.load(Relaxed) == next && least <= self.pm.words().len() as u64 * 8 {
            return;
        }
        if let Some(_growing) = self.growing.try_lock() {
            // Who needs the room is told.
            let _ = self.grow(end, next);
        }
    }

    /// Makes the file so long at least, and in larger steps where there is room.
    fn grow(&self, end: u64, next: u64) -> Result<()> {
        let most = self.layout.chunk_at(self.layout.chunks);
        let step = if self.layout.shape.chunk < TINY_CHUNK {
            1
        } else {
            GROW_BYTES
        };
        let mut grown = self.pm.grow(end.next_multiple_of(step).min(most).max(end));
        let mut to = end;
        while grown.is_err() && to > self.pm.words().len() as u64 * 8 {
            // Perhaps there is room for a chunk, if not for many.
            grown = self.pm.grow(to);
            to = to.saturating_sub(self.layout.shape.chunk);
        }
        let is_full = end > self.pm.words().len() as u64 * 8
            && matches!(&grown, Err(error) if error.is_disk_full());
        self.failed_at
            .store(if is_full { next } else { NONE_FAILED }, Relaxed);
        if end <= self.pm.words().len() as u64 * 8 {
            return Ok(());
        }
        grown
    }

    /// A chunk for this kind; its places are free.
    pub(super) fn take_chunk(
        &self,
        free: &mut Free,
        kind: ChunkKind,
        may_reserve: bool,
    ) -> Result<()> {
        let chunk = free.next_chunk;
        let is_kept = !may_reserve && self.chunks_left(u64::from(chunk)) <= RESERVE;
        if chunk >= self.layout.chunks || is_kept {
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
            let grown = self.grow(end, u64::from(chunk));
            if end > self.pm.words().len() as u64 * 8 {
                grown?;
            }
        }
        let word = self.layout.table(chunk);
        self.pm.store(word, self.layout.table_word(chunk, kind));
        self.pm.flush(word, 1);
        self.pm.fence()?;
        self.adopt(chunk, kind);
        free.next_chunk += 1;
        self.next.store(u64::from(free.next_chunk), Relaxed);
        let places = self.per_chunk(kind.size());
        free.places.add(kind.class(), chunk, places, true);
        Ok(())
    }

    /// A free place of this kind: its first byte.
    fn take_place(&self, kind: ChunkKind) -> Result<u64> {
        let mut free = self.free.lock();
        loop {
            if let Some((chunk, i)) = free.places.take(kind.class()) {
                return Ok(self.layout.chunk_at(chunk) + i as u64 * kind.size());
            }
            self.take_chunk(&mut free, kind, true)?;
        }
    }

    /// The place that begins with this byte is free.
    pub(super) fn release_place(&self, byte: u64) {
        let Some(chunk) = self.layout.chunk_of(byte) else {
            return;
        };
        let kind = self.kind(chunk);
        let i = (byte - self.layout.chunk_at(chunk)) / kind.size();
        let mut free = self.free.lock();
        free.places.release(kind.class(), chunk, i as usize);
        self.released.fetch_add(1, Relaxed);
    }

    /// A leaf that nothing refers to.
    pub fn take_leaf(&self) -> Result<u32> {
        let byte = self.take_place(ChunkKind::Leaves)?;
        Ok((byte / LEAF_BYTES) as u32)
    }

    /// A leaf that a fenced switch has dropped.
    pub fn release_leaf(&self, leaf: u32) {
        self.release_place(u64::from(leaf) * LEAF_BYTES);
    }

    /// How many places became free since the map was opened.
    pub fn released(&self) -> u64 {
        self.released.load(Relaxed)
    }

    /// Chunks that are in use, with what for.
    fn chunks(&self) -> impl DoubleEndedIterator<Item = (u32, ChunkKind)> {
        let chunks = (0..self.layout.chunks).map(|chunk| (chunk, self.kind(chunk)));
        chunks.filter(|(_, kind)| *kind != ChunkKind::Free)
    }

    /// Chunks of leaves, in order.
    pub fn leaf_chunks(&self) -> Vec<u32> {
        let leaves = self.chunks().filter(|(_, kind)| *kind == ChunkKind::Leaves);
        leaves.map(|(chunk, _)| chunk).collect()
    }

    /// How many leaves a chunk has room for.
    pub fn leaves_of_a_chunk(&self) -> usize {
        self.per_chunk(LEAF_BYTES)
    }

    /// A bit for each place of a leaf or of a blob, none of them set.
    pub fn marks(&self) -> Places {
        let mut marks = Places::new(self.layout.chunks as usize);
        for (chunk, kind) in self.chunks().filter(|(_, kind)| *kind != ChunkKind::Log) {
            marks.add(chunk, self.per_chunk(kind.size()), false);
        }
        marks
    }

    /// Marks the place of this byte; whether it was not marked.
    pub fn mark(&self, marks: &mut Places, byte: u64) -> bool {
        self.layout.chunk_of(byte).is_some_and(|chunk| {
            let within = byte - self.layout.chunk_at(chunk);
            marks.set(chunk, (within / self.kind(chunk).size()) as usize)
        })
    }

    /// After recovery: leaves, or blobs, that are not marked are free. What replay has made of new chunks of
    /// blobs is marked, so this comes in the place of what was left of them.
    pub fn release_but(&self, used: &Places, are_leaves: bool) {
        let mut free = self.free.lock();
        let wanted = |kind: ChunkKind| match kind {
            ChunkKind::Leaves => are_leaves,
            ChunkKind::Blobs(_) => !are_leaves,
            _ => false,
        };
        for (chunk, kind) in self.chunks().filter(|(_, kind)| wanted(*kind)).rev() {
            let places = self.per_chunk(kind.size());
            free.places.release_but(kind.class(), chunk, places, used);
        }
    }

    /// A log segment that no tail has before it.
    pub fn take_segment(&self) -> Result<u32> {
        let segment = (self.take_place(ChunkKind::Log)? / SEGMENT_BYTES) as u32;
        for bits in self.live_bits(segment) {
            bits.store(0, Relaxed);
        }
        Ok(segment)
    }

    /// A segment that a fenced tail has passed.
    pub fn release_segment(&self, segment: u32) {
        self.release_place(u64::from(segment) * SEGMENT_BYTES);
    }

    /// Which records of a segment are live.
    #[inline]
    pub fn live_bits(&self, segment: u32) -> &LiveBits {
        static NONE: LiveBits = [AtomicU64::new(0), AtomicU64::new(0)];
        let byte = u64::from(segment) * SEGMENT_BYTES;
        let found = self.layout.chunk_of(byte).and_then(|chunk| {
            let within = (byte - self.layout.chunk_at(chunk)) / SEGMENT_BYTES;
            self.live[chunk as usize].get()?.get(within as usize)
        });
        found.unwrap_or(&NONE)
    }

    /// The first live record of a segment from this one on.
    pub fn next_live(&self, segment: u32, from: u32) -> Option<u32> {
        let bits = self.live_bits(segment);
        (from / 64..2).find_map(|word| {
            let skip = if word == from / 64 { from % 64 } else { 0 };
            let left = bits[word as usize].load(Relaxed) >> skip << skip;
            (left != 0).then(|| word * 64 + left.trailing_zeros())
        })
    }

    /// Marks a record live or dead.
    #[inline]
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
        let places = free.places.bytes();
        let live = self.log_chunks.load(Relaxed) * (self.layout.shape.chunk / SEGMENT_BYTES) * 16;
        live + (places + self.kinds.len() * 8 + self.live.len() * 24) as u64
    }
}
