//! Memory that notes every store, flush and fence, so that tests can ask what a crash may leave.
//!
//! [`Sim::events`] is the whole history. [`Images`] walks along it and knows, at each step, what each word
//! may hold after a crash: what is durable, and every value stored since.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use terrace_base::sync::{Mutex, thread};
use terrace_base::{Error, Result};

use super::{Domain, Order, Pm, lines};

/// One step of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A word was stored.
    Store {
        /// Its number.
        word: usize,
        /// Its new value.
        value: u64,
    },
    /// A thread flushed lines.
    Flush {
        /// The first line.
        first: usize,
        /// How many.
        lines: usize,
        /// Which thread.
        thread: u64,
    },
    /// A thread fenced.
    Fence {
        /// Which thread.
        thread: u64,
    },
    /// The memory has grown to this many words of zeros, durably.
    Grow(usize),
    /// Everything is durable.
    Sync,
    /// The test's own mark: this operation is acknowledged.
    Mark(u64),
}

/// Simulated memory.
pub struct Sim {
    words: Vec<AtomicU64>,
    len: AtomicU64,
    fail_after: AtomicU64,
    domain: Domain,
    events: Option<Mutex<Vec<Event>>>,
    name: String,
}

impl Sim {
    /// All zero, with room for this many bytes.
    pub fn new(capacity: u64) -> Sim {
        Sim::from_image(&[], capacity)
    }

    /// What a crash has left.
    pub fn from_image(image: &[u64], capacity: u64) -> Sim {
        let count = (capacity / 8) as usize;
        let mut words: Vec<AtomicU64> = image.iter().map(|word| AtomicU64::new(*word)).collect();
        words.resize_with(count.max(image.len()), AtomicU64::default);
        Sim {
            words,
            len: AtomicU64::new(image.len() as u64 * 8),
            fail_after: AtomicU64::new(u64::MAX),
            domain: Domain::Power,
            events: None,
            name: "simulated memory".to_owned(),
        }
    }

    /// With another name in messages.
    pub fn named(mut self, name: impl Into<String>) -> Sim {
        self.name = name.into();
        self
    }

    /// A file whose pages the kernel writes when it likes: only [`Pm::sync`] makes anything durable.
    pub fn unprotected(mut self) -> Sim {
        self.domain = Domain::Process;
        self
    }

    /// Notes what happens from now on.
    pub fn recording(mut self) -> Sim {
        self.events = Some(Mutex::new(Vec::new()));
        self
    }

    /// From the `n`-th fence from now on, fences fail.
    pub fn fail_after(&self, n: u64) {
        self.fail_after.store(n, Release);
    }

    /// Puts a mark into the history.
    pub fn mark(&self, mark: u64) {
        self.note(|| Event::Mark(mark));
    }

    /// What has happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.events
            .as_ref()
            .map_or_else(Vec::new, |events| events.lock().clone())
    }

    /// Every word as threads see it.
    pub fn image(&self) -> Vec<u64> {
        self.words().iter().map(|word| word.load(Acquire)).collect()
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(events) = &self.events {
            events.lock().push(event());
        }
    }
}

/// A number for the calling thread.
fn this_thread() -> u64 {
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    hasher.finish()
}

impl Pm for Sim {
    fn words(&self) -> &[AtomicU64] {
        &self.words[..(self.len.load(Acquire) / 8) as usize]
    }

    fn store(&self, word: usize, value: u64) {
        // One lock for note and store, or two threads could be noted in another order than they are seen.
        let mut events = self.events.as_ref().map(Mutex::lock);
        if let Some(events) = &mut events {
            events.push(Event::Store { word, value });
        }
        if let Some(place) = self.words().get(word) {
            place.store(value, Release);
        }
    }

    fn flush(&self, word: usize, count: usize) {
        if self.domain == Domain::Process {
            return;
        }
        let range = lines(word, count);
        self.note(|| Event::Flush {
            first: range.start,
            lines: range.len(),
            thread: this_thread(),
        });
    }

    fn fence(&self) -> Result<()> {
        if self.fail_after.load(Acquire) != u64::MAX {
            let left = self.fail_after.load(Acquire);
            if left == 0 {
                return Err(Error::io(
                    "syncing",
                    self.name(),
                    std::io::Error::other("told to fail"),
                ));
            }
            self.fail_after.store(left - 1, Release);
        }
        if self.domain == Domain::Power {
            self.note(|| Event::Fence {
                thread: this_thread(),
            });
        }
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > self.capacity() {
            return Err(Error::DiskFull {
                what: format!("{bytes} bytes of {}", self.name()),
            });
        }
        self.note(|| Event::Grow((bytes / 8) as usize));
        self.len.fetch_max(bytes, Release);
        Ok(())
    }

    fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn order(&self) -> Order {
        Order::Word
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    fn sync(&self) -> Result<()> {
        self.note(|| Event::Sync);
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// A value that a word may have after a crash, and who has flushed it.
#[derive(Clone, Debug)]
struct Pending {
    value: u64,
    flushed_by: Vec<u64>,
}

/// What a crash may leave, step by step along a history.
#[derive(Clone, Debug)]
pub struct Images {
    durable: Vec<u64>,
    pending: BTreeMap<usize, Vec<Pending>>,
}

impl Images {
    /// Before the first event.
    pub fn new(durable: Vec<u64>) -> Images {
        Images {
            durable,
            pending: BTreeMap::new(),
        }
    }

    /// The next event.
    pub fn step(&mut self, event: Event) {
        match event {
            Event::Store { word, value } => {
                if self.durable.len() <= word {
                    return;
                }
                let values = self.pending.entry(word).or_default();
                values.push(Pending {
                    value,
                    flushed_by: Vec::new(),
                });
            }
            Event::Flush {
                first,
                lines,
                thread,
            } => {
                for (_, values) in self.pending.range_mut(first * 8..(first + lines) * 8) {
                    for value in values {
                        value.flushed_by.push(thread);
                    }
                }
            }
            Event::Fence { thread } => {
                self.pending.retain(|word, values| {
                    let last = values.iter().rposition(|v| v.flushed_by.contains(&thread));
                    if let Some(last) = last {
                        self.durable[*word] = values[last].value;
                        values.drain(..=last);
                    }
                    !values.is_empty()
                });
            }
            Event::Grow(words) => {
                let words = words.max(self.durable.len());
                self.durable.resize(words, 0);
            }
            Event::Sync => {
                for (word, values) in std::mem::take(&mut self.pending) {
                    if let Some(newest) = values.last() {
                        self.durable[word] = newest.value;
                    }
                }
            }
            Event::Mark(_) => {}
        }
    }

    /// How many images there are; `u64::MAX` for more.
    pub fn count(&self) -> u64 {
        self.pending.values().fold(1u64, |product, values| {
            product.saturating_mul(values.len() as u64 + 1)
        })
    }

    /// How many there are in which this word has its newest value.
    pub fn count_with(&self, word: usize) -> u64 {
        let others = self.pending.iter().filter(|(w, _)| **w != word);
        others.fold(1u64, |product, (_, values)| {
            product.saturating_mul(values.len() as u64 + 1)
        })
    }

    /// The image of this number below [`Images::count`]; with `newest`, that word has its newest value
    /// and the number is below [`Images::count_with`].
    pub fn image(&self, mut number: u64, newest: Option<usize>) -> Vec<u64> {
        let mut image = self.durable.clone();
        for (word, values) in &self.pending {
            if newest == Some(*word) {
                image[*word] = values[values.len() - 1].value;
                continue;
            }
            let choices = values.len() as u64 + 1;
            let choice = (number % choices) as usize;
            number /= choices;
            if choice > 0 {
                image[*word] = values[choice - 1].value;
            }
        }
        image
    }

    /// What threads see: every word has its newest value.
    pub fn newest(&self) -> Vec<u64> {
        let mut image = self.durable.clone();
        for (word, values) in &self.pending {
            image[*word] = values[values.len() - 1].value;
        }
        image
    }

    /// One image drawn by a stream of random numbers.
    pub fn draw(&self, newest: Option<usize>, mut random: impl FnMut() -> u64) -> Vec<u64> {
        let mut image = self.durable.clone();
        for (word, values) in &self.pending {
            if newest == Some(*word) {
                image[*word] = values[values.len() - 1].value;
                continue;
            }
            let choice = (random() % (values.len() as u64 + 1)) as usize;
            if choice > 0 {
                image[*word] = values[choice - 1].value;
            }
        }
        image
    }

    /// One image in which blocks of 32 bytes, as records of a log, are as they were or as they are.
    pub fn draw_blocks(&self, mut random: impl FnMut() -> u64) -> Vec<u64> {
        let mut image = self.durable.clone();
        let (mut block, mut is_new) = (usize::MAX, false);
        for (word, values) in &self.pending {
            if *word / 4 != block {
                (block, is_new) = (*word / 4, random() % 2 == 1);
            }
            if is_new {
                image[*word] = values[values.len() - 1].value;
            }
        }
        image
    }

    /// What is durable for certain.
    pub fn durable(&self) -> &[u64] {
        &self.durable
    }
}
