//! Rows as bytes, in chunks of slots of one size each.
//!
//! Sizes go up by an eighth, so a row leaves a ninth of its slot free at most; how much is said in the free part
//! itself, so there is no header. Beside each chunk lies a byte for each slot. A free slot names the next free one.
//! A chunk without rows gives its memory back. Where many have few rows, some of them are to be emptied: nothing
//! comes into these any more, and who keeps rows here moves them one by one ([`Slab::begin_emptying`]).

/// Bytes of a full chunk. Small ones, as the last one of each size has unused room.
pub const CHUNK: usize = 64 << 10;
/// The largest row that lies in a slot; longer ones have an allocation of their own.
const LARGEST: usize = 4096;
/// The smallest slot.
const SMALLEST: usize = 16;
/// Bits of a row's number that say its slot: as many as the smallest slots of a chunk need.
const SLOT_BITS: u32 = 12;
/// Most chunks that can be numbered; the last number is kept for [`RowId::GONE`].
const CHUNKS: usize = (1 << (32 - SLOT_BITS)) - 1;
/// Rows of their own allocation in a chunk.
const LARGE_SLOTS: usize = 1024;
/// The class of such chunks, and of those that are not in use.
const LARGE: u8 = 254;
const UNUSED: u8 = 255;
/// No slot.
const NONE: u16 = u16::MAX;

/// The longest row: beyond it a row is no row.
pub const MAX_ROW: usize = 64 << 20;

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId(pub u32);

impl RowId {
    fn parts(self) -> (usize, usize) {
        (
            (self.0 >> SLOT_BITS) as usize,
            (self.0 & ((1 << SLOT_BITS) - 1)) as usize,
        )
    }
}

impl RowId {
    /// In the place of a row: that it was deleted, and an older image may be on the disk.
    pub const GONE: RowId = RowId(u32::MAX);
}

/// Of a row's byte: it fills its slot.
const EXACT: u8 = 0b1000_0000;
/// Of a row's byte: how often it was used since the hand came by.
pub const USE: u8 = 0b111;
/// Of a row's byte: the disk has another image, or none.
pub const DIRTY: u8 = 0b1000;
/// Of a row's byte: the disk may have an image.
pub const STORED: u8 = 0b1_0000;
/// The bits of a row's byte that belong to whoever keeps rows here.
pub const OWN: u8 = 0b0111_1111;

struct Chunk {
    class: u8,
    /// The size of its slots.
    size: usize,
    bytes: Vec<u8>,
    large: Vec<Box<[u8]>>,
    /// A byte for each slot that was ever used.
    states: Vec<u8>,
    free: u16,
    live: u16,
    /// Whether it is to be emptied.
    closing: bool,
}

impl Chunk {
    fn new(class: u8, size: usize) -> Chunk {
        Chunk {
            class,
            size,
            bytes: Vec::new(),
            large: Vec::new(),
            states: Vec::new(),
            free: NONE,
            live: 0,
            closing: false,
        }
    }

    /// Whether rows come into it.
    fn is_open(&self) -> bool {
        self.class != UNUSED && !self.closing && !self.is_full()
    }

    fn slots(&self) -> usize {
        if self.class == LARGE {
            LARGE_SLOTS
        } else {
            CHUNK / self.size
        }
    }

    fn is_full(&self) -> bool {
        self.free == NONE && self.states.len() == self.slots()
    }
}

/// All rows of a table.
#[derive(Default)]
pub struct Slab {
    chunks: Vec<Chunk>,
    /// For each class the chunks that may have room.
    open: Vec<Vec<u32>>,
    unused: Vec<u32>,
    len: usize,
    /// Bytes that chunks have reserved, and what rows of their own allocation take.
    bytes: usize,
    /// Bytes of what lies in slots, with the rest of each.
    live: usize,
}

/// The class of rows of this many bytes, and the size of its slots.
fn class(len: usize) -> (u8, usize) {
    if len > LARGEST {
        return (LARGE, 0);
    }
    let len = len.max(SMALLEST);
    // From 128 on each power of two has eight steps; below, steps are 8.
    let top = usize::BITS - 1 - (len - 1).max(64).leading_zeros();
    let step = 1usize << (top - 3);
    let size = len.div_ceil(step) * step;
    let base = (top as usize - 6) * 8;
    ((base + (size >> (top - 3))) as u8, size)
}

