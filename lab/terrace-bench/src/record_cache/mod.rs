//! A record cache over a store, as the baseline that applications build for themselves: eager and
//! written back ("Tiered-Indexing", section 7.1), the least recently used record going first, or by use
//! counts and a hand as in TreeLine (the same section; one write for each dirty record that goes).
//!
//! Every record that is read or written is cached, and goes by age; a changed one is written to the
//! store when it goes. The cache is divided by keys into shards with a lock each, which is held while
//! the store is asked, so that no reader brings an old value back. Scans read the store, and what it
//! lacks from the cache.
//!
//! Invariant: `dirty` has the key of every record that the store lacks.

mod shelf;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

pub use shelf::Eviction;
use shelf::{Key, Record, Shelf};

use crate::records::KEY_BYTES;
use crate::target::{Counters, Target, TargetError, TargetResult};

/// Shards: many more than threads, so that two rarely want the same one.
const SHARDS: usize = 256;
/// Bytes that a record takes beside its key and value where it is in a list: an entry with two links,
/// length and address of the value (64 bytes with the allocator's own, less the key), the allocator's
/// share of the value, and two words in a hash table that is two thirds full.
const LISTED_BYTES: usize = 90;
/// The same without links; the paper measured as many in TreeLine.
const CLOCKED_BYTES: usize = 56;
/// Bytes of a key in the order of those that are dirty.
const DIRTY_BYTES: usize = 14;

#[derive(Default)]
struct Figures {
    hits: u64,
    misses: u64,
    evictions: u64,
}

struct Shard {
    records: Shelf,
    bytes: usize,
    figures: Figures,
}

/// A store with a record cache of this many bytes in front of it.
pub struct RecordCache<T> {
    store: T,
    shards: Vec<Mutex<Shard>>,
    shard_bytes: usize,
    entry_bytes: usize,
    dirty: RwLock<BTreeSet<Key>>,
}

impl<T: Target> RecordCache<T> {
    /// A cache of about `bytes` bytes in front of `store`, which should have been given that much less.
    pub fn new(store: T, bytes: u64, eviction: Eviction) -> Self {
        let shard = || {
            Mutex::new(Shard {
                records: Shelf::new(eviction),
                bytes: 0,
                figures: Figures::default(),
            })
        };
        RecordCache {
            store,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shard_bytes: usize::try_from(bytes).unwrap_or(usize::MAX) / SHARDS,
            entry_bytes: match eviction {
                Eviction::Lru => LISTED_BYTES,
                Eviction::Clock => CLOCKED_BYTES,
            },
            dirty: RwLock::default(),
        }
    }

    fn bytes_of(&self, record: &Record) -> usize {
        let order = if record.dirty { DIRTY_BYTES } else { 0 };
        KEY_BYTES as usize + record.value.len() + self.entry_bytes + order
    }

    fn is_dirty(&self, key: &Key, dirty: bool) {
        let mut keys = self.dirty.write().unwrap_or_else(PoisonError::into_inner);
        match dirty {
            true => keys.insert(*key),
            false => keys.remove(key),
        };
    }

