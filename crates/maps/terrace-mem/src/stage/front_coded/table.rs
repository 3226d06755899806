//! Where keys are, by their hash: for each a byte of the hash and the block that it is in; and
//! where each block starts and which rank its first key has, behind, so that a lookup finds both in
//! few pages.
//!
//! A line of the processor's cache has two halves of 16 places. A key lies in the half that its
//! hash names, or in the other one if that is full, or in the lines behind if both are. What
//! always holds: one place at least is empty, so that a search ends; within a half the empty
//! places are behind the others.

use crate::faults::{Fault, planted};
use crate::home::{Block, Home, copied};
use crate::simd;
use alloc::vec::Vec;

/// Places of half a line.
const HALF: usize = 16;

/// Most keys for a line of a table to which keys are added: beyond that searches get longer, and
/// one place of all has to stay empty.
const MOST_FILL: usize = 30;

/// Keys for which there is a line: a few places stay empty, or most halves would be full and a
/// search for a key that is not there would look into several lines.
const FILL: usize = 27;

/// Blocks that a place can name.
pub const MOST_BLOCKS: usize = 256;

/// Bytes of the hash for each place, never 0, or 0 for an empty one; then the blocks. Lines behind
/// those of the keys have the places of blocks.
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

/// Where a block is: its first byte, and the rank of its first key.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct At {
    pub start: u32,
    pub rank: u32,
}

/// The table of one segment.
pub struct Table {
    all: Block<Line>,
    /// Lines with keys.
    keys: u32,
    /// Whether a start and a rank have four bytes each instead of two.
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

/// The place of a hash among this many lines.
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

/// Places of blocks in a line.
fn per_line(wide: bool) -> usize {
    size_of::<Line>() / if wide { 8 } else { 4 }
}

impl Filling {
    /// An empty table for `n` keys in this many blocks.
    pub fn new(n: usize, blocks: usize) -> Self {
        let keys = n / FILL + 1;
        let mut all = Vec::with_capacity(keys + (blocks + 1).div_ceil(per_line(false)));
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

    /// The table, with the places of all blocks, in order, and of where the last one ends.
    pub fn finish(mut self, places: &[At]) -> Table {
        let narrow = |at: &At| at.start.max(at.rank) <= u32::from(u16::MAX);
        let wide = !places.last().is_none_or(narrow);
        for part in places.chunks(per_line(wide)) {
            let mut line = NONE;
            let bytes = line.0.as_flattened_mut();
            for (i, at) in part.iter().enumerate() {
                if wide {
                    let both = u64::from(at.start) | u64::from(at.rank) << 32;
                    bytes[i * 8..][..8].copy_from_slice(&both.to_le_bytes());
                } else {
                    let both = at.start | at.rank << 16;
                    bytes[i * 4..][..4].copy_from_slice(&both.to_le_bytes());
                }
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

    /// Where block `b` is; behind the last one, where that ends.
    #[inline]
    pub fn at(&self, b: usize) -> At {
        let per = per_line(self.wide);
        let line = self.all[self.keys as usize + b / per].0.as_flattened();
        if self.wide {
            let both = line[b % per * 8..]
                .first_chunk()
                .map_or(0, |s| u64::from_le_bytes(*s));
            At {
                start: both as u32,
                rank: (both >> 32) as u32,
            }
        } else {
            let both = line[b % per * 4..]
                .first_chunk()
                .map_or(0, |s| u32::from_le_bytes(*s));
            At {
                start: both & 0xFFFF,
                rank: both >> 16,
            }
        }
    }

    /// For how many keys there is room at most.
    pub fn room(&self) -> usize {
        self.keys as usize * MOST_FILL
    }

    /// A copy to which keys can be added, as long as there is [room](Table::room).
    pub fn refill(&self) -> Filling {
        let keys = self.keys as usize;
        let mut all = Vec::with_capacity(self.all.len() + 1);
        all.extend_from_slice(&self.all[..keys]);
        Filling { all, keys }
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

    /// Asks for the places of the blocks.
    #[inline]
    pub fn prefetch_places(&self) {
        let keys = self.keys as usize;
        simd::prefetch_lines(&self.all, keys, self.all.len() - keys);
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.all)
    }

    /// A copy whose bytes lie there.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        let all = copied(home, &self.all)?;
        Some(Table { all, ..*self })
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
    fn places_come_back_narrow_and_wide() {
        for n in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 256] {
            for (step, keys) in [(100, 20), (65_535, 1), (1 << 20, 20), (3, 1 << 16)] {
                let places: Vec<At> = (0..=n)
                    .map(|i| At {
                        start: i * step,
                        rank: i * keys,
                    })
                    .collect();
                let mut table = Filling::new(3, n as usize);
                (0..3).for_each(|i| table.add(i << 32, i as u8));
                let table = table.finish(&places);
                assert_eq!(table.wide, n * step.max(keys) > 65_535);
                for (b, &at) in places.iter().enumerate() {
                    assert_eq!(table.at(b), at);
                }
                assert!((0..3).all(|i| blocks_of(&table, i << 32).contains(&(i as usize))));
            }
        }
    }

    /// A table is filled further without its keys being hashed again.
    #[test]
    fn keys_are_added_up_to_the_room() {
        let hash = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for n in [0, 1, 26, 27, 200, 1000] {
            let mut table = Filling::new(n, 0);
            (0..n as u64).for_each(|i| table.add(hash(i), (i % 256) as u8));
            let table = table.finish(&[]);
            let mut more = table.refill();
            (n..table.room()).for_each(|i| more.add(hash(i as u64), (i % 256) as u8));
            let table = more.finish(&[]);
            for i in 0..table.room() as u64 {
                assert!(blocks_of(&table, hash(i)).contains(&(i as usize % 256)));
            }
        }
    }
}
