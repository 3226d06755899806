//! The buffer of a last-level node: pairs that are in the log and not in their leaves yet.
//!
//! One allocation, which has room for a multiple of four pairs, 22 bytes each: first a byte of the
//! hash of each pair's key, then a byte each that says to which leaf it goes and what it is, then key, value
//! and place in the log of each pair. A search reads the hashes, 32 at a time, and a pair only where its hash
//! is that of the key: of 240 pairs these are four lines of the processor's cache, not eighty.

/// Pairs by which a buffer grows at least.
pub const CHUNK_PAIRS: usize = 4;
/// Bytes of this many pairs.
pub const CHUNK_BYTES: usize = bytes_of(CHUNK_PAIRS);

/// A buffer grows by this part of itself, if it may, so that a pair is seldom moved.
const GROWS_BY: usize = 4;
/// Of a buffer that has more than this part free after a drain the free part is given back. A drain takes less,
/// so a node that is drained and filled in turns asks for no memory.
const MOST_FREE: usize = 3;
/// The same for small buffers, in pairs.
const LEAST_FREE: usize = 4;

/// Bits of a kind that say to which leaf of the node the pair goes.
const LEAF: u8 = 0x1f;
/// How many leaves that can be.
pub const LEAVES_OF_TAGS: usize = LEAF as usize + 1;
const DELETE: u8 = 0x20;
const COPIED: u8 = 0x40;
const REPLAYED: u8 = 0x80;

/// A byte in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Where a record lies in the log: segment and index within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Index of the record.
    pub index: u32,
}

impl Place {
    /// In one number.
    #[inline]
    pub fn pack(self) -> u32 {
        self.segment << 7 | self.index
    }

    /// The place of this number.
    #[inline]
    pub fn unpack(packed: u32) -> Place {
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
    /// A byte of its key's hash.
    pub print: u8,
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

/// Bytes of key, value and place in the log.
const PAIR_BYTES: usize = 20;

/// Bytes of a buffer with room for this many pairs.
const fn bytes_of(room: usize) -> usize {
    room * (2 + PAIR_BYTES)
}

/// Pairs in no order.
#[derive(Default)]
pub struct Buffer {
    /// Hashes, kinds, pairs.
    bytes: Box<[u8]>,
    len: u32,
    room: u32,
}

impl Buffer {
    /// How many pairs.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn room(&self) -> usize {
        self.room as usize
    }

    /// Whether the next pair needs more memory.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.len == self.room
    }

    /// Bytes on the heap.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Kinds of all pairs.
    #[inline]
    fn kinds(&self) -> &[u8] {
        &self.bytes[self.room()..self.room() + self.len()]
    }

    #[inline]
    fn kinds_mut(&mut self) -> &mut [u8] {
        let (room, len) = (self.room(), self.len());
        &mut self.bytes[room..room + len]
    }

    /// Key, value and place of a pair.
    #[inline]
    fn pair(&self, i: usize) -> (u64, u64, u32) {
        let at = 2 * self.room() + PAIR_BYTES * i;
        let pair = &self.bytes[at..at + PAIR_BYTES];
        let ([key, value], place) = pair.as_chunks::<8>() else {
            return (0, 0, 0);
        };
        let place = place.first_chunk().copied().unwrap_or_default();
        (
            u64::from_ne_bytes(*key),
            u64::from_ne_bytes(*value),
            u32::from_ne_bytes(place),
        )
    }

    /// Where the record of the pair of this number lies.
    #[inline]
    pub fn place(&self, i: usize) -> Place {
        Place::unpack(self.pair(i).2)
    }

    /// The pair of this number.
    #[inline]
    pub fn get(&self, i: usize) -> Entry {
        let (kind, (key, value, place)) = (self.kinds()[i], self.pair(i));
        Entry {
            key,
            value,
            print: self.bytes[i],
            place: Place::unpack(place),
            leaf: kind & LEAF,
            is_delete: kind & DELETE != 0,
            is_copied: kind & COPIED != 0,
            is_replayed: kind & REPLAYED != 0,
        }
    }

    /// Puts a pair in the place of another.
    #[inline]
    pub fn set(&mut self, i: usize, entry: Entry) {
        let kind = entry.leaf & LEAF
            | if entry.is_delete { DELETE } else { 0 }
            | if entry.is_copied { COPIED } else { 0 }
            | if entry.is_replayed { REPLAYED } else { 0 };
        self.kinds_mut()[i] = kind;
        self.bytes[i] = entry.print;
        let at = 2 * self.room() + PAIR_BYTES * i;
        let pair = &mut self.bytes[at..at + PAIR_BYTES];
        pair[..8].copy_from_slice(&entry.key.to_ne_bytes());
        pair[8..16].copy_from_slice(&entry.value.to_ne_bytes());
        pair[16..].copy_from_slice(&entry.place.pack().to_ne_bytes());
    }

