//! Front-coded blocks for byte strings: what a key shares with the one before is not stored.
//!
//! The prefix that all keys share is stored once; keys below are without it. Blocks of 16 keys:
//! the first is whole, each other one is how much it shares with its predecessor and the rest.
//! An entry is one byte of two nibbles, shared and rest, 15 meaning that a varint follows; then
//! the bytes. The first four bytes of each block's first key are its head: a search goes over
//! the heads first and looks at whole first keys only among equal heads. Inside a block no key
//! is put together: how far the probe agrees with the last key decides most entries at a glance.

use super::{ByteRun, KeyRun};
use crate::family::common_prefix;
use crate::simd;
use std::cmp::Ordering;

pub const BLOCK: usize = 16;

pub struct FrontCoded {
    /// The shared prefix, then the blocks.
    data: Box<[u8]>,
    heads: Box<[u32]>,
    starts: Box<[u32]>,
    prefix: u32,
    n: u32,
}

#[inline]
fn head(key: &[u8]) -> u32 {
    match key.first_chunk::<4>() {
        Some(four) => u32::from_be_bytes(*four),
        None => {
            let mut four = [0; 4];
            four[..key.len()].copy_from_slice(key);
            u32::from_be_bytes(four)
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut x: usize) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

#[inline(never)]
fn get_varint(data: &[u8], at: &mut usize) -> usize {
    let (mut x, mut shift) = (0, 0);
    loop {
        let b = data[*at];
        *at += 1;
        x |= usize::from(b & 0x7F) << shift;
        if b < 0x80 {
            return x;
        }
        shift += 7;
    }
}

fn put_entry(out: &mut Vec<u8>, shared: usize, rest: &[u8]) {
    out.push(((shared.min(15) << 4) | rest.len().min(15)) as u8);
    if shared >= 15 {
        put_varint(out, shared - 15);
    }
    if rest.len() >= 15 {
        put_varint(out, rest.len() - 15);
    }
    out.extend_from_slice(rest);
}

/// How much the entry shares, and the rest; moves `at` past it.
#[inline(always)]
fn get_entry<'a>(data: &'a [u8], at: &mut usize) -> (usize, &'a [u8]) {
    let b = data[*at];
    *at += 1;
    let (mut shared, mut rest) = (usize::from(b >> 4), usize::from(b & 15));
    if shared == 15 {
        shared += get_varint(data, at);
    }
    if rest == 15 {
        rest += get_varint(data, at);
    }
    let bytes = &data[*at..*at + rest];
    *at += rest;
    (shared, bytes)
}

impl FrontCoded {
    pub fn build(run: &ByteRun, from: usize, to: usize) -> Self {
        let prefix = common_prefix(run.get(from), run.get(to - 1));
        let n = to - from;
        let mut data = Vec::with_capacity(run.key_bytes(from, to) / 2);
        data.extend_from_slice(&run.get(from)[..prefix]);
        let mut heads = Vec::with_capacity(n.div_ceil(BLOCK));
        let mut starts = Vec::with_capacity(n.div_ceil(BLOCK));
        let mut last: &[u8] = &[];
        for i in 0..n {
            let key = &run.get(from + i)[prefix..];
            let shared = if i % BLOCK == 0 {
                heads.push(head(key));
                starts.push(data.len() as u32);
                0
            } else {
                common_prefix(last, key)
            };
            put_entry(&mut data, shared, &key[shared..]);
            last = key;
        }
        FrontCoded {
            data: data.into(),
            heads: heads.into(),
            starts: starts.into(),
            prefix: prefix as u32,
            n: n as u32,
        }
    }

    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len() + self.heads.len() * 4 + self.starts.len() * 4
    }

    /// How many keys block `b` has.
    pub fn block_len(&self, b: usize) -> usize {
        (self.len() - b * BLOCK).min(BLOCK)
    }

    fn first(&self, b: usize) -> &[u8] {
        let mut at = self.starts[b] as usize;
        get_entry(&self.data, &mut at).1
    }

    /// The last block whose first key is at most `key`; the first where there is none.
    fn block(&self, key: &[u8]) -> usize {
        let h = head(key);
        let mut lo = self.heads.partition_point(|&x| x < h);
        let mut hi = lo;
        while hi < self.heads.len() && self.heads[hi] == h && hi < lo + 4 {
            hi += 1;
        }
        if hi == lo + 4 {
            hi += self.heads[hi..].partition_point(|&x| x == h);
        }
        while lo < hi {
            let mid = (lo + hi) / 2;
            if self.first(mid) <= key {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        lo.max(1) - 1
    }

    /// The rank of the first key not less than `key`, and whether it is `key`.
    #[inline]
    pub fn search(&self, key: &[u8], mut likely: impl FnMut(usize)) -> (usize, bool) {
        let shared = &self.data[..self.prefix as usize];
        let Some(key) = key.strip_prefix(shared) else {
            return (if key < shared { 0 } else { self.len() }, false);
        };
        let b = self.block(key);
        likely(b * BLOCK + BLOCK / 2);
        let mut at = self.starts[b] as usize;
        // The probe is greater than the last key, which it agrees with on `same` bytes.
        let mut same = 0;
        for i in 0..self.block_len(b) {
            let (shared, rest) = get_entry(&self.data, &mut at);
            match shared.cmp(&same) {
                Ordering::Greater => {}
                Ordering::Less => return (b * BLOCK + i, false),
                Ordering::Equal => {
                    let tail = &key[same..];
                    let k = common_prefix(tail, rest);
                    if k == rest.len() {
                        if k == tail.len() {
                            return (b * BLOCK + i, true);
                        }
                    } else if k == tail.len() || tail[k] < rest[k] {
                        return (b * BLOCK + i, false);
                    }
                    same += k;
                }
            }
        }
        (b * BLOCK + self.block_len(b), false)
    }

    /// Makes room for the keys of `blocks` blocks of about average length.
    pub fn reserve(&self, blocks: usize, into: &mut ByteRun) {
        let stored = self.data.len() / self.starts.len();
        into.reserve(
            blocks * BLOCK,
            blocks * (stored * 2 + BLOCK * self.prefix as usize),
        );
    }

    /// Appends the keys of block `b`.
    pub fn decode_block(&self, b: usize, into: &mut ByteRun) {
        let prefix = &self.data[..self.prefix as usize];
        let mut at = self.starts[b] as usize;
        for i in 0..self.block_len(b) {
            let (shared, rest) = get_entry(&self.data, &mut at);
            if i == 0 {
                into.push_pieces(prefix, rest);
            } else {
                into.push_after(prefix.len() + shared, rest);
            }
        }
    }

    pub fn decode(&self, into: &mut ByteRun) {
        self.reserve(self.starts.len(), into);
        for b in 0..self.starts.len() {
            self.decode_block(b, into);
        }
    }

    pub fn approach(&self, key: &[u8]) -> usize {
        let b = match key.strip_prefix(&self.data[..self.prefix as usize]) {
            Some(key) => self.block(key),
            None => 0,
        };
        simd::prefetch(&self.data, self.starts[b] as usize);
        simd::prefetch(&self.data, self.starts[b] as usize + 64);
        b * BLOCK
    }

    pub fn prefetch(&self) {
        simd::prefetch(&self.data, 0);
        let n = self.heads.len();
        for i in [n / 2, n / 4, n * 3 / 4] {
            simd::prefetch(&self.heads, i);
        }
    }
}
