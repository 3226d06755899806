//! One block: how much each key shares with the one before, how long its rest is, and the rests: as they
//! are, or as codes of [`Symbols`].

use super::heads::{MOST_SHARED, padded};
use crate::plan::{LONGEST, Symbols};
use crate::prefix::common_prefix;
use crate::simd;
use alloc::vec::Vec;

/// Counts that are looked at at once.
const LANES: usize = 16;

/// The parts of one block.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// All of it, and what lies behind.
    bytes: &'a [u8],
    pub shared: &'a [u8],
    /// As many bytes for each key as its width says: one, or two where a rest is long.
    lens: &'a [u8],
    pub width: u8,
    /// The rests or their codes, and what lies behind.
    pub rests: &'a [u8],
    /// What the codes stand for, where they are codes.
    pub symbols: Option<&'a Symbols>,
}

/// Rests as far as a lookup needs them.
trait Text {
    /// Where the rests begin in what [`Text::up_to`] gives: behind bytes that a compare of eight at a time
    /// may read.
    fn base(&self) -> usize;
    /// All up to byte `to` of the rests; none where that is too much.
    fn up_to(&mut self, to: usize) -> Option<&[u8]>;
}

/// Rests that lie in their block as they are.
struct AsIs<'a>(&'a [u8], usize);

impl Text for AsIs<'_> {
    #[inline(always)]
    fn base(&self) -> usize {
        self.1
    }
    #[inline(always)]
    fn up_to(&mut self, to: usize) -> Option<&[u8]> {
        Some(&self.0[..self.1 + to])
    }
}

/// Bytes of rests that a lookup decodes at most.
const MOST_SPELLED: usize = 512;

/// Rests that are decoded when they are asked for.
struct Spelled<'a> {
    symbols: &'a Symbols,
    codes: &'a [u8],
    text: [u8; MOST_SPELLED],
    /// Up to where there are bytes that count.
    there: usize,
}

impl Text for Spelled<'_> {
    #[inline(always)]
    fn base(&self) -> usize {
        LONGEST
    }
    #[inline]
    fn up_to(&mut self, to: usize) -> Option<&[u8]> {
        let to = LONGEST + to;
        if to + LONGEST > MOST_SPELLED {
            return None;
        }
        if self.there < to {
            let out = self.text.get_mut(self.there..)?;
            let (len, read) = self.symbols.decode(self.codes, to - self.there, out);
            self.there += len;
            self.codes = &self.codes[read..];
        }
        self.text.get(..to)
    }
}

/// The width of the lengths of rests of which this is the longest.
#[inline]
pub fn width_for(longest: usize) -> u8 {
    if longest <= 0xFF { 1 } else { 2 }
}

