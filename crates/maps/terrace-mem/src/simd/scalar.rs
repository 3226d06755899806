//! The kernels without vector instructions, for every machine.

use super::level::Level;
use alloc::vec;
use alloc::vec::Vec;

/// The levels this machine has, the best one last.
pub fn available() -> Vec<Level> {
    vec![Level::Scalar]
}

/// The level that is best on this machine.
pub fn preferred() -> Level {
    Level::Scalar
}

/// How many of the sorted `keys` are smaller than `probe`, with a chosen level of [`available`].
#[inline]
pub fn count_less_at(_: Level, keys: &[u64], probe: u64) -> usize {
    keys.partition_point(|&k| k < probe)
}

/// Position of the `r`-th (from 0) zero at or after bit `pos`, with a chosen level of [`available`].
#[inline]
pub fn select_zero_at(_: Level, words: &[u64], pos: usize, r: usize) -> Option<usize> {
    select_zero_with(words, pos, r, select)
}

/// The body of every `select_zero`, with the select of one word as a parameter.
#[inline(always)]
pub fn select_zero_with(
    words: &[u64],
    pos: usize,
    mut r: usize,
    select: impl Fn(u64, u32) -> u32,
) -> Option<usize> {
    let mut i = pos / 64;
    let mut zeros = !*words.get(i)? & (!0 << (pos % 64));
    loop {
        let n = zeros.count_ones() as usize;
        if r < n {
            return Some(i * 64 + select(zeros, r as u32) as usize);
        }
        r -= n;
        i += 1;
        zeros = !*words.get(i)?;
    }
}

/// A bit for each of the bytes that is `byte`: bit `i` for byte `i`.
#[inline]
pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    const ONES: u128 = u128::MAX / 255;
    const LOW: u128 = ONES * 0x7F;
    let x = u128::from_le_bytes(*bytes) ^ (ONES * u128::from(byte));
    // Bit `8 i + 7` for byte `i`; a multiplication brings those of eight bytes together.
    let high = !(((x & LOW) + LOW) | x | LOW) >> 7;
    let gather = |half: u64| half.wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (gather(high as u64) | gather((high >> 64) as u64) << 8) as u32
}

/// A bit for each of the bytes that is at most `byte`: bit `i` for byte `i`.
#[inline]
pub fn bytes_at_most(bytes: &[u8; 16], byte: u8) -> u32 {
    let bits = bytes.iter().rev();
    bits.fold(0, |bits, &b| bits << 1 | u32::from(b <= byte))
}

/// A bit for each place at which the two bytes come to `sum`, without what is carried.
#[inline]
pub fn sums_equal(a: &[u8; 16], b: &[u8; 16], sum: u8) -> u32 {
    let sums = core::array::from_fn(|i| a[i].wrapping_add(b[i]));
    equal_bytes(&sums, sum)
}

/// The sum of the first `n` bytes, of which there are 16 at most.
#[inline]
pub fn sum_of_first(bytes: &[u8; 16], n: usize) -> usize {
    bytes.iter().take(n).map(|&byte| usize::from(byte)).sum()
}

/// A bit for each pair of bytes that is `pair`, the lower half first: bit `i` for pair `i`.
#[inline]
pub fn equal_pairs(bytes: &[u8; 64], pair: u16) -> u32 {
    pairs(bytes, |p| p == pair)
}

/// A bit for each pair of bytes that is at least `pair`: bit `i` for pair `i`.
#[inline]
pub fn pairs_at_least(bytes: &[u8; 64], pair: u16) -> u32 {
    pairs(bytes, |p| p >= pair)
}

#[inline]
fn pairs(bytes: &[u8; 64], is: impl Fn(u16) -> bool) -> u32 {
    let pairs = bytes.as_chunks().0.iter().rev();
    pairs.fold(0, |bits, p| {
        bits << 1 | u32::from(is(u16::from_le_bytes(*p)))
    })
}

/// Position of the `r`-th (from 0) set bit of `word`, which has more than `r`.
fn select(mut word: u64, r: u32) -> u32 {
    for _ in 0..r {
        word &= word - 1;
    }
    word.trailing_zeros()
}
