//! How often keys were asked for that are not in a hot tier: a count-min sketch of 3-bit counters.
//!
//! A record that is read from the cold tier displaces a hot one only if it was asked for more often.
//! The hot one has its use count; that of the other has to survive outside the hot tier, and its cold
//! page has left memory long before the second access. Both counters of a key lie in one cache line.
//! Counts are a hint: an update may get lost between threads. Sources: Cormode and Muthukrishnan,
//! count-min sketch, with conservative update; Einziger, Friedman and Manes, "TinyLFU", for deciding
//! admission by such counts, and for halving all of them now and then.
//!
//! It doubles while its counters are too full to tell keys apart, up to four times the size that it
//! began with: how many keys are asked for outside the hot tiers only time tells. A key's line does not
//! move for that; one more bit of its hash says in which *part* it is, and a new part begins as a copy
//! of the one that it takes keys from.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use terrace_access::Flags;
use terrace_base::sync::Mutex;

/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// Bits of a counter: as many as a use count has, with which it is compared.
const BITS: u32 = 3;
/// Counters in a word; its uppermost bit is in none.
const PER_WORD: u64 = 64 / BITS as u64;
/// Counters in a line.
const PER_LINE: u64 = LINE_WORDS as u64 * PER_WORD;
/// Highest count.
const MAX: u64 = (1 << BITS) - 1;
/// The lowest bit of each counter of a word.
const LOWEST: u64 = 0o111_111_111_111_111_111_111;
/// What stays of a word when its counters are halved.
const HALVES: u64 = LOWEST * (MAX >> 1);
/// Most times that it doubles. Simulated with 10 to 80 % of a million records hot: a part for each 128th
/// of the memory, four take it to a 32nd, and past that memory is worth more for records.
const DOUBLINGS: u32 = 2;
/// Mean count, before halving, above which it doubles. Simulated: from 1.6 on (0.28 and 0.56 counters per
/// record, 10 and 20 % of them hot) twice as many spare 4.5 and 1.2 % of the page reads and cost
/// 0.4 %; from 0.8 on nothing that the memory would not.
const CROWDED: f64 = 1.25;

const _: () = assert!(MAX == Flags::MAX_USE as u64);

/// A cache line of counters.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE_WORDS]);

/// What the hand that halves has seen.
#[derive(Default)]
struct Hand {
    /// The line that is halved next, of all parts.
    next: usize,
    /// Sum of the counts that it has found since it was at the first one.
    sum: u64,
}

/// Counts how often keys were asked for that are not in a hot tier.
pub(crate) struct Sketch {
    /// All of the same number of lines.
    parts: [OnceLock<Box<[Line]>>; 1 << DOUBLINGS],
    /// Lines of a part.
    lines: usize,
    /// How often it has doubled: two to the power of this are the parts in use.
    doubled: AtomicU32,
    hand: Mutex<Hand>,
}

impl Sketch {
    /// A sketch of about `bytes` bytes, at least one line, which may come to have four times as many.
    pub fn new(bytes: usize) -> Sketch {
        let sketch = Sketch {
            parts: Default::default(),
            lines: (bytes / size_of::<Line>()).max(1),
            doubled: AtomicU32::new(0),
            hand: Mutex::default(),
        };
        sketch.parts[0].get_or_init(|| (0..sketch.lines).map(|_| Line::default()).collect());
        sketch
    }

    fn parts(&self) -> usize {
        1 << self.doubled.load(Ordering::Acquire)
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.lines() * size_of::<Line>()
    }

    /// Number of lines, for [`Sketch::halve`].
    pub fn lines(&self) -> usize {
        self.parts() * self.lines
    }

    /// The line of a hash, and its two counters in there: word and shift.
    #[inline]
    fn places(&self, hash: u64) -> (&Line, [(usize, u32); 2]) {
        let line = ((u128::from(hash) * self.lines as u128) >> 64) as usize;
        // The line takes the upper bits, the part two in the middle; these are the lower ones.
        let place = |bits: u64| {
            let at = ((bits & 0xFFFF) * PER_LINE) >> 16;
            ((at / PER_WORD) as usize, (at % PER_WORD) as u32 * BITS)
        };
        let part = (hash >> 32) as usize & (self.parts() - 1);
        let lines = self.parts[part].get().or_else(|| self.parts[0].get());
        let lines: &[Line] = lines.map_or(&[], |lines| lines);
        (&lines[line], [place(hash), place(hash >> 16)])
    }

