//! Which static stage a segment gets.
//!
//! The rule, by the segment's own keys:
//! - integers: bitmaps where they take no more bytes than Elias-Fano; else an S+ tree where
//!   Elias-Fano would take more than nine tenths of its bytes; else buckets where no bucket is
//!   crowded or narrow: five bits a key more than Elias-Fano, but faster; else Elias-Fano;
//! - byte strings: front-coded blocks, unless a sample of 16 of them would save less than a fifth
//!   of a compact B+tree.
//!
//! Compression is never chosen: it is slower than both and, on sorted keys, seldom smaller.

use super::bitmap::Bitmap;
use super::buckets::Buckets;
use super::elias_fano::EliasFano;
use super::front_coded::{BLOCK, FrontCoded};
use super::run::ByteRun;
use super::s_tree::STree;
use crate::family::KeyRun;
use crate::plan::Stage;
use crate::prefix::common_prefix;

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
    let prefix = common_prefix(run.get(from), run.get(to - 1));
    let step = BLOCK * ((to - from) / (16 * BLOCK)).max(1);
    let (mut whole, mut coded) = (0, 0);
    for at in (from..to).step_by(step) {
        let end = (at + BLOCK).min(to);
        whole += run.key_bytes(at, end) + (end - at) * 3;
        coded += FrontCoded::estimate(run, at, end, prefix);
    }
    if coded * 5 > whole * 4 {
        Stage::CompactBTree
    } else {
        Stage::FrontCoded
    }
}
