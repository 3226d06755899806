//! Search kernels: how many keys of a sorted block are smaller, select in a word, prefetch.
//!
//! The kernels are there twice, with the same names: `scalar` everywhere, `x86` with vector instructions
//! behind a check of the machine. Which of them are used is chosen here, once: the feature `scalar` and Miri
//! leave only the scalar ones, as does a build without `std`, which alone can ask the machine.

mod level;
mod prefetch;
#[allow(dead_code, reason = "tests compare the others with them")]
mod scalar;
#[cfg(all(
    target_arch = "x86_64",
    feature = "std",
    not(miri),
    not(feature = "scalar")
))]
mod x86;

#[cfg(not(all(
    target_arch = "x86_64",
    feature = "std",
    not(miri),
    not(feature = "scalar")
)))]
use scalar as kernels;
#[cfg(all(
    target_arch = "x86_64",
    feature = "std",
    not(miri),
    not(feature = "scalar")
))]
use x86 as kernels;

use core::hint;
use core::sync::atomic::{AtomicU8, Ordering};

pub use kernels::{
    bytes_at_most, equal_bytes, equal_pairs, pairs_at_least, sum_of_first, sums_equal,
};
use kernels::{count_less_at, select_zero_at};
use level::Level;
pub use prefetch::{prefetch, prefetch_lines, prefetch_whole};

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level that is best on this machine.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Scalar,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let found = kernels::preferred();
    LEVEL.store(found as u8, Ordering::Relaxed);
    found
}

/// How many of the sorted `keys` are smaller than `probe`. O(n / lanes), for short blocks.
#[inline]
pub fn count_less(keys: &[u64], probe: u64) -> usize {
    count_less_at(level(), keys, probe)
}

/// [`count_less`] for longer arrays that are in the cache: halves them first, without a branch
/// that depends on the data but one.
#[inline]
pub fn rank_less(keys: &[u64], probe: u64) -> usize {
    let (mut from, mut n) = (0, keys.len());
    // Where keys come in order.
    if keys.last().is_some_and(|&last| last < probe) {
        return n;
    }
    while n > 8 {
        let half = n / 2;
        from += hint::select_unpredictable(keys[from + half - 1] < probe, half, 0);
        n -= half;
    }
    from + count_less(&keys[from..from + n], probe)
}

