//! Bit fields in words: fixed-width fields, next and previous set bit.

/// The field of `width` (1 to 63) bits at bit `at`; the words reach one past its last word.
#[inline]
pub fn read(words: &[u64], at: usize, width: u32) -> u64 {
    let (i, shift) = (at / 64, at % 64);
    let low = words[i] >> shift;
    let high = words[i + 1] << 1 << (63 - shift);
    (low | high) & ((1 << width) - 1)
}

/// Sets the field of `width` bits at bit `at`, which is zero, to `value`.
#[inline]
pub fn write(words: &mut [u64], at: usize, value: u64) {
    let (i, shift) = (at / 64, at % 64);
    words[i] |= value << shift;
    words[i + 1] |= value >> 1 >> (63 - shift);
}

/// The first set bit at or after `pos`.
#[inline]
pub fn next_one(words: &[u64], pos: usize) -> Option<usize> {
    let mut i = pos / 64;
    let mut word = *words.get(i)? & (!0 << (pos % 64));
    while word == 0 {
        i += 1;
        word = *words.get(i)?;
    }
    Some(i * 64 + word.trailing_zeros() as usize)
}

/// The last set bit before `pos`.
#[inline]
pub fn prev_one(words: &[u64], pos: usize) -> Option<usize> {
    let last = pos.checked_sub(1)?;
    let mut i = last / 64;
    let mut word = words[i] & (!0 >> (63 - last % 64));
    while word == 0 {
        i = i.checked_sub(1)?;
        word = words[i];
    }
    Some(i * 64 + 63 - word.leading_zeros() as usize)
}

/// The `r`-th set bit (from 0). O(words).
pub fn select_one(words: &[u64], mut r: usize) -> Option<usize> {
    for (i, &word) in words.iter().enumerate() {
        let n = word.count_ones() as usize;
        if r < n {
            let mut word = word;
            for _ in 0..r {
                word &= word - 1;
            }
            return Some(i * 64 + word.trailing_zeros() as usize);
        }
        r -= n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_set_bits_are_found() {
        for width in 1..64u32 {
            let mut words = vec![0; 70];
            let value = |i: usize| (i as u64).wrapping_mul(0x9E3779B97F4A7C15) >> (64 - width);
            for i in 0..60 {
                write(&mut words, i * width as usize, value(i));
            }
            for i in 0..60 {
                assert_eq!(read(&words, i * width as usize, width), value(i));
            }
            let ones: Vec<usize> = (0..words.len() * 64)
                .filter(|i| words[i / 64] >> (i % 64) & 1 == 1)
                .collect();
            for pos in (0..words.len() * 64).step_by(7) {
                assert_eq!(
                    next_one(&words, pos),
                    ones.iter().copied().find(|&o| o >= pos)
                );
                assert_eq!(
                    prev_one(&words, pos),
                    ones.iter().copied().rfind(|&o| o < pos)
                );
            }
            for r in 0..=ones.len() {
                assert_eq!(select_one(&words, r), ones.get(r).copied());
            }
        }
    }
}
