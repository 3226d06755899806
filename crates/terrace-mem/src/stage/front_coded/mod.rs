//! Front-coded blocks for byte strings: what a key shares with the one before is not stored.
//!
//! The prefix that all keys share is stored once; keys below are without it. A block has 20 keys,
//! more in segments of more than 5120: how much each shares with its predecessor (none for the
//! first), where its rest ends; then the rests. A search in a block compares rests with what is
//! left of the key, and only those of keys that share as much as the key does so far, so it puts
//! nothing together.
//!
//! Two ways lead to a block. A lookup of one key asks a table of hashes, which names the block of
//! each key: one cache line. A search for a place goes over heads: 16 blocks are a group, and the
//! first eight bytes of each block's first key, less what all keys of the group share, are its
//! head. Above the groups are heads of 16 bytes. Whole first keys are looked at only among those
//! with equal heads.

mod build;
mod merge;
mod table;
#[cfg(test)]
mod tests;

use super::{ByteRun, KeyCursor, KeyRun};
use crate::family::{ByteFamily, common_prefix};
use crate::simd;
use build::Builder;
use std::cmp::Ordering;
use table::Table;

/// Keys of a block; more where there would be more blocks than a table can name.
pub const BLOCK: usize = 20;

/// Blocks of a group.
const GROUP: usize = 16;

/// Words of a group above the groups: the two of the head, and how much its keys share.
const TOP: usize = 3;

/// The most that an entry says it shares.
const MOST_SHARED: usize = 255;

pub struct FrontCoded {
    /// The shared prefix, then the blocks.
    data: Box<[u8]>,
    /// The tops of all groups, as an array for each of their words; then the heads of all blocks.
    index: Box<[u64]>,
    table: Table,
    prefix: u32,
    n: u32,
    /// Keys of a block but the last.
    span: u32,
    /// Bytes of a block on average.
    mean: u32,
    /// The beginning of the prefix: `data` begins in a page of its own, which a lookup would have
    /// to find for nothing else.
    near: [u8; NEAR],
}

/// Bytes of the prefix beside the rest of the segment's header: as many as its lines have room for.
const NEAR: usize = 24;

/// Up to `N` leading bytes, as the start of a big number.
#[inline]
fn padded<const N: usize>(key: &[u8]) -> [u8; N] {
    match key.first_chunk::<N>() {
        Some(head) => *head,
        None => {
            let mut head = [0; N];
            head[..key.len()].copy_from_slice(key);
            head
        }
    }
}

#[inline]
fn head(key: &[u8]) -> u64 {
    u64::from_be_bytes(padded(key))
}

#[inline]
fn long_head(key: &[u8]) -> u128 {
    u128::from_be_bytes(padded(key))
}

/// The place of the heads that are `h`.
#[inline]
fn equal(heads: &[u64], h: u64) -> (usize, usize) {
    let lo = simd::count_less(heads, h);
    let more = heads[lo..].iter().take_while(|&&x| x == h).count();
    (lo, lo + more)
}