/// Position of the `r`-th (from 0) zero at or after bit `pos` of `words`, or `None`.
#[inline]
pub fn select_zero(words: &[u64], pos: usize, r: usize) -> Option<usize> {
    select_zero_at(level(), words, pos, r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_level_counts_like_the_naive_loop() {
        let mut x = 1u64;
        for n in 0..if cfg!(miri) { 20 } else { 70usize } {
            let mut keys: Vec<u64> = (0..n)
                .map(|_| {
                    x = x
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    if x.is_multiple_of(3) { x } else { x % 50 }
                })
                .collect();
            keys.extend_from_slice(&[0, u64::MAX, 1 << 63][..n.min(3)]);
            keys.sort_unstable();
            for level in kernels::available() {
                for p in keys
                    .iter()
                    .flat_map(|&k| [k, k.wrapping_add(1), k.wrapping_sub(1)])
                {
                    let naive = keys.iter().filter(|&&k| k < p).count();
                    assert_eq!(rank_less(&keys, p), naive, "{p}");
                    assert_eq!(count_less_at(level, &keys, p), naive, "{level:?} {p}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_compared_by_both_paths() {
        let mut bytes = [0u8; 16];
        for round in 0..if cfg!(miri) { 20 } else { 2000u32 } {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let x = (round * 16 + i as u32).wrapping_mul(0x9E37_79B9);
                *byte = [0, 1, 127, 128, 255, 0x80 | (x >> 8) as u8][(x >> 24) as usize % 6];
            }
            for byte in [0, 1, 126, 127, 128, 129, 254, 255] {
                let naive = (0..16).filter(|&i| bytes[i] == byte);
                let naive = naive.fold(0, |bits, i| bits | 1 << i);
                assert_eq!(equal_bytes(&bytes, byte), naive, "{bytes:?} {byte}");
                assert_eq!(scalar::equal_bytes(&bytes, byte), naive, "{bytes:?} {byte}");
                let naive = (0..16).filter(|&i| bytes[i] <= byte);
                let naive = naive.fold(0, |bits, i| bits | 1 << i);
                assert_eq!(bytes_at_most(&bytes, byte), naive, "{bytes:?} {byte}");
                assert_eq!(
                    scalar::bytes_at_most(&bytes, byte),
                    naive,
                    "{bytes:?} {byte}"
                );
            }
        }
    }

    #[test]
    fn bytes_are_summed_by_both_paths() {
        for round in 0..if cfg!(miri) { 4 } else { 500u32 } {
            let byte_of = |i: usize| (round * 64 + i as u32).wrapping_mul(0x9E37_79B9) >> 24;
            let a: [u8; 16] = std::array::from_fn(|i| byte_of(i) as u8 & [0x81, 0xFF][i % 2]);
            let b: [u8; 16] = std::array::from_fn(|i| byte_of(i + 16) as u8 & [0xFF, 1][i % 2]);
            for at in 0..16 {
                let sum = a[at].wrapping_add(b[at]);
                let naive = (0..16).filter(|&i| a[i].wrapping_add(b[i]) == sum);
                let naive = naive.fold(0, |bits, i| bits | 1 << i);
                assert_eq!(sums_equal(&a, &b, sum), naive, "{a:?} {b:?} {sum}");
                assert_eq!(scalar::sums_equal(&a, &b, sum), naive, "{a:?} {b:?} {sum}");
            }
            for n in 0..=16 {
                let naive: usize = a[..n].iter().map(|&byte| usize::from(byte)).sum();
                assert_eq!(sum_of_first(&a, n), naive, "{a:?} {n}");
                assert_eq!(scalar::sum_of_first(&a, n), naive, "{a:?} {n}");
            }
        }
    }

    #[test]
    fn pairs_are_compared_by_both_paths() {
        for round in 0..if cfg!(miri) { 4 } else { 500u32 } {
            let byte_of = |i: usize| (round * 64 + i as u32).wrapping_mul(0x9E37_79B9) >> 24;
            let bytes: [u8; 64] = std::array::from_fn(|i| byte_of(i) as u8 & [0x81, 0xFF][i % 2]);
            let all = bytes.as_chunks().0.iter().map(|p| u16::from_le_bytes(*p));
            let all: Vec<u16> = all.collect();
            for pair in [0, 1, 0x7FFF, 0x8000, 0xFFFF, all[5], all[31]] {
                let naive = |is: &dyn Fn(u16) -> bool| {
                    (0..32).fold(0, |bits, i| bits | u32::from(is(all[i])) << i)
                };
                let (equal, least) = (naive(&|p| p == pair), naive(&|p| p >= pair));
                assert_eq!(equal_pairs(&bytes, pair), equal, "{all:?} {pair}");
                assert_eq!(scalar::equal_pairs(&bytes, pair), equal);
                assert_eq!(pairs_at_least(&bytes, pair), least, "{all:?} {pair}");
                assert_eq!(scalar::pairs_at_least(&bytes, pair), least);
            }
        }
    }

    #[test]
    fn every_level_selects_like_the_naive_loop() {
        let words = [
            0xF0F0_1234_5678_9ABC,
            u64::MAX,
            0,
            0x8000_0000_0000_0001,
            u64::MAX,
        ];
        let zero = |i: usize| words[i / 64] >> (i % 64) & 1 == 0;
        for level in kernels::available() {
            for pos in 0..words.len() * 64 {
                let zeros: Vec<usize> = (pos..words.len() * 64).filter(|&i| zero(i)).collect();
                for r in 0..=zeros.len() {
                    assert_eq!(select_zero_at(level, &words, pos, r), zeros.get(r).copied());
                }
            }
        }
    }
}
