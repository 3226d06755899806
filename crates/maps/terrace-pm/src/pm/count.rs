//! Counts what goes to the memory below: fences, lines, units of the medium, lines read.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, Ordering};
use terrace_base::Result;
use terrace_base::sync::Mutex;

use super::{Domain, Order, Pm, lines};

/// Units of 256 bytes that the medium's buffer merges writes to. Sixteen KiB is what was measured of the
/// buffer in such modules.
const MERGED_UNITS: usize = 64;
/// Lines of a unit.
const UNIT_LINES: usize = 4;

thread_local! {
    /// Whether this thread has flushed since its last fence.
    static WAITING: Cell<bool> = const { Cell::new(false) };
}

/// What was counted since the last [`Count::reset`].
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Fences that had something to wait for.
    pub fences: u64,
    /// Lines flushed.
    pub lines: u64,
    /// Units of 256 bytes that reach the medium behind its buffer.
    pub units: u64,
    /// Lines of leaves that were read.
    pub read: u64,
}

/// Counts what another [`Pm`] is asked to do.
pub struct Count<P> {
    below: P,
    fences: AtomicU64,
    flushed: AtomicU64,
    units: AtomicU64,
    read: AtomicU64,
    recent: Mutex<VecDeque<usize>>,
}

impl<P: Pm> Count<P> {
    /// Counts what goes to `below`.
    pub fn new(below: P) -> Self {
        Count {
            below,
            fences: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            units: AtomicU64::new(0),
            read: AtomicU64::new(0),
            recent: Mutex::new(VecDeque::new()),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts {
            fences: self.fences.load(Relaxed),
            lines: self.flushed.load(Relaxed),
            units: self.units.load(Relaxed),
            read: self.read.load(Relaxed),
        }
    }

    /// Begins again at zero.
    pub fn reset(&self) {
        for counter in [&self.fences, &self.flushed, &self.units, &self.read] {
            counter.store(0, Relaxed);
        }
    }
}

impl<P: Pm> Pm for Count<P> {
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
        WAITING.set(true);
        let range = lines(word, count);
        self.flushed.fetch_add(range.len() as u64, Relaxed);
        let mut recent = self.recent.lock();
        for unit in range.start / UNIT_LINES..range.end.div_ceil(UNIT_LINES) {
            match recent.iter().position(|known| *known == unit) {
                Some(at) => {
                    recent.remove(at);
                }
                None => {
                    self.units.fetch_add(1, Relaxed);
                }
            }
            recent.push_back(unit);
            if recent.len() > MERGED_UNITS {
                recent.pop_front();
            }
        }
        drop(recent);
        self.below.flush(word, count);
    }

    fn fence(&self) -> Result<()> {
        if WAITING.replace(false) {
            self.fences.fetch_add(1, Ordering::Relaxed);
        }
        self.below.fence()
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
        self.read.fetch_add(lines, Relaxed);
    }

    fn is_slow(&self) -> bool {
        self.below.is_slow()
    }

    fn name(&self) -> &str {
        self.below.name()
    }
}