/// The parts of one block.
#[derive(Clone, Copy)]
struct Block<'a> {
    /// All from `shared` on, and what lies behind the block.
    bytes: &'a [u8],
    shared: &'a [u8],
    /// So many bytes for each key as its width says: one, or two or four where rests are long.
    ends: &'a [u8],
    width: u8,
    rests: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block of `n` keys that `bytes` begins with.
    #[inline]
    fn new(bytes: &'a [u8], n: usize) -> Self {
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
    fn end(&self, i: usize) -> usize {
        match self.width {
            1 => usize::from(self.ends[i]),
            2 => usize::from(u16::from_le_bytes(padded(&self.ends[i * 2..]))),
            _ => u32::from_le_bytes(padded(&self.ends[i * 4..])) as usize,
        }
    }

    #[inline]
    fn first(&self) -> &'a [u8] {
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
    fn entry(&self, i: usize) -> (usize, &'a [u8]) {
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

    /// How many keys are less than `key`, and whether the next one is `key`.
    #[inline]
    fn search(&self, key: &[u8]) -> (usize, bool) {
        let n = self.shared.len();
        // The probe is greater than the last key, which it agrees with on `same` bytes; those
        // that share more with it are less as well.
        let (mut i, mut same) = (0, 0);
        loop {
            i = self.next_at_most(i, same);
            if i == n {
                return (n, false);
            }
            let (shared, rest) = self.entry(i);
            // A count at its bound may be less than what is shared.
            if shared < same && shared < MOST_SHARED {
                return (i, false);
            }
            let tail = &key[shared..];
            let k = common_prefix(tail, rest);
            if k == tail.len() {
                return (i, k == rest.len());
            }
            if k < rest.len() && tail[k] < rest[k] {
                return (i, false);
            }
            same = shared + k;
            i += 1;
        }
    }
}

impl FrontCoded {
    /// Bytes that the keys `from..to` take but for those of the segment, as one block.
    pub fn estimate(run: &ByteRun, from: usize, to: usize, prefix: usize) -> usize {
        let n = to - from;
        let rests: usize = (from + 1..to)
            .map(|i| {
                let shared = common_prefix(run.get(i - 1), run.get(i));
                run.get(i).len() - shared.min(prefix + MOST_SHARED)
            })
            .sum();
        // Two bytes and a place in the table for each, a head and a start for all.
        run.get(from).len() - prefix + rests + 4 * n + n / 8 + 13
    }

    pub fn build(run: &ByteRun, from: usize, to: usize) -> Self {
        let first = run.get(from);
        let prefix = common_prefix(first, run.get(to - 1));
        let bytes = run.key_bytes(from, to) / 2;
        let mut builder = Builder::new(&first[..prefix], to - from, bytes);
        for i in from..to {
            let shared = if i > from { run.share(i) } else { 0 };
            let (key, len) = run.tail(i);
            builder.push(shared, key, len);
        }
        builder.finish()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len() + self.index.len() * 8 + self.table.bytes()
    }

    #[inline]
    fn prefix(&self) -> &[u8] {
        &self.data[..self.prefix as usize]
    }

    /// Keys of a block but the last.
    #[inline]
    fn span(&self) -> usize {
        self.span as usize
    }

    #[inline]
    fn blocks(&self) -> usize {
        self.len().div_ceil(self.span())
    }

    #[inline]
    fn groups(&self) -> usize {
        self.len().div_ceil(self.span() * GROUP)
    }

    /// The heads of the blocks from `b` on.
    #[inline]
    fn heads(&self, b: usize) -> &[u64] {
        &self.index[self.groups() * TOP + b..]
    }

    #[inline]
    fn start(&self, b: usize) -> usize {
        self.table.start(b)
    }

    #[inline]
    fn block(&self, b: usize) -> Block<'_> {
        self.block_at(b, self.start(b))
    }

    #[inline]
    fn block_at(&self, b: usize, start: usize) -> Block<'_> {
        let n = (self.len() - b * self.span()).min(self.span());
        Block::new(&self.data[start..], n)
    }

    /// The first of the blocks `lo..hi`, one in `step`, whose first key is greater than `key`.
    fn among(&self, mut lo: usize, mut hi: usize, step: usize, key: &[u8]) -> usize {
        while lo < hi {
            let mid = (lo + hi) / 2;
            if self.block(mid * step).first() <= key {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        lo
    }

    /// The last block whose first key is at most `key`; the first where there is none.
    #[inline]
    fn locate(&self, key: &[u8]) -> usize {
        let (h, groups) = (long_head(key), self.groups());
        // The words of a group's top lie in three arrays, which would be waited for in turn.
        self.prefetch_heads();
        let (lo, hi) = equal(&self.index[..groups], (h >> 64) as u64);
        let (less, among) = equal(&self.index[groups + lo..groups + hi], h as u64);
        let g = self.among(lo + less, lo + among, GROUP, key).max(1) - 1;
        let from = g * GROUP;
        let to = (from + GROUP).min(self.blocks());
        simd::prefetch(self.heads(from), 0);
        simd::prefetch(self.heads(from), GROUP / 2);
        let skip = self.index[2 * groups + g] as usize;
        let cut = skip.min(key.len());
        match self.block(from).first()[..skip].cmp(&key[..cut]) {
            Ordering::Less => return to - 1,
            Ordering::Greater => return from,
            Ordering::Equal => {}
        }
        let (lo, hi) = equal(&self.heads(from)[..to - from], head(&key[cut..]));
        self.among(from + lo, from + hi, 1, key).max(from + 1) - 1
    }

    /// What of `key` is behind the prefix.
    #[inline]
    fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let n = self.prefix as usize;
        let (prefix, rest) = key.split_at_checked(n)?;
        let near = &self.near[..n.min(NEAR)];
        let same = common_prefix(prefix, near) == near.len();
        (same && (n <= NEAR || prefix == self.prefix())).then_some(rest)
    }

    /// The rank of `key`, whose hash is `hash`.
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        self.table.prefetch(hash);
        self.table.prefetch_starts();
        let rest = self.strip(key)?;
        self.table.find(hash, |b| {
            let rank = b * self.span();
            let start = self.start(b);
            // Most often in the page that the block is in, whose address is then looked up while
            // the lookup waits for the place.
            simd::prefetch(&self.data, b * self.mean as usize);
            (4..BLOCK).step_by(8).for_each(|i| likely(rank + i));
            (0..4).for_each(|line| simd::prefetch(&self.data, start + line * 64));
            let (i, equal) = self.block_at(b, start).search(rest);
            equal.then_some(rank + i)
        })
    }

    /// How many keys are less than `key`.
    pub fn seek(&self, key: &[u8]) -> usize {
        let Some(rest) = self.strip(key) else {
            return if key < self.prefix() { 0 } else { self.len() };
        };
        let b = self.locate(rest);
        b * self.span() + self.block(b).search(rest).0
    }

    /// A cursor at the key of a rank.
    pub fn cursor(&self, rank: usize) -> FrontCursor<'_> {
        let (b, i) = (rank / self.span(), rank % self.span());
        let mut cursor = FrontCursor {
            stage: self,
            block: self.block(b),
            key: self.prefix().to_vec(),
            b,
            i,
        };
        (0..=i).for_each(|i| cursor.turn(i));
        cursor
    }

    /// Bytes of all keys.
    pub fn key_bytes(&self) -> usize {
        let rests = (0..self.blocks()).map(|b| {
            let block = self.block(b);
            let shared: u32 = block.shared.iter().map(|&s| u32::from(s)).sum();
            shared as usize + block.end(block.shared.len() - 1)
        });
        rests.sum::<usize>() + self.len() * self.prefix as usize
    }

    pub fn decode(&self, into: &mut ByteRun) {
        into.reserve(self.len(), self.key_bytes());
        let prefix = self.prefix();
        for b in 0..self.blocks() {
            let block = self.block(b);
            into.push_pieces(prefix, block.first());
            for i in 1..block.shared.len() {
                let (shared, rest) = block.entry(i);
                into.push_after(prefix.len() + shared, rest);
            }
        }
    }

    /// Asks for the lines that a search for the place of a key begins with.
    pub fn prefetch_heads(&self) {
        (0..self.groups() * TOP)
            .step_by(8)
            .for_each(|word| simd::prefetch(&self.index, word));
    }

    /// Asks for the lines of the block that a search for the place of `key` ends in.
    pub fn approach_place(&self, key: &[u8]) {
        if let Some(rest) = key.get(self.prefix as usize..) {
            // A scan goes on behind the block.
            self.ask_for_block(self.locate(rest), 8);
        }
    }

    /// Asks for the lines that a lookup of one key begins with.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Asks for the lines of the block that the key is most likely in; a rank in it.
    #[inline]
    pub fn approach(&self, hash: u64) -> Option<usize> {
        let b = self.table.first(hash)?;
        self.ask_for_block(b, 4);
        Some(b * self.span() + BLOCK / 2)
    }

    #[inline]
    fn ask_for_block(&self, b: usize, lines: usize) {
        let start = self.start(b);
        (0..lines).for_each(|line| simd::prefetch(&self.data, start + line * 64));
    }
}