impl<'a> Block<'a> {
    /// The block of `n` keys that `bytes` begins with.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], n: usize, symbols: Option<&'a Symbols>) -> Self {
        let width = bytes[0];
        let (shared, rest) = bytes[1..].split_at(n);
        let (lens, rests) = rest.split_at(n * usize::from(width));
        Block {
            bytes,
            shared,
            lens,
            width,
            rests,
            symbols,
        }
    }

    /// The rests of the first `n` keys at least, as they are: in `room`, where they are codes here.
    #[inline(always)]
    pub fn spell<'t>(&self, n: usize, room: &'t mut Vec<u8>) -> &'t [u8]
    where
        'a: 't,
    {
        match self.symbols {
            None => self.rests,
            Some(symbols) => self.decode(symbols, n, room),
        }
    }

    /// [`Block::spell`] of codes, apart from what most maps do.
    #[inline(never)]
    fn decode<'t>(&self, symbols: &Symbols, n: usize, room: &'t mut Vec<u8>) -> &'t [u8] {
        let len = self.span(0, n);
        if room.len() < len + LONGEST {
            room.resize(len + LONGEST, 0);
        }
        symbols.decode(self.rests, len, room);
        room
    }

    /// How many bytes here have rests of `n` bytes, of which the first one begins at byte `at`.
    #[inline(always)]
    pub fn bytes_of(&self, at: usize, n: usize) -> usize {
        match self.symbols {
            None => n,
            Some(symbols) => symbols.skip(&self.rests[at..], n),
        }
    }

    /// How long the rest of key `i` is.
    #[inline(always)]
    pub fn len_of(&self, i: usize) -> usize {
        match self.width {
            1 => usize::from(self.lens[i]),
            _ => usize::from(u16::from_le_bytes(padded(&self.lens[i * 2..]))),
        }
    }

    /// How long the rests of the keys `from..to` are together. O(keys / 16).
    #[inline]
    pub fn span(&self, from: usize, to: usize) -> usize {
        if self.width > 1 {
            return (from..to).map(|i| self.len_of(i)).sum();
        }
        let (mut i, mut sum) = (from, 0);
        while i < to {
            let Some(lens) = self.lens_at(i) else {
                return sum
                    + self.lens[i..to]
                        .iter()
                        .map(|&len| usize::from(len))
                        .sum::<usize>();
            };
            sum += simd::sum_of_first(lens, (to - i).min(LANES));
            i += LANES;
        }
        sum
    }

    /// The counts of shared bytes from key `i` on; others may be behind the last.
    #[inline(always)]
    fn shared_at(&self, i: usize) -> Option<&'a [u8; LANES]> {
        self.bytes[1 + i..].first_chunk()
    }

    /// The lengths of rests from key `i` on, of one byte each; others may be behind the last.
    #[inline(always)]
    fn lens_at(&self, i: usize) -> Option<&'a [u8; LANES]> {
        self.bytes[1 + self.shared.len() + i..].first_chunk()
    }

    /// The rest of the first key, in `room` where it is a code here.
    #[inline]
    pub fn first<'t>(&self, room: &'t mut Vec<u8>) -> &'t [u8]
    where
        'a: 't,
    {
        &self.spell(1, room)[..self.len_of(0)]
    }

    /// The rest of key `i`, which begins at byte `from` of the rests as they are.
    #[inline(always)]
    pub fn rest<'t>(&self, text: &'t [u8], i: usize, from: usize) -> &'t [u8] {
        &text[from..from + self.len_of(i)]
    }

    /// The first key from `i` on that shares at most `same` with the one before.
    #[inline]
    fn next_at_most(&self, mut i: usize, same: usize) -> usize {
        let n = self.shared.len();
        while let Some(chunk) = self.shared_at(i) {
            let hits = simd::bytes_at_most(chunk, same.min(MOST_SHARED) as u8);
            if hits != 0 {
                return n.min(i + hits.trailing_zeros() as usize);
            }
            i += LANES;
            if i >= n {
                return n;
            }
        }
        while i < n && usize::from(self.shared[i]) > same {
            i += 1;
        }
        i
    }

    /// The last key before `i` that shares less than `most` bytes, which is not 0, with the one before
    /// it. The first key shares none.
    #[inline]
    fn last_below(&self, i: usize, most: usize) -> usize {
        let mut end = i;
        while end > 0 {
            let from = (end - 1) / LANES * LANES;
            let Some(chunk) = self.shared_at(from) else {
                let below = |&i: &usize| usize::from(self.shared[i]) < most;
                return (0..end).rev().find(below).unwrap_or(0);
            };
            let hits = simd::bytes_at_most(chunk, (most - 1).min(MOST_SHARED) as u8);
            let hits = hits & (u32::MAX >> (32 - (end - from)));
            if hits != 0 {
                return from + 31 - hits.leading_zeros() as usize;
            }
            end = from;
        }
        0
    }

    /// The place of `key`, of which the first `prefix` bytes are not in the block, if it is there.
    ///
    /// Only keys that are as long can be it, few of a block, and most of these differ at the end. So
    /// nothing is compared in order, which would take a branch that cannot be predicted for each step.
    #[inline]
    pub fn find(&self, key: &[u8], prefix: usize) -> Option<usize> {
        if self.width > 1 {
            return self.find_in_order(&key[prefix..]);
        }
        match self.symbols {
            None => self.find_in(key, prefix, AsIs(self.bytes, 1 + 2 * self.shared.len())),
            Some(symbols) => {
                let rests = Spelled {
                    symbols,
                    codes: self.rests,
                    text: [0; MOST_SPELLED],
                    there: LONGEST,
                };
                self.find_in(key, prefix, rests)
            }
        }
    }

    #[inline]
    fn find_in(&self, key: &[u8], prefix: usize, mut rests: impl Text) -> Option<usize> {
        let (n, len) = (self.shared.len(), key.len() - prefix);
        let (mut from, mut first, base) = (0, 0, rests.base());
        while first < n {
            let (Some(shared), Some(lens)) = (self.shared_at(first), self.lens_at(first)) else {
                return self.find_in_order(&key[prefix..]);
            };
            let mut hits = simd::sums_equal(shared, lens, len as u8);
            hits &= u32::MAX >> (32 - (n - first).min(LANES));
            while hits != 0 {
                let i = hits.trailing_zeros() as usize % LANES;
                hits &= hits - 1;
                let (share, rest) = (usize::from(shared[i]), usize::from(lens[i]));
                if share + rest != len {
                    continue;
                }
                let to = from + simd::sum_of_first(lens, i + 1);
                let Some(text) = rests.up_to(to) else {
                    return self.find_in_order(&key[prefix..]);
                };
                if ends_alike(text, key, rest)
                    && self.begins_alike(first + i, &key[..prefix + share], share, (text, base))
                {
                    return Some(first + i);
                }
            }
            from += simd::sum_of_first(lens, LANES);
            first += LANES;
        }
        None
    }

    /// Whether the first `share` bytes of key `i`, which it shares with the one before, are those that
    /// `key` ends with. The rests begin at byte `base` of `text`.
    #[inline]
    fn begins_alike(
        &self,
        mut i: usize,
        mut key: &[u8],
        mut share: usize,
        (text, base): (&[u8], usize),
    ) -> bool {
        while share > 0 {
            // The key that put the last of these bytes there.
            i = self.last_below(i, share);
            let before = usize::from(self.shared[i]);
            let to = base + self.span(0, i) + share - before;
            if !ends_alike(&text[..to], key, share - before) {
                return false;
            }
            key = &key[..key.len() - (share - before)];
            share = before;
        }
        true
    }

    /// [`Block::find`] of a key without the prefix, for rests of any length.
    #[cold]
    fn find_in_order(&self, key: &[u8]) -> Option<usize> {
        let mut room = Vec::new();
        let found = self.search(self.spell(self.shared.len(), &mut room), key);
        found.equal.then_some(found.i)
    }

    /// Where `key` lies among the keys, of which these are the rests.
    #[inline]
    pub fn search(&self, text: &[u8], key: &[u8]) -> Found {
        let n = self.shared.len();
        // The probe is greater than the last key, which it agrees with on `same` bytes; those
        // that share more with it are less as well.
        let (mut i, mut same) = (0, 0);
        // The key whose rest begins at byte `from` of the rests.
        let (mut at, mut from) = (0, 0);
        loop {
            i = self.next_at_most(i, same);
            if i == n {
                return Found::new(n, false, same, 0);
            }
            let shared = usize::from(self.shared[i]);
            // A count at its bound may be less than what is shared.
            if shared < same && shared < MOST_SHARED {
                return Found::new(i, false, same, shared);
            }
            from += self.span(at, i);
            at = i;
            let (tail, rest) = (&key[shared..], self.rest(text, i, from));
            let k = common_prefix(tail, rest);
            if k == tail.len() {
                return Found::new(i, k == rest.len(), same, shared + k);
            }
            if k < rest.len() && tail[k] < rest[k] {
                return Found::new(i, false, same, shared + k);
            }
            same = shared + k;
            i += 1;
        }
    }
}

/// Whether the last `n` bytes of both are the same, of which both have as many.
#[inline]
fn ends_alike(mut a: &[u8], mut b: &[u8], mut n: usize) -> bool {
    while let (Some(x), Some(y)) = (a.last_chunk(), b.last_chunk()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if n <= 8 {
            // The last byte is the highest.
            return differ.checked_shr(64 - 8 * n as u32).unwrap_or(0) == 0;
        }
        if differ != 0 {
            return false;
        }
        (a, b, n) = (&a[..a.len() - 8], &b[..b.len() - 8], n - 8);
    }
    a[a.len() - n..] == b[b.len() - n..]
}

/// Where a key lies in a block.
#[derive(Clone, Copy)]
pub struct Found {
    /// How many keys are less.
    pub i: usize,
    /// Whether the next one is the key.
    pub equal: bool,
    /// How many bytes the key shares with the one before it in the block, and with the next one.
    pub before: usize,
    pub behind: usize,
}

impl Found {
    #[inline(always)]
    fn new(i: usize, equal: bool, before: usize, behind: usize) -> Self {
        Found {
            i,
            equal,
            before,
            behind,
        }
    }
}
