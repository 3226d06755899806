//! How often keys were asked for that are not in a hot tier: a count-min sketch of 4-bit counters.
//!
//! A record that is read from the cold tier displaces a hot one only if it was asked for more often.
//! The hot one has its use count; that of the other has to survive outside the hot tier, and its cold
//! page has left memory long before the second access. Both counters of a key lie in one cache line.
//! Counts are a hint: an update may get lost between threads. Sources: Cormode and Muthukrishnan,
//! count-min sketch, with conservative update; Einziger, Friedman and Manes, "TinyLFU", for deciding
//! admission by such counts, and for halving all of them now and then.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// Counters in a word.
const PER_WORD: usize = 16;
/// Highest count.
const MAX: u64 = 15;
/// What stays of a word when its counters are halved.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// A cache line of counters.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE_WORDS]);

/// See the module's text.
pub(crate) struct Sketch {
    lines: Box<[Line]>,
    /// The line that is halved next.
    hand: AtomicUsize,
}

impl Sketch {
    /// A sketch of about `bytes` bytes, at least one line.
    pub fn new(bytes: usize) -> Sketch {
        let lines = (bytes / size_of::<Line>()).max(1);
        Sketch {
            lines: (0..lines).map(|_| Line::default()).collect(),
            hand: AtomicUsize::new(0),
        }
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Number of lines, for [`Sketch::halve`].
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The line of a hash, and its two counters in there: word and shift.
    #[inline]
    fn places(&self, hash: u64) -> (&Line, [(usize, u32); 2]) {
        let line = ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize;
        // The line takes the upper bits; these are the lower ones.
        let place = |bits: u64| {
            let at = bits as usize % (LINE_WORDS * PER_WORD);
            (at / PER_WORD, (at % PER_WORD) as u32 * 4)
        };
        (&self.lines[line], [place(hash), place(hash >> 7)])
    }

    /// How often the key with this hash was asked for, as far as it is known: never too few, but for
    /// halving and lost updates.
    #[inline]
    pub fn count(&self, hash: u64) -> u8 {
        let (line, places) = self.places(hash);
        let counts =
            places.map(|(word, shift)| line.0[word].load(Ordering::Relaxed) >> shift & MAX);
        counts[0].min(counts[1]) as u8
    }

    /// Counts one more access; returns the count.
    pub fn add(&self, hash: u64) -> u8 {
        let count = self.count(hash).saturating_add(1).min(MAX as u8);
        self.keep(hash, count);
        count
    }

    /// Sees to it that the count is at least this: of a record that leaves a hot tier.
    pub fn keep(&self, hash: u64, count: u8) {
        let count = u64::from(count).min(MAX);
        if count == 0 {
            return;
        }
        let (line, places) = self.places(hash);
        for (word, shift) in places {
            let cell = &line.0[word];
            let before = cell.load(Ordering::Relaxed);
            if before >> shift & MAX < count {
                let after = before & !(MAX << shift) | count << shift;
                // Somebody else at the same instant wins.
                let _ = cell.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Halves the counters of as many lines, going round.
    pub fn halve(&self, lines: usize) {
        let lines = lines.min(self.lines.len());
        let from = self.hand.fetch_add(lines, Ordering::Relaxed);
        for i in from..from.wrapping_add(lines) {
            for word in &self.lines[i % self.lines.len()].0 {
                let before = word.load(Ordering::Relaxed);
                word.store(before >> 1 & HALVES, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use terrace_base::checksum::mix;

    #[test]
    fn counts_are_never_too_few_and_rarely_too_many() {
        let sketch = Sketch::new(1 << 14);
        assert_eq!(sketch.memory_bytes(), 1 << 14);
        // A third of the counters in use.
        for key in 0..5000 {
            for _ in 0..key % 4 {
                sketch.add(mix(key, 7));
            }
        }
        let over = (0..5000)
            .filter(|&key| {
                let count = u64::from(sketch.count(mix(key, 7)));
                assert!(count >= key % 4, "key {key} has {count}");
                count > key % 4
            })
            .count();
        assert!(over < 500, "{over} counts are too high");
    }

    #[test]
    fn counts_end_at_the_highest_and_halve_without_touching_others() {
        let sketch = Sketch::new(64);
        for _ in 0..100 {
            sketch.add(3);
        }
        assert_eq!(sketch.count(3), 15);
        sketch.keep(3 << 14 | 9 << 7 | 9, 4);
        assert_eq!(sketch.count(3), 15);
        sketch.halve(5);
        assert_eq!(
            (sketch.count(3), sketch.count(3 << 14 | 9 << 7 | 9)),
            (7, 2)
        );
    }
}
