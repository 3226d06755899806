//! The buffer of a last-level node: pairs that are in the log and not in their leaves yet.
//!
//! Chunks of four pairs, keys together: the search compares four at a time. 22 bytes a pair.

/// Pairs of a chunk.
pub const CHUNK_PAIRS: usize = 4;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = size_of::<Chunk>();

/// Bits of a tag that say to which leaf of the node the pair goes.
const LEAF: u8 = 0x1f;
/// How many leaves that can be.
pub const LEAVES_OF_TAGS: usize = LEAF as usize + 1;
const DELETE: u8 = 0x20;
const COPIED: u8 = 0x40;
const REPLAYED: u8 = 0x80;

#[derive(Clone, Copy)]
struct Chunk {
    keys: [u64; CHUNK_PAIRS],
    values: [u64; CHUNK_PAIRS],
    places: [u32; CHUNK_PAIRS],
    tags: [u8; CHUNK_PAIRS],
}

/// Where a record lies in the log: segment and index within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Index of the record.
    pub index: u32,
}

impl Place {
    fn pack(self) -> u32 {
        self.segment << 7 | self.index
    }

    fn unpack(packed: u32) -> Place {
        Place {
            segment: packed >> 7,
            index: packed & 0x7f,
        }
    }
}

/// A buffered pair.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its key's word.
    pub key: u64,
    /// Its value, or blob.
    pub value: u64,
    /// Its record.
    pub place: Place,
    /// To which leaf of the node it goes.
    pub leaf: u8,
    /// Whether it says that the key is gone.
    pub is_delete: bool,
    /// Whether its record was copied to the head of the log once.
    pub is_copied: bool,
    /// Whether recovery has put it here: its leaf may have the same blob.
    pub is_replayed: bool,
}

/// Pairs in no order.
#[derive(Default)]
pub struct Buffer {
    chunks: Vec<Chunk>,
    len: usize,
}

impl Buffer {
    /// How many pairs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the next pair needs another chunk.
    pub fn is_at_end(&self) -> bool {
        self.len == self.chunks.len() * CHUNK_PAIRS
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.chunks.capacity() * CHUNK_BYTES
    }

    /// The pair of this number.
    pub fn get(&self, i: usize) -> Entry {
        let (chunk, at) = (&self.chunks[i / CHUNK_PAIRS], i % CHUNK_PAIRS);
        let tag = chunk.tags[at];
        Entry {
            key: chunk.keys[at],
            value: chunk.values[at],
            place: Place::unpack(chunk.places[at]),
            leaf: tag & LEAF,
            is_delete: tag & DELETE != 0,
            is_copied: tag & COPIED != 0,
            is_replayed: tag & REPLAYED != 0,
        }
    }

    /// Puts a pair in the place of another.
    pub fn set(&mut self, i: usize, entry: Entry) {
        let (chunk, at) = (&mut self.chunks[i / CHUNK_PAIRS], i % CHUNK_PAIRS);
        chunk.keys[at] = entry.key;
        chunk.values[at] = entry.value;
        chunk.places[at] = entry.place.pack();
        chunk.tags[at] = entry.leaf & LEAF
            | if entry.is_delete { DELETE } else { 0 }
            | if entry.is_copied { COPIED } else { 0 }
            | if entry.is_replayed { REPLAYED } else { 0 };
    }

    /// Adds a pair.
    pub fn push(&mut self, entry: Entry) {
        if self.len == self.chunks.len() * CHUNK_PAIRS {
            // Exactly one more: what a buffer may take is counted.
            self.chunks.reserve_exact(1);
            self.chunks.push(Chunk {
                keys: [0; CHUNK_PAIRS],
                values: [0; CHUNK_PAIRS],
                places: [0; CHUNK_PAIRS],
                tags: [0; CHUNK_PAIRS],
            });
        }
        self.len += 1;
        self.set(self.len - 1, entry);
    }

    /// Takes out the pairs of these numbers, which must be different.
    pub fn remove_all(&mut self, mut numbers: Vec<usize>) {
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        for i in numbers {
            let last = self.get(self.len - 1);
            self.set(i, last);
            self.len -= 1;
        }
        let keep = self.len.div_ceil(CHUNK_PAIRS);
        // One chunk more stays, or a node at its limit would give one back with every drain.
        if self.chunks.len() > keep + 1 {
            self.chunks.truncate(keep);
            self.chunks.shrink_to_fit();
        }
    }

    /// The number of the first pair with this key word of which `is_it` says so.
    pub fn find(&self, key: u64, mut is_it: impl FnMut(&Entry) -> bool) -> Option<usize> {
        for (c, chunk) in self.chunks.iter().enumerate() {
            let mut equal = 0u32;
            for (i, known) in chunk.keys.iter().enumerate() {
                equal |= u32::from(*known == key) << i;
            }
            while equal != 0 {
                let i = c * CHUNK_PAIRS + equal.trailing_zeros() as usize;
                equal &= equal - 1;
                if i < self.len && is_it(&self.get(i)) {
                    return Some(i);
                }
            }
        }
        None
    }

    /// All pairs with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Entry)> {
        (0..self.len).map(|i| (i, self.get(i)))
    }

    /// How many pairs go to each leaf.
    pub fn counts(&self) -> [u16; 32] {
        let mut counts = [0; 32];
        for i in 0..self.len {
            let tag = self.chunks[i / CHUNK_PAIRS].tags[i % CHUNK_PAIRS];
            counts[(tag & LEAF) as usize] += 1;
        }
        counts
    }

    /// Pairs of leaf `from` that `is_right` go to leaf `to`, after those of `to` and above moved up by one.
    pub fn split_leaf(&mut self, from: u8, mut is_right: impl FnMut(&Entry) -> bool) {
        for i in 0..self.len {
            let mut entry = self.get(i);
            if entry.leaf > from || (entry.leaf == from && is_right(&entry)) {
                entry.leaf += 1;
                self.set(i, entry);
            }
        }
    }

    /// Leaf `gone` was merged into the one before: its pairs and those above move down by one.
    pub fn merge_leaf(&mut self, gone: u8) {
        for i in 0..self.len {
            let mut entry = self.get(i);
            if entry.leaf >= gone {
                entry.leaf -= 1;
                self.set(i, entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: u64, leaf: u8) -> Entry {
        Entry {
            key,
            value: key + 1,
            place: Place {
                segment: 77,
                index: 125,
            },
            leaf,
            is_delete: key.is_multiple_of(2),
            is_copied: key.is_multiple_of(3),
            is_replayed: key.is_multiple_of(5),
        }
    }

    #[test]
    fn pairs_come_back_and_chunks_go() {
        let mut buffer = Buffer::default();
        for key in 0..100 {
            buffer.push(entry(key, (key % 31) as u8));
        }
        assert_eq!(CHUNK_BYTES, 88);
        for key in 0..100 {
            let i = buffer.find(key, |_| true).expect("is there");
            let found = buffer.get(i);
            assert_eq!(found.value, key + 1);
            assert_eq!(found.is_delete, key % 2 == 0);
            assert_eq!(found.place.index, 125);
        }
        let even = buffer.iter().filter(|(_, e)| e.is_delete).map(|(i, _)| i);
        let even: Vec<usize> = even.collect();
        buffer.remove_all(even);
        assert_eq!(buffer.len(), 50);
        assert!(buffer.iter().all(|(_, e)| !e.is_delete));
        assert!(buffer.bytes() <= 14 * CHUNK_BYTES);
    }
}
