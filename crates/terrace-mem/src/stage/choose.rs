//! Which static stage a segment gets.
//!
//! The rule, by the segment's own keys:
//! - integers: Elias-Fano, unless it would take more than nine tenths of the bytes of an S+ tree,
//!   which is then as small and faster;
//! - byte strings: front-coded blocks, unless a sample of neighbours shares so few bytes that
//!   they would save less than a fifth of a compact B+tree.
//!
//! Compression is never chosen: it is slower than both and, on sorted keys, seldom smaller.

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
    /// High bits in unary, low bits packed. Integers.
    EliasFano,
    /// Blocks of keys without what they share with their predecessor. Byte strings.
    FrontCoded,
    /// Leaves under lz4 with a cache of decompressed ones. All keys.
    Compressed,
}

/// The stage for a segment of these integers.
pub fn for_ints(keys: &[u64]) -> Stage {
    if EliasFano::estimate(keys) * 10 > STree::estimate(keys.len()) * 9 {
        Stage::STree
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
