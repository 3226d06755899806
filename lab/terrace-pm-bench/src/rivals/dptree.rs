//! One buffer tree in DRAM in front of large leaves, as DPTree's: a log striped by key, and a merge of the
//! whole buffer when it has seven hundredths of the base. The merge runs in the put that fills the buffer.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pm::Result;
use terrace_pm::pm::Pm;

use super::pool::Pool;
use super::rival::Rival;

/// Slots of a base leaf.
const SLOTS: usize = 256;
/// A split leaves this many in each leaf.
const FILL: usize = 180;
/// Words of a leaf: two copies of its metadata (bits and fingerprints, five lines each), then pairs.
const META: usize = 40;
const WORDS: usize = 2 * META + 2 * SLOTS;
/// The buffer has this part of the base, and at least `LEAST` pairs.
const SHARE: f64 = 0.07;
const LEAST: usize = 1000;
const STRIPES: usize = 16;

struct Base {
    at: usize,
    keys: Vec<u64>,
}

/// The tree.
pub struct DpTree {
    pool: Pool,
    buffer: BTreeMap<u64, u64>,
    base: BTreeMap<u64, Base>,
    count: usize,
    /// Next word and end of each stripe of the log.
    stripes: [(usize, usize); STRIPES],
    spare: Vec<usize>,
    used: Vec<usize>,
    log_bytes: u64,
    version: usize,
    sequence: u64,
}

impl DpTree {
    /// An empty one.
    pub fn new(pm: Arc<dyn Pm>) -> DpTree {
        DpTree {
            pool: Pool::new(pm),
            buffer: BTreeMap::new(),
            base: BTreeMap::new(),
            count: 0,
            stripes: [(0, 0); STRIPES],
            spare: Vec::new(),
            used: Vec::new(),
            log_bytes: 0,
            version: 0,
            sequence: 0,
        }
    }

    /// A record of 32 bytes with a check, so that it could be recovered at all.
    fn append(&mut self, key: u64, value: u64) -> Result<()> {
        let stripe = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize % STRIPES;
        if self.stripes[stripe].0 == self.stripes[stripe].1 {
            let at = match self.spare.pop() {
                Some(at) => at,
                None => {
                    self.log_bytes += 4096;
                    self.pool.take(512)?
                }
            };
            self.used.push(at);
            self.stripes[stripe] = (at, at + 512);
        }
        let at = self.stripes[stripe].0;
        self.stripes[stripe].0 += 4;
        self.sequence += 1;
        let check = terrace_base::checksum::mix(key ^ self.sequence, value);
        for (i, word) in [key, value, self.sequence, check].into_iter().enumerate() {
            self.pool.store(at + i, word);
        }
        self.pool.pm.flush(at, 4);
        self.pool.pm.fence()
    }

    fn write_leaf(&mut self, base: &Base, lines: u128) -> Result<()> {
        self.pool.flush_lines(base.at, lines);
        // The copy of the metadata that does not count now: all five lines of it.
        let copy = base.at + META * (1 - self.version % 2);
        for i in 0..META {
            let seed = base.keys.get(i * 7).copied().unwrap_or(0);
            self.pool.store(copy + i, seed ^ self.version as u64);
        }
        self.pool.pm.flush(copy, META);
        self.pool.writes += 1;
        Ok(())
    }

