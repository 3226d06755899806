//! Ordinary memory in the place of persistent memory: for counting and for measuring, not for keeping.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use terrace_base::{Error, Result};

use super::mapped::Mapped;
use super::{Domain, Order, Pm};

/// Words of ordinary memory. Pages that are never touched cost nothing.
pub struct Heap {
    map: Mapped,
    words: usize,
    len: AtomicU64,
}

impl Heap {
    /// Room for `capacity` bytes.
    pub fn new(capacity: u64) -> Result<Heap> {
        let words = usize::try_from(capacity / 8).unwrap_or(usize::MAX / 8);
        let map = Mapped::anonymous(words * 8)
            .map_err(|e| Error::io("mapping memory of", format!("{capacity} bytes"), e))?;
        Ok(Heap {
            map,
            words,
            len: AtomicU64::new(0),
        })
    }
}

impl Pm for Heap {
    fn words(&self) -> &[AtomicU64] {
        self.map.words((self.len.load(Acquire) / 8) as usize)
    }

    fn store_all(&self, word: usize, values: &[u64]) {
        super::store_words(self.words(), word, values);
    }

    fn flush(&self, _word: usize, _count: usize) {}

    fn fence(&self) -> Result<()> {
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > self.capacity() {
            return Err(Error::DiskFull {
                what: format!("{bytes} bytes of {}", self.name()),
            });
        }
        self.len.fetch_max(bytes, Release);
        Ok(())
    }

    fn capacity(&self) -> u64 {
        self.words as u64 * 8
    }

    fn order(&self) -> Order {
        Order::Line
    }

    fn domain(&self) -> Domain {
        Domain::Power
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn name(&self) -> &str {
        "memory"
    }
}
