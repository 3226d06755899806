//! Buckets: integers that lie evenly, found by their high bits in a table of ranks.
//!
//! The range is cut into buckets of equal width, a power of two, with three to six keys each on
//! average. A table has the rank of the first key of each bucket; the low bits of the keys are a
//! packed array. A lookup reads two ranks and compares all keys of the bucket at once: no branch
//! depends on the data, so that lookups overlap. It takes about four bits a key more than
//! Elias-Fano, and is only for segments without a crowded bucket. One allocation: the table (four
//! ranks of 16 bits in a word), the low bits, spare words that let fields be read eight at a time.

use super::{KeyCursor, bits};
use crate::family::IntFamily;
use crate::simd;

/// Keys of the longest bucket for which the stage is any good.
const CROWD: usize = 32;

pub struct Buckets {
    words: Box<[u64]>,
    base: u64,
    n: u32,
    buckets: u16,
    width: u8,
}

impl Buckets {
    /// The width of the buckets' numbers, and how many buckets there are.
    fn shape(keys: &[u64]) -> (u32, usize) {
        let range = keys[keys.len() - 1] - keys[0];
        let width = (range / keys.len() as u64)
            .checked_mul(3)
            .map_or(63, |each| each.checked_ilog2().map_or(0, |w| w + 1));
        let width = width.clamp(1, 63);
        (width, (range >> width) as usize + 1)
    }

    /// Whether the keys lie evenly enough. O(n).
    pub fn suits(keys: &[u64]) -> bool {
        let (width, buckets) = Self::shape(keys);
        let base = keys[0];
        width <= simd::WIDEST_FIELD
            && buckets < 1 << 15
            && !keys
                .windows(CROWD + 1)
                .step_by(CROWD / 2)
                .any(|w| (w[0] - base) >> width == (w[CROWD] - base) >> width)
    }

    pub fn build(keys: &[u64]) -> Self {
        let (width, buckets) = Self::shape(keys);
        let base = keys[0];
        let table = (buckets + 1).div_ceil(4);
        let low = (keys.len() * width as usize).div_ceil(64);
        let mut words = vec![0u64; table + low + simd::FIELD_MARGIN];
        let (ranks, lows) = words.split_at_mut(table);
        let mut writer = bits::Writer::new(lows, width);
        let mut next = 0;
        for (i, &key) in keys.iter().enumerate() {
            let x = key - base;
            let h = (x >> width) as usize;
            while next <= h {
                ranks[next / 4] |= (i as u64) << (next % 4 * 16);
                next += 1;
            }
            writer.push(x);
        }
        writer.finish();
        ranks[buckets / 4] |= (keys.len() as u64) << (buckets % 4 * 16);
        Buckets {
            words: words.into_boxed_slice(),
            base,
            n: keys.len() as u32,
            buckets: buckets as u16,
            width: width as u8,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    #[inline]
    fn start(&self, h: usize) -> usize {
        usize::from((self.words[h / 4] >> (h % 4 * 16)) as u16)
    }

    #[inline]
    fn lows(&self) -> &[u64] {
        &self.words[usize::from(self.buckets) / 4 + 1..]
    }

    #[inline]
    fn low(&self, rank: usize) -> u64 {
        bits::read(
            self.lows(),
            rank * usize::from(self.width),
            self.width.into(),
        )
    }

    #[inline]
    fn low_of(&self, x: u64) -> u64 {
        x & ((1u64 << self.width) - 1)
    }

    #[inline]
    pub fn find(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        // A key before the first wraps around to a bucket that there is not.
        let x = key.wrapping_sub(self.base);
        let h = x >> self.width;
        if h >= u64::from(self.buckets) {
            return None;
        }
        let (from, to) = (self.start(h as usize), self.start(h as usize + 1));
        likely((from + to) / 2);
        simd::find_field(self.lows(), self.width.into(), from, to, self.low_of(x))
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
        let (mut rank, to) = (self.start(h), self.start(h + 1));
        let low = self.low_of(x);
        while rank < to && self.low(rank) < low {
            rank += 1;
        }
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
        // Most often more keys are asked for than one.
        let at = rank * usize::from(self.width) / 64;
        (1..5).for_each(|line| simd::prefetch(self.lows(), at + line * 8));
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
        let mut lows = bits::Reader::new(self.lows(), self.width.into());
        into.reserve(self.len());
        let mut from = 0;
        for h in 0..usize::from(self.buckets) {
            let to = self.start(h + 1);
            let base = self.base + ((h as u64) << self.width);
            into.extend((from..to).map(|_| base + lows.next_field()));
            from = to;
        }
    }

    #[inline]
    fn bucket_of(&self, key: u64) -> usize {
        let h = key.saturating_sub(self.base) >> self.width;
        h.min(u64::from(self.buckets) - 1) as usize
    }

    pub fn prefetch(&self, key: u64) {
        simd::prefetch(&self.words, self.bucket_of(key) / 4);
    }

    pub fn approach(&self, key: u64) -> usize {
        let rank = self.start(self.bucket_of(key));
        simd::prefetch(self.lows(), rank * usize::from(self.width) / 64);
        rank
    }
}

/// A place in a [`Buckets`].
#[derive(Clone)]
pub struct BucketCursor<'a> {
    buckets: &'a Buckets,
    /// The bucket of the key, and the ranks that it has.
    h: usize,
    from: usize,
    to: usize,
    rank: usize,
    key: u64,
}

impl<'a> BucketCursor<'a> {
    #[inline]
    fn new(buckets: &'a Buckets, h: usize, rank: usize) -> Self {
        let mut cursor = BucketCursor {
            buckets,
            h,
            from: buckets.start(h),
            to: buckets.start(h + 1),
            rank,
            key: 0,
        };
        cursor.read();
        cursor
    }

    #[inline]
    fn read(&mut self) {
        let b = self.buckets;
        self.key = b.base + ((self.h as u64) << b.width | b.low(self.rank));
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
        while self.to <= self.rank {
            self.h += 1;
            self.from = self.to;
            self.to = self.buckets.start(self.h + 1);
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
        while self.from > self.rank {
            self.h -= 1;
            self.to = self.from;
            self.from = self.buckets.start(self.h);
        }
        self.read();
        true
    }
}