    /// Asks the processor for the counters of a hash, which are about to be read.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        terrace_pages::prefetch(self.places(hash).0);
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
                // Another thread at the same instant wins.
                let _ = cell.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Halves the counters of as many lines, going round. Returns the bytes by which it has become
    /// larger.
    pub fn halve(&self, lines: usize) -> usize {
        if lines == 0 {
            return 0;
        }
        let mut hand = self.hand.lock();
        for _ in 0..lines.min(self.lines()) {
            let (part, line) = (hand.next / self.lines, hand.next % self.lines);
            if let Some(line) = self.parts.get(part).and_then(|part| part.get()?.get(line)) {
                for word in &line.0 {
                    let before = word.load(Ordering::Relaxed);
                    for bit in 0..BITS {
                        hand.sum += u64::from((before >> bit & LOWEST).count_ones()) << bit;
                    }
                    word.store(before >> 1 & HALVES, Ordering::Relaxed);
                }
            }
            hand.next += 1;
            if hand.next >= self.lines() {
                let mean = hand.sum as f64 / (self.lines() as u64 * PER_LINE) as f64;
                *hand = Hand::default();
                if mean > CROWDED {
                    return self.double();
                }
            }
        }
        0
    }

    /// Makes it twice as large, if it may become so. O(size), a millisecond for each few mebibytes.
    fn double(&self) -> usize {
        let (parts, before) = (self.parts(), self.memory_bytes());
        if 2 * parts > self.parts.len() {
            return 0;
        }
        for (from, to) in self.parts[..parts].iter().zip(&self.parts[parts..]) {
            let from: &[Line] = from.get().map_or(&[], |lines| lines);
            // What is counted meanwhile may be missing from the copy.
            let copy = |line: &Line| {
                let word = |i: usize| AtomicU64::new(line.0[i].load(Ordering::Relaxed));
                Line(std::array::from_fn(word))
            };
            to.get_or_init(|| from.iter().map(copy).collect());
        }
        self.doubled.fetch_add(1, Ordering::Release);
        self.memory_bytes() - before
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
        // A quarter of the counters in use.
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
        assert!(over < 300, "{over} counts are too high");
    }

    #[test]
    fn counts_end_at_the_highest_and_halve_without_touching_others() {
        let sketch = Sketch::new(64);
        // A key for each of the counters of a line, which lie side by side.
        let at = |i: u64| (i << 16) / PER_LINE + 1;
        let key = |i: u64| at(i) << 16 | at(i);
        for i in 0..PER_LINE {
            assert_eq!(sketch.count(key(i)), 0);
            for _ in 0..i % 11 {
                sketch.add(key(i));
            }
        }
        let count = |i: u64| (i % 11).min(MAX) as u8;
        for i in 0..PER_LINE {
            assert_eq!(sketch.count(key(i)), count(i), "of {i}");
        }
        sketch.halve(5);
        for i in 0..PER_LINE {
            assert_eq!(sketch.count(key(i)), count(i) / 2, "half of {i}");
        }
    }

    #[test]
    fn it_doubles_while_it_is_crowded_and_keeps_what_it_has_counted() {
        let sketch = Sketch::new(1 << 14);
        let mut grown = Vec::new();
        let (mut high, mut highest) = (Vec::new(), Vec::new());
        for round in 0..40 {
            // Three keys for each counter at first, and some that are asked for often.
            for key in 0..129_000 {
                for _ in 0..if key < 100 { 7 } else { 1 } {
                    sketch.add(mix(key, 7));
                }
            }
            let before: Vec<u8> = (0..100).map(|key| sketch.count(mix(key, 7))).collect();
            assert!(before.iter().all(|&count| count == 7));
            let bytes = sketch.halve(sketch.lines());
            if bytes > 0 {
                grown.push((round, bytes));
                let after: Vec<u8> = (0..100).map(|key| sketch.count(mix(key, 7))).collect();
                assert!(after.iter().all(|&count| count >= 3), "{after:?}");
            }
            let others = (1000..2000).map(|key| u32::from(sketch.count(mix(key, 7))));
            high.push(others.sum::<u32>());
            highest.push(sketch.memory_bytes());
        }
        let sizes: Vec<usize> = grown.iter().map(|step| step.1).collect();
        assert!(!sizes.is_empty() && sizes[0] == 1 << 14, "{grown:?}");
        assert_eq!(
            sketch.memory_bytes(),
            (1 << 14) + sizes.iter().sum::<usize>()
        );
        assert!(high[39] < high[1] * 3 / 4, "{high:?}");
        // With a handful of keys it stays as it is.
        let sketch = Sketch::new(1 << 14);
        for _ in 0..40 {
            for key in 0..5000 {
                sketch.add(mix(key, 7));
            }
            assert_eq!(sketch.halve(sketch.lines()), 0);
        }
    }
}
