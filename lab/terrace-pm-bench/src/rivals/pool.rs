//! Places in persistent memory for rivals: handed out one behind the other, never taken back.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use terrace_pm::Result;
use terrace_pm::pm::Pm;

/// Bytes by which the memory grows.
const STEP: u64 = 8 << 20;

/// Memory with a mark.
pub struct Pool {
    pub pm: Arc<dyn Pm>,
    next: usize,
    pub pairs: u64,
    pub writes: u64,
}

impl Pool {
    pub fn new(pm: Arc<dyn Pm>) -> Pool {
        Pool {
            pm,
            next: 0,
            pairs: 0,
            writes: 0,
        }
    }

    /// This many words, at a multiple of a unit of the medium.
    pub fn take(&mut self, words: usize) -> Result<usize> {
        let at = self.next.next_multiple_of(32);
        self.next = at + words;
        if self.next > self.pm.words().len() {
            let bytes = (self.next as u64 * 8).next_multiple_of(STEP);
            self.pm.grow(bytes.min(self.pm.capacity()))?;
        }
        Ok(at)
    }

    /// Words up to here are in use.
    pub fn skip(&mut self, to: usize) {
        self.next = self.next.max(to);
    }

    /// None are.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    pub fn load(&self, word: usize) -> u64 {
        self.pm.words().get(word).map_or(0, |w| w.load(Acquire))
    }

    pub fn store(&self, word: usize, value: u64) {
        self.pm.store(word, value);
    }

    /// Flushes whole lines, by number within a place.
    pub fn flush_lines(&self, at: usize, lines: u128) {
        for line in (0..128).filter(|line| lines >> line & 1 == 1) {
            self.pm.flush(at + line * 8, 8);
        }
    }

    /// Flushes and fences one word.
    pub fn persist(&self, word: usize) -> Result<()> {
        self.pm.flush(word, 1);
        self.pm.fence()
    }
}
