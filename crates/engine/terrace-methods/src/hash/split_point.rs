//! Where a bucket is cut: choices that depend on nothing but the partitions and the bytes of records.
//!
//! A bucket can be divided only where a partition begins.

use std::ops::Range;

use super::directory::{HashPartitions, MAX_LEVEL};
use super::image::Item;
use super::layout::capacity;
use crate::FULL;

/// Hash and bytes of each record, in order.
pub(crate) fn sizes_of(items: &[Item<'_>]) -> Vec<(u64, usize)> {
    items.iter().map(|item| (item.hash, item.bytes())).collect()
}

pub(crate) fn add_size(sizes: &mut Vec<(u64, usize)>, hash: u64, bytes: usize) {
    let at = sizes.partition_point(|size| size.0 <= hash);
    sizes.insert(at, (hash, bytes));
}

/// The last hash at which a partition begins up to which the records fit into `most` bytes, and how many
/// bytes of those lie between it and the first record of the range, in which it is.
pub(crate) fn last_fitting(
    grains: &HashPartitions,
    sizes: &[(u64, usize)],
    range: Range<usize>,
    most: usize,
) -> Option<(u64, usize)> {
    let before: usize = sizes[..range.start].iter().map(|size| size.1).sum();
    let (mut below, mut last) = (before, None);
    for i in range.start..range.end.min(sizes.len()) {
        if below > most {
            break;
        }
        let start = grains.span(sizes[i].0).low;
        if i > range.start && start > sizes[i - 1].0 {
            last = Some((start, below - before));
        }
        below += sizes[i].1;
    }
    last
}

/// Bytes up to which a bucket is filled that will hardly grow.
pub(crate) fn full(page_bytes: usize) -> usize {
    (capacity(page_bytes) as f64 * FULL) as usize
}

/// Bytes of the records of lower hashes.
pub(crate) fn bytes_below(sizes: &[(u64, usize)], hash: u64) -> usize {
    let below = sizes.iter().take_while(|size| size.0 < hash);
    below.map(|size| size.1).sum()
}

/// Bytes that are to stay in the lower part of a bucket that is filled in the order of hashes, when a
/// record with this hash does not fit: all that is below it, but no less than half and no more than
/// `most`. A bucket with overflow pages may have more than twice that.
pub(crate) fn left_full(sizes: &[(u64, usize)], hash: u64, most: usize) -> usize {
    let total: usize = sizes.iter().map(|size| size.1).sum();
    bytes_below(sizes, hash).max(total / 2).min(most)
}

/// How many partitions there must be, so that no partition has more than one of `parts` parts of these records,
/// about; fewer, but two parts, if that would be more than `most`. `None` if there are as many, or
/// may not be.
pub(crate) fn finer(
    grains: &HashPartitions,
    sizes: &[(u64, usize)],
    parts: usize,
    most: u64,
) -> Option<u64> {
    let (first, last) = (sizes.first()?, sizes.last()?);
    // Bits up to the first in which they differ.
    let bits = (first.0 ^ last.0).leading_zeros() + 1;
    (1..=parts.ilog2()).rev().find_map(|more| {
        let count = 1u64.checked_shl(bits + more).unwrap_or(u64::MAX);
        let count = count.max(grains.count() + grains.count() / 2);
        (bits + more <= MAX_LEVEL && 1 << (bits + more) > grains.count() && count <= most)
            .then_some(count)
    })
}

/// The hash at which a partition begins that has records on both sides, with as near as can be to half of
/// all bytes below it; only where `fits` agrees with the bytes below.
pub(crate) fn middle(
    grains: &HashPartitions,
    sizes: &[(u64, usize)],
    fits: impl Fn(usize) -> bool,
) -> Option<u64> {
    let half = sizes.iter().map(|size| size.1).sum::<usize>() / 2;
    cut(grains, sizes, half, fits)
}

/// The same with as near as can be to `wanted` bytes below it.
pub(crate) fn cut(
    grains: &HashPartitions,
    sizes: &[(u64, usize)],
    wanted: usize,
    fits: impl Fn(usize) -> bool,
) -> Option<u64> {
    let mut best: Option<(usize, u64)> = None;
    let mut below = 0;
    for pair in sizes.windows(2) {
        below += pair[0].1;
        let start = grains.span(pair[1].0).low;
        let off = below.abs_diff(wanted);
        if start > pair[0].0 && fits(below) && best.is_none_or(|(least, _)| off < least) {
            best = Some((off, start));
        }
    }
    best.map(|(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_part_of_a_bucket_with_overflow_pages_is_no_more_than_a_page() {
        let sizes: Vec<(u64, usize)> = (0..100).map(|i| (i << 56, 100)).collect();
        assert_eq!(left_full(&sizes, 60 << 56, 3838), 3838);
        assert_eq!(left_full(&sizes, 60 << 56, 7000), 6000);
        assert_eq!(left_full(&sizes, 10 << 56, 7000), 5000);
    }
}
