//! What every map that is measured can do.

use terrace_pm::Result;

/// An ordered map that can be measured.
pub trait Rival {
    /// Puts a pair.
    fn put(&mut self, key: u64, value: u64) -> Result<()>;
    /// Puts several pairs; with fences of its own for each, if it knows no better.
    fn put_all(&mut self, pairs: &[(u64, u64)]) -> Result<()> {
        pairs
            .iter()
            .try_for_each(|(key, value)| self.put(*key, *value))
    }
    /// Takes a key out, if it is there; `None` of those that cannot.
    fn delete(&mut self, _key: u64) -> Option<Result<()>> {
        None
    }
    /// The value of a key.
    fn get(&self, key: u64) -> Result<Option<u64>>;
    /// The first `count` pairs from a key on.
    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>>;
    /// Bytes of ordinary memory.
    fn dram(&self) -> u64;
    /// Bytes of its log.
    fn log(&self) -> u64 {
        0
    }
    /// Pairs that went into leaves, and leaf writes.
    fn leaf_writes(&self) -> (u64, u64);
    /// Begins to count anew.
    fn reset(&mut self) {}
}
