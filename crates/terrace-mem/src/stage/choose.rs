//! Which static stage a segment gets.
//!
//! The rule, by the segment's own keys:
//! - integers: bitmaps where they take no more bytes than Elias-Fano; else an S+ tree where
//!   Elias-Fano would take more than nine tenths of its bytes; else buckets where no bucket is
//!   crowded: half a byte a key more than Elias-Fano, but faster; else Elias-Fano;
//! - byte strings: front-coded blocks, unless a sample of neighbours shares so few bytes that
//!   they would save less than a fifth of a compact B+tree.
//!
//! Compression is never chosen: it is slower than both and, on sorted keys, seldom smaller.

use super::bitmap::Bitmap;
use super::buckets::Buckets;
use super::elias_fano::EliasFano;
use super::s_tree::STree;
use super::{ByteRun, KeyRun};
use crate::family::common_prefix;

/// A static stage, to ask for or to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Stage {
    /// Chosen for each segment by its keys; see the rule in the guide.
    #[default]
    Auto,
    /// Full nodes without pointers. All keys.
    CompactBTree,
    /// Blocks searched by vector compares. Integers.
    STree,
    /// A bit for each number of a chunk of 256. Integers.
    Bitmap,
    /// A table of ranks by high bits, low bits packed. Integers without crowded buckets; others
    /// get Elias-Fano.
    Buckets,
    /// High bits in unary, low bits packed. Integers.
    EliasFano,
    /// Blocks of keys without what they share with their predecessor. Byte strings.
    FrontCoded,
    /// Leaves under lz4 with a cache of decompressed ones. All keys.
    Compressed,
}

/// The stage for a segment of these integers.
pub fn for_ints(keys: &[u64]) -> Stage {
    let fano = EliasFano::estimate(keys);
    if Bitmap::estimate(keys) <= fano {
        Stage::Bitmap
    } else if fano * 10 > STree::estimate(keys.len()) * 9 {
        Stage::STree
    } else {
        for_buckets(keys)
    }
}

/// Buckets where they suit these integers.
pub fn for_buckets(keys: &[u64]) -> Stage {
    if Buckets::suits(keys) {
        Stage::Buckets
    } else {
        Stage::EliasFano
    }
}

/// The stage for a segment of these byte strings.
pub fn for_bytes(run: &ByteRun, from: usize, to: usize) -> Stage {
    let step = ((to - from) / 256).max(1);
    let (mut whole, mut coded, mut pairs) = (0, 0, 0);
    for i in (from + 1..to).step_by(step) {
        let (a, b) = (run.get(i - 1), run.get(i));
        let shared = common_prefix(a, b);
        whole += b.len() + 4;
        coded += b.len() - shared + 1 + usize::from(b.len() - shared >= 15);
        pairs += 1;
    }
    // A block's first key is whole: half a byte an entry for its head, and what it shares.
    let first = pairs / 2 + whole.saturating_sub(coded) / 16;
    if pairs > 0 && (coded + first) * 5 > whole * 4 {
        Stage::CompactBTree
    } else {
        Stage::FrontCoded
    }
}
