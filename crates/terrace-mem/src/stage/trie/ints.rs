//! Radix trees of integers: all keys have eight bytes, so that they are read and built as numbers, in a tenth of
//! the instructions that bytes take. A merge that touches most nodes, as one of keys in no order does, is a
//! merge of numbers.

use super::build::{NARROW, Out};
use super::nodes::{Child, Trie, View};
use super::step::Radix;
use crate::family::IntFamily;
use crate::simd;
use crate::stage::fixed::merged;
use alloc::boxed::Box;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// Bytes of a key.
const LEN: usize = 8;

/// The byte at this place of a key.
fn shifted(byte: u8, at: usize) -> u64 {
    u64::from(byte) << (8 * (LEN - 1 - at))
}

/// The bits of a key behind so many bytes.
fn low(depth: usize) -> u64 {
    u64::MAX.checked_shr(8 * depth as u32).unwrap_or(0)
}

/// What is behind so many bytes of a key whose tail ends with these.
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

impl Trie<Radix> {
    /// The trie of sorted distinct numbers.
    pub fn of_ints(keys: &[u64]) -> Self {
        let of_width = |wide| {
            let mut out = Out::new(keys.len(), keys.len() * 4, keys.len() * LEN, wide);
            out.ints(keys)?;
            Some(out.finish(keys.len() * LEN))
        };
        (keys.len() < NARROW)
            .then(|| of_width(false))
            .flatten()
            .or_else(|| of_width(true))
            .unwrap_or_else(|| unreachable!("references of four bytes name all places"))
    }

