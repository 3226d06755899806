//! What the map is compared with: one file a rival, on the same memory, with inner nodes in DRAM for all.
//!
//! Their leaves lie in persistent memory and are written, flushed and fenced as their papers say. They are
//! here to be counted and timed. Of them the unsorted leaves claim to recover ([`Name::recover`]), and are held
//! to it. FAST+FAIR's argument needs the stores to a line to become durable in their order, which not all memory
//! promises; the buffers of DPTree and of the B-epsilon tree are made durable by a log that is written here and
//! not read. These three do not recover, and the last two do not delete.

mod betree;
mod dptree;
mod fast_fair;
mod plain;
mod pool;

use std::sync::Arc;

use terrace_pm::pm::Pm;
use terrace_pm::{Buffers, Options, PmMap, Result};

pub use betree::BeTree;
pub use dptree::DpTree;
pub use fast_fair::FastFair;
pub use plain::Plain;

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

/// Which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// The map with elastic buffers.
    Elastic,
    /// The map in the paper's mode.
    Paper,
    /// The same with nodes that always split in two, hot or not.
    PaperTwo,
    /// The paper to the letter, on our log.
    Literal,
    /// Unsorted leaves without a buffer.
    Plain,
    /// Sorted leaves, shifted line by line.
    FastFair,
    /// One buffer tree, merged as a whole.
    DpTree,
    /// Buffers at each level.
    BeTree,
}

impl Name {
    /// All of them; the paper's mode once.
    pub const ALL: [Name; 7] = [
        Name::Elastic,
        Name::Paper,
        Name::Literal,
        Name::Plain,
        Name::FastFair,
        Name::DpTree,
        Name::BeTree,
    ];

    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Name::Elastic => "elastic",
            Name::Paper => "paper",
            Name::PaperTwo => "paper-two",
            Name::Literal => "literal",
            Name::Plain => "plain",
            Name::FastFair => "fast-fair",
            Name::DpTree => "dptree",
            Name::BeTree => "betree",
        }
    }

    /// Makes an empty one; `memory` rules the elastic map alone.
    /// `hotness` says whether nodes of the paper's modes split in more than two when they are hot.
    pub fn make(self, pm: Arc<dyn Pm>, memory: u64, hotness: bool) -> Result<Box<dyn Rival>> {
        let hotness = hotness && self != Name::PaperTwo;
        let ours = |buffers| Ours::new(pm.clone(), buffers, memory, hotness);
        Ok(match self {
            Name::Elastic => Box::new(ours(Buffers::Elastic)?),
            Name::Paper | Name::PaperTwo => Box::new(ours(Buffers::Paper)?),
            Name::Literal => Box::new(ours(Buffers::Literal)?),
            Name::Plain => Box::new(Plain::new(pm)),
            Name::FastFair => Box::new(FastFair::new(pm)),
            Name::DpTree => Box::new(DpTree::new(pm)),
            Name::BeTree => Box::new(BeTree::new(pm)),
        })
    }
}

impl Name {
    /// Opens what a crash has left; `None` for those that do not claim to recover.
    pub fn recover(self, pm: Arc<dyn Pm>, memory: u64) -> Option<Result<Box<dyn Rival>>> {
        fn boxed<R: Rival + 'static>(rival: Result<R>) -> Option<Result<Box<dyn Rival>>> {
            Some(rival.map(|rival| -> Box<dyn Rival> { Box::new(rival) }))
        }
        match self {
            Name::Plain => boxed(Plain::recover(pm)),
            Name::FastFair | Name::DpTree | Name::BeTree => None,
            ours => Some(ours.make(pm, memory, true)),
        }
    }
}

/// The map itself.
struct Ours {
    map: PmMap<u64, u64>,
    before: (u64, u64),
}

impl Ours {
    fn new(pm: Arc<dyn Pm>, buffers: Buffers, memory: u64, hotness: bool) -> Result<Ours> {
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