    /// Adds a pair. A buffer that is full grows, but not beyond `most` pairs if it can help it.
    #[inline]
    pub fn push(&mut self, entry: Entry, most: usize) {
        if self.len == self.room {
            let step = (self.room() / GROWS_BY).next_multiple_of(CHUNK_PAIRS);
            let most = most.next_multiple_of(CHUNK_PAIRS);
            let room = (self.room() + step).min(most);
            self.resize(room.max(self.room() + CHUNK_PAIRS));
        }
        self.len += 1;
        self.set(self.len() - 1, entry);
    }

    /// Makes room for this many pairs, so that it need not grow before it has them.
    pub fn reserve(&mut self, pairs: usize) {
        if pairs > self.room() {
            self.resize(pairs.next_multiple_of(CHUNK_PAIRS));
        }
    }

    fn resize(&mut self, room: usize) {
        let (len, from) = (self.len(), self.room());
        let old = std::mem::replace(&mut self.bytes, vec![0; bytes_of(room)].into());
        // Hashes, kinds, pairs: where they begin, and bytes of one.
        for (at, size) in [(0, 1), (1, 1), (2, PAIR_BYTES)] {
            let count = len * size;
            self.bytes[at * room..at * room + count]
                .copy_from_slice(&old[at * from..at * from + count]);
        }
        self.room = room as u32;
    }

    /// Takes out the pairs of these numbers, which must be different.
    pub fn remove_all(&mut self, numbers: &[usize]) {
        // A bit for each, as those at the end must not fill the places of others.
        let mut gone = vec![0u64; self.len().div_ceil(64)];
        for i in numbers {
            gone[i / 64] |= 1 << (i % 64);
        }
        for (word, mut bits) in gone.into_iter().enumerate().rev() {
            while bits != 0 {
                let bit = bits.ilog2() as usize;
                bits ^= 1 << bit;
                let (i, last) = (64 * word + bit, self.len() - 1);
                if i != last {
                    self.set(i, self.get(last));
                }
                self.len -= 1;
            }
        }
        let keep = self.len().next_multiple_of(CHUNK_PAIRS);
        if self.room() > keep + (self.room() / MOST_FREE).max(LEAST_FREE) {
            self.resize(keep);
        }
    }

    /// The number of the first pair with this key word, of the hash of whose key this is a byte, of which
    /// `is_it` says so.
    #[inline]
    pub fn find(
        &self,
        key: u64,
        print: u8,
        mut is_it: impl FnMut(&Entry) -> bool,
    ) -> Option<usize> {
        let len = self.len();
        let wanted = ONES.wrapping_mul(u64::from(print));
        // What is read past the last hash is something else of the same buffer, and not looked at.
        let many = len.next_multiple_of(32).min(self.bytes.len());
        let (groups, _) = self.bytes[..many].as_chunks::<32>();
        for (g, group) in groups.iter().enumerate() {
            // The high bit of each byte that is zero in `x`; a byte above a zero one may be told, too, and
            // the key decides.
            let (words, _) = group.as_chunks::<8>();
            let equal: [u64; 4] = std::array::from_fn(|w| {
                let x = u64::from_le_bytes(words[w]) ^ wanted;
                x.wrapping_sub(ONES) & !x & (ONES << 7)
            });
            if equal[0] | equal[1] | equal[2] | equal[3] == 0 {
                continue;
            }
            for (w, mut equal) in equal.into_iter().enumerate() {
                while equal != 0 {
                    let i = 32 * g + 8 * w + equal.trailing_zeros() as usize / 8;
                    equal &= equal - 1;
                    if i < len && self.pair(i).0 == key && is_it(&self.get(i)) {
                        return Some(i);
                    }
                }
            }
        }
        None
    }

