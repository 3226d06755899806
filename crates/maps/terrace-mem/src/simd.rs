//! Search kernels: how many keys of a sorted block are smaller, select in a word, prefetch.
//!
//! One of the files with `unsafe`: the vector kernels behind a check of the machine. The scalar
//! kernels are always there; the feature `scalar` and Miri leave only them, as does a build without `std`,
//! which alone can ask the machine.

use alloc::vec::Vec;
use core::hint;
use core::sync::atomic::{AtomicU8, Ordering};

/// Which vector instructions the kernels may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// None beyond the target's baseline.
    Scalar = 1,
    /// AVX2, BMI1, BMI2 and POPCNT.
    Avx2 = 2,
    /// AVX-512F on top.
    Avx512 = 3,
}

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
    let found = available().last().copied().unwrap_or(Level::Scalar);
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    let found = if found == Level::Avx512 && !std::arch::is_x86_feature_detected!("avx512vbmi2") {
        // Processors before those with VBMI2 lower their clock for 512-bit instructions, which
        // costs more than a few compares gain.
        Level::Avx2
    } else {
        found
    };
    LEVEL.store(found as u8, Ordering::Relaxed);
    found
}

/// The levels this machine has, the best one last.
pub fn available() -> Vec<Level> {
    let vector: &[Level] = &[];
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    let vector: &[Level] = if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            &[Level::Avx2, Level::Avx512]
        } else {
            &[Level::Avx2]
        }
    } else {
        vector
    };
    [&[Level::Scalar], vector].concat()
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

/// [`count_less`] with a chosen level, which must be one of [`available`].
#[inline]
fn count_less_at(level: Level, keys: &[u64], probe: u64) -> usize {
    match level {
        #[cfg(all(
            target_arch = "x86_64",
            feature = "std",
            not(miri),
            not(feature = "scalar")
        ))]
        // SAFETY: `level` is Avx512 only where `available` saw avx512f and popcnt.
        Level::Avx512 => unsafe { x86::count_less_avx512(keys, probe) },
        #[cfg(all(
            target_arch = "x86_64",
            feature = "std",
            not(miri),
            not(feature = "scalar")
        ))]
        // SAFETY: `level` is Avx2 only where `available` saw avx2 and popcnt.
        Level::Avx2 => unsafe { x86::count_less_avx2(keys, probe) },
        _ => count_less_scalar(keys, probe),
    }
}

#[inline]
fn count_less_scalar(keys: &[u64], probe: u64) -> usize {
    keys.partition_point(|&k| k < probe)
}

/// Position of the `r`-th (from 0) zero at or after bit `pos` of `words`, or `None`.
#[inline]
pub fn select_zero(words: &[u64], pos: usize, r: usize) -> Option<usize> {
    select_zero_at(level(), words, pos, r)
}

/// [`select_zero`] with a chosen level, which must be one of [`available`].
#[inline]
fn select_zero_at(level: Level, words: &[u64], pos: usize, r: usize) -> Option<usize> {
    match level {
        #[cfg(all(
            target_arch = "x86_64",
            feature = "std",
            not(miri),
            not(feature = "scalar")
        ))]
        // SAFETY: both levels imply that `available` saw bmi1, bmi2 and popcnt.
        Level::Avx512 | Level::Avx2 => unsafe { x86::select_zero_bmi(words, pos, r) },
        _ => select_zero_with(words, pos, r, select_scalar),
    }
}

/// The body of every `select_zero`, with the select of one word as a parameter.
#[inline(always)]
fn select_zero_with(
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
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::equal_bytes_sse2(bytes, byte);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    equal_bytes_scalar(bytes, byte)
}

/// A bit for each of the bytes that is at most `byte`: bit `i` for byte `i`.
#[inline]
pub fn bytes_at_most(bytes: &[u8; 16], byte: u8) -> u32 {
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::bytes_at_most_sse2(bytes, byte);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    bytes_at_most_scalar(bytes, byte)
}

