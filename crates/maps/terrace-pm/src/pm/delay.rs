//! Makes fences as slow as those of persistent memory, on memory that is faster.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use terrace_base::Result;

use super::{Domain, Order, Pm, lines};

thread_local! {
    /// The last line that this thread flushed, whether what it flushed since the fence lay next to it, and
    /// whether it flushed anything.
    static LAST: Cell<(usize, bool, bool)> = const { Cell::new((0, true, false)) };
}

/// Fences that take as long as they are told to.
pub struct Delay<P> {
    below: P,
    next: Duration,
    far: Duration,
}

impl<P: Pm> Delay<P> {
    /// A fence takes `next` if every line before it lay next to the line flushed before, and `far` if not; one
    /// with nothing to wait for takes none.
    pub fn new(below: P, next: Duration, far: Duration) -> Self {
        Delay { below, next, far }
    }
}

impl<P: Pm> Pm for Delay<P> {
    fn words(&self) -> &[AtomicU64] {
        self.below.words()
    }

    fn store(&self, word: usize, value: u64) {
        self.below.store(word, value);
    }

    fn store_all(&self, word: usize, values: &[u64]) {
        self.below.store_all(word, values);
    }

    fn flush(&self, word: usize, count: usize) {
        let range = lines(word, count);
        LAST.with(|last| {
            let (line, near, _) = last.get();
            let beside = range.start == line || range.start == line + 1;
            last.set((range.end - 1, near && beside, true));
        });
        self.below.flush(word, count);
    }

    fn fence(&self) -> Result<()> {
        let (near, some) = LAST.with(|last| {
            let (line, near, some) = last.get();
            last.set((line, true, false));
            (near, some)
        });
        self.below.fence()?;
        if !some {
            return Ok(());
        }
        let wait = if near { self.next } else { self.far };
        let began = Instant::now();
        while began.elapsed() < wait {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.below.grow(bytes)
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

    fn has_read(&self, lines: u64) {
        self.below.has_read(lines);
    }

    fn name(&self) -> &str {
        self.below.name()
    }
}