    /// All pairs with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Entry)> {
        (0..self.len()).map(|i| (i, self.get(i)))
    }

    /// The pairs that go to these leaves, a bit for each, with their numbers.
    pub fn of_leaves(&self, leaves: u32) -> impl Iterator<Item = (usize, Entry)> {
        let kinds = self.kinds().iter().enumerate();
        let those = kinds.filter(move |(_, kind)| leaves >> (*kind & LEAF) & 1 == 1);
        those.map(|(i, _)| (i, self.get(i)))
    }

    /// Shows the pairs that go to this leaf.
    #[inline]
    pub fn each_of_leaf(&self, leaf: usize, mut show: impl FnMut(Entry)) {
        let (from, len) = (self.room(), self.len());
        // What is read past the last kind is something else of the same buffer, and not looked at: there are
        // pairs behind the kinds.
        let many = len.next_multiple_of(8).min(self.bytes.len() - from);
        let wanted = ONES * (leaf as u64 & u64::from(LEAF));
        let (groups, _) = self.bytes[from..from + many].as_chunks::<8>();
        for (g, kinds) in groups.iter().enumerate() {
            let others = u64::from_le_bytes(*kinds) & (ONES * u64::from(LEAF)) ^ wanted;
            // The high bit of each byte that is zero in `others`: none of these has more than five bits.
            let mut equal = !(others + ONES * 0x7f) & (ONES << 7);
            while equal != 0 {
                let i = 8 * g + equal.trailing_zeros() as usize / 8;
                equal &= equal - 1;
                if i < len {
                    show(self.get(i));
                }
            }
        }
    }

    /// How many pairs go to each leaf.
    #[inline]
    pub fn counts(&self) -> [u16; 32] {
        let mut counts = [0; 32];
        for kind in self.kinds() {
            counts[(kind & LEAF) as usize] += 1;
        }
        counts
    }

    /// Pairs of leaf `from` that `is_right` go to leaf `to`, after those of `to` and above moved up by one.
    #[inline]
    pub fn split_leaf(&mut self, from: u8, mut is_right: impl FnMut(&Entry) -> bool) {
        for i in 0..self.len() {
            let leaf = self.kinds()[i] & LEAF;
            if leaf > from || (leaf == from && is_right(&self.get(i))) {
                self.kinds_mut()[i] += 1;
            }
        }
    }

    /// Leaf `gone` was merged into the one before: its pairs and those above move down by one.
    pub fn merge_leaf(&mut self, gone: u8) {
        for kind in self.kinds_mut() {
            if *kind & LEAF >= gone {
                *kind -= 1;
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
            print: print(key),
            place: Place {
                segment: 77 + key as u32,
                index: 125,
            },
            leaf,
            is_delete: key.is_multiple_of(2),
            is_copied: key.is_multiple_of(3),
            is_replayed: key.is_multiple_of(5),
        }
    }

    /// Few different ones, so that many are searched.
    fn print(key: u64) -> u8 {
        (key % 7) as u8 * 42
    }

    fn check(buffer: &Buffer, key: u64, leaf: u8) {
        let i = buffer.find(key, print(key), |_| true).expect("is there");
        let (found, put) = (buffer.get(i), entry(key, leaf));
        assert_eq!(format!("{found:?}"), format!("{put:?}"));
    }

    #[test]
    fn pairs_come_back_and_their_room_goes() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.find(1, 1, |_| true), None);
        for key in 0..100 {
            buffer.push(entry(key, (key % 31) as u8), 240);
            for known in 0..=key {
                check(&buffer, known, (known % 31) as u8);
            }
        }
        assert_eq!(CHUNK_BYTES, 88);
        assert!(buffer.bytes() <= 120 * 22, "{}", buffer.bytes());
        assert_eq!(buffer.find(7, print(8), |_| true), None);
        assert_eq!(buffer.find(107, print(7), |_| true), None);
        let even = buffer.iter().filter(|(_, e)| e.is_delete).map(|(i, _)| i);
        let even: Vec<usize> = even.collect();
        buffer.remove_all(&even);
        assert_eq!(buffer.len(), 50);
        for key in 0..100 {
            match key % 2 {
                0 => assert_eq!(buffer.find(key, print(key), |_| true), None),
                _ => check(&buffer, key, (key % 31) as u8),
            }
        }
        assert!(buffer.bytes() <= 14 * CHUNK_BYTES);
        buffer.remove_all(&(0..50).collect::<Vec<_>>());
        assert_eq!((buffer.len(), buffer.bytes()), (0, 0));
    }

    #[test]
    fn a_buffer_that_may_not_grow_far_grows_by_four() {
        let mut buffer = Buffer::default();
        for key in 0..70 {
            buffer.push(entry(key, 0), 66);
            let most = 68.max((key as usize + 1).next_multiple_of(4));
            assert!(buffer.bytes() <= most * 22, "{key}");
        }
        assert_eq!(buffer.bytes(), 72 * 22);
        buffer.reserve(81);
        assert_eq!((buffer.len(), buffer.bytes()), (70, 84 * 22));
        (0..70).for_each(|key| check(&buffer, key, 0));
    }

    #[test]
    fn leaves_of_pairs_move_with_splits_and_merges() {
        let mut buffer = Buffer::default();
        for key in 0..60 {
            buffer.push(entry(key, (key % 30) as u8), 240);
        }
        buffer.split_leaf(7, |entry| entry.key > 30);
        let leaf = |key: u64| match key {
            37 => 8,
            _ => (key % 30) as u8 + u8::from(key % 30 > 7),
        };
        (0..60).for_each(|key| check(&buffer, key, leaf(key)));
        let mut of: Vec<u64> = buffer
            .of_leaves(1 << 7 | 1 << 8 | 1 << 30)
            .map(|e| e.1.key)
            .collect();
        of.sort_unstable();
        assert_eq!(of, [7, 29, 37, 59]);
        buffer.merge_leaf(8);
        (0..60).for_each(|key| check(&buffer, key, (key % 30) as u8));
        assert_eq!(buffer.counts()[..30], [2; 30]);
    }
}
