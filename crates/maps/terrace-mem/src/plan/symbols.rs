//! Symbols: byte strings of up to eight bytes that stand for what the rests of keys often have in them.
//!
//! A rest is written as codes, of one byte each: that of a symbol, or [`ESCAPE`] and the byte itself. This is
//! the manner of FSST (P. Boncz, T. Neumann, V. Leis, VLDB 2020). A table is made of a sample in [`ROUNDS`]:
//! each writes the sample with the symbols of the last one, and takes those and their pairs that cover most.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Not a symbol: the byte behind it is meant.
const ESCAPE: u8 = 255;

/// Symbols of a table at most.
const MOST: usize = ESCAPE as usize;

/// The longest symbol.
pub const LONGEST: usize = 8;

/// Rounds of [`Training`]: more of them gain less than a hundredth.
const ROUNDS: usize = 6;

/// Symbols and pairs that a round counts, as a power of two; what finds no place is left out.
const PLACES: usize = 1 << 13;

/// A table of symbols.
pub struct Symbols {
    /// The bytes of each symbol, the first one lowest, and noughts behind.
    texts: [u64; 256],
    lens: [u8; 256],
    /// For each byte the first code of the symbols that begin with it; these come in a row, longer ones first.
    starts: [u8; 257],
}

/// A number of which the lowest bytes, this many, are ones.
#[inline]
fn mask(len: u8) -> u64 {
    !0 >> (64 - 8 * u32::from(len))
}

/// Up to eight bytes as a number, the first one lowest.
#[inline]
fn word(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..text.len()].copy_from_slice(text);
            u64::from_le_bytes(bytes)
        }
    }
}

impl Symbols {
    /// A table of these symbols.
    fn of(mut found: Vec<(u64, u8)>) -> Self {
        found.truncate(MOST);
        found.sort_unstable_by_key(|&(text, len)| (text as u8, u8::MAX - len, text));
        let mut table = Symbols {
            texts: [0; 256],
            lens: [1; 256],
            starts: [found.len() as u8; 257],
        };
        for (code, (text, len)) in found.into_iter().enumerate().rev() {
            (table.texts[code], table.lens[code]) = (text, len);
            table.starts[text as usize % 256] = code as u8;
        }
        // A byte that no symbol begins with has none before the next one's.
        for byte in (0..256).rev() {
            table.starts[byte] = table.starts[byte].min(table.starts[byte + 1]);
        }
        table
    }

    /// The symbol that `text`, which is not empty, is best begun with.
    #[inline]
    fn first(&self, text: &[u8]) -> Option<u8> {
        let (word, byte) = (word(text), usize::from(text[0]));
        (self.starts[byte]..self.starts[byte + 1]).find(|&code| {
            let (symbol, len) = (self.texts[usize::from(code)], self.lens[usize::from(code)]);
            (word ^ symbol) & mask(len) == 0 && usize::from(len) <= text.len()
        })
    }

    /// Appends the codes of a text.
    #[inline(never)]
    pub fn encode(&self, mut text: &[u8], into: &mut Vec<u8>) {
        while !text.is_empty() {
            let len = match self.first(text) {
                Some(code) => {
                    into.push(code);
                    usize::from(self.lens[usize::from(code)])
                }
                None => {
                    into.extend_from_slice(&[ESCAPE, text[0]]);
                    1
                }
            };
            text = &text[len..];
        }
    }

    /// How many bytes the codes have of the first `n` bytes of a text.
    #[inline(never)]
    pub fn skip(&self, codes: &[u8], n: usize) -> usize {
        let (mut at, mut len) = (0, 0);
        while len < n {
            let code = codes[at];
            // That of an escape is one, as that of its byte.
            len += usize::from(self.lens[usize::from(code)]);
            at += 1 + usize::from(code == ESCAPE);
        }
        at
    }

    /// Writes the bytes that codes stand for from the beginning of `out` on until there are `n`, and up to
    /// [`LONGEST`] others behind, for which there must be room; how many there are, and how many bytes the
    /// codes had.
    #[inline]
    pub fn decode(&self, codes: &[u8], n: usize, out: &mut [u8]) -> (usize, usize) {
        let (mut at, mut len) = (0, 0);
        while len < n {
            let code = codes[at];
            let mut text = self.texts[usize::from(code)];
            if code == ESCAPE {
                at += 1;
                text = u64::from(codes[at]);
            }
            out[len..len + LONGEST].copy_from_slice(&text.to_le_bytes());
            len += usize::from(self.lens[usize::from(code)]);
            at += 1;
        }
        (len, at)
    }
}

/// Symbols on their way, out of a sample.
pub struct Training {
    /// The texts, end to end, and where each ends.
    texts: Vec<u8>,
    ends: Vec<u32>,
    table: Symbols,
    rounds: usize,
    /// What the last round has written the sample with.
    written: usize,
}

/// How often bytes were met.
struct Counts(Box<[(u64, u8, u32)]>);

