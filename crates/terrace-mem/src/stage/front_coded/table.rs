//! Where keys are, by their hash: for each a byte of the hash and the block that it is in.
//!
//! A line of the processor's cache has two halves of 16 places. A key lies in the half that its
//! hash names, or in the other one if that is full, or in the lines behind if both are. What
//! always holds: one place at least is empty, so that a search ends; within a half the empty
//! places are behind the others.

use crate::simd;

/// Places of half a line.
const HALF: usize = 16;

/// Keys for which there is a line: a few places stay empty, or most halves would be full and a
/// search for a key that is not there would look into several lines.
const FILL: usize = 28;

/// Blocks that a place can name.
pub const MOST_BLOCKS: usize = 256;

#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
struct Line {
    /// A byte of the hash, never 0; 0 for an empty place.
    prints: [[u8; HALF]; 2],
    blocks: [[u8; HALF]; 2],
}

/// The table of one segment.
pub struct Table(Box<[Line]>);

/// Where a key is looked for, and its byte of the hash.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    half: usize,
    print: u8,
}

impl Table {
    /// An empty table for `n` keys.
    pub fn new(n: usize) -> Self {
        Table(vec![Line::default(); n / FILL + 1].into())
    }

    #[inline]
    fn place(&self, hash: u64) -> Place {
        Place {
            line: (((hash >> 32) * self.0.len() as u64) >> 32) as usize,
            half: (hash >> 8 & 1) as usize,
            print: (hash as u8).max(1),
        }
    }

    #[inline]
    fn behind(&self, line: usize) -> usize {
        if line + 1 < self.0.len() { line + 1 } else { 0 }
    }

    /// Adds a key; at most as many as the table was made for.
    pub fn add(&mut self, hash: u64, block: u8) {
        let mut place = self.place(hash);
        loop {
            let line = &mut self.0[place.line];
            for half in [place.half, 1 - place.half] {
                let i = simd::equal_bytes(&line.prints[half], 0).trailing_zeros() as usize;
                if i < HALF {
                    line.prints[half][i] = place.print;
                    line.blocks[half][i] = block;
                    return;
                }
            }
            place.line = self.behind(place.line);
        }
    }

    /// Gives the blocks that a key with this hash may be in to `look` until that finds it.
    #[inline]
    pub fn find<T>(&self, hash: u64, mut look: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let mut place = self.place(hash);
        loop {
            let line = &self.0[place.line];
            for half in [place.half, 1 - place.half] {
                let mut hits = simd::equal_bytes(&line.prints[half], place.print);
                while hits != 0 {
                    let i = hits.trailing_zeros() as usize % HALF;
                    if let Some(found) = look(usize::from(line.blocks[half][i])) {
                        return Some(found);
                    }
                    hits &= hits - 1;
                }
                if line.prints[half][HALF - 1] == 0 {
                    return None;
                }
            }
            place.line = self.behind(place.line);
        }
    }

    /// The first block that a key with this hash may be in, of those that its own half names.
    #[inline]
    pub fn first(&self, hash: u64) -> Option<usize> {
        let place = self.place(hash);
        let line = &self.0[place.line];
        let hits = simd::equal_bytes(&line.prints[place.half], place.print);
        let block = line.blocks[place.half][hits.trailing_zeros() as usize % HALF];
        (hits != 0).then_some(usize::from(block))
    }

    /// Asks for the line of a key with this hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        simd::prefetch(&self.0, self.place(hash).line);
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_of(table: &Table, hash: u64) -> Vec<usize> {
        let mut all = Vec::new();
        let found = table.find(hash, |block| {
            all.push(block);
            None::<()>
        });
        assert!(found.is_none());
        assert!(
            all.first() == table.first(hash).as_ref() || table.first(hash).is_none(),
            "the first block is another one"
        );
        all
    }

    /// As many keys as the table is for, with hashes that are spread, that are few, and that are
    /// all in the last line, in all sizes up to a few lines.
    #[test]
    fn every_key_is_found_however_crowded_the_lines_are() {
        let kinds: [fn(u64) -> u64; 4] = [
            |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            |i| i % 3 * 0x5555_5555_5555_5555,
            |i| u64::MAX << 32 | i,
            |_| 0,
        ];
        for n in (0..200).chain([1000, 4096]) {
            for hash in kinds {
                let mut table = Table::new(n);
                for i in 0..n as u64 {
                    table.add(hash(i), (i % 256) as u8);
                }
                for i in (0..n as u64).step_by(1 + n / 300) {
                    assert!(
                        blocks_of(&table, hash(i)).contains(&(i as usize % 256)),
                        "key {i} of {n} is lost"
                    );
                }
                assert_eq!(table.bytes(), (n / FILL + 1) * 64);
            }
        }
    }

    #[test]
    fn few_blocks_are_named_for_a_key_that_is_not_there() {
        let n = 4096;
        let mut table = Table::new(n);
        let mut x = 1u64;
        let mut next = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x ^ x >> 29
        };
        (0..n).for_each(|i| table.add(next(), (i / 16) as u8));
        let named: usize = (0..1000).map(|_| blocks_of(&table, next()).len()).sum();
        assert!(named < 200, "{named} blocks for 1000 strangers");
    }
}
