//! Unsorted leaves of 28 pairs without a buffer: slot, fence, word, fence. The floor to beat.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pm::Result;
use terrace_pm::pm::Pm;

use super::pool::Pool;
use super::rival::Rival;

/// Pairs of a leaf.
const SLOTS: usize = 28;
/// Words of a leaf: bits, next, lower fence, fingerprints, pairs.
const WORDS: usize = 64;
/// The word that says that there is a first leaf, and where that lies.
const ROOT: usize = 0;
const FIRST: usize = 32;

/// The tree.
pub struct Plain {
    pool: Pool,
    leaves: BTreeMap<u64, usize>,
}

fn print(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56
}

impl Plain {
    /// An empty one.
    pub fn new(pm: Arc<dyn Pm>) -> Plain {
        Plain {
            pool: Pool::new(pm),
            leaves: BTreeMap::new(),
        }
    }

    /// What a crash has left: the chain of leaves from the first one on, each as its bits say. A split links the
    /// new leaf before the old one lets go of its pairs, so what lies above a leaf's fence is not its own.
    /// Fingerprints are made anew: they are stored with the bits and not before them.
    pub fn recover(pm: Arc<dyn Pm>) -> Result<Plain> {
        let mut tree = Plain::new(pm);
        tree.pool.skip(FIRST + WORDS);
        if tree.pool.load(ROOT) != 1 {
            tree.pool.rewind();
            return Ok(tree);
        }
        let (mut at, mut low) = (FIRST, 0);
        loop {
            tree.leaves.insert(low, at);
            tree.pool.skip(at + WORDS);
            let next = tree.pool.load(at + 1) as usize;
            low = tree.pool.load(next + 2);
            let old = tree.pool.load(at);
            let mut bits = old;
            for slot in (0..SLOTS).filter(|slot| old >> slot & 1 == 1) {
                let (key, value) = tree.pair(at, slot);
                if next != 0 && key >= low {
                    bits &= !(1 << slot);
                } else {
                    tree.set(at, slot, key, value);
                }
            }
            tree.pool.store(at, bits);
            tree.pool.persist(at)?;
            if next == 0 {
                return Ok(tree);
            }
            at = next;
        }
    }

    fn leaf(&self, key: u64) -> Option<usize> {
        self.leaves.range(..=key).next_back().map(|(_, at)| *at)
    }

    fn find(&self, at: usize, key: u64) -> Option<usize> {
        let bits = self.pool.load(at);
        let mut read = 1;
        let found = (0..SLOTS).find(|slot| {
            let fits = bits >> slot & 1 == 1
                && self.pool.load(at + 3 + slot / 8) >> (8 * (slot % 8)) & 0xff == print(key);
            read += u64::from(fits);
            fits && self.pool.load(at + 8 + 2 * slot) == key
        });
        self.pool.pm.has_read(read);
        found
    }

    fn set(&self, at: usize, slot: usize, key: u64, value: u64) {
        self.pool.store(at + 8 + 2 * slot, key);
        self.pool.store(at + 9 + 2 * slot, value);
        let word = at + 3 + slot / 8;
        let shift = 8 * (slot % 8);
        let others = self.pool.load(word) & !(0xff << shift);
        self.pool.store(word, others | print(key) << shift);
    }

    fn pair(&self, at: usize, slot: usize) -> (u64, u64) {
        let word = at + 8 + 2 * slot;
        (self.pool.load(word), self.pool.load(word + 1))
    }

    fn pairs(&self, at: usize) -> Vec<(u64, u64)> {
        let bits = self.pool.load(at);
        let slots = (0..SLOTS).filter(|slot| bits >> slot & 1 == 1);
        let mut pairs: Vec<(u64, u64)> = slots.map(|slot| self.pair(at, slot)).collect();
        pairs.sort_unstable();
        pairs
    }

    fn split(&mut self, at: usize) -> Result<()> {
        let pairs = self.pairs(at);
        self.pool.pm.has_read(7);
        let right = &pairs[pairs.len() / 2..];
        let new = self.pool.take(WORDS)?;
        for (slot, (key, value)) in right.iter().enumerate() {
            self.set(new, slot, *key, *value);
        }
        self.pool.store(new, (1 << right.len()) - 1);
        self.pool.store(new + 1, self.pool.load(at + 1));
        self.pool.store(new + 2, right[0].0);
        self.pool.pm.flush(new, 8 + 2 * right.len());
        self.pool.pm.fence()?;
        self.pool.store(at + 1, new as u64);
        self.pool.persist(at + 1)?;
        let mut bits = self.pool.load(at);
        for slot in 0..SLOTS {
            if self.pool.load(at + 8 + 2 * slot) >= right[0].0 {
                bits &= !(1 << slot);
            }
        }
        self.pool.store(at, bits);
        self.pool.persist(at)?;
        self.leaves.insert(right[0].0, new);
        Ok(())
    }
}

impl Rival for Plain {
    fn put(&mut self, key: u64, value: u64) -> Result<()> {
        if self.leaves.is_empty() {
            self.pool.take(8)?;
            let first = self.pool.take(WORDS)?;
            self.pool.store(ROOT, 1);
            self.pool.persist(ROOT)?;
            self.leaves.insert(0, first);
        }
        let mut at = self.leaf(key).unwrap_or(0);
        self.pool.pairs += 1;
        self.pool.writes += 1;
        if let Some(slot) = self.find(at, key) {
            self.pool.store(at + 9 + 2 * slot, value);
            return self.pool.persist(at + 9 + 2 * slot);
        }
        if self.pool.load(at).count_ones() as usize == SLOTS {
            self.split(at)?;
            at = self.leaf(key).unwrap_or(0);
        }
        let bits = self.pool.load(at);
        let slot = (!bits).trailing_zeros() as usize;
        self.set(at, slot, key, value);
        self.pool.pm.flush(at + 8 + 2 * slot, 2);
        self.pool.pm.fence()?;
        self.pool.store(at, bits | 1 << slot);
        self.pool.persist(at)
    }

    fn delete(&mut self, key: u64) -> Option<Result<()>> {
        let place = self.leaf(key).map(|at| (at, self.find(at, key)));
        let Some((at, Some(slot))) = place else {
            return Some(Ok(()));
        };
        self.pool.store(at, self.pool.load(at) & !(1 << slot));
        Some(self.pool.persist(at))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let Some(at) = self.leaf(key) else {
            return Ok(None);
        };
        let slot = self.find(at, key);
        Ok(slot.map(|slot| self.pool.load(at + 9 + 2 * slot)))
    }

    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::with_capacity(count);
        let low = self.leaves.range(..=from).next_back().map_or(0, |l| *l.0);
        for at in self.leaves.range(low..).map(|(_, at)| *at) {
            self.pool.pm.has_read(8);
            found.extend(self.pairs(at).into_iter().filter(|pair| pair.0 >= from));
            if found.len() >= count {
                break;
            }
        }
        found.truncate(count);
        Ok(found)
    }

    fn dram(&self) -> u64 {
        // A B-tree of DRAM is about two thirds full.
        self.leaves.len() as u64 * 24
    }

    fn leaf_writes(&self) -> (u64, u64) {
        (self.pool.pairs, self.pool.writes)
    }

    fn reset(&mut self) {
        (self.pool.pairs, self.pool.writes) = (0, 0);
    }
}
