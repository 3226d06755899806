//! Buckets: integers that lie evenly, found by their high bits in a table of ranks.
//!
//! The range is cut into at most 63 buckets of equal width, a power of two, with 32 keys each or
//! more. The ranks of their first keys lie in the header of the segment, so that a lookup waits
//! for the header and then for nothing but the keys. A bucket is one piece: of the low bits, the
//! first sixteen of every key are an array of numbers, the prints, and the others, the rests, a
//! packed array. Prints are in order, and where keys lie evenly a probe's own print says about
//! where among them it is: a lookup asks for the lines of the prints, of the rest and of the value
//! at once. It compares the 32 prints about that place together and looks only at the rest of the
//! first that is equal: no branch depends on the data but whether the key is there, so that
//! lookups overlap, and nearly all keys that are not there are told by a print. It takes about
//! five bits a key more than Elias-Fano, and is only for segments without a crowded bucket whose
//! buckets are at least as wide as a print.

use crate::family::IntFamily;
use crate::home::{Block, Home, copied};
use crate::simd;
use crate::two_stage::KeyCursor;
use alloc::vec;
use alloc::vec::Vec;

/// Most buckets, and one: ranks in the header of a segment, which has three lines with them.
const RANKS: usize = 64;

/// Fewest keys of a bucket on average.
const MEAN: u64 = 32;

/// Keys of the longest bucket for which the stage is any good, or three times the average.
const CROWD: usize = 192;

/// Low bits that are stored as a number of their own.
const PRINT: u32 = 16;

/// Bytes of a print.
const SIZE: usize = PRINT as usize / 8;

/// Prints of one round.
const ROUND: usize = 32;

/// Bytes behind the last bucket, so that a round or a word can be read where it begins.
const MARGIN: usize = ROUND * SIZE;

pub struct Buckets {
    data: Block<u8>,
    base: u64,
    n: u32,
    buckets: u8,
    width: u8,
    ranks: [u16; RANKS],
}

#[inline]
fn word(data: &[u8], at: usize) -> u64 {
    data[at..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b))
}

/// A bucket: the rank of its first key and of the one behind it, and the byte its prints begin at.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    prints: usize,
}

impl Span {
    #[inline]
    fn len(&self) -> usize {
        self.to - self.from
    }
}

impl Buckets {
    /// The width of the buckets' numbers, and how many buckets there are.
    fn shape(keys: &[u64]) -> (u32, usize) {
        let range = keys[keys.len() - 1] - keys[0];
        let mean = (range / keys.len() as u64).checked_mul(MEAN);
        let by_mean = mean.map_or(63, |each| each.checked_ilog2().map_or(0, |w| w + 1));
        let by_ranks = (range / (RANKS as u64 - 1)).checked_ilog2();
        let width = by_mean.max(by_ranks.map_or(0, |w| w + 1)).min(63);
        (width, (range >> width) as usize + 1)
    }

    /// Whether the keys lie evenly enough. O(n).
    pub fn suits(keys: &[u64]) -> bool {
        let (width, buckets) = Self::shape(keys);
        let (base, crowd) = (keys[0], CROWD.max(3 * keys.len() / buckets));
        (PRINT..64).contains(&width)
            && buckets < RANKS
            && keys.len() <= usize::from(u16::MAX)
            && !keys
                .windows(crowd + 1)
                .step_by(crowd / 2)
                .any(|w| (w[0] - base) >> width == (w[crowd] - base) >> width)
    }

    pub fn build(keys: &[u64]) -> Self {
        let (width, buckets) = Self::shape(keys);
        let (base, n) = (keys[0], keys.len());
        let mut built = Buckets {
            data: Block::default(),
            base,
            n: n as u32,
            buckets: buckets as u8,
            width: width as u8,
            ranks: [n as u16; RANKS],
        };
        let rest = built.rest_width();
        let mut data = vec![0u8; built.place(buckets, n) + MARGIN];
        let mut from = 0;
        for h in 0..buckets {
            built.ranks[h] = from as u16;
            let at = built.place(h, from);
            let in_it = |key: &&u64| (**key - base) >> width == h as u64;
            let len = keys[from..].iter().take_while(in_it).count();
            let (prints, rests) = data[at..].split_at_mut(len * SIZE);
            let (mut at, mut used, mut bits) = (0, 0, 0u64);
            for (&key, print) in keys[from..].iter().zip(prints.as_chunks_mut::<SIZE>().0) {
                let low = (key - base) & ((1 << width) - 1);
                *print = ((low >> rest) as u16).to_le_bytes();
                // At most 7 bits are left over, and a rest has at most 47. What is written behind
                // the bucket lies where the next ones will be.
                bits |= (low & ((1 << rest) - 1)) << used;
                rests[at..at + 8].copy_from_slice(&bits.to_le_bytes());
                used += rest;
                bits >>= used & !7;
                at += used as usize / 8;
                used %= 8;
            }
            from += len;
        }
        built.data = data.into();
        built
    }

