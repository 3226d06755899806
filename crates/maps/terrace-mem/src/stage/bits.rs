//! Bit fields in words: fixed-width fields, next and previous set bit.

/// The field of `width` (1 to 63) bits at bit `at`; the words reach one past its last word.
#[inline]
pub fn read(words: &[u64], at: usize, width: u32) -> u64 {
    let (i, shift) = (at / 64, at % 64);
    let low = words[i] >> shift;
    let high = words[i + 1] << 1 << (63 - shift);
    (low | high) & ((1 << width) - 1)
}

/// Appends fields of one width, word by word.
pub struct Writer<'a> {
    words: &'a mut [u64],
    width: u32,
    i: usize,
    word: u64,
    used: u32,
}

impl<'a> Writer<'a> {
    /// Writes from the first bit of `words` on; `width` is 0 to 63.
    pub fn new(words: &'a mut [u64], width: u32) -> Self {
        Writer {
            words,
            width,
            i: 0,
            word: 0,
            used: 0,
        }
    }

    /// Appends the low bits of `value`.
    #[inline]
    pub fn push(&mut self, value: u64) {
        let value = value & ((1 << self.width) - 1);
        self.word |= value << self.used;
        self.used += self.width;
        if self.used >= 64 {
            self.words[self.i] = self.word;
            self.i += 1;
            self.used -= 64;
            // What did not fit: `width - used` low bits of the value are written.
            self.word = value >> 1 >> (self.width - self.used - 1);
        }
    }

    /// Writes the last word.
    pub fn finish(self) {
        if self.used > 0 {
            self.words[self.i] = self.word;
        }
    }
}

/// Reads fields of one width one after the other, without end.
pub struct Reader<'a> {
    words: &'a [u64],
    width: u32,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the first bit of `words` on; `width` is 0 to 63.
    pub fn new(words: &'a [u64], width: u32) -> Self {
        Reader {
            words,
            width,
            at: 0,
        }
    }
}

impl Reader<'_> {
    /// The next field.
    #[inline]
    pub fn next_field(&mut self) -> u64 {
        if self.width == 0 {
            return 0;
        }
        let field = read(self.words, self.at, self.width);
        self.at += self.width as usize;
        field
    }
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
            let mut writer = Writer::new(&mut words, width);
            (0..60).for_each(|i| writer.push(value(i) | !0 << 1 << (width - 1)));
            writer.finish();
            let mut reader = Reader::new(&words, width);
            assert!((0..60).all(|i| reader.next_field() == value(i)));
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
