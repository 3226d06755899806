//! Sorted leaves as FAST+FAIR's: pairs are shifted from the right, each line that is left behind is flushed
//! and fenced, and readers tolerate a pair that is there twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pm::Result;
use terrace_pm::pm::Pm;

use super::pool::Pool;
use super::rival::Rival;

/// Pairs of a leaf.
const SLOTS: usize = 29;
/// Words before the pairs: count, sibling.
const HEADER: usize = 4;
const WORDS: usize = 64;

/// The tree.
pub struct FastFair {
    pool: Pool,
    leaves: BTreeMap<u64, usize>,
}

impl FastFair {
    /// An empty one.
    pub fn new(pm: Arc<dyn Pm>) -> FastFair {
        FastFair {
            pool: Pool::new(pm),
            leaves: BTreeMap::new(),
        }
    }

    fn leaf(&self, key: u64) -> Option<usize> {
        self.leaves.range(..=key).next_back().map(|(_, at)| *at)
    }

    fn len(&self, at: usize) -> usize {
        (self.pool.load(at) as usize).min(SLOTS)
    }

    fn pair(&self, at: usize, i: usize) -> (u64, u64) {
        let word = at + HEADER + 2 * i;
        (self.pool.load(word), self.pool.load(word + 1))
    }

    /// The first place whose key is not less.
    fn place(&self, at: usize, key: u64) -> usize {
        let len = self.len(at);
        // It scans from the left.
        let place = (0..len).find(|i| self.pair(at, *i).0 >= key).unwrap_or(len);
        self.pool.pm.has_read((HEADER + 2 * place) as u64 / 8 + 1);
        place
    }

    /// Over the pair of this place, line by line.
    fn shift_left(&self, at: usize, place: usize, len: usize) -> Result<()> {
        let mut line = (HEADER + 2 * place) / 8;
        for i in place..len - 1 {
            let (key, value) = self.pair(at, i + 1);
            let word = at + HEADER + 2 * i;
            let now = (HEADER + 2 * i) / 8;
            if now != line {
                self.pool.persist(at + line * 8)?;
                line = now;
            }
            self.pool.store(word + 1, value);
            self.pool.store(word, key);
        }
        self.pool.persist(at + line * 8)?;
        self.pool.store(at, len as u64 - 1);
        self.pool.persist(at)
    }

    fn split(&mut self, at: usize) -> Result<()> {
        let half = SLOTS / 2;
        let new = self.pool.take(WORDS)?;
        for i in half..SLOTS {
            let (key, value) = self.pair(at, i);
            let word = new + HEADER + 2 * (i - half);
            self.pool.store(word, key);
            self.pool.store(word + 1, value);
        }
        self.pool.store(new, (SLOTS - half) as u64);
        self.pool.store(new + 1, self.pool.load(at + 1));
        self.pool.pm.flush(new, HEADER + 2 * (SLOTS - half));
        self.pool.pm.fence()?;
        self.pool.store(at + 1, new as u64);
        self.pool.persist(at + 1)?;
        self.pool.store(at, half as u64);
        self.pool.persist(at)?;
        self.leaves.insert(self.pair(new, 0).0, new);
        Ok(())
    }
}

impl Rival for FastFair {
    fn put(&mut self, key: u64, value: u64) -> Result<()> {
        if self.leaves.is_empty() {
            let first = self.pool.take(WORDS)?;
            self.leaves.insert(0, first);
        }
        let mut at = self.leaf(key).unwrap_or(0);
        self.pool.pairs += 1;
        self.pool.writes += 1;
        let place = self.place(at, key);
        if place < self.len(at) && self.pair(at, place).0 == key {
            let word = at + HEADER + 2 * place + 1;
            self.pool.store(word, value);
            return self.pool.persist(word);
        }
        if self.len(at) == SLOTS {
            self.split(at)?;
            at = self.leaf(key).unwrap_or(0);
        }
        let len = self.len(at);
        let place = self.place(at, key);
        let mut line = (HEADER + 2 * len) / 8;
        for i in (place..len).rev() {
            let (key, value) = self.pair(at, i);
            let word = at + HEADER + 2 * (i + 1);
            self.pool.store(word + 1, value);
            self.pool.store(word, key);
            let now = (HEADER + 2 * i) / 8;
            if now != line {
                self.pool.persist(at + line * 8)?;
                line = now;
            }
        }
        let word = at + HEADER + 2 * place;
        self.pool.store(word + 1, value);
        self.pool.store(word, key);
        self.pool.store(at, len as u64 + 1);
        // The count is a hint there: what is not zero is found by scanning. One line is flushed.
        self.pool.persist(word)
    }

    fn delete(&mut self, key: u64) -> Option<Result<()>> {
        let Some(at) = self.leaf(key) else {
            return Some(Ok(()));
        };
        let (place, len) = (self.place(at, key), self.len(at));
        if place == len || self.pair(at, place).0 != key {
            return Some(Ok(()));
        }
        Some(self.shift_left(at, place, len))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let Some(at) = self.leaf(key) else {
            return Ok(None);
        };
        let place = self.place(at, key);
        let found = (place < self.len(at)).then(|| self.pair(at, place));
        Ok(found.filter(|pair| pair.0 == key).map(|pair| pair.1))
    }

    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::with_capacity(count);
        let low = self.leaves.range(..=from).next_back().map_or(0, |l| *l.0);
        for at in self.leaves.range(low..).map(|(_, at)| *at) {
            self.pool.pm.has_read(8);
            let pairs = (0..self.len(at)).map(|i| self.pair(at, i));
            found.extend(pairs.filter(|pair| pair.0 >= from));
            if found.len() >= count {
                break;
            }
        }
        found.truncate(count);
        Ok(found)
    }

    fn dram(&self) -> u64 {
        self.leaves.len() as u64 * 24
    }

    fn leaf_writes(&self) -> (u64, u64) {
        (self.pool.pairs, self.pool.writes)
    }

    fn reset(&mut self) {
        (self.pool.pairs, self.pool.writes) = (0, 0);
    }
}