#[cfg(any(
    test,
    not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))
))]
fn bytes_at_most_scalar(bytes: &[u8; 16], byte: u8) -> u32 {
    let bits = bytes.iter().rev();
    bits.fold(0, |bits, &b| bits << 1 | u32::from(b <= byte))
}

#[cfg(any(
    test,
    not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))
))]
fn equal_bytes_scalar(bytes: &[u8; 16], byte: u8) -> u32 {
    const ONES: u128 = u128::MAX / 255;
    const LOW: u128 = ONES * 0x7F;
    let x = u128::from_le_bytes(*bytes) ^ (ONES * u128::from(byte));
    // Bit `8 i + 7` for byte `i`; a multiplication brings those of eight bytes together.
    let high = !(((x & LOW) + LOW) | x | LOW) >> 7;
    let gather = |half: u64| half.wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (gather(high as u64) | gather((high >> 64) as u64) << 8) as u32
}

/// A bit for each place at which the two bytes come to `sum`, without what is carried.
#[inline]
pub fn sums_equal(a: &[u8; 16], b: &[u8; 16], sum: u8) -> u32 {
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::sums_equal_sse2(a, b, sum);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    sums_equal_scalar(a, b, sum)
}

#[cfg(any(
    test,
    not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))
))]
fn sums_equal_scalar(a: &[u8; 16], b: &[u8; 16], sum: u8) -> u32 {
    let sums = core::array::from_fn(|i| a[i].wrapping_add(b[i]));
    equal_bytes_scalar(&sums, sum)
}

/// The sum of the first `n` bytes, of which there are 16 at most.
#[inline]
pub fn sum_of_first(bytes: &[u8; 16], n: usize) -> usize {
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::sum_of_first_sse2(bytes, n);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    sum_of_first_scalar(bytes, n)
}

#[cfg(any(
    test,
    not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))
))]
fn sum_of_first_scalar(bytes: &[u8; 16], n: usize) -> usize {
    bytes.iter().take(n).map(|&byte| usize::from(byte)).sum()
}

/// A bit for each pair of bytes that is `pair`, the lower half first: bit `i` for pair `i`.
#[inline]
pub fn equal_pairs(bytes: &[u8; 64], pair: u16) -> u32 {
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::equal_pairs_sse2(bytes, pair);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    pairs_scalar(bytes, |p| p == pair)
}

/// A bit for each pair of bytes that is at least `pair`: bit `i` for pair `i`.
#[inline]
pub fn pairs_at_least(bytes: &[u8; 64], pair: u16) -> u32 {
    #[cfg(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))]
    return x86::pairs_at_least_sse2(bytes, pair);
    #[cfg(not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    )))]
    pairs_scalar(bytes, |p| p >= pair)
}

#[cfg(any(
    test,
    not(all(
        target_arch = "x86_64",
        feature = "std",
        not(miri),
        not(feature = "scalar")
    ))
))]
#[inline]
fn pairs_scalar(bytes: &[u8; 64], is: impl Fn(u16) -> bool) -> u32 {
    let pairs = bytes.as_chunks().0.iter().rev();
    pairs.fold(0, |bits, p| {
        bits << 1 | u32::from(is(u16::from_le_bytes(*p)))
    })
}

/// Position of the `r`-th (from 0) set bit of `word`, which has more than `r`.
fn select_scalar(mut word: u64, r: u32) -> u32 {
    for _ in 0..r {
        word &= word - 1;
    }
    word.trailing_zeros()
}

/// Asks for the cache line of `slice[i]`, or one near it in memory where there is no such element.
#[inline]
pub fn prefetch<T>(slice: &[T], i: usize) {
    prefetch_at(slice.as_ptr().wrapping_add(i).cast());
}

/// Asks for so many cache lines from `slice[i]` on.
#[inline]
pub fn prefetch_lines<T>(slice: &[T], i: usize, lines: usize) {
    let start = slice.as_ptr().wrapping_add(i).cast::<u8>();
    for line in 0..lines {
        prefetch_at(start.wrapping_add(64 * line));
    }
}

