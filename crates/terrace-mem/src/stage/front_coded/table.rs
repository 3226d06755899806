//! Where keys are, by their hash: for each a byte of the hash and the block that it is in; and
//! where each block starts, behind, so that a lookup finds both in few pages.
//!
//! A line of the processor's cache has two halves of 16 places. A key lies in the half that its
//! hash names, or in the other one if that is full, or in the lines behind if both are. What
//! always holds: one place at least is empty, so that a search ends; within a half the empty
//! places are behind the others.

use crate::faults::{Fault, planted};
use crate::simd;

/// Places of half a line.
const HALF: usize = 16;

/// Keys for which there is a line: a few places stay empty, or most halves would be full and a
/// search for a key that is not there would look into several lines.
const FILL: usize = 27;

/// Blocks that a place can name.
pub const MOST_BLOCKS: usize = 256;

/// Bytes of the hash for each place, never 0, or 0 for an empty one; then the blocks. Lines behind
/// those of the keys have starts of blocks.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([[u8; HALF]; 4]);

const NONE: Line = Line([[0; HALF]; 4]);

impl Line {
    #[inline]
    fn prints(&self, half: usize) -> &[u8; HALF] {
        &self.0[half]
    }

    #[inline]
    fn blocks(&self, half: usize) -> &[u8; HALF] {
        &self.0[2 + half]
    }
}

/// The table of one segment.
pub struct Table {
    all: Box<[Line]>,
    /// Lines with keys.
    keys: u32,
    /// Whether starts have four bytes instead of two.
    wide: bool,
}

/// A table that is being built.
pub struct Filling {
    all: Vec<Line>,
    keys: usize,
}

/// Where a key is looked for, and its byte of the hash.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    half: usize,
    print: u8,
}

/// The place of a hash among so many lines.
#[inline]
fn place(hash: u64, lines: usize) -> Place {
    Place {
        line: (((hash >> 32) * lines as u64) >> 32) as usize,
        half: (hash >> 8 & 1) as usize,
        print: (hash as u8).max(1),
    }
}

#[inline]
fn behind(line: usize, lines: usize) -> usize {
    if line + 1 < lines { line + 1 } else { 0 }
}

/// Starts in a line, of so many bytes each.
fn per_line(wide: bool) -> usize {
    size_of::<Line>() / if wide { 4 } else { 2 }
}

impl Filling {
    /// An empty table for `n` keys in so many blocks.
    pub fn new(n: usize, blocks: usize) -> Self {
        let keys = n / FILL + 1;
        let mut all = Vec::with_capacity(keys + blocks.div_ceil(per_line(false)));
        all.resize(keys, NONE);
        Filling { all, keys }
    }

    /// Adds a key; at most as many as the table was made for.
    #[inline]
    pub fn add(&mut self, hash: u64, block: u8) {
        let mut place = place(hash, self.keys);
        loop {
            let line = &mut self.all[place.line].0;
            for half in [place.half, 1 - place.half] {
                let i = simd::equal_bytes(&line[half], 0).trailing_zeros() as usize;
                if i < HALF {
                    line[half][i] = place.print;
                    line[2 + half][i] = block;
                    return;
                }
            }
            place.line = behind(place.line, self.keys);
        }
    }

    /// The table, with the starts of all blocks, in order.
    pub fn finish(mut self, starts: &[u32]) -> Table {
        let wide = starts
            .last()
            .is_some_and(|&last| last > u32::from(u16::MAX));
        for part in starts.chunks(per_line(wide)) {
            let mut line = NONE;
            for (i, start) in part.iter().enumerate() {
                let size = if wide { 4 } else { 2 };
                line.0.as_flattened_mut()[i * size..][..size]
                    .copy_from_slice(&start.to_le_bytes()[..size]);
            }
            self.all.push(line);
        }
        Table {
            all: self.all.into(),
            keys: self.keys as u32,
            wide,
        }
    }
}

