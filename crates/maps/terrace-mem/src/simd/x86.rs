//! The kernels with vector instructions: those of the baseline without a check, the others by [`Level`].
//!
//! One of the files with `unsafe`. Functions have the names and meanings of those in `scalar`.

use super::level::Level;
use super::scalar::{self, select_zero_with};
use alloc::vec;
use alloc::vec::Vec;
use core::arch::x86_64::*;

/// The levels this machine has, the best one last.
pub fn available() -> Vec<Level> {
    let mut levels = vec![Level::Scalar];
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
    {
        levels.push(Level::Avx2);
        if std::arch::is_x86_feature_detected!("avx512f") {
            levels.push(Level::Avx512);
        }
    }
    levels
}

/// The level that is best on this machine. Processors before those with VBMI2 lower their clock for 512-bit
/// instructions, which costs more than a few compares gain.
pub fn preferred() -> Level {
    match available().last() {
        Some(Level::Avx512) if !std::arch::is_x86_feature_detected!("avx512vbmi2") => Level::Avx2,
        best => best.copied().unwrap_or(Level::Scalar),
    }
}

/// The level must be one of [`available`].
#[inline]
pub fn count_less_at(level: Level, keys: &[u64], probe: u64) -> usize {
    match level {
        // SAFETY: `level` is Avx512 only where `available` saw avx512f and popcnt.
        Level::Avx512 => unsafe { count_less_avx512(keys, probe) },
        // SAFETY: `level` is Avx2 only where `available` saw avx2 and popcnt.
        Level::Avx2 => unsafe { count_less_avx2(keys, probe) },
        Level::Scalar => scalar::count_less_at(level, keys, probe),
    }
}

/// The level must be one of [`available`].
#[inline]
pub fn select_zero_at(level: Level, words: &[u64], pos: usize, r: usize) -> Option<usize> {
    match level {
        // SAFETY: both levels imply that `available` saw bmi1, bmi2 and popcnt.
        Level::Avx512 | Level::Avx2 => unsafe { select_zero_bmi(words, pos, r) },
        Level::Scalar => scalar::select_zero_at(level, words, pos, r),
    }
}

#[target_feature(enable = "avx512f,popcnt")]
fn count_less_avx512(keys: &[u64], probe: u64) -> usize {
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
fn count_less_avx2(keys: &[u64], probe: u64) -> usize {
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
pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    // SAFETY: SSE2 is part of the architecture's baseline, and the array has the 16 bytes
    // that the unaligned load reads.
    unsafe {
        let v = _mm_loadu_si128(bytes.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[inline]
pub fn bytes_at_most(bytes: &[u8; 16], byte: u8) -> u32 {
    // SAFETY: SSE2 is part of the architecture's baseline, and the array has the 16 bytes
    // that the unaligned load reads.
    unsafe {
        let v = _mm_loadu_si128(bytes.as_ptr().cast());
        let least = _mm_min_epu8(v, _mm_set1_epi8(byte as i8));
        _mm_movemask_epi8(_mm_cmpeq_epi8(least, v)) as u32
    }
}

#[inline]
pub fn sums_equal(a: &[u8; 16], b: &[u8; 16], sum: u8) -> u32 {
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
pub fn sum_of_first(bytes: &[u8; 16], n: usize) -> usize {
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
pub fn equal_pairs(bytes: &[u8; 64], pair: u16) -> u32 {
    pairs(bytes, |v| {
        // SAFETY: SSE2 is part of the architecture's baseline.
        unsafe { _mm_cmpeq_epi16(v, _mm_set1_epi16(pair as i16)) }
    })
}

#[inline]
pub fn pairs_at_least(bytes: &[u8; 64], pair: u16) -> u32 {
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
fn select_zero_bmi(words: &[u64], pos: usize, r: usize) -> Option<usize> {
    select_zero_with(words, pos, r, |word, r| {
        _pdep_u64(1 << r, word).trailing_zeros()
    })
}