#[inline]
fn prefetch_at(at: *const u8) {
    // SAFETY: a prefetch reads nothing, and no address makes it fail.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Asks for the cache lines of `item`, the first 1024 bytes of it.
#[inline]
pub fn prefetch_whole<T>(item: &T) {
    // No reference to its bytes: another thread may change some of them meanwhile.
    let start = core::ptr::from_ref(item).cast::<u8>();
    for at in (0..size_of::<T>().min(1024)).step_by(64) {
        prefetch_at(start.wrapping_add(at));
    }
}

#[cfg(all(
    target_arch = "x86_64",
    feature = "std",
    not(miri),
    not(feature = "scalar")
))]
mod x86 {
    use core::arch::x86_64::*;

    #[target_feature(enable = "avx512f,popcnt")]
    pub fn count_less_avx512(keys: &[u64], probe: u64) -> usize {
        let p = _mm512_set1_epi64(probe as i64);
        let mut count = 0;
        let chunks = keys.chunks_exact(8);
        let rest = chunks.remainder();
        for chunk in chunks {
            // SAFETY: `chunk` has 8 elements of 8 bytes, as many as the unaligned load reads.
            let v = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
            count += _mm512_cmplt_epu64_mask(v, p).count_ones() as usize;
        }
        if !rest.is_empty() {
            let mask = (1u8 << rest.len()) - 1;
            // SAFETY: the mask has one bit for each element of `rest`; other lanes are not read.
            let v = unsafe { _mm512_maskz_loadu_epi64(mask, rest.as_ptr().cast()) };
            count += _mm512_mask_cmplt_epu64_mask(mask, v, p).count_ones() as usize;
        }
        count
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub fn count_less_avx2(keys: &[u64], probe: u64) -> usize {
        // The comparison is signed: flipping the top bits makes it the unsigned one.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let p = _mm256_xor_si256(_mm256_set1_epi64x(probe as i64), flip);
        let mut counts = _mm256_setzero_si256();
        let chunks = keys.chunks_exact(4);
        let rest = chunks.remainder();
        for chunk in chunks {
            // SAFETY: `chunk` has 4 elements of 8 bytes, as many as the unaligned load reads.
            let v = unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) };
            // A lane that is less is all ones, which is minus one.
            let less = _mm256_cmpgt_epi64(p, _mm256_xor_si256(v, flip));
            counts = _mm256_sub_epi64(counts, less);
        }
        let low = _mm256_castsi256_si128(counts);
        let two = _mm_add_epi64(low, _mm256_extracti128_si256::<1>(counts));
        let count = _mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two);
        count as usize + rest.iter().filter(|&&k| k < probe).count()
    }

    #[inline]
    pub fn equal_bytes_sse2(bytes: &[u8; 16], byte: u8) -> u32 {
        // SAFETY: SSE2 is part of the architecture's baseline, and the array has the 16 bytes
        // that the unaligned load reads.
        unsafe {
            let v = _mm_loadu_si128(bytes.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(byte as i8))) as u32
        }
    }

    #[inline]
    pub fn bytes_at_most_sse2(bytes: &[u8; 16], byte: u8) -> u32 {
        // SAFETY: SSE2 is part of the architecture's baseline, and the array has the 16 bytes
        // that the unaligned load reads.
        unsafe {
            let v = _mm_loadu_si128(bytes.as_ptr().cast());
            let least = _mm_min_epu8(v, _mm_set1_epi8(byte as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(least, v)) as u32
        }
    }

    #[inline]
    pub fn sums_equal_sse2(a: &[u8; 16], b: &[u8; 16], sum: u8) -> u32 {
        // SAFETY: SSE2 is part of the architecture's baseline, and each array has the 16 bytes
        // that an unaligned load reads.
        unsafe {
            let a = _mm_loadu_si128(a.as_ptr().cast());
            let b = _mm_loadu_si128(b.as_ptr().cast());
            let equal = _mm_cmpeq_epi8(_mm_add_epi8(a, b), _mm_set1_epi8(sum as i8));
            _mm_movemask_epi8(equal) as u32
        }
    }

    #[inline]
    pub fn sum_of_first_sse2(bytes: &[u8; 16], n: usize) -> usize {
        /// From place `16 - n` on, `n` bytes of ones and then noughts.
        const ONES: [u8; 32] = {
            let mut ones = [0; 32];
            let mut i = 0;
            while i < 16 {
                ones[i] = 0xFF;
                i += 1;
            }
            ones
        };
        // SAFETY: SSE2 is part of the architecture's baseline; the array has the 16 bytes that the
        // unaligned load reads, and so has what lies in `ONES` from a place of at most 16 on.
        unsafe {
            let v = _mm_loadu_si128(bytes.as_ptr().cast());
            let ones = _mm_loadu_si128(ONES[16 - n.min(16)..].as_ptr().cast());
            let sums = _mm_sad_epu8(_mm_and_si128(v, ones), _mm_setzero_si128());
            let both = _mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums));
            _mm_cvtsi128_si64(both) as usize
        }
    }

    #[inline]
    pub fn equal_pairs_sse2(bytes: &[u8; 64], pair: u16) -> u32 {
        pairs(bytes, |v| {
            // SAFETY: SSE2 is part of the architecture's baseline.
            unsafe { _mm_cmpeq_epi16(v, _mm_set1_epi16(pair as i16)) }
        })
    }

    #[inline]
    pub fn pairs_at_least_sse2(bytes: &[u8; 64], pair: u16) -> u32 {
        pairs(bytes, |v| {
            // SAFETY: SSE2 is part of the architecture's baseline.
            unsafe {
                // The difference, but not less than nothing.
                let lacks = _mm_subs_epu16(_mm_set1_epi16(pair as i16), v);
                _mm_cmpeq_epi16(lacks, _mm_setzero_si128())
            }
        })
    }

    /// The bits of 32 lanes for which `is` gives all ones, and otherwise none.
    #[inline(always)]
    fn pairs(bytes: &[u8; 64], is: impl Fn(__m128i) -> __m128i) -> u32 {
        // SAFETY: SSE2 is part of the architecture's baseline, and each quarter of the array has
        // the 16 bytes that an unaligned load reads.
        unsafe {
            let at = |i: usize| is(_mm_loadu_si128(bytes[16 * i..].as_ptr().cast()));
            let half = |i: usize| _mm_movemask_epi8(_mm_packs_epi16(at(i), at(i + 1))) as u32;
            half(0) | half(2) << 16
        }
    }

    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    pub fn select_zero_bmi(words: &[u64], pos: usize, r: usize) -> Option<usize> {
        super::select_zero_with(words, pos, r, |word, r| {
            _pdep_u64(1 << r, word).trailing_zeros()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for level in available() {
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
                assert_eq!(equal_bytes_scalar(&bytes, byte), naive, "{bytes:?} {byte}");
                let naive = (0..16).filter(|&i| bytes[i] <= byte);
                let naive = naive.fold(0, |bits, i| bits | 1 << i);
                assert_eq!(bytes_at_most(&bytes, byte), naive, "{bytes:?} {byte}");
                assert_eq!(
                    bytes_at_most_scalar(&bytes, byte),
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
                assert_eq!(sums_equal_scalar(&a, &b, sum), naive, "{a:?} {b:?} {sum}");
            }
            for n in 0..=16 {
                let naive: usize = a[..n].iter().map(|&byte| usize::from(byte)).sum();
                assert_eq!(sum_of_first(&a, n), naive, "{a:?} {n}");
                assert_eq!(sum_of_first_scalar(&a, n), naive, "{a:?} {n}");
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
                assert_eq!(pairs_scalar(&bytes, |p| p == pair), equal);
                assert_eq!(pairs_at_least(&bytes, pair), least, "{all:?} {pair}");
                assert_eq!(pairs_scalar(&bytes, |p| p >= pair), least);
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
        for level in available() {
            for pos in 0..words.len() * 64 {
                let zeros: Vec<usize> = (pos..words.len() * 64).filter(|&i| zero(i)).collect();
                for r in 0..=zeros.len() {
                    assert_eq!(select_zero_at(level, &words, pos, r), zeros.get(r).copied());
                }
            }
        }
    }
}