impl Counts {
    fn add(&mut self, text: u64, len: u8) {
        let first = (text ^ u64::from(len)).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 32;
        for next in 0..4 {
            let place = &mut self.0[(first + next) % PLACES];
            if place.2 == 0 {
                (place.0, place.1) = (text, len);
            }
            if (place.0, place.1) == (text, len) {
                // As much as it covers.
                place.2 += u32::from(len);
                return;
            }
        }
    }

    /// Those that cover most.
    fn best(self) -> Vec<(u64, u8)> {
        let mut all = self.0.into_vec();
        all.retain(|place| place.2 > 0);
        if all.len() > MOST {
            all.select_nth_unstable_by(MOST - 1, |a, b| b.2.cmp(&a.2).then(a.cmp(b)));
        }
        all.into_iter()
            .take(MOST)
            .map(|(text, len, _)| (text, len))
            .collect()
    }
}

impl Training {
    /// With a sample: texts end to end, and where each ends.
    pub fn new(texts: Vec<u8>, ends: Vec<u32>) -> Self {
        Training {
            texts,
            ends,
            table: Symbols::of(Vec::new()),
            rounds: 0,
            written: usize::MAX,
        }
    }

    /// All rounds at once, whatever they save.
    #[cfg(test)]
    pub fn finish(mut self) -> Symbols {
        (0..ROUNDS).for_each(|_| assert!(self.step().is_none()));
        self.table
    }

    /// Bytes on the heap, and of itself.
    pub fn bytes(&self) -> usize {
        size_of_val(self) + self.texts.capacity() + self.ends.capacity() * 4
    }

    /// One round; the table when it was the last one, unless it saves less than an eighth. O(sample).
    pub fn step(&mut self) -> Option<Option<Symbols>> {
        let mut counts = Counts(vec![(0, 0, 0); PLACES].into());
        let mut written = 0;
        let mut from = 0;
        for &end in &self.ends {
            let mut text = &self.texts[from..end as usize];
            from = end as usize;
            let mut last: Option<(u64, u8)> = None;
            while !text.is_empty() {
                let (symbol, len, codes) = match self.table.first(text).map(usize::from) {
                    Some(code) => (self.table.texts[code], self.table.lens[code], 1),
                    None => (u64::from(text[0]), 1, 2),
                };
                written += codes;
                counts.add(symbol, len);
                if let Some((before, n)) = last
                    && usize::from(n + len) <= LONGEST
                {
                    counts.add(before | symbol << (8 * n), n + len);
                }
                last = Some((symbol, len));
                text = &text[usize::from(len)..];
            }
        }
        self.written = written;
        self.rounds += 1;
        if self.rounds > ROUNDS {
            let saves = self.written * 8 < self.texts.len() * 7;
            let table = core::mem::replace(&mut self.table, Symbols::of(Vec::new()));
            return Some(saves.then_some(table));
        }
        self.table = Symbols::of(counts.best());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(texts: &[&[u8]]) -> Option<Symbols> {
        let mut ends = Vec::new();
        for text in texts {
            ends.push(ends.last().copied().unwrap_or(0) + text.len() as u32);
        }
        let mut training = Training::new(texts.concat(), ends);
        loop {
            if let Some(done) = training.step() {
                return done;
            }
        }
    }

    fn round_trip(table: &Symbols, text: &[u8]) -> usize {
        let mut codes = Vec::new();
        table.encode(text, &mut codes);
        let n = codes.len();
        // What lies behind is not read for more.
        codes.extend([7, 255, 255]);
        let mut back = vec![0; text.len() + LONGEST];
        let (len, read) = table.decode(&codes, text.len(), &mut back);
        assert_eq!((read, &back[..len]), (n, text));
        assert_eq!(table.skip(&codes, text.len()), n);
        n
    }

    #[test]
    fn texts_come_back_as_they_were() {
        let names = [
            "johnson",
            "john",
            "jo",
            "peterson",
            "peters",
            "miller.a",
            "aaaaaaaaaaaaaaaaaaaa",
            "",
        ];
        let mut sample: Vec<&[u8]> = Vec::new();
        (0..200).for_each(|i| sample.push(names[i % names.len()].as_bytes()));
        let table = trained(&sample).expect("it saves much");
        let plain: usize = sample.iter().map(|text| text.len()).sum();
        let coded: usize = sample.iter().map(|text| round_trip(&table, text)).sum();
        assert!(coded * 3 < plain, "{coded} of {plain}");
        // Bytes that the sample has not, and noughts where a symbol may end.
        for text in [
            &b"\0"[..],
            b"j\0",
            b"jo\0\0\0",
            b"\xFF\xFE",
            &[0; 300],
            b"john\0johnson\xFF",
        ] {
            round_trip(&table, text);
        }
        for byte in 0..=255u8 {
            round_trip(&table, &[byte, b'j', byte]);
        }
    }

    #[test]
    fn there_is_no_table_where_it_saves_little() {
        let mut x = 1u64;
        let noise: Vec<u8> = (0..8000)
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (x >> 56) as u8
            })
            .collect();
        let texts: Vec<&[u8]> = noise.chunks(8).collect();
        assert!(trained(&texts).is_none());
        assert!(trained(&[]).is_none());
    }
}
