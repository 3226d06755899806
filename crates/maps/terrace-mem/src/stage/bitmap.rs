//! Bitmaps for integers that lie close together: one bit for each number of a chunk.
//!
//! A chunk is 256 consecutive numbers with at least one key among them. It is the number of the
//! chunk, four words of bits, and the rank of the first key of each word, so a lookup is a search
//! among the chunks, one bit and one count. One allocation: the chunks' numbers, the ranks (four
//! of 16 bits in a word), the bits. Values lie in other pages: about where, a lookup knows by the
//! chunk, so that the address is looked up while it waits for the rank.

use super::bits;
use crate::family::IntFamily;
use crate::home::{Block, Home, copied};
use crate::simd;
use crate::two_stage::KeyCursor;
use alloc::vec;
use alloc::vec::Vec;

/// Numbers of a chunk, as a power of two.
const CHUNK: u32 = 8;

/// Words of bits of a chunk.
const WORDS: usize = 4;

pub struct Bitmap {
    words: Block<u64>,
    n: u32,
    chunks: u32,
    /// Keys of a chunk on average.
    mean: u32,
}

impl Bitmap {
    /// Bytes on the heap that the keys would take. O(n).
    pub fn estimate(keys: &[u64]) -> usize {
        let more = keys
            .windows(2)
            .filter(|pair| pair[0] >> CHUNK != pair[1] >> CHUNK)
            .count();
        (more + 1) * (WORDS + 2) * 8
    }

    pub fn build(keys: &[u64]) -> Self {
        let chunks = Self::estimate(keys) / ((WORDS + 2) * 8);
        let mut words = vec![0u64; chunks * (WORDS + 2)];
        let (numbers, rest) = words.split_at_mut(chunks);
        let (ranks, bits) = rest.split_at_mut(chunks);
        let mut from = 0;
        for (c, number) in numbers.iter_mut().enumerate() {
            *number = keys[from] >> CHUNK;
            let bits = &mut bits[c * WORDS..][..WORDS];
            let mut rank = from;
            while let Some(&key) = keys.get(rank)
                && key >> CHUNK == *number
            {
                bits[(key >> 6) as usize % WORDS] |= 1 << (key % 64);
                rank += 1;
            }
            let mut start = from;
            for (w, word) in bits.iter().enumerate() {
                ranks[c] |= (start as u64) << (16 * w);
                start += word.count_ones() as usize;
            }
            from = rank;
        }
        Bitmap {
            words: words.into(),
            n: keys.len() as u32,
            chunks: chunks as u32,
            mean: (keys.len() / chunks) as u32,
        }
    }

    /// A copy whose bytes lie there.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        let words = copied(home, &self.words)?;
        Some(Bitmap { words, ..*self })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    #[inline]
    fn numbers(&self) -> &[u64] {
        &self.words[..self.chunks as usize]
    }

    #[inline]
    fn bits(&self) -> &[u64] {
        &self.words[2 * self.chunks as usize..]
    }

    /// The rank of the first key of word `w` of chunk `c`.
    #[inline]
    fn rank(&self, c: usize, w: usize) -> usize {
        usize::from((self.words[self.chunks as usize + c] >> (16 * w)) as u16)
    }

    /// The first chunk whose number is not less than that of `key`.
    #[inline]
    fn chunk(&self, key: u64) -> usize {
        // The halving would wait for one line after the other.
        let lines = self.numbers().len().min(64);
        (0..lines)
            .step_by(8)
            .for_each(|i| simd::prefetch(&self.words, i));
        simd::rank_less(self.numbers(), key >> CHUNK)
    }

    #[inline]
    pub fn find(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        let c = self.chunk(key);
        if self.numbers().get(c) != Some(&(key >> CHUNK)) {
            return None;
        }
        let w = (key >> 6) as usize % WORDS;
        likely(c * self.mean as usize);
        let start = self.rank(c, w);
        likely(start);
        let word = self.bits()[c * WORDS + w];
        let bit = 1u64 << (key % 64);
        (word & bit != 0).then(|| start + (word & (bit - 1)).count_ones() as usize)
    }

    pub fn seek(&self, key: u64) -> usize {
        let c = self.chunk(key);
        match self.numbers().get(c) {
            None => self.len(),
            Some(&number) if number != key >> CHUNK => self.rank(c, 0),
            Some(_) => {
                let w = (key >> 6) as usize % WORDS;
                let below = (1u64 << (key % 64)) - 1;
                self.rank(c, w) + (self.bits()[c * WORDS + w] & below).count_ones() as usize
            }
        }
    }

