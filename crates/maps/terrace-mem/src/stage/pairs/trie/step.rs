//! By what a trie goes on: a byte, or a word of seven.

use crate::plan::Stage;
use crate::stage::nums::{read2, read4};
use alloc::vec::Vec;

/// Labels of a kind, in a node's bytes.
pub trait Step: Send + Sync + 'static {
    /// What tells the children of a node apart, in the order of the keys.
    type Label: Copy + Ord;
    /// The stage that a trie of such steps is.
    const STAGE: Stage;
    /// Whether a prefix can be cut anywhere, and what is below stays as it is.
    const SPLITS: bool;
    /// The label that the rest of a key begins with, and its bytes of the key; none where the key ends
    /// and no label says so.
    fn label(rest: &[u8]) -> Option<(Self::Label, usize)>;
    /// Whether others may begin with the label: it does not say that the key ends in it.
    fn goes_on(label: Self::Label) -> bool;
    /// Writes how many children there are, one at least.
    fn write_children(n: usize, out: &mut Vec<u8>);
    /// How many children there are, and where it goes on behind that.
    fn children(node: &[u8], at: usize) -> (usize, usize);
    /// Bytes of this many labels.
    fn labels_len(n: usize) -> usize;
    /// Writes labels.
    fn write(labels: &[Self::Label], out: &mut Vec<u8>);
    /// Which label it is, or the first that is greater.
    fn search(labels: &[u8], n: usize, label: Self::Label) -> Result<usize, usize>;
    /// Bytes of a key that a label stands for.
    fn bytes(label: Self::Label) -> usize;
    /// Label `i`.
    fn read(labels: &[u8], i: usize) -> Self::Label;
    /// Adds the bytes of a key that label `i` stands for.
    fn append(labels: &[u8], i: usize, key: &mut Vec<u8>);
}

/// A byte.
#[derive(Clone, Copy)]
pub struct Radix;

impl Step for Radix {
    type Label = u8;
    const STAGE: Stage = Stage::CompactArt;
    const SPLITS: bool = true;

    #[inline]
    fn label(rest: &[u8]) -> Option<(u8, usize)> {
        rest.first().map(|&byte| (byte, 1))
    }
    fn goes_on(_: u8) -> bool {
        true
    }
    fn write_children(n: usize, out: &mut Vec<u8>) {
        out.push((n - 1) as u8);
    }
    #[inline]
    fn children(node: &[u8], at: usize) -> (usize, usize) {
        (usize::from(node[at]) + 1, at + 1)
    }
    #[inline]
    fn labels_len(n: usize) -> usize {
        if n == 256 { 0 } else { n }
    }
    fn write(labels: &[u8], out: &mut Vec<u8>) {
        if labels.len() < 256 {
            out.extend_from_slice(labels);
        }
    }
    #[inline]
    fn search(labels: &[u8], n: usize, label: u8) -> Result<usize, usize> {
        if n == 256 {
            return Ok(usize::from(label));
        }
        let i = if n <= 8 {
            // Shorter than the branches of a search by halves.
            labels.iter().map(|&l| usize::from(l < label)).sum()
        } else {
            labels.partition_point(|&l| l < label)
        };
        match labels.get(i) {
            Some(&found) if found == label => Ok(i),
            _ => Err(i),
        }
    }
    #[inline]
    fn bytes(_: u8) -> usize {
        1
    }
    #[inline]
    fn read(labels: &[u8], i: usize) -> u8 {
        labels.get(i).copied().unwrap_or(i as u8)
    }
    #[inline]
    fn append(labels: &[u8], i: usize, key: &mut Vec<u8>) {
        key.push(Self::read(labels, i));
    }
}

/// Seven bytes, padded with zeros, and how many there are: 8 says that the key goes on behind them. One
/// comparison of numbers tells two of them apart, whatever bytes a key has and wherever it ends.
#[derive(Clone, Copy)]
pub struct Words;

/// More children than these are counted in four bytes.
const MANY: u16 = u16::MAX;

/// The length that says that a key goes on.
pub const ON: u8 = 8;

/// The word that the rest of a key begins with.
#[inline]
pub fn word(rest: &[u8]) -> u64 {
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first) & !0xFF | u64::from(ON);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes) | rest.len() as u64
}

impl Step for Words {
    type Label = u64;
    const STAGE: Stage = Stage::CompactMasstree;
    const SPLITS: bool = false;

    #[inline]
    fn label(rest: &[u8]) -> Option<(u64, usize)> {
        Some((word(rest), rest.len().min(7)))
    }
    fn goes_on(label: u64) -> bool {
        label as u8 == ON
    }
    fn write_children(n: usize, out: &mut Vec<u8>) {
        match u16::try_from(n - 1) {
            Ok(few) if few < MANY => out.extend(few.to_le_bytes()),
            _ => {
                out.extend(MANY.to_le_bytes());
                out.extend(((n - 1) as u32).to_le_bytes());
            }
        }
    }
    #[inline]
    fn children(node: &[u8], at: usize) -> (usize, usize) {
        match read2(node, at) {
            few if few < usize::from(MANY) => (few + 1, at + 2),
            _ => (read4(node, at + 2) + 1, at + 6),
        }
    }
    #[inline]
    fn labels_len(n: usize) -> usize {
        n * 8
    }
    fn write(labels: &[u64], out: &mut Vec<u8>) {
        out.extend(labels.iter().flat_map(|l| l.to_be_bytes()));
    }
    #[inline]
    fn search(labels: &[u8], _: usize, label: u64) -> Result<usize, usize> {
        let words = labels.as_chunks::<8>().0;
        let i = words.partition_point(|w| u64::from_be_bytes(*w) < label);
        match words.get(i) {
            Some(found) if u64::from_be_bytes(*found) == label => Ok(i),
            _ => Err(i),
        }
    }
    #[inline]
    fn bytes(label: u64) -> usize {
        usize::from((label as u8).min(7))
    }
    #[inline]
    fn read(labels: &[u8], i: usize) -> u64 {
        let word = labels.as_chunks::<8>().0.get(i);
        word.map_or(0, |word| u64::from_be_bytes(*word))
    }
    #[inline]
    fn append(labels: &[u8], i: usize, key: &mut Vec<u8>) {
        if let Some(word) = labels.as_chunks::<8>().0.get(i) {
            key.extend_from_slice(&word[..usize::from(word[7].min(7))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_order_of_the_keys_that_begin_with_them() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..10 {
            for fill in [0, 1, 255] {
                for last in [0, 1, 255] {
                    let mut key = vec![fill; len];
                    key[len - 1] = last;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                let (x, y) = (word(a), word(b));
                if x == y {
                    assert!(a == b || (a.len() > 7 && b.len() > 7 && a[..7] == b[..7]));
                } else {
                    assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?}");
                }
            }
        }
    }
}
