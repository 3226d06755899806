//! Front-coded blocks for byte strings: what a key shares with the one before is not stored.
//!
//! The prefix that all keys share is stored once; keys below are without it. A block has 16 keys:
//! for each a byte of a fingerprint, how much it shares with its predecessor (none for the first),
//! where its rest ends; then the rests. A lookup compares the key whose fingerprint fits, from its
//! end back through the predecessors that it shares with, and puts nothing together. 16 blocks are
//! a group: the first eight bytes of each block's first key, less what all keys of the group
//! share, are its head. Above the groups are heads of 16 bytes. A search goes over the heads and
//! looks at whole first keys only among equal ones.
//!
//! A lookup of one key takes it for granted on its way that the key agrees with what a group
//! shares: if it does not, it is not there, and the comparison at the end tells.

use super::{ByteRun, KeyRun};
use crate::family::common_prefix;
use crate::simd;
use std::cmp::Ordering;

pub const BLOCK: usize = 16;

/// Blocks of a group.
const GROUP: usize = 16;

/// Words of a group above the groups: the two of the head, and how much its keys share.
const TOP: usize = 3;

/// Words of a group: a head and half a word of where it starts for each block.
const SPAN: usize = GROUP + GROUP / 2;

/// The most that an entry says it shares.
const MOST_SHARED: usize = 255;

pub struct FrontCoded {
    /// The shared prefix, then the blocks.
    data: Box<[u8]>,
    /// The tops of all groups, as an array for each of their words; then the groups.
    index: Box<[u64]>,
    prefix: u32,
    n: u32,
}

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

/// A byte that tells most keys of a block apart, from the end of the key and its length.
#[inline]
fn fingerprint(key: &[u8]) -> u8 {
    let end = match key.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => u64::from_le_bytes(padded(key)),
    };
    let mixed = (end ^ (key.len() as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 56) as u8
}

/// A bit in the place of each byte of `prints` that is `print`: bit `8 i + 7` for byte `i`.
#[inline]
fn matches(prints: [u8; BLOCK], print: u8) -> u128 {
    const ONES: u128 = u128::MAX / 255;
    const LOW: u128 = ONES * 0x7F;
    let x = u128::from_le_bytes(prints) ^ (ONES * u128::from(print));
    !(((x & LOW) + LOW) | x | LOW)
}

/// The parts of one block.
struct Block<'a> {
    prints: [u8; BLOCK],
    shared: &'a [u8],
    /// One byte for each key, four where the rests are long.
    ends: &'a [u8],
    wide: bool,
    rests: &'a [u8],
}

impl<'a> Block<'a> {
    #[inline]
    fn end(&self, i: usize) -> usize {
        if self.wide {
            u32::from_le_bytes(padded(&self.ends[i * 4..])) as usize
        } else {
            usize::from(self.ends[i])
        }
    }

    #[inline]
    fn first(&self) -> &'a [u8] {
        &self.rests[..self.end(0)]
    }

    /// How much key `i` shares with the one before, and its rest.
    #[inline]
    fn entry(&self, i: usize) -> (usize, &'a [u8]) {
        let from = if i == 0 { 0 } else { self.end(i - 1) };
        (usize::from(self.shared[i]), &self.rests[from..self.end(i)])
    }

    /// Whether key `i` is `key`.
    #[inline]
    fn is(&self, mut i: usize, key: &[u8]) -> bool {
        let (mut shared, rest) = self.entry(i);
        if key.get(shared..) != Some(rest) {
            return false;
        }
        // What it shares comes from predecessors, the nearer ones for the later bytes.
        while shared > 0 {
            i -= 1;
            if usize::from(self.shared[i]) < shared {
                let (from, rest) = self.entry(i);
                if key[from..shared] != rest[..shared - from] {
                    return false;
                }
                shared = from;
            }
        }
        true
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<usize> {
        let mut hits = matches(self.prints, fingerprint(key));
        while hits != 0 {
            let i = hits.trailing_zeros() as usize / 8;
            // The last block has prints without keys.
            if i < self.shared.len() && self.is(i, key) {
                return Some(i);
            }
            hits &= hits - 1;
        }
        None
    }

    /// How many keys are less than `key`.
    fn seek(&self, key: &[u8]) -> usize {
        // The probe is greater than the last key, which it agrees with on `same` bytes.
        let mut same = 0;
        for i in 0..self.shared.len() {
            let (shared, rest) = self.entry(i);
            if shared > same {
                continue;
            }
            // A count at its bound may be less than what is shared.
            if shared < same && shared < MOST_SHARED {
                return i;
            }
            let tail = &key[shared..];
            let k = common_prefix(tail, rest);
            if k == tail.len() || (k < rest.len() && tail[k] < rest[k]) {
                return i;
            }
            same = shared + k;
        }
        self.shared.len()
    }
}

