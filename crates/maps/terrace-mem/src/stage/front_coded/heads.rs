//! Heads of keys, and what blocks are made with.

use crate::simd;
use alloc::vec::Vec;

/// The most that an entry says it shares.
pub const MOST_SHARED: usize = 255;

/// Up to `N` leading bytes, as the start of a big number.
#[inline]
pub fn padded<const N: usize>(key: &[u8]) -> [u8; N] {
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
pub fn head(key: &[u8]) -> u64 {
    u64::from_be_bytes(padded(key))
}

#[inline]
pub fn long_head(key: &[u8]) -> u128 {
    u128::from_be_bytes(padded(key))
}

/// The place of the heads that are `h`.
#[inline]
pub fn equal(heads: &[u64], h: u64) -> (usize, usize) {
    let lo = simd::count_less(heads, h);
    let more = heads[lo..].iter().take_while(|&&x| x == h).count();
    (lo, lo + more)
}

/// Bytes that are copied at once where more than are needed may be read: a copy of few bytes
/// whose number is known takes no call.
pub const CHUNK: usize = 16;

/// Appends the first `n` bytes of `from`.
#[inline]
pub fn append(data: &mut Vec<u8>, from: &[u8], n: usize) {
    match from.first_chunk::<CHUNK>() {
        Some(chunk) if n <= CHUNK => {
            let end = data.len() + n;
            data.extend_from_slice(chunk);
            data.truncate(end);
        }
        _ => data.extend_from_slice(&from[..n]),
    }
}
