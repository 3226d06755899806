//! Bloom filters, one for each data page: which keys it certainly does not have.
//!
//! A filter may only err on the side of "perhaps": it is built from exactly the records of its page, in
//! the step that makes the page.

use terrace_base::checksum;

/// Bits for each key: with fewer, reads of upper levels that find nothing cost more than the memory is
/// worth, with more they hardly fall (simulated: 4, 6, 8, 10 and 14 bits).
pub(crate) const BITS: usize = 10;
/// The same in the last level, where there are filters only while many keys are looked for that are not there.
pub(crate) const BITS_OF_LAST: usize = 8;
/// Positions for each key: what is best for [`BITS`] bits.
const PROBES: u64 = 7;
/// Longest filter: records of 20 bytes and less get fewer bits for each.
const MOST_BYTES: usize = 1024;

/// What is asked of filters: the key with the structure's number.
pub(crate) fn hash(structure: u64, key: &[u8]) -> u64 {
    checksum::seeded(structure, key)
}

/// The filter over these hashes, of `bits_each` bits for each, and at most `most` bytes. O(keys).
pub(crate) fn build(
    hashes: impl ExactSizeIterator<Item = u64>,
    bits_each: usize,
    most: usize,
) -> Vec<u8> {
    let bytes = (hashes.len() * bits_each)
        .div_ceil(8)
        .min(most.min(MOST_BYTES));
    let mut filter = vec![0; bytes];
    if bytes > 0 {
        for hash in hashes {
            for bit in bits(hash, bytes) {
                filter[bit / 8] |= 1 << (bit % 8);
            }
        }
    }
    filter
}

/// Whether a key with this hash may be there. An empty filter knows nothing.
#[inline]
pub(crate) fn may_have(filter: &[u8], hash: u64) -> bool {
    bits(hash, filter.len()).all(|bit| filter.get(bit / 8).is_none_or(|b| b >> (bit % 8) & 1 != 0))
}

fn bits(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let step = hash.rotate_left(32) | 1;
    let bits = bytes as u64 * 8;
    (0..PROBES).map(move |i| {
        let h = hash.wrapping_add(i.wrapping_mul(step));
        // The high half, so that each bit of it counts.
        ((u128::from(h) * u128::from(bits)) >> 64) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> u64 {
        hash(3, &n.to_le_bytes())
    }

    #[test]
    fn a_filter_denies_no_key_that_is_there() {
        for n in [0, 1, 2, 3, 100, 120, 2000] {
            let filter = build((0..n).map(key).collect::<Vec<_>>().into_iter(), BITS, 1024);
            assert!((0..n).all(|i| may_have(&filter, key(i))), "{n}");
        }
        assert!(may_have(&[], key(1)));
    }

    #[test]
    fn few_keys_that_are_not_there_pass() {
        let filter = build(
            (0..120).map(key).collect::<Vec<_>>().into_iter(),
            BITS,
            1024,
        );
        let wrong = (1000..101_000)
            .filter(|&i| may_have(&filter, key(i)))
            .count();
        // In theory 0.82 %.
        assert!(wrong < 1250, "{wrong} of 100,000");
        assert!(wrong > 100, "{wrong}: are these filters?");
    }
}
