//! Elias-Fano: about `2 + log2(range / n)` bits a key, whatever the distribution.
//!
//! A key less the first one is split into low bits, stored as a packed array, and high bits,
//! stored in unary: bucket after bucket, a one for each of its keys, then a zero. Bucket `h`
//! starts after the `h`-th zero, so a search selects a zero and looks through one bucket. The
//! places of up to 32 evenly spaced buckets are kept as samples in the header, which a lookup
//! reads anyway. One allocation: high, low, a spare word that lets fields be read two at a time.

use super::bits;
use crate::family::IntFamily;
use crate::home::{Block, Home, copied};
use crate::search::partition_point;
use crate::simd;
use crate::two_stage::KeyCursor;
use alloc::vec;
use alloc::vec::Vec;

const SAMPLES: usize = 32;

/// Buckets longer than this are searched by interpolation, shorter ones key by key.
const SHORT: usize = 6;

pub struct EliasFano {
    words: Block<u64>,
    base: u64,
    n: u32,
    buckets: u32,
    /// Buckets from one sample to the next, as a power of two.
    spacing: u8,
    low_at: u16,
    low_width: u8,
    samples: [u16; SAMPLES],
}

/// The ranks of one bucket and the bit of the first.
struct Bucket {
    rank: usize,
    pos: usize,
    len: usize,
}

impl EliasFano {
    fn shape(keys: &[u64]) -> (u64, u32, usize) {
        let range = keys[keys.len() - 1] - keys[0];
        let mut low_width = (range / keys.len() as u64).checked_ilog2().unwrap_or(0);
        // Samples are 16 bits wide.
        while low_width < 63 && (range >> low_width) + keys.len() as u64 >= 65_000 {
            low_width += 1;
        }
        (range, low_width, (range >> low_width) as usize + 1)
    }

    /// Bytes on the heap that the keys would take.
    pub fn estimate(keys: &[u64]) -> usize {
        let (_, low_width, buckets) = Self::shape(keys);
        (keys.len() + buckets).div_ceil(64) * 8 + (keys.len() * low_width as usize / 64 + 2) * 8
    }

    pub fn build(keys: &[u64]) -> Self {
        let (_, low_width, buckets) = Self::shape(keys);
        let base = keys[0];
        let low_at = (keys.len() + buckets).div_ceil(64);
        let mut words = vec![0u64; low_at + keys.len() * low_width as usize / 64 + 2];
        let (high, low) = words.split_at_mut(low_at);
        let spacing = buckets.div_ceil(SAMPLES).next_power_of_two().ilog2();
        let mut samples = [0; SAMPLES];
        let mut low = bits::Writer::new(low, low_width);
        let mut next_sample = 0;
        for (i, &key) in keys.iter().enumerate() {
            let x = key - base;
            let h = (x >> low_width) as usize;
            while next_sample << spacing <= h {
                samples[next_sample] = (i + (next_sample << spacing)) as u16;
                next_sample += 1;
            }
            high[(h + i) / 64] |= 1 << ((h + i) % 64);
            low.push(x);
        }
        low.finish();
        EliasFano {
            words: words.into(),
            base,
            n: keys.len() as u32,
            buckets: buckets as u32,
            spacing: spacing as u8,
            samples,
            low_at: low_at as u16,
            low_width: low_width as u8,
        }
    }