    /// A copy whose bytes lie there.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        let data = copied(home, &self.data)?;
        Some(Buckets { data, ..*self })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    #[inline]
    fn rest_width(&self) -> u32 {
        u32::from(self.width) - PRINT
    }

    /// The byte that bucket `h` begins at, whose first key has rank `from`: a byte more than there
    /// are whole ones is left to each bucket for its rests.
    #[inline]
    fn place(&self, h: usize, from: usize) -> usize {
        h + from * SIZE + from * self.rest_width() as usize / 8
    }

    #[inline]
    fn span(&self, h: usize) -> Span {
        let (from, to) = (usize::from(self.ranks[h]), usize::from(self.ranks[h + 1]));
        Span {
            from,
            to,
            prints: self.place(h, from),
        }
    }

    #[inline]
    fn start(&self, h: usize) -> usize {
        usize::from(self.ranks[h])
    }

    /// The byte in which the rest of key `i` of a bucket begins, and the bit of it.
    #[inline]
    fn rest_at(&self, span: Span, i: usize) -> (usize, usize) {
        let bit = i * self.rest_width() as usize;
        (span.prints + span.len() * SIZE + bit / 8, bit % 8)
    }

    #[inline]
    fn rest(&self, span: Span, i: usize) -> u64 {
        let (at, bit) = self.rest_at(span, i);
        word(&self.data, at) >> bit & ((1 << self.rest_width()) - 1)
    }

    /// The low bits of key `i` of a bucket.
    #[inline]
    fn low(&self, span: Span, i: usize) -> u64 {
        u64::from(self.print(span, i)) << self.rest_width() | self.rest(span, i)
    }

    /// What is stored of a key: its print and its rest.
    #[inline]
    fn parts(&self, x: u64) -> (u16, u64) {
        let rest = self.rest_width();
        ((x >> rest) as u16, x & ((1 << rest) - 1))
    }

    #[inline]
    fn print(&self, span: Span, i: usize) -> u16 {
        let bytes = self.data[span.prints + i * SIZE..].first_chunk();
        bytes.map_or(0, |b| u16::from_le_bytes(*b))
    }

    /// Where in a bucket a key with this print is about.
    #[inline]
    fn guess(span: Span, print: u16) -> usize {
        (usize::from(print) * span.len()) >> PRINT
    }

    /// The first key of a round about the place where a print is guessed to be. The round goes on
    /// behind the bucket where that has fewer keys.
    #[inline]
    fn round(span: Span, guess: usize) -> usize {
        let first = guess.saturating_sub(ROUND / 2);
        first.min(span.len().max(ROUND) - ROUND)
    }

    /// The prints of a bucket from key `i` on.
    #[inline]
    fn prints(&self, span: Span, i: usize) -> &[u8; ROUND * SIZE] {
        const NONE: [u8; ROUND * SIZE] = [0; ROUND * SIZE];
        let at = span.prints + i * SIZE;
        self.data[at..].first_chunk().unwrap_or(&NONE)
    }

    #[inline]
    pub fn find(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        // A key before the first wraps around to a bucket that there is not.
        let x = key.wrapping_sub(self.base);
        let h = x >> self.width;
        if h >= u64::from(self.buckets) {
            return None;
        }
        let span = self.span(h as usize);
        let (print, want) = self.parts(x);
        let guess = Self::guess(span, print);
        likely(span.from + guess);
        simd::prefetch(&self.data, self.rest_at(span, guess).0);
        let first = Self::round(span, guess);
        let hits = simd::equal_pairs(self.prints(span, first), print);
        if hits != 0 {
            let i = first + hits.trailing_zeros() as usize;
            if i < span.len() && self.rest(span, i) == want {
                return Some(span.from + i);
            }
        }
        self.find_beside(span, first, hits, print, want)
    }

    /// The rank of a key that the first hit of a round is not.
    #[inline]
    fn find_beside(
        &self,
        span: Span,
        first: usize,
        hits: u32,
        print: u16,
        want: u64,
    ) -> Option<usize> {
        // Prints are in order: most often there is a smaller one and a greater one in the round.
        let last = first + ROUND;
        let low = first == 0 || self.print(span, first) < print;
        let high = last >= span.len() || self.print(span, last - 1) > print;
        if low && high && hits & hits.wrapping_sub(1) == 0 {
            return None;
        }
        let i = self.place_in(span, print, want);
        let found = i < span.len() && self.print(span, i) == print;
        (found && self.rest(span, i) == want).then_some(span.from + i)
    }

    /// How many keys of a bucket are less. O(log n + equal prints).
    #[cold]
    fn place_in(&self, span: Span, print: u16, want: u64) -> usize {
        let (mut i, mut n) = (0, span.len());
        while n > 0 {
            let half = n / 2;
            if self.print(span, i + half) < print {
                i += half + 1;
                n -= half + 1;
            } else {
                n = half;
            }
        }
        self.pass(span, i, print, want)
    }

    /// The first key from `i` on, whose print is at least this one, that is not less.
    #[inline]
    fn pass(&self, span: Span, mut i: usize, print: u16, want: u64) -> usize {
        while i < span.len() && self.print(span, i) == print && self.rest(span, i) < want {
            i += 1;
        }
        i
    }