/// Appends a block of the keys `from..to` of a run, less the first `prefix` bytes of each.
fn put_block(run: &ByteRun, from: usize, to: usize, prefix: usize, data: &mut Vec<u8>) {
    let mut last = &run.get(from)[..0];
    let (mut prints, mut shared, mut ends) = ([0; BLOCK], [0u8; BLOCK], [0; BLOCK]);
    let mut end = 0;
    for i in 0..to - from {
        let key = &run.get(from + i)[prefix..];
        prints[i] = fingerprint(key);
        shared[i] = common_prefix(last, key).min(MOST_SHARED) as u8;
        last = key;
        end += key.len() - usize::from(shared[i]);
        ends[i] = end as u32;
    }
    let n = to - from;
    let wide = end > 255;
    data.push(u8::from(wide));
    data.extend_from_slice(&prints);
    data.extend_from_slice(&shared[..n]);
    for end in &ends[..n] {
        if wide {
            data.extend_from_slice(&end.to_le_bytes());
        } else {
            data.push(*end as u8);
        }
    }
    for i in 0..n {
        data.extend_from_slice(&run.get(from + i)[prefix + usize::from(shared[i])..]);
    }
}

impl FrontCoded {
    /// Bytes that the keys `from..to` take but for those of the segment, as one block.
    pub fn estimate(run: &ByteRun, from: usize, to: usize, prefix: usize) -> usize {
        let rests: usize = (from + 1..to)
            .map(|i| {
                let shared = common_prefix(run.get(i - 1), run.get(i));
                run.get(i).len() - shared.min(prefix + MOST_SHARED)
            })
            .sum();
        run.get(from).len() - prefix + rests + 3 * (to - from) + 14
    }