    /// The rank of a key. O(bytes).
    #[inline]
    pub fn find_int(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        let bytes = key.to_be_bytes();
        let (mut at, mut depth) = (self.root, 0);
        loop {
            let place = match at {
                Child::Key(rank) => {
                    likely(rank);
                    let end = self.tail_start(rank) + LEN - depth;
                    let same = last_of(&self.tails[..end], depth) == key & low(depth);
                    return same.then_some(rank);
                }
                Child::Node(place) => place,
            };
            let node = self.view(place);
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

    /// Appends all keys. O(n).
    pub fn decode_ints(&self, into: &mut Vec<u64>) {
        into.reserve(self.n);
        if self.n == 0 {
            return;
        }
        // Tails lie in the order of the keys.
        let mut tails = 0;
        let mut tail = |depth: usize| {
            tails += LEN - depth;
            last_of(&self.tails[..tails], depth)
        };
        // Nodes on the way: each with its next branch, the key down to it, and the bytes of that.
        let mut way = ArrayVec::<(View<'_, Radix>, usize, u64, usize), LEN>::new();
        let (mut at, mut key, mut depth) = (self.root, 0, 0);
        loop {
            match at {
                Child::Key(_) => into.push(key | tail(depth)),
                Child::Node(place) => {
                    let node = self.view(place);
                    for &byte in node.prefix {
                        key |= shifted(byte, depth);
                        depth += 1;
                    }
                    way.push((node, 0, key, depth));
                }
            }
            loop {
                let Some((node, next, above, above_depth)) = way.last_mut() else {
                    return;
                };
                let i = *next;
                if i == node.n {
                    way.pop();
                    continue;
                }
                *next += 1;
                let label = node.label(i).map_or(0, |label| label.0);
                (key, depth) = (*above | shifted(label, *above_depth), *above_depth + 1);
                if node.leaves {
                    into.push(key | tail(depth));
                } else {
                    at = node.child(i);
                    break;
                }
            }
        }
    }

    /// [`Trie::merge`] of numbers.
    pub fn merge_ints(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &Vec<u64>,
        before: &mut Vec<u32>,
    ) -> Self {
        let mut old = Vec::new();
        self.decode_ints(&mut old);
        let keys = merged::<IntFamily>(&Box::from(old), live, n, new, before);
        Self::of_ints(&keys)
    }
}

impl Out<Radix> {
    /// Adds sorted distinct numbers, one at least, as one child. None where a place cannot be named. O(n).
    fn ints(&mut self, keys: &[u64]) -> Option<()> {
        // Nodes that have more children: the byte at which they branch, and where their labels and children begin.
        let mut open = ArrayVec::<(usize, usize, usize), LEN>::new();
        // How many bytes a key shares with the one before.
        let mut before = None;
        for (i, &key) in keys.iter().enumerate() {
            let bytes = key.to_be_bytes();
            let next = keys.get(i + 1);
            let next = next.map(|next| (key ^ next).leading_zeros() as usize / 8);
            if next > before
                && let Some(at) = next
            {
                open.push((at, self.labels.len(), self.children.len()));
            }
            match open.last() {
                Some(&(at, ..)) => {
                    self.labels.push(bytes[at]);
                    self.leaf(&bytes[at + 1..]);
                }
                None => self.leaf(&bytes),
            }
            // The nodes that end with this key.
            while let Some(&(at, labels, children)) = open.last()
                && Some(at) > next
            {
                open.pop();
                let above = open.last().map(|open| open.0);
                let above = above.max(next);
                let prefix = &bytes[above.map_or(0, |above| above + 1)..at];
                self.node(prefix, labels, children)?;
                if let Some(above) = above {
                    if open.last().is_none_or(|open| open.0 < above) {
                        open.push((above, self.labels.len(), self.children.len() - 1));
                    }
                    self.labels.push(bytes[above]);
                }
            }
            before = next;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of keys by chance, from some beside each other to some far apart.
    fn sets() -> impl Iterator<Item = Vec<u64>> {
        let mut x = 1u64;
        let mut random = move || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x >> 3
        };
        let rounds = if cfg!(miri) { 20 } else { 600 };
        (0..rounds).map(move |round| {
            let n = 1 + random() as usize % [3, 40, 700][round % 3];
            let mask = [0xFF, 0xFFFF, 0xF0F0_F0F0, u64::MAX, 0xFF00_0000_0000_00FF][round % 5];
            let base = random() << 3 & !mask;
            let mut keys: Vec<u64> = (0..n).map(|_| base | random() << 2 & mask).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        })
    }

    #[test]
    fn tries_of_numbers_are_those_of_their_bytes() {
        for keys in sets() {
            let (ours, theirs) = (
                Trie::of_ints(&keys),
                Trie::<Radix>::build::<IntFamily>(&keys, 0, keys.len()),
            );
            assert!(ours.nodes == theirs.nodes && ours.tails == theirs.tails);
            assert!(ours.root == theirs.root && ours.n == theirs.n && ours.wide == theirs.wide);
            assert_eq!(
                (ours.key_bytes, ours.bytes()),
                (theirs.key_bytes, theirs.bytes())
            );
            let mut back = Vec::new();
            ours.decode_ints(&mut back);
            assert_eq!(back, keys);
            for (rank, &key) in keys.iter().enumerate() {
                for near in [key, key ^ 1, key ^ 1 << 20, key.wrapping_add(256)] {
                    let there = keys.binary_search(&near).ok();
                    assert_eq!(ours.find_int(near, |_| {}), there, "{near} near {rank}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_merged() {
        let all: Vec<Vec<u64>> = sets().collect();
        for two in all.windows(2) {
            let old = Trie::of_ints(&two[0]);
            let new: Vec<u64> = two[1]
                .iter()
                .copied()
                .filter(|k| !two[0].contains(k))
                .collect();
            let live = |rank: usize| !(rank * 7 + two[1].len()).is_multiple_of(5);
            let kept: Vec<u64> = (0..two[0].len())
                .filter(|&i| live(i))
                .map(|i| two[0][i])
                .collect();
            if kept.is_empty() && new.is_empty() {
                continue;
            }
            let mut before = Vec::new();
            let merged = old.merge_ints(live, kept.len(), &new, &mut before);
            let less = |key: &u64| kept.iter().filter(|old| *old < key).count() as u32;
            assert!(before.iter().copied().eq(new.iter().map(less)));
            let mut keys = [kept, new].concat();
            keys.sort_unstable();
            let mut back = Vec::new();
            merged.decode_ints(&mut back);
            assert_eq!(back, keys);
        }
    }
}
