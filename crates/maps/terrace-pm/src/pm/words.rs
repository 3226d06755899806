//! What every memory can do: words that are stored, flushed and fenced.

use std::sync::atomic::{AtomicU64, Ordering};
use terrace_base::Result;

/// Bytes of a word: what is stored and torn as one.
pub const WORD: usize = 8;
/// Words of a line: what is flushed as one.
pub const LINE_WORDS: usize = 8;

/// What the storage may do to the order of stores in a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// A prefix of the stores to each line survives (x86).
    Line,
    /// Each word has any value stored since it was last durable (anything else, and files).
    Word,
}

/// What a fenced store survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// A crash of the process, and no more.
    Process,
    /// A power cut.
    Power,
}

/// Memory that outlives the process.
///
/// Places are word numbers: byte / 8.
pub trait Pm: Send + Sync {
    /// All words that there are now. Loads go straight to them; stores go through [`Pm::store`].
    fn words(&self) -> &[AtomicU64];

    /// Stores a word; durable only after [`Pm::flush`] and [`Pm::fence`].
    fn store(&self, word: usize, value: u64) {
        if let Some(place) = self.words().get(word) {
            place.store(value, Ordering::Release);
        }
    }

    /// Stores these words from `word` on, one after the other, as [`Pm::store`] does.
    fn store_all(&self, word: usize, values: &[u64]) {
        for (i, value) in values.iter().enumerate() {
            self.store(word + i, *value);
        }
    }

    /// Begins to write the lines that hold these words.
    fn flush(&self, word: usize, count: usize);

    /// Waits until everything that *this thread* flushed is durable.
    fn fence(&self) -> Result<()>;

    /// Makes room for this many bytes in all; [`terrace_base::Error::DiskFull`] if there is none.
    fn grow(&self, bytes: u64) -> Result<()>;

    /// The most bytes that [`Pm::grow`] can give.
    fn capacity(&self) -> u64;

    /// What may be torn.
    fn order(&self) -> Order;

    /// What a fence is worth.
    fn domain(&self) -> Domain;

    /// Writes everything to the device, whatever the domain.
    fn sync(&self) -> Result<()>;

    /// Told by readers how many lines of leaves they have read; only counters listen.
    fn has_read(&self, _lines: u64) {}

    /// Whether fences are so slow that no thread should wait for one with a latch held.
    fn is_slow(&self) -> bool {
        false
    }

    /// The name in messages.
    fn name(&self) -> &str;
}

impl Pm for Box<dyn Pm> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }

    fn store(&self, word: usize, value: u64) {
        (**self).store(word, value);
    }

    fn store_all(&self, word: usize, values: &[u64]) {
        (**self).store_all(word, values);
    }

    fn flush(&self, word: usize, count: usize) {
        (**self).flush(word, count);
    }

    fn fence(&self) -> Result<()> {
        (**self).fence()
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        (**self).grow(bytes)
    }

    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn order(&self) -> Order {
        (**self).order()
    }

    fn domain(&self) -> Domain {
        (**self).domain()
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn has_read(&self, lines: u64) {
        (**self).has_read(lines);
    }

    fn is_slow(&self) -> bool {
        (**self).is_slow()
    }

    fn name(&self) -> &str {
        (**self).name()
    }
}

/// Stores these words to memory where stores are not noted.
pub(super) fn store_words(words: &[AtomicU64], word: usize, values: &[u64]) {
    let places = words.get(word..).unwrap_or_default();
    for (place, value) in places.iter().zip(values) {
        place.store(*value, Ordering::Release);
    }
}

/// The lines that hold `count` words from `word` on, as a range of line numbers.
#[inline]
pub fn lines(word: usize, count: usize) -> std::ops::Range<usize> {
    word / LINE_WORDS..(word + count.max(1)).div_ceil(LINE_WORDS)
}