    pub fn build(run: &ByteRun, from: usize, to: usize) -> Self {
        let prefix = common_prefix(run.get(from), run.get(to - 1));
        let key = |i: usize| &run.get(i)[prefix..];
        let n = to - from;
        let groups = n.div_ceil(BLOCK * GROUP);
        let blocks = n.div_ceil(BLOCK);
        let spare = groups * GROUP - blocks;
        let mut index = vec![0; groups * (TOP + SPAN) - spare / 2];
        let mut data = Vec::with_capacity(run.key_bytes(from, to) / 2);
        data.extend_from_slice(&run.get(from)[..prefix]);
        for (g, start) in (from..to).step_by(BLOCK * GROUP).enumerate() {
            let last = (start + BLOCK * GROUP).min(to) - 1;
            let skip = common_prefix(key(start), key(last));
            let top = long_head(key(start));
            for (i, word) in [(top >> 64) as u64, top as u64, skip as u64]
                .into_iter()
                .enumerate()
            {
                index[i * groups + g] = word;
            }
            let group = &mut index[groups * TOP + g * SPAN..];
            for (b, at) in (start..=last).step_by(BLOCK).enumerate() {
                group[b] = head(&key(at)[skip..]);
                group[GROUP + b / 2] |= (data.len() as u64) << (b % 2 * 32);
                put_block(run, at, (at + BLOCK).min(to), prefix, &mut data);
            }
        }
        FrontCoded {
            data: data.into(),
            index: index.into(),
            prefix: prefix as u32,
            n: n as u32,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len() + self.index.len() * 8
    }

    #[inline]
    fn prefix(&self) -> &[u8] {
        &self.data[..self.prefix as usize]
    }

    #[inline]
    fn blocks(&self) -> usize {
        self.len().div_ceil(BLOCK)
    }

    #[inline]
    fn groups(&self) -> usize {
        self.len().div_ceil(BLOCK * GROUP)
    }

    /// The words of group `g`, and those of the groups behind it.
    #[inline]
    fn group(&self, g: usize) -> &[u64] {
        &self.index[self.groups() * TOP + g * SPAN..]
    }

    #[inline]
    fn start(&self, b: usize) -> usize {
        let (g, b) = (b / GROUP, b % GROUP);
        (self.group(g)[GROUP + b / 2] >> (b % 2 * 32)) as u32 as usize
    }

    #[inline]
    fn block(&self, b: usize) -> Block<'_> {
        let block = &self.data[self.start(b)..];
        let n = (self.len() - b * BLOCK).min(BLOCK);
        let wide = block[0] != 0;
        let (shared, rest) = block[1 + BLOCK..].split_at(n);
        let (ends, rests) = rest.split_at(if wide { n * 4 } else { n });
        Block {
            prints: padded(&block[1..]),
            shared,
            ends,
            wide,
            rests,
        }
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

    /// The last block whose first key is at most `key`; the first where there is none. Unless
    /// `exact`, only for keys that are there.
    #[inline]
    fn locate(&self, key: &[u8], exact: bool) -> usize {
        let (h, groups) = (long_head(key), self.groups());
        // The words of a group's top lie in three arrays, which would be waited for in turn.
        (0..groups * TOP)
            .step_by(8)
            .for_each(|word| simd::prefetch(&self.index, word));
        let (lo, hi) = equal(&self.index[..groups], (h >> 64) as u64);
        let (less, among) = equal(&self.index[groups + lo..groups + hi], h as u64);
        let g = self.among(lo + less, lo + among, GROUP, key).max(1) - 1;
        // So would the heads of a group and where its blocks start.
        (0..SPAN)
            .step_by(8)
            .for_each(|word| simd::prefetch(self.group(g), word));
        let from = g * GROUP;
        let to = (from + GROUP).min(self.blocks());
        let skip = self.index[2 * groups + g] as usize;
        let cut = skip.min(key.len());
        if exact {
            match self.block(from).first()[..skip].cmp(&key[..cut]) {
                Ordering::Less => return to - 1,
                Ordering::Greater => return from,
                Ordering::Equal => {}
            }
        }
        let (lo, hi) = equal(&self.group(g)[..to - from], head(&key[cut..]));
        self.among(from + lo, from + hi, 1, key).max(from + 1) - 1
    }

    /// The rank of `key`.
    #[inline]
    pub fn find(&self, key: &[u8], mut likely: impl FnMut(usize)) -> Option<usize> {
        let prefix = self.prefix as usize;
        simd::prefetch(&self.data, 0);
        let rest = key.get(prefix..)?;
        let b = self.locate(rest, false);
        let start = self.start(b);
        (0..4).for_each(|line| simd::prefetch(&self.data, start + line * 64));
        likely(b * BLOCK + 4);
        likely(b * BLOCK + 12);
        let i = self.block(b).find(rest)?;
        (key[..prefix] == *self.prefix()).then_some(b * BLOCK + i)
    }

    /// How many keys are less than `key`.
    pub fn seek(&self, key: &[u8]) -> usize {
        let Some(rest) = key.strip_prefix(self.prefix()) else {
            return if key < self.prefix() { 0 } else { self.len() };
        };
        let b = self.locate(rest, true);
        b * BLOCK + self.block(b).seek(rest)
    }

    /// Replaces `into` by the key at `rank`.
    pub fn read(&self, rank: usize, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(self.prefix());
        let block = self.block(rank / BLOCK);
        (0..=rank % BLOCK).for_each(|i| self.turn(&block, i, into));
    }

    /// Replaces `into`, the key before the one at `rank`, by that.
    #[inline]
    pub fn read_next(&self, rank: usize, into: &mut Vec<u8>) {
        self.turn(&self.block(rank / BLOCK), rank % BLOCK, into);
    }

    /// Turns the key before key `i` of a block into that.
    #[inline]
    fn turn(&self, block: &Block<'_>, i: usize, into: &mut Vec<u8>) {
        let (shared, rest) = block.entry(i);
        into.truncate(self.prefix as usize + shared);
        into.extend_from_slice(rest);
    }

    pub fn decode(&self, into: &mut ByteRun) {
        let blocks = || (0..self.blocks()).map(|b| self.block(b));
        let bytes: usize = blocks()
            .map(|block| {
                let shared: usize = block.shared.iter().map(|&s| usize::from(s)).sum();
                shared + block.end(block.shared.len() - 1)
            })
            .sum();
        let prefix = self.prefix();
        into.reserve(self.len(), bytes + self.len() * prefix.len());
        for block in blocks() {
            into.push_pieces(prefix, block.first());
            for i in 1..block.shared.len() {
                let (shared, rest) = block.entry(i);
                into.push_after(prefix.len() + shared, rest);
            }
        }
    }

    pub fn approach(&self, key: &[u8]) -> usize {
        let b = match key.get(self.prefix as usize..) {
            Some(rest) => self.locate(rest, false),
            None => 0,
        };
        let start = self.start(b);
        (0..4).for_each(|line| simd::prefetch(&self.data, start + line * 64));
        b * BLOCK + BLOCK / 2
    }

    pub fn prefetch(&self) {
        simd::prefetch(&self.data, 0);
        (0..self.groups() * TOP)
            .step_by(8)
            .for_each(|word| simd::prefetch(&self.index, word));
    }
}
