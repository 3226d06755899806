//! Buckets: integers that lie evenly, found by their high bits in a table of ranks.
//!
//! The range is cut into buckets of equal width, a power of two, with three to six keys each on
//! average. A table has the rank of the first key of each bucket; of the low bits, the last eight
//! are an array of bytes and the others, the rests, a packed array. A lookup reads two ranks,
//! compares the bytes of the bucket at once and looks only at the rest of the key whose byte
//! fits: no branch depends on the data but whether the key is there, so that lookups overlap, and
//! most keys that are not there are told by a byte. It takes about four bits a key more than
//! Elias-Fano, and is only for segments without a crowded bucket. One allocation: the table, the
//! bytes, the rests.

use super::KeyCursor;
use crate::family::IntFamily;
use crate::simd;

/// Keys of the longest bucket for which the stage is any good.
const CROWD: usize = 32;

/// Low bits that are stored as a byte of their own.
const PRINT: u32 = 8;

/// Bytes behind the last rest, so that a whole word can be read or written where it begins.
const MARGIN: usize = 8;

pub struct Buckets {
    data: Box<[u8]>,
    base: u64,
    n: u32,
    buckets: u16,
    width: u8,
}

#[inline]
fn word(data: &[u8], at: usize) -> u64 {
    data[at..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b))
}

impl Buckets {
    /// The width of the buckets' numbers, and how many buckets there are.
    fn shape(keys: &[u64]) -> (u32, usize) {
        let range = keys[keys.len() - 1] - keys[0];
        let width = (range / keys.len() as u64)
            .checked_mul(3)
            .map_or(63, |each| each.checked_ilog2().map_or(0, |w| w + 1));
        let width = width.clamp(PRINT, 63);
        (width, (range >> width) as usize + 1)
    }

    /// Whether the keys lie evenly enough. O(n).
    pub fn suits(keys: &[u64]) -> bool {
        let (width, buckets) = Self::shape(keys);
        let base = keys[0];
        buckets < 1 << 15
            && keys.len() <= usize::from(u16::MAX)
            && !keys
                .windows(CROWD + 1)
                .step_by(CROWD / 2)
                .any(|w| (w[0] - base) >> width == (w[CROWD] - base) >> width)
    }