    /// The bucket of the first key that is at least `key`, and its rank.
    fn locate(&self, key: u64) -> Option<(usize, usize)> {
        let Some(x) = key.checked_sub(self.base) else {
            return Some((0, 0));
        };
        let h = x >> self.width;
        if h >= u64::from(self.buckets) {
            return None;
        }
        let mut h = h as usize;
        let span = self.span(h);
        let (print, want) = self.parts(x);
        let guess = Self::guess(span, print);
        simd::prefetch(&self.data, self.rest_at(span, guess).0);
        let first = Self::round(span, guess);
        let rest = simd::pairs_at_least(self.prints(span, first), print);
        let i = if rest != 0 && (first == 0 || self.print(span, first) < print) {
            let i = first + rest.trailing_zeros() as usize;
            self.pass(span, i.min(span.len()), print, want)
        } else {
            self.place_in(span, print, want)
        };
        let rank = span.from + i;
        if rank >= self.len() {
            return None;
        }
        while self.start(h + 1) <= rank {
            h += 1;
        }
        Some((h, rank))
    }

    pub fn seek(&self, key: u64) -> usize {
        self.locate(key).map_or(self.len(), |found| found.1)
    }

    pub fn seek_cursor(&self, key: u64) -> Option<BucketCursor<'_>> {
        let (h, rank) = self.locate(key)?;
        let span = self.span(h);
        // Most often more keys are asked for than one.
        let (rest, _) = self.rest_at(span, rank - span.from);
        (1..=5).for_each(|line| simd::prefetch(&self.data, rest + line * 64));
        Some(BucketCursor::new(self, h, rank))
    }

    pub fn cursor(&self, rank: usize) -> BucketCursor<'_> {
        // The last bucket that starts at the rank or before it.
        let (mut lo, mut hi) = (0, usize::from(self.buckets));
        while lo + 1 < hi {
            let mid = (lo + hi) / 2;
            if self.start(mid) <= rank {
                lo = mid;
            } else {
                hi = mid;
            }
        }
        BucketCursor::new(self, lo, rank)
    }

    pub fn decode(&self, into: &mut Vec<u64>) {
        into.reserve(self.len());
        for h in 0..usize::from(self.buckets) {
            let span = self.span(h);
            let base = self.base + ((h as u64) << self.width);
            let (prints, rests) = self.data[span.prints..].split_at(span.len() * SIZE);
            let rest = self.rest_width();
            let prints = prints.as_chunks::<SIZE>().0;
            into.extend(prints.iter().enumerate().map(|(i, &print)| {
                let bit = i * rest as usize;
                let low = word(rests, bit / 8) >> (bit % 8) & ((1 << rest) - 1);
                base + (u64::from(u16::from_le_bytes(print)) << rest | low)
            }));
        }
    }

    #[inline]
    fn bucket_of(&self, key: u64) -> usize {
        let h = key.saturating_sub(self.base) >> self.width;
        h.min(u64::from(self.buckets) - 1) as usize
    }

    pub fn approach(&self, key: u64) -> usize {
        let span = self.span(self.bucket_of(key));
        let guess = Self::guess(span, self.parts(key.wrapping_sub(self.base)).0);
        let first = Self::round(span, guess);
        simd::prefetch(&self.data, span.prints + first * SIZE);
        simd::prefetch(&self.data, span.prints + (first + ROUND) * SIZE - 1);
        simd::prefetch(&self.data, self.rest_at(span, guess).0);
        span.from + guess
    }
}

/// A place in a [`Buckets`].
#[derive(Clone)]
pub struct BucketCursor<'a> {
    buckets: &'a Buckets,
    /// The bucket of the key.
    h: usize,
    span: Span,
    rank: usize,
    key: u64,
}

impl<'a> BucketCursor<'a> {
    #[inline]
    fn new(buckets: &'a Buckets, h: usize, rank: usize) -> Self {
        let mut cursor = BucketCursor {
            buckets,
            h,
            span: buckets.span(h),
            rank,
            key: 0,
        };
        cursor.read();
        cursor
    }

    #[inline]
    fn read(&mut self) {
        let b = self.buckets;
        let low = b.low(self.span, self.rank - self.span.from);
        self.key = b.base + ((self.h as u64) << b.width | low);
    }

    /// Goes to another bucket, which may be empty.
    #[inline]
    fn enter(&mut self, h: usize) {
        self.h = h;
        self.span = self.buckets.span(h);
    }
}

impl KeyCursor<IntFamily> for BucketCursor<'_> {
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
        if self.rank + 1 >= self.buckets.len() {
            return false;
        }
        self.rank += 1;
        while self.span.to <= self.rank {
            self.enter(self.h + 1);
        }
        self.read();
        true
    }
    #[inline]
    fn prev(&mut self) -> bool {
        if self.rank == 0 {
            return false;
        }
        self.rank -= 1;
        while self.span.from > self.rank {
            self.enter(self.h - 1);
        }
        self.read();
        true
    }
}
