//! Simulated memory that asks the test before it grows, and tells it before a leaf is read.

use std::sync::atomic::AtomicU64;

use terrace_pm::Result;
use terrace_pm::pm::{Domain, Order, Pm, Sim};

type Grow = Box<dyn Fn(&Sim, u64) -> Result<()> + Send + Sync>;
type Read = Box<dyn Fn() + Send + Sync>;

/// The memory.
pub struct Hooked {
    below: Sim,
    grow: Grow,
    read: Read,
}

impl Hooked {
    /// Grows, and is read, without a word.
    pub fn new(below: Sim) -> Hooked {
        Hooked {
            below,
            grow: Box::new(|below, bytes| below.grow(bytes)),
            read: Box::new(|| {}),
        }
    }

    /// Grows so.
    #[allow(dead_code)] // Each test file uses its own part of this.
    pub fn growing(
        mut self,
        grow: impl Fn(&Sim, u64) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.grow = Box::new(grow);
        self
    }

    /// Before and after a leaf is read this is called.
    #[allow(dead_code)]
    pub fn reading(mut self, read: impl Fn() + Send + Sync + 'static) -> Self {
        self.read = Box::new(read);
        self
    }
}

impl Pm for Hooked {
    fn words(&self) -> &[AtomicU64] {
        self.below.words()
    }
    fn store(&self, word: usize, value: u64) {
        self.below.store(word, value);
    }
    fn flush(&self, word: usize, count: usize) {
        self.below.flush(word, count);
    }
    fn fence(&self) -> Result<()> {
        self.below.fence()
    }
    fn grow(&self, bytes: u64) -> Result<()> {
        (self.grow)(&self.below, bytes)
    }
    fn capacity(&self) -> u64 {
        self.below.capacity()
    }
    fn order(&self) -> Order {
        self.below.order()
    }
    fn domain(&self) -> Domain {
        self.below.domain()
    }
    fn sync(&self) -> Result<()> {
        self.below.sync()
    }
    fn has_read(&self, _lines: u64) {
        (self.read)();
    }
    fn name(&self) -> &str {
        "a memory with hooks"
    }
}