    pub fn build(keys: &[u64]) -> Self {
        let (width, buckets) = Self::shape(keys);
        let (base, n) = (keys[0], keys.len());
        let rest = width - PRINT;
        let rests = (n * rest as usize).div_ceil(8) + MARGIN;
        let mut data = vec![0u8; (buckets + 1) * 2 + n + rests];
        let (ranks, others) = data.split_at_mut((buckets + 1) * 2);
        let (prints, rests) = others.split_at_mut(n);
        let ranks = ranks.as_chunks_mut::<2>().0;
        let (mut next, mut at, mut used, mut bits) = (0, 0, 0, 0u64);
        for (i, (&key, print)) in keys.iter().zip(prints).enumerate() {
            let x = key - base;
            let h = (x >> width) as usize;
            while next <= h {
                ranks[next] = (i as u16).to_le_bytes();
                next += 1;
            }
            *print = x as u8;
            // At most 7 bits are left over, and a rest has at most 55.
            bits |= (x >> PRINT & ((1 << rest) - 1)) << used;
            rests[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            used += rest;
            bits >>= used & !7;
            at += used as usize / 8;
            used %= 8;
        }
        ranks[buckets] = (n as u16).to_le_bytes();
        Buckets {
            data: data.into_boxed_slice(),
            base,
            n: n as u32,
            buckets: buckets as u16,
            width: width as u8,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The ranks of the first key of bucket `h` and of the one behind it.
    #[inline]
    fn ranks(&self, h: usize) -> (usize, usize) {
        let pair = self.data[2 * h..].first_chunk();
        let pair = pair.map_or(0, |b| u32::from_le_bytes(*b));
        (usize::from(pair as u16), (pair >> 16) as usize)
    }

    #[inline]
    fn start(&self, h: usize) -> usize {
        self.ranks(h).0
    }

    /// Where the bytes begin; the rests lie behind them.
    #[inline]
    fn prints(&self) -> usize {
        2 * usize::from(self.buckets) + 2
    }

    /// The byte that a rest begins in, and the bit of it.
    #[inline]
    fn rest_at(&self, rank: usize) -> (usize, usize) {
        let bit = rank * (u32::from(self.width) - PRINT) as usize;
        (self.prints() + self.len() + bit / 8, bit % 8)
    }

    #[inline]
    fn rest(&self, rank: usize) -> u64 {
        let (at, bit) = self.rest_at(rank);
        word(&self.data, at) >> bit & ((1 << (u32::from(self.width) - PRINT)) - 1)
    }

    #[inline]
    fn low(&self, rank: usize) -> u64 {
        self.rest(rank) << PRINT | u64::from(self.data[self.prints() + rank])
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
        let (mut from, to) = self.ranks(h as usize);
        // The value and the rest are on their way while the bytes are waited for.
        likely((from + to) / 2);
        simd::prefetch(&self.data, self.rest_at((from + to) / 2).0);
        let want = self.low_of(x) >> PRINT;
        // Most often one round, since there are 16 bytes in one.
        while from < to {
            let at = self.prints() + from;
            // The rests have eight bytes more than they need, but the last two rests may be less.
            let bytes = match self.data[at..].first_chunk::<16>() {
                Some(bytes) => *bytes,
                None => self.short(at),
            };
            let here = (1u32 << (to - from).min(16)) - 1;
            let mut hits = simd::equal_bytes(&bytes, x as u8) & here;
            while hits != 0 {
                let rank = from + hits.trailing_zeros() as usize;
                if self.rest(rank) == want {
                    return Some(rank);
                }
                hits &= hits - 1;
            }
            from += 16;
        }
        None
    }

    /// The bytes from `at` on, of which there are less than 16.
    #[cold]
    fn short(&self, at: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        let rest = &self.data[at..];
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
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
        let (mut rank, to) = self.ranks(h);
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

    /// Asks for the lines of the bytes and the rests at a rank and of the `more` lines behind.
    #[inline]
    fn prefetch_keys(&self, rank: usize, more: usize) {
        let (rests, _) = self.rest_at(rank);
        simd::prefetch(&self.data, self.prints() + rank);
        (0..=more).for_each(|line| simd::prefetch(&self.data, rests + line * 64));
    }

    pub fn seek_cursor(&self, key: u64) -> Option<BucketCursor<'_>> {
        let (h, rank) = self.locate(key)?;
        // Most often more keys are asked for than one.
        self.prefetch_keys(rank, 4);
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
        let mut from = 0;
        for h in 0..usize::from(self.buckets) {
            let to = self.start(h + 1);
            let base = self.base + ((h as u64) << self.width);
            into.extend((from..to).map(|rank| base + self.low(rank)));
            from = to;
        }
    }

    #[inline]
    fn bucket_of(&self, key: u64) -> usize {
        let h = key.saturating_sub(self.base) >> self.width;
        h.min(u64::from(self.buckets) - 1) as usize
    }

    pub fn prefetch(&self, key: u64) {
        simd::prefetch(&self.data, self.bucket_of(key) * 2);
    }

    pub fn approach(&self, key: u64) -> usize {
        let rank = self.start(self.bucket_of(key));
        self.prefetch_keys(rank, 0);
        rank
    }
}

/// A place in a [`Buckets`].
#[derive(Clone)]
pub struct BucketCursor<'a> {
    buckets: &'a Buckets,
    prints: &'a [u8],
    rests: &'a [u8],
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
        let (prints, rests) = buckets.data[buckets.prints()..].split_at(buckets.len());
        let (from, to) = buckets.ranks(h);
        let mut cursor = BucketCursor {
            buckets,
            prints,
            rests,
            h,
            from,
            to,
            rank,
            key: 0,
        };
        cursor.read();
        cursor
    }

    #[inline]
    fn read(&mut self) {
        let b = self.buckets;
        let width = u32::from(b.width) - PRINT;
        let bit = self.rank * width as usize;
        let rest = word(self.rests, bit / 8) >> (bit % 8) & ((1 << width) - 1);
        let low = rest << PRINT | u64::from(self.prints[self.rank]);
        self.key = b.base + ((self.h as u64) << b.width | low);
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
        if self.rank + 1 >= self.prints.len() {
            return false;
        }
        self.rank += 1;
        // Where a bucket ends cannot be foreseen, so the step over its end is no branch; an empty
        // bucket behind it is rare.
        self.h += usize::from(self.to <= self.rank);
        (self.from, self.to) = self.buckets.ranks(self.h);
        while self.to <= self.rank {
            self.h += 1;
            (self.from, self.to) = self.buckets.ranks(self.h);
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
            (self.from, self.to) = self.buckets.ranks(self.h);
        }
        self.read();
        true
    }
}