    pub fn seek_cursor(&self, key: u64) -> Option<BitmapCursor<'_>> {
        let c = self.chunk(key);
        let number = *self.numbers().get(c)?;
        if number != key >> CHUNK {
            let pos = bits::next_one(self.bits(), c * WORDS * 64)?;
            return Some(BitmapCursor::new(self, self.rank(c, 0), pos));
        }
        let pos = bits::next_one(self.bits(), c * WORDS * 64 + key as usize % (WORDS * 64))?;
        Some(BitmapCursor::new(self, self.seek(key), pos))
    }

    pub fn cursor(&self, rank: usize) -> BitmapCursor<'_> {
        let starts = &self.words[self.chunks as usize..2 * self.chunks as usize];
        let c = starts.partition_point(|&ranks| usize::from(ranks as u16) <= rank) - 1;
        let in_chunk = &self.bits()[c * WORDS..][..WORDS];
        let pos = bits::select_one(in_chunk, rank - self.rank(c, 0)).unwrap_or(0);
        BitmapCursor::new(self, rank, c * WORDS * 64 + pos)
    }

    pub fn decode(&self, into: &mut Vec<u64>) {
        into.reserve(self.len());
        for (&number, bits) in self.numbers().iter().zip(self.bits().as_chunks().0) {
            let bits: &[u64; WORDS] = bits;
            for (w, &word) in bits.iter().enumerate() {
                let base = number << CHUNK | (w as u64) << 6;
                if word == !0 {
                    into.extend(base..=base + 63);
                    continue;
                }
                let mut word = word;
                while word != 0 {
                    into.push(base + u64::from(word.trailing_zeros()));
                    word &= word - 1;
                }
            }
        }
    }

    pub fn prefetch(&self) {
        (0..4).for_each(|line| simd::prefetch(&self.words, line * 8));
    }

    pub fn approach(&self, key: u64) -> usize {
        let c = self.chunk(key).min(self.chunks as usize - 1);
        let w = (key >> 6) as usize % WORDS;
        simd::prefetch(&self.words, 2 * self.chunks as usize + c * WORDS + w);
        self.rank(c, w)
    }
}

/// A place in a [`Bitmap`].
#[derive(Clone)]
pub struct BitmapCursor<'a> {
    map: &'a Bitmap,
    bits: &'a [u64],
    rank: usize,
    pos: usize,
    key: u64,
}

impl<'a> BitmapCursor<'a> {
    #[inline]
    fn new(map: &'a Bitmap, rank: usize, pos: usize) -> Self {
        let mut cursor = BitmapCursor {
            map,
            bits: map.bits(),
            rank,
            pos,
            key: 0,
        };
        cursor.go(rank, pos);
        cursor
    }

    #[inline]
    fn go(&mut self, rank: usize, pos: usize) {
        self.rank = rank;
        self.pos = pos;
        self.key = (self.map.words[pos >> CHUNK] << CHUNK) | (pos as u64 % (1 << CHUNK));
    }
}

impl KeyCursor<IntFamily> for BitmapCursor<'_> {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
    #[inline]
    fn rank(&self) -> usize {
        self.rank
    }
    #[inline]
    fn next(&mut self) -> bool {
        let Some(pos) = bits::next_one(self.bits, self.pos + 1) else {
            return false;
        };
        self.go(self.rank + 1, pos);
        true
    }
    #[inline]
    fn prev(&mut self) -> bool {
        let Some(pos) = bits::prev_one(self.bits, self.pos) else {
            return false;
        };
        self.go(self.rank - 1, pos);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of up to 512 numbers that begin anywhere.
    #[test]
    fn the_page_of_a_value_is_guessed_by_the_chunk() {
        let (mut keys, mut x, n) = (Vec::new(), 1u64, if cfg!(miri) { 600 } else { 4096 });
        let mut start = 0;
        while keys.len() < n {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            start += (x >> 20) & !0xFFF;
            keys.extend(start..=start + (x >> 55));
        }
        let map = Bitmap::build(&keys);
        let near = (0..keys.len()).filter(|&rank| {
            let mut hints = Vec::new();
            assert_eq!(map.find(keys[rank], |hint| hints.push(hint)), Some(rank));
            // The last hint is where the word of the key begins; a page has 512 values of 8 bytes.
            assert!((0..64).contains(&(rank - hints[1])));
            hints[0].abs_diff(rank) < 512
        });
        let near = near.count();
        assert!(near * 4 > keys.len() * 3, "{near} of {}", keys.len());
    }
}