/// Bytes that a chunk takes.
fn taken(chunk: &Chunk) -> usize {
    chunk.bytes.capacity()
        + chunk.states.capacity()
        + chunk.large.capacity() * size_of::<Box<[u8]>>()
}

impl Slab {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all of it. O(1).
    pub fn memory(&self) -> usize {
        self.bytes + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Bytes of the slots that have rows: what is left after chunks have been filled again. O(1).
    pub fn live(&self) -> usize {
        self.live
    }

    /// Counts a use of a row.
    #[inline]
    pub fn touch(&mut self, id: RowId) {
        let (chunk, slot) = id.parts();
        let byte = &mut self.chunks[chunk].states[slot];
        if *byte & USE < USE {
            *byte += 1;
        }
    }

    /// The row.
    #[inline]
    pub fn get(&self, id: RowId) -> &[u8] {
        let (chunk, slot) = id.parts();
        let chunk = &self.chunks[chunk];
        if chunk.class == LARGE {
            return &chunk.large[slot];
        }
        let bytes = &chunk.bytes[slot * chunk.size..(slot + 1) * chunk.size];
        if chunk.states[slot] & EXACT != 0 {
            return bytes;
        }
        let free = match bytes[chunk.size - 1] {
            u8::MAX => usize::from(u16::from_le_bytes([
                bytes[chunk.size - 3],
                bytes[chunk.size - 2],
            ])),
            free => usize::from(free),
        };
        &bytes[..chunk.size - free]
    }

    /// The byte of a row, [`OWN`] bits of it.
    #[inline]
    pub fn state(&self, id: RowId) -> u8 {
        let (chunk, slot) = id.parts();
        self.chunks[chunk].states[slot] & OWN
    }

    /// Changes the byte of a row.
    #[inline]
    pub fn set_state(&mut self, id: RowId, state: u8) {
        let (chunk, slot) = id.parts();
        let byte = &mut self.chunks[chunk].states[slot];
        *byte = *byte & EXACT | state & OWN;
    }

    /// Adds a row; `None` when no more can be numbered. Amortised O(bytes).
    pub fn insert(&mut self, row: &[u8], state: u8) -> Option<RowId> {
        let (class, size) = class(row.len());
        if self.open.len() <= usize::from(class) {
            self.open.resize_with(usize::from(class) + 1, Vec::new);
        }
        let at = loop {
            match self.open[usize::from(class)].last() {
                None => break self.add_chunk(class, size)?,
                Some(&at) => {
                    let chunk = &self.chunks[at as usize];
                    if chunk.class == class && chunk.is_open() {
                        break at;
                    }
                    self.open[usize::from(class)].pop();
                }
            }
        };
        let chunk = &mut self.chunks[at as usize];
        let before = taken(chunk);
        let slot = match chunk.free {
            NONE => {
                let slot = chunk.states.len();
                if chunk.states.len() == chunk.states.capacity() {
                    // Small tables stay small: room doubles up to a whole chunk.
                    let more = slot.max(8).min(chunk.slots() - slot);
                    chunk.states.reserve_exact(more);
                    match class {
                        LARGE => chunk.large.reserve_exact(more),
                        _ => chunk.bytes.reserve_exact(more * size),
                    }
                }
                chunk.states.push(0);
                match class {
                    LARGE => chunk.large.push(Box::default()),
                    _ => chunk.bytes.resize((slot + 1) * size, 0),
                }
                slot
            }
            slot => {
                let slot = usize::from(slot);
                chunk.free = match class {
                    // The next one is named in four bytes, as the length of a boxed row of two.
                    LARGE => u16::from_le_bytes([chunk.large[slot][0], chunk.large[slot][1]]),
                    _ => {
                        u16::from_le_bytes([chunk.bytes[slot * size], chunk.bytes[slot * size + 1]])
                    }
                };
                slot
            }
        };
        chunk.live += 1;
        self.len += 1;
        self.live += chunk.size + 1;
        self.bytes += taken(chunk) - before;
        if chunk.is_full() {
            // It is the last one of its class; who removes a row from it names it again.
            self.open[usize::from(class)].pop();
        }
        let id = RowId(at << SLOT_BITS | slot as u32);
        self.fill(id, row, state);
        Some(id)
    }

    fn add_chunk(&mut self, class: u8, size: usize) -> Option<u32> {
        let chunk = Chunk::new(class, size);
        let at = match self.unused.pop() {
            Some(at) => {
                self.chunks[at as usize] = chunk;
                at
            }
            None if self.chunks.len() < CHUNKS => {
                self.chunks.push(chunk);
                self.chunks.len() as u32 - 1
            }
            None => return None,
        };
        self.open[usize::from(class)].push(at);
        Some(at)
    }

    fn fill(&mut self, id: RowId, row: &[u8], state: u8) {
        let (at, slot) = id.parts();
        let chunk = &mut self.chunks[at];
        if chunk.class == LARGE {
            self.bytes = self.bytes + row.len() - chunk.large[slot].len();
            self.live = self.live + row.len() - chunk.large[slot].len();
            chunk.large[slot] = row.into();
            chunk.states[slot] = state & OWN;
            return;
        }
        let size = chunk.size;
        let bytes = &mut chunk.bytes[slot * size..(slot + 1) * size];
        bytes[..row.len()].copy_from_slice(row);
        let free = size - row.len();
        chunk.states[slot] = state & OWN | if free == 0 { EXACT } else { 0 };
        match u8::try_from(free) {
            Ok(0) => {}
            Ok(free) if free < u8::MAX => bytes[size - 1] = free,
            _ => {
                bytes[size - 3..size - 1].copy_from_slice(&(free as u16).to_le_bytes());
                bytes[size - 1] = u8::MAX;
            }
        }
    }

    /// Writes another row in the place of one, if it fits there as well as anywhere; whether it did.
    #[inline]
    pub fn replace(&mut self, id: RowId, row: &[u8], state: u8) -> bool {
        let fits = self.chunks[id.parts().0].class == class(row.len()).0;
        if fits {
            self.fill(id, row, state);
        }
        fits
    }

    /// Removes a row.
    pub fn remove(&mut self, id: RowId) {
        let (at, slot) = id.parts();
        let chunk = &mut self.chunks[at];
        let (was_full, next) = (chunk.is_full(), chunk.free.to_le_bytes());
        if chunk.class == LARGE {
            self.bytes = self.bytes + 2 - chunk.large[slot].len();
            self.live = self.live + 2 - chunk.large[slot].len();
            chunk.large[slot] = next.into();
        } else {
            let from = slot * chunk.size;
            chunk.bytes[from..from + 2].copy_from_slice(&next);
        }
        chunk.free = slot as u16;
        chunk.live -= 1;
        self.len -= 1;
        self.live -= chunk.size + 1;
        let class = chunk.class;
        if chunk.live == 0 {
            let large: usize = chunk.large.iter().map(|row| row.len()).sum();
            self.bytes -= taken(chunk) + large;
            self.live -= large;
            *chunk = Chunk::new(UNUSED, 0);
            self.unused.push(at as u32);
        } else if was_full && !chunk.closing {
            self.open[usize::from(class)].push(at as u32);
        }
    }

    // ---------------------------------------------------------------- emptying

    /// Lets the chunks with the fewest rows be emptied, as many as the others have room for, if at least this many
    /// bytes come free by it. Whether it does. O(chunks).
    pub fn begin_emptying(&mut self, least: usize) -> bool {
        if self.bytes - self.live < least {
            return false;
        }
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); self.open.len()];
        for (at, chunk) in self.chunks.iter().enumerate() {
            // A large row gives its bytes back by itself.
            if chunk.class != UNUSED && chunk.class != LARGE {
                of[usize::from(chunk.class)].push(at as u32);
            }
        }
        let (mut closing, mut freed) = (Vec::new(), 0);
        for chunks in &mut of {
            chunks.sort_unstable_by_key(|&at| self.chunks[at as usize].live);
            let rows: usize = chunks
                .iter()
                .map(|&at| usize::from(self.chunks[at as usize].live))
                .sum();
            let Some(&any) = chunks.first() else { continue };
            let needed = rows.div_ceil(self.chunks[any as usize].slots());
            let many = &chunks[..chunks.len() - needed];
            freed += many
                .iter()
                .map(|&at| taken(&self.chunks[at as usize]))
                .sum::<usize>();
            closing.extend_from_slice(many);
        }
        if freed < least {
            return false;
        }
        for at in closing {
            self.chunks[at as usize].closing = true;
        }
        // The fullest ones are filled first.
        for (open, mut chunks) in self.open.iter_mut().zip(of) {
            if !chunks.is_empty() {
                chunks.retain(|&at| self.chunks[at as usize].is_open());
                *open = chunks;
            }
        }
        true
    }

    /// Whether a row lies in a chunk that is to be emptied.
    pub fn is_closing(&self, id: RowId) -> bool {
        self.chunks[id.parts().0].closing
    }

    /// Chunks that still have rows are used again as others are.
    pub fn end_emptying(&mut self) {
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            if std::mem::take(&mut chunk.closing) && chunk.is_open() {
                self.open[usize::from(chunk.class)].push(at as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_up_by_an_eighth_and_have_classes_of_their_own() {
        let mut last = (0, 0);
        for len in 1..=LARGEST {
            let (class, size) = class(len);
            assert!(size >= len && class < LARGE, "{len}: {class} {size}");
            assert!(len <= 64 || size * 8 <= len * 9 + 8, "{len}: {size}");
            if size != last.1 {
                assert!(
                    class > last.0 && size > last.1,
                    "{len}: {class} {size} after {last:?}"
                );
            } else {
                assert_eq!(class, last.0, "{len}");
            }
            last = (class, size);
        }
        assert_eq!(class(LARGEST + 1).0, LARGE);
    }

    #[test]
    fn a_queue_leaves_nothing_behind() {
        let mut slab = Slab::default();
        let mut rows: std::collections::VecDeque<RowId> = (0..6000)
            .map(|_| slab.insert(&[1; 100], 0).unwrap())
            .collect();
        for _ in 0..20_000 {
            slab.remove(rows.pop_front().unwrap());
            rows.push_back(slab.insert(&[2; 100], 0).unwrap());
        }
        let named: usize = slab.open.iter().map(Vec::len).sum();
        assert!(
            named <= slab.chunks.len(),
            "{named} of {}",
            slab.chunks.len()
        );
    }

    #[test]
    fn sparse_chunks_are_emptied_and_full_ones_are_not() {
        let mut slab = Slab::default();
        let row = |n: usize| vec![n as u8; 60 + 40 * (n % 2)];
        let mut rows: Vec<(RowId, usize)> = (0..20_000)
            .map(|n| (slab.insert(&row(n), 0).unwrap(), n))
            .collect();
        let full = slab.memory();
        assert!(!slab.begin_emptying(CHUNK));
        // Of each size one row of four is left, spread over all chunks.
        rows.retain(|&(id, n)| {
            let stays = n / 2 % 4 == 0;
            if !stays {
                slab.remove(id);
            }
            stays
        });
        assert!(slab.memory() == full && slab.begin_emptying(CHUNK));
        let mut moved = 0;
        for (id, _) in &mut rows {
            if slab.is_closing(*id) {
                let bytes = slab.get(*id).to_vec();
                let new = slab.insert(&bytes, slab.state(*id)).unwrap();
                assert!(!slab.is_closing(new));
                slab.remove(*id);
                (*id, moved) = (new, moved + 1);
            }
        }
        slab.end_emptying();
        assert!(moved < rows.len(), "{moved} of {}", rows.len());
        assert!(rows.iter().all(|&(id, n)| slab.get(id) == row(n)));
        // A chunk of each size may be nearly empty.
        let most = slab.live() + 2 * CHUNK + slab.chunks.capacity() * size_of::<Chunk>();
        assert!(slab.memory() <= most, "{} of {most}", slab.memory());
    }

    #[test]
    fn rows_come_back_as_they_were_and_memory_goes_back() {
        let mut slab = Slab::default();
        let row = |n: usize| vec![n as u8; n * 7 % 5000];
        let mut rows: Vec<(RowId, usize)> = Vec::new();
        for n in 1..3000 {
            rows.push((slab.insert(&row(n), n as u8 & OWN).unwrap(), n));
            if n % 3 == 0 {
                let (id, _) = rows.swap_remove(n * 31 % rows.len());
                slab.remove(id);
            }
            if n % 5 == 0 {
                let at = n * 17 % rows.len();
                let (id, old) = rows[at];
                let new = old + n % 2;
                if slab.replace(id, &row(new), slab.state(id)) {
                    rows[at].1 = new;
                }
            }
        }
        assert_eq!(slab.len(), rows.len());
        for (id, n) in &rows {
            assert_eq!(slab.get(*id), row(*n));
        }
        for (id, _) in rows {
            slab.remove(id);
        }
        assert_eq!((slab.len(), slab.bytes, slab.live()), (0, 0, 0));
    }
}
