//! Lookups in radix trees of integers: all keys have eight bytes, so that what is behind the way to one is
//! compared as a number.

use super::nodes::{Child, Trie};
use super::step::{Radix, Step, Words};
use crate::simd;

/// Bytes of a key.
const LEN: usize = 8;

/// The bits of a key behind this many bytes.
fn low(depth: usize) -> u64 {
    u64::MAX.checked_shr(8 * depth as u32).unwrap_or(0)
}

/// What is behind this many bytes of a key whose tail ends with these.
#[inline]
fn last_of(tails: &[u8], depth: usize) -> u64 {
    match tails.last_chunk::<LEN>() {
        Some(last) => u64::from_be_bytes(*last) & low(depth),
        None => {
            let tail = &tails[tails.len() - (LEN - depth)..];
            tail.iter().fold(0, |key, byte| key << 8 | u64::from(*byte))
        }
    }
}

/// Which branch has this label: of no labels the one of its number.
#[inline]
fn place_of(labels: &[u8], label: u8) -> Option<usize> {
    if labels.is_empty() {
        return Some(label.into());
    }
    let (blocks, rest) = labels.as_chunks::<16>();
    for (i, block) in blocks.iter().enumerate() {
        let same = simd::equal_bytes(block, label);
        if same != 0 {
            return Some(i * 16 + same.trailing_zeros() as usize);
        }
    }
    let at = rest.iter().position(|&other| other == label)?;
    Some(blocks.len() * 16 + at)
}

/// Lookups of integers.
pub trait FindInt: Step {
    /// The rank of a key. O(bytes).
    fn find_int(trie: &Trie<Self>, key: u64, likely: impl FnMut(usize)) -> Option<usize>
    where
        Self: Sized,
    {
        trie.find(&key.to_be_bytes(), likely)
    }
}

impl FindInt for Words {}

impl FindInt for Radix {
    #[inline]
    fn find_int(trie: &Trie<Self>, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        let bytes = key.to_be_bytes();
        let (mut at, mut depth) = (trie.root, 0);
        loop {
            let place = match at {
                Child::Key(rank) => {
                    likely(rank);
                    let end = trie.tail_start(rank) + LEN - depth;
                    let same = last_of(&trie.tails[..end], depth) == key & low(depth);
                    return same.then_some(rank);
                }
                Child::Node(place) => place,
            };
            let node = trie.view(place);
            for &byte in node.prefix {
                if byte != bytes[depth] {
                    return None;
                }
                depth += 1;
            }
            at = node.child(place_of(node.labels, bytes[depth])?);
            depth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::IntFamily;
    use alloc::vec::Vec;

    #[test]
    fn numbers_are_found_and_those_near_them_are_not() {
        let mut x = 1u64;
        let mut random = move || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x >> 3
        };
        for round in 0..if cfg!(miri) { 20 } else { 600 } {
            let n = 1 + random() as usize % [3, 40, 700][round % 3];
            let masks = [0xFF, 0xFFFF, 0xF0F0_F0F0, u64::MAX, 0xFF00_0000_0000_00FF];
            let mask = masks[round % 5];
            let base = random() << 3 & !mask;
            let mut keys: Vec<u64> = (0..n).map(|_| base | random() << 2 & mask).collect();
            keys.sort_unstable();
            keys.dedup();
            let trie = Trie::<Radix>::build::<IntFamily>(&keys, 0, keys.len());
            for &key in &keys {
                for near in [key, key ^ 1, key ^ 1 << 20, key.wrapping_add(256)] {
                    let there = keys.binary_search(&near).ok();
                    assert_eq!(Radix::find_int(&trie, near, |_| {}), there, "{near}");
                }
            }
        }
    }
}