    fn shard(&self, key: &[u8]) -> TargetResult<(Key, MutexGuard<'_, Shard>)> {
        let key = Key::try_from(key).map_err(|_| -> TargetError {
            format!(
                "the record cache takes keys of {KEY_BYTES} bytes, not {}",
                key.len()
            )
            .into()
        })?;
        let mixed = u64::from_be_bytes(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let shard = &self.shards[(mixed >> 56) as usize % SHARDS];
        Ok((key, shard.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Puts a record in, and writes back what has to go.
    fn keep(&self, shard: &mut Shard, key: Key, value: &[u8], dirty: bool) -> TargetResult<()> {
        let record = Record {
            value: value.into(),
            dirty,
        };
        shard.bytes += self.bytes_of(&record);
        let old = shard.records.put(key, record);
        if let Some(old) = &old {
            shard.bytes -= self.bytes_of(old);
        }
        if dirty && !old.is_some_and(|old| old.dirty) {
            self.is_dirty(&key, true);
        }
        // Not the one just put in, however large it is: it was asked for.
        while shard.bytes > self.shard_bytes
            && let Some(goes) = shard.records.victim(&key)
        {
            if let Some(old) = shard.records.peek(&goes)
                && old.dirty
            {
                // Before it goes: the store may refuse it, and the cache has the only copy.
                self.store.put(&goes, &old.value)?;
                self.is_dirty(&goes, false);
            }
            if let Some(old) = shard.records.remove(&goes) {
                shard.bytes -= self.bytes_of(&old);
                shard.figures.evictions += 1;
            }
        }
        Ok(())
    }

    /// The value of a key, which is in the cache from now on.
    fn look<'s>(&self, shard: &'s mut Shard, key: &Key) -> TargetResult<Option<&'s [u8]>> {
        if shard.records.get(key).is_some() {
            shard.figures.hits += 1;
        } else {
            shard.figures.misses += 1;
            let mut value = Vec::new();
            if !self.store.get(key, &mut value)? {
                return Ok(None);
            }
            self.keep(shard, *key, &value, false)?;
        }
        Ok(shard.records.peek(key).map(|record| &*record.value))
    }

    /// Writes everything to the store that it lacks.
    fn flush(&self) -> TargetResult<()> {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let shard = &mut *shard;
            let bytes = &mut shard.bytes;
            shard.records.each(|key, record| {
                if record.dirty {
                    self.store.put(key, &record.value)?;
                    record.dirty = false;
                    *bytes -= DIRTY_BYTES;
                    self.is_dirty(key, false);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl<T: Target> Target for RecordCache<T> {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let (key, mut shard) = self.shard(key)?;
        let found = self.look(&mut shard, &key)?;
        if let Some(value) = found {
            out.extend_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let (key, mut shard) = self.shard(key)?;
        self.keep(&mut shard, key, value, true)
    }

    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool> {
        let (key, mut shard) = self.shard(key)?;
        let found = self.look(&mut shard, &key)?.is_some();
        if found {
            self.keep(&mut shard, key, value, true)?;
        }
        Ok(found)
    }

    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        let (key, mut shard) = self.shard(key)?;
        let mut new = Vec::new();
        let found = match self.look(&mut shard, &key)? {
            Some(old) => {
                change(old, &mut new);
                true
            }
            None => false,
        };
        if found {
            self.keep(&mut shard, key, &new, true)?;
        }
        Ok(found)
    }

    /// What is dirty is taken from the cache before the store is read: what leaves it meanwhile is there then.
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let keys: Vec<Key> = {
            let dirty = self.dirty.read().unwrap_or_else(PoisonError::into_inner);
            let from = (Bound::Included(from), Bound::Unbounded);
            dirty.range::<[u8], _>(from).take(limit).copied().collect()
        };
        let mut lacking = Vec::with_capacity(keys.len());
        for key in keys {
            let (key, shard) = self.shard(&key)?;
            if let Some(record) = shard.records.peek(&key).filter(|record| record.dirty) {
                lacking.push((key, record.value.clone()));
            }
        }
        let mut lacking = lacking.iter().peekable();
        let mut left = limit;
        self.store.scan(from, limit, &mut |key, value| {
            while let Some((ours, newer)) = lacking.next_if(|(ours, _)| ours[..] < *key) {
                if left > 0 {
                    left -= 1;
                    visit(ours, newer);
                }
            }
            if left > 0 {
                left -= 1;
                match lacking.next_if(|(ours, _)| ours[..] == *key) {
                    Some((ours, newer)) => visit(ours, newer),
                    None => visit(key, value),
                }
            }
        })?;
        for (ours, newer) in lacking.take(left) {
            visit(ours, newer);
        }
        Ok(())
    }

    fn visit_all(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> TargetResult<bool> {
        self.flush()?;
        self.store.visit_all(visit)
    }

    fn counters(&self) -> TargetResult<Counters> {
        let mut counters = self.store.counters()?;
        (counters.hot_hits, counters.cold_hits) = (0, 0);
        let mut bytes = 0;
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            counters.hot_hits += shard.figures.hits;
            counters.cold_hits += shard.figures.misses;
            counters.promotions += shard.figures.misses;
            counters.demotions += shard.figures.evictions;
            bytes += shard.bytes as u64;
        }
        counters.memory_bytes = counters.memory_bytes.map(|store| store + bytes);
        Ok(counters)
    }

    fn settle(&self) -> TargetResult<()> {
        self.flush()?;
        self.store.settle()
    }
}
