//! One block: how much each key shares with the one before, where its rest ends, and the rests.

use super::{MOST_SHARED, padded};
use crate::family::common_prefix;
use crate::simd;

/// The parts of one block.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// All from `shared` on, and what lies behind the block.
    bytes: &'a [u8],
    pub shared: &'a [u8],
    /// So many bytes for each key as its width says: one, or two or four where rests are long.
    pub ends: &'a [u8],
    pub width: u8,
    pub rests: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block of `n` keys that `bytes` begins with.
    #[inline]
    pub fn new(bytes: &'a [u8], n: usize) -> Self {
        let width = bytes[0];
        let (shared, rest) = bytes[1..].split_at(n);
        let (ends, rests) = rest.split_at(n * usize::from(width));
        Block {
            bytes: &bytes[1..],
            shared,
            ends,
            width,
            rests,
        }
    }

    #[inline(always)]
    pub fn end(&self, i: usize) -> usize {
        match self.width {
            1 => usize::from(self.ends[i]),
            2 => usize::from(u16::from_le_bytes(padded(&self.ends[i * 2..]))),
            _ => u32::from_le_bytes(padded(&self.ends[i * 4..])) as usize,
        }
    }

    #[inline]
    pub fn first(&self) -> &'a [u8] {
        &self.rests[..self.end(0)]
    }

    /// What key `i` does not share with the one before.
    #[inline(always)]
    fn rest(&self, i: usize) -> &'a [u8] {
        let from = if i == 0 { 0 } else { self.end(i - 1) };
        &self.rests[from..self.end(i)]
    }

    /// How much key `i` shares with the one before, and its rest.
    #[inline]
    pub fn entry(&self, i: usize) -> (usize, &'a [u8]) {
        (usize::from(self.shared[i]), self.rest(i))
    }

    /// The first key from `i` on that shares at most `same` with the one before.
    #[inline]
    fn next_at_most(&self, mut i: usize, same: usize) -> usize {
        let n = self.shared.len();
        while let Some(chunk) = self.bytes[i..].first_chunk() {
            let hits = simd::bytes_at_most(chunk, same.min(MOST_SHARED) as u8);
            if hits != 0 {
                return n.min(i + hits.trailing_zeros() as usize);
            }
            i += 16;
            if i >= n {
                return n;
            }
        }
        while i < n && usize::from(self.shared[i]) > same {
            i += 1;
        }
        i
    }

    /// Where `key` lies among the keys.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Found {
        // The width is the same for all ends, so it is asked for once.
        match self.width {
            1 => self.search_by(key, |i| usize::from(self.ends[i])),
            _ => self.search_by(key, |i| self.end(i)),
        }
    }

    /// [`Block::search`], with where rest `i` ends.
    #[inline(always)]
    fn search_by(&self, key: &[u8], end: impl Fn(usize) -> usize) -> Found {
        let n = self.shared.len();
        // The probe is greater than the last key, which it agrees with on `same` bytes; those
        // that share more with it are less as well.
        let (mut i, mut same) = (0, 0);
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
            let tail = &key[shared..];
            let from = if i == 0 { 0 } else { end(i - 1) };
            let rest = &self.rests[from..end(i)];
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