    /// A copy whose bytes lie there.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        let words = copied(home, &self.words)?;
        Some(EliasFano { words, ..*self })
    }

    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    #[inline]
    fn high(&self) -> &[u64] {
        &self.words[..self.low_at as usize]
    }

    #[inline]
    fn low(&self, rank: usize) -> u64 {
        if self.low_width == 0 {
            return 0;
        }
        let at = rank * self.low_width as usize;
        bits::read(
            &self.words[self.low_at as usize..],
            at,
            self.low_width.into(),
        )
    }

    #[inline]
    fn key(&self, rank: usize, pos: usize) -> u64 {
        self.base + (((pos - rank) as u64) << self.low_width | self.low(rank))
    }

    #[inline]
    fn start(&self, h: usize) -> usize {
        let (j, r) = (h >> self.spacing, h & ((1 << self.spacing) - 1));
        let sample = usize::from(self.samples[j]);
        if r == 0 {
            return sample;
        }
        simd::select_zero(self.high(), sample, r - 1).map_or(0, |zero| zero + 1)
    }

    /// The bucket that `x`, a key less the base, belongs to; `None` behind the last.
    #[inline]
    fn bucket(&self, x: u64) -> Option<Bucket> {
        let h = x >> self.low_width;
        if h >= u64::from(self.buckets) {
            return None;
        }
        let pos = self.start(h as usize);
        let high = self.high();
        let (mut i, shift) = (pos / 64, pos % 64);
        let mut len = (!(high[i] >> shift)).trailing_zeros() as usize;
        if len >= 64 - shift {
            len = 64 - shift;
            // The last bucket ends with a zero as well, so the loop ends inside the words.
            loop {
                i += 1;
                let ones = (!high[i]).trailing_zeros() as usize;
                len += ones;
                if ones < 64 {
                    break;
                }
            }
        }
        Some(Bucket {
            rank: pos - h as usize,
            pos,
            len,
        })
    }

    /// How many keys of the bucket have low bits less than `low`.
    #[inline]
    fn search(&self, bucket: &Bucket, low: u64) -> usize {
        if bucket.len <= SHORT {
            let mut i = 0;
            while i < bucket.len && self.low(bucket.rank + i) < low {
                i += 1;
            }
            return i;
        }
        let at = |i: usize| self.low(bucket.rank + i);
        let first = at(0);
        if low <= first {
            return 0;
        }
        // In a run of consecutive keys the distance from the first is the place.
        let dense = (low - first) as usize;
        if dense < bucket.len && at(dense) == low {
            return dense;
        }
        let last = at(bucket.len - 1);
        if low > last {
            return bucket.len;
        }
        // Guess where the key would lie if the bucket were even, then widen the gap around it.
        let share = (low - first) as f64 / (last - first) as f64;
        let guess = (share * (bucket.len - 1) as f64) as usize;
        let guess = guess.min(bucket.len - 1);
        let (mut lo, mut hi, mut step) = (0, bucket.len - 1, 1);
        if at(guess) < low {
            lo = guess + 1;
            while lo + step < hi && at(lo + step - 1) < low {
                lo += step;
                step *= 2;
            }
            hi = hi.min(lo + step);
        } else {
            hi = guess;
            while hi > step && at(hi - step) >= low {
                hi -= step;
                step *= 2;
            }
            lo = lo.max((hi + 1).saturating_sub(step).min(hi));
        }
        partition_point(lo, hi, |i| at(i) < low)
    }

    #[inline]
    fn low_of(&self, x: u64) -> u64 {
        x & ((1u64 << self.low_width) - 1)
    }

    #[inline]
    pub fn find(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        let x = key.checked_sub(self.base)?;
        let bucket = self.bucket(x)?;
        if bucket.len <= SHORT {
            likely(bucket.rank);
        }
        let low = self.low_of(x);
        let i = self.search(&bucket, low);
        (i < bucket.len && self.low(bucket.rank + i) == low).then_some(bucket.rank + i)
    }

    pub fn prefetch(&self, key: u64) {
        let x = key.saturating_sub(self.base);
        let h = ((x >> self.low_width) as usize).min(self.buckets as usize - 1);
        let (j, r) = (h >> self.spacing, h & ((1 << self.spacing) - 1));
        // Buckets and keys are about as many.
        simd::prefetch(&self.words, (usize::from(self.samples[j]) + 2 * r) / 64);
    }

    pub fn approach(&self, key: u64) -> usize {
        let Some(bucket) = self.bucket(key.saturating_sub(self.base)) else {
            return 0;
        };
        let low = self.low_at as usize + bucket.rank * self.low_width as usize / 64;
        simd::prefetch(&self.words, low);
        bucket.rank
    }

    /// The rank and bit of the first key that is at least `key`.
    fn locate(&self, key: u64) -> Option<(usize, usize)> {
        let Some(x) = key.checked_sub(self.base) else {
            return Some((0, 0));
        };
        let bucket = self.bucket(x)?;
        let i = self.search(&bucket, self.low_of(x));
        let pos = bits::next_one(self.high(), bucket.pos + i)?;
        Some((bucket.rank + i, pos))
    }

    pub fn seek(&self, key: u64) -> usize {
        self.locate(key).map_or(self.len(), |found| found.0)
    }

    pub fn seek_cursor(&self, key: u64) -> Option<EfCursor<'_>> {
        let (rank, pos) = self.locate(key)?;
        // Most often more keys are asked for than one.
        let low = self.low_at as usize + rank * self.low_width as usize / 64;
        (1..5).for_each(|line| simd::prefetch(&self.words, low + line * 8));
        Some(EfCursor::new(self, rank, pos))
    }

    pub fn cursor(&self, rank: usize) -> EfCursor<'_> {
        let last = self.n as usize - 1;
        let pos = if rank == last {
            last + self.buckets as usize - 1
        } else {
            bits::select_one(self.high(), rank).unwrap_or(0)
        };
        EfCursor::new(self, rank, pos)
    }

    pub fn decode(&self, into: &mut Vec<u64>) {
        let mut fences =
            bits::Reader::new(&self.words[self.low_at as usize..], self.low_width.into());
        let mut ones = Ones::new(self.high());
        into.extend((0..self.len()).map(|rank| {
            let pos = ones.next().unwrap_or(rank);
            self.base + (((pos - rank) as u64) << self.low_width | fences.next_field())
        }));
    }
}

/// The places of the set bits.
struct Ones<'a> {
    words: &'a [u64],
    i: usize,
    word: u64,
}

impl<'a> Ones<'a> {
    fn new(words: &'a [u64]) -> Self {
        Ones {
            words,
            i: 0,
            word: words.first().copied().unwrap_or(0),
        }
    }
}

impl Iterator for Ones<'_> {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.i += 1;
            self.word = *self.words.get(self.i)?;
        }
        let pos = self.i * 64 + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(pos)
    }
}

/// A place in an [`EliasFano`].
#[derive(Clone)]
pub struct EfCursor<'a> {
    ef: &'a EliasFano,
    high: &'a [u64],
    rank: usize,
    pos: usize,
    key: u64,
}

impl<'a> EfCursor<'a> {
    #[inline]
    fn new(ef: &'a EliasFano, rank: usize, pos: usize) -> Self {
        EfCursor {
            ef,
            high: ef.high(),
            rank,
            pos,
            key: ef.key(rank, pos),
        }
    }

    #[inline]
    fn go(&mut self, rank: usize, pos: usize) {
        self.rank = rank;
        self.pos = pos;
        self.key = self.ef.key(rank, pos);
    }
}

impl KeyCursor<IntFamily> for EfCursor<'_> {
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
        if self.rank + 1 >= self.ef.len() {
            return false;
        }
        let Some(pos) = bits::next_one(self.high, self.pos + 1) else {
            return false;
        };
        self.go(self.rank + 1, pos);
        true
    }
    #[inline]
    fn prev(&mut self) -> bool {
        let Some(pos) = bits::prev_one(self.high, self.pos) else {
            return false;
        };
        self.go(self.rank - 1, pos);
        true
    }
}