impl Table {
    #[inline]
    fn place(&self, hash: u64) -> Place {
        place(hash, self.keys as usize)
    }

    /// Where block `b` starts.
    #[inline]
    pub fn start(&self, b: usize) -> usize {
        let per = per_line(self.wide);
        let line = self.all[self.keys as usize + b / per].0.as_flattened();
        if self.wide {
            line[b % per * 4..]
                .first_chunk()
                .map_or(0, |s| u32::from_le_bytes(*s)) as usize
        } else {
            let start = line[b % per * 2..].first_chunk();
            start.map_or(0, |s| usize::from(u16::from_le_bytes(*s)))
        }
    }

    /// Gives the blocks that a key with this hash may be in to `look` until that finds it.
    #[inline]
    pub fn find<T>(&self, hash: u64, mut look: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let mut place = self.place(hash);
        loop {
            let line = &self.all[place.line];
            for half in [place.half, 1 - place.half] {
                let prints = line.prints(half);
                let mut hits = simd::equal_bytes(prints, place.print);
                while hits != 0 {
                    let i = hits.trailing_zeros() as usize % HALF;
                    if let Some(found) = look(usize::from(line.blocks(half)[i])) {
                        return Some(found);
                    }
                    hits &= hits - 1;
                }
                if prints[HALF - 1] == 0 || planted(Fault::ShortSearch) {
                    return None;
                }
            }
            place.line = behind(place.line, self.keys as usize);
        }
    }

    /// The first block that a key with this hash may be in, of those that its own half names.
    #[inline]
    pub fn first(&self, hash: u64) -> Option<usize> {
        let place = self.place(hash);
        let line = &self.all[place.line];
        let hits = simd::equal_bytes(line.prints(place.half), place.print);
        let block = line.blocks(place.half)[hits.trailing_zeros() as usize % HALF];
        (hits != 0).then_some(usize::from(block))
    }

    /// Asks for the line of a key with this hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        simd::prefetch(&self.all, self.place(hash).line);
    }

    /// Asks for the starts of the blocks.
    #[inline]
    pub fn prefetch_starts(&self) {
        (self.keys as usize..self.all.len()).for_each(|line| simd::prefetch(&self.all, line));
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.all)
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
        let sizes = if cfg!(miri) { 60..63 } else { 0..200 };
        let large: &[usize] = if cfg!(miri) { &[] } else { &[1000, 4096] };
        for n in sizes.chain(large.iter().copied()) {
            for hash in kinds {
                let mut table = Filling::new(n, 0);
                for i in 0..n as u64 {
                    table.add(hash(i), (i % 256) as u8);
                }
                let table = table.finish(&[]);
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
        let n = if cfg!(miri) { 500 } else { 4096 };
        let mut table = Filling::new(n, 0);
        let mut x = 1u64;
        let mut next = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x ^ x >> 29
        };
        (0..n).for_each(|i| table.add(next(), (i / 16) as u8));
        let table = table.finish(&[]);
        let named: usize = (0..1000).map(|_| blocks_of(&table, next()).len()).sum();
        assert!(named < 200, "{named} blocks for 1000 strangers");
    }

    #[test]
    fn starts_come_back_narrow_and_wide() {
        for n in [0, 1, 15, 16, 17, 31, 32, 33, 64, 65, 256] {
            for step in [100, 65_535, 1 << 20] {
                let starts: Vec<u32> = (0..n).map(|i| i * step).collect();
                let mut table = Filling::new(3, n as usize);
                (0..3).for_each(|i| table.add(i << 32, i as u8));
                let table = table.finish(&starts);
                assert_eq!(table.wide, n > 1 && (n - 1) * step > 65_535);
                for (b, &start) in starts.iter().enumerate() {
                    assert_eq!(table.start(b), start as usize);
                }
                assert!((0..3).all(|i| blocks_of(&table, i << 32).contains(&(i as usize))));
            }
        }
    }
}
