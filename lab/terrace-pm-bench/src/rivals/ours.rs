//! The map itself, as its rivals are measured.

use std::sync::Arc;

use terrace_pm::pm::Pm;
use terrace_pm::{Buffers, Options, PmMap, Result};

use super::rival::Rival;

/// The map itself.
pub struct Ours {
    map: PmMap<u64, u64>,
    before: (u64, u64),
}

impl Ours {
    /// An empty one, or what a crash has left, on this memory.
    pub fn new(pm: Arc<dyn Pm>, buffers: Buffers, memory: u64, hotness: bool) -> Result<Ours> {
        let options = Options::new()
            .memory(memory)
            .capacity(pm.capacity())
            .buffers(buffers)
            .hotness_split(hotness);
        Ok(Ours {
            map: PmMap::open_on(pm, options)?,
            before: (0, 0),
        })
    }
}

impl Rival for Ours {
    fn put(&mut self, key: u64, value: u64) -> Result<()> {
        self.map.put(key, value)
    }

    fn put_all(&mut self, pairs: &[(u64, u64)]) -> Result<()> {
        self.map.put_all(pairs.iter().copied())
    }

    fn delete(&mut self, key: u64) -> Option<Result<()>> {
        Some(self.map.delete(key))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.map.get(key)
    }

    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::with_capacity(count);
        for pair in self.map.range::<u64>(from..)?.take(count) {
            found.push(pair?);
        }
        Ok(found)
    }

    fn dram(&self) -> u64 {
        self.map.stats().memory_bytes
    }

    fn log(&self) -> u64 {
        self.map.stats().log_bytes
    }

    fn leaf_writes(&self) -> (u64, u64) {
        let stats = self.map.stats();
        (
            stats.drained - self.before.0,
            stats.leaf_writes - self.before.1,
        )
    }

    fn reset(&mut self) {
        self.before = (0, 0);
        self.before = self.leaf_writes();
    }
}