/// A place in front-coded blocks.
pub struct FrontCursor<'a> {
    stage: &'a FrontCoded,
    block: Block<'a>,
    /// The key, put together.
    key: Vec<u8>,
    b: usize,
    i: usize,
}

impl FrontCursor<'_> {
    /// Turns the key before key `i` of the block into that.
    #[inline]
    fn turn(&mut self, i: usize) {
        let (shared, rest) = self.block.entry(i);
        self.key.truncate(self.stage.prefix as usize + shared);
        self.key.extend_from_slice(rest);
        self.i = i;
    }

    #[inline]
    fn enter(&mut self, b: usize) {
        self.b = b;
        self.block = self.stage.block(b);
    }
}

impl KeyCursor<ByteFamily> for FrontCursor<'_> {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }
    #[inline]
    fn rank(&self) -> usize {
        self.b * self.stage.span() + self.i
    }
    #[inline]
    fn next(&mut self) -> bool {
        if self.i + 1 < self.block.shared.len() {
            self.turn(self.i + 1);
        } else if self.b + 1 < self.stage.blocks() {
            self.enter(self.b + 1);
            self.turn(0);
        } else {
            return false;
        }
        true
    }
    fn prev(&mut self) -> bool {
        let to = match self.i {
            0 if self.b == 0 => return false,
            0 => {
                self.enter(self.b - 1);
                self.block.shared.len()
            }
            i => i,
        };
        (0..to).for_each(|i| self.turn(i));
        true
    }
}