    fn merge(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        if self.base.is_empty() {
            let at = self.pool.take(WORDS)?;
            self.base.insert(
                0,
                Base {
                    at,
                    keys: Vec::new(),
                },
            );
        }
        let mut pairs = buffer.into_iter().peekable();
        while let Some((first, _)) = pairs.peek().copied() {
            let low = *self
                .base
                .range(..=first)
                .next_back()
                .expect("a first leaf")
                .0;
            let high = self
                .base
                .range(low + 1..)
                .next()
                .map_or(u64::MAX, |(high, _)| *high);
            let Some(mut leaf) = self.base.remove(&low) else {
                break;
            };
            self.pool.pm.has_read(9);
            let mut lines = 0u128;
            let mut extra = Vec::new();
            while let Some((key, value)) = pairs.peek().copied() {
                if key >= high && high != u64::MAX {
                    break;
                }
                pairs.next();
                self.pool.pairs += 1;
                let known = leaf.keys.iter().position(|k| *k == key);
                let slot = match known {
                    Some(slot) => slot,
                    None if leaf.keys.len() < SLOTS => {
                        leaf.keys.push(key);
                        self.count += 1;
                        leaf.keys.len() - 1
                    }
                    None => {
                        extra.push((key, value));
                        self.count += 1;
                        continue;
                    }
                };
                // Hashed: pairs of one merge lie anywhere in the leaf.
                let place = slot.wrapping_mul(97) % SLOTS;
                let word = leaf.at + 2 * META + 2 * place;
                self.pool.store(word, key);
                self.pool.store(word + 1, value);
                lines |= 1 << ((2 * META + 2 * place) / 8);
            }
            if extra.is_empty() {
                self.write_leaf(&leaf, lines)?;
                self.base.insert(low, leaf);
                continue;
            }
            // Divided into new leaves.
            let mut all: Vec<(u64, u64)> = (0..leaf.keys.len())
                .map(|slot| {
                    let word = leaf.at + 2 * META + 2 * (slot.wrapping_mul(97) % SLOTS);
                    (self.pool.load(word), self.pool.load(word + 1))
                })
                .collect();
            all.extend(extra);
            all.sort_unstable();
            self.pool.pm.has_read(64);
            let parts = all.len().div_ceil(FILL);
            let each = all.len().div_ceil(parts);
            for (i, part) in all.chunks(each).enumerate() {
                let at = self.pool.take(WORDS)?;
                let new = Base {
                    at,
                    keys: part.iter().map(|pair| pair.0).collect(),
                };
                for (slot, (key, value)) in part.iter().enumerate() {
                    let word = at + 2 * META + 2 * (slot.wrapping_mul(97) % SLOTS);
                    self.pool.store(word, *key);
                    self.pool.store(word + 1, *value);
                }
                self.write_leaf(&new, (u128::MAX >> (128 - WORDS / 8)) << (META / 4))?;
                self.base.insert(if i == 0 { low } else { part[0].0 }, new);
            }
        }
        self.pool.pm.fence()?;
        // One version for all: flipped at the end.
        self.version += 1;
        self.pool.store(0, self.version as u64);
        self.pool.persist(0)?;
        self.stripes = [(0, 0); STRIPES];
        self.spare.append(&mut self.used);
        Ok(())
    }

    fn leaf_of(&self, key: u64) -> Option<&Base> {
        self.base.range(..=key).next_back().map(|(_, base)| base)
    }
}

impl Rival for DpTree {
    fn put(&mut self, key: u64, value: u64) -> Result<()> {
        if self.sequence == 0 {
            // The word of the version.
            self.pool.take(8)?;
        }
        self.append(key, value)?;
        self.buffer.insert(key, value);
        let most = LEAST.max((self.count as f64 * SHARE) as usize);
        if self.buffer.len() >= most {
            self.merge()?;
        }
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        if let Some(value) = self.buffer.get(&key) {
            return Ok(Some(*value));
        }
        let Some(base) = self.leaf_of(key) else {
            return Ok(None);
        };
        self.pool.pm.has_read(2);
        let slot = base.keys.iter().position(|k| *k == key);
        Ok(slot.map(|slot| {
            let word = base.at + 2 * META + 2 * (slot.wrapping_mul(97) % SLOTS);
            self.pool.load(word + 1)
        }))
    }

    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>> {
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let low = self.base.range(..=from).next_back().map_or(0, |b| *b.0);
        for base in self.base.range(low..).map(|(_, base)| base) {
            self.pool.pm.has_read(64);
            for (slot, key) in base.keys.iter().enumerate() {
                if *key >= from {
                    let word = base.at + 2 * META + 2 * (slot.wrapping_mul(97) % SLOTS);
                    found.insert(*key, self.pool.load(word + 1));
                }
            }
            if found.len() >= count {
                break;
            }
        }
        found.extend(self.buffer.range(from..).take(count).map(|(k, v)| (*k, *v)));
        Ok(found.into_iter().take(count).collect())
    }

    fn dram(&self) -> u64 {
        // Two buffers of B-trees that are about two thirds full, ten Bloom bits a pair, and the index.
        // Keys of leaves are kept here for speed alone and not counted.
        let most = LEAST.max((self.count as f64 * SHARE) as usize) as f64;
        (2.0 * most * (16.0 / 0.69 + 1.25)) as u64 + self.base.len() as u64 * 24
    }

    fn log(&self) -> u64 {
        self.log_bytes
    }

    fn leaf_writes(&self) -> (u64, u64) {
        (self.pool.pairs, self.pool.writes)
    }

    fn reset(&mut self) {
        (self.pool.pairs, self.pool.writes) = (0, 0);
    }
}
