//! Counters of what the engine did, for people and programs.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the engine counts; all since the beginning.
#[derive(Debug, Default)]
pub struct Counters {
    /// Nodes that went to fast memory.
    pub promoted: AtomicU64,
    /// Nodes that went to slow memory.
    pub demoted: AtomicU64,
    /// Moves and listings put off because a part was busy.
    pub busy: AtomicU64,
    /// Moves dropped because the part had changed since it was listed.
    pub stale: AtomicU64,
    /// Promotions dropped because fast memory was full.
    pub no_room: AtomicU64,
    /// Demotions dropped because of fast children.
    pub bound: AtomicU64,
    /// Wishes dropped because there were too many in a period.
    pub dropped: AtomicU64,
    /// Periods that have ended.
    pub periods: AtomicU64,
    /// How often heat was halved.
    pub coolings: AtomicU64,
    /// How often what is hot was seen to move elsewhere.
    pub shifts: AtomicU64,
    /// The lowest bin of nodes that should be fast.
    pub threshold: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Moves and listings that may do better the next time.
    pub(crate) fn put_off(&self) -> u64 {
        [&self.busy, &self.stale, &self.dropped]
            .map(|count| count.load(Relaxed))
            .iter()
            .sum()
    }
}

/// Where the nodes of a structure lie, and what was done about it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlacementStats {
    /// Names of the memories, fast and slow; one if there is one kind.
    pub memories: Vec<String>,
    /// Why there is one kind, or what else there is to say.
    pub notes: Vec<String>,
    /// Bytes of nodes in fast memory.
    pub fast_bytes: u64,
    /// Bytes of nodes in slow memory.
    pub slow_bytes: u64,
    /// Fast bytes that are allowed.
    pub limit: Option<u64>,
    /// The most fast bytes of nodes that there ever were.
    pub peak_fast_bytes: u64,
    /// Bytes that hold heat, in fast memory.
    pub heat_bytes: u64,
    /// Bytes that keys own beside their nodes, in fast memory: of `String`, `Vec<u8>`, and boxed ones.
    pub key_bytes: u64,
    /// Bytes of slabs, nodes and free slots, by tier.
    pub committed: [u64; 2],
    /// Noted lookups that found a fast leaf, and a slow one.
    pub samples: [u64; 2],
    /// Nodes that went to fast memory.
    pub promoted: u64,
    /// Nodes that went to slow memory.
    pub demoted: u64,
    /// Moves and listings put off because a part was busy.
    pub busy: u64,
    /// Moves dropped because the part had changed.
    pub stale: u64,
    /// Promotions dropped for lack of room.
    pub no_room: u64,
    /// Demotions dropped because of fast children.
    pub bound: u64,
    /// Nodes that had to be fast without room.
    pub over_budget: u64,
    /// Periods that have ended.
    pub periods: u64,
    /// How often heat was halved.
    pub coolings: u64,
    /// How often what is hot was seen to move elsewhere.
    pub shifts: u64,
    /// The lowest bin of heat of nodes that should be fast; bins are octaves.
    pub threshold: u64,
    /// Pages looked up, here and there, and those of them that lie on another node than they should.
    pub residence: (u64, u64),
}

impl PlacementStats {
    /// The share of noted lookups that found a fast leaf.
    pub fn fast_share(&self) -> f64 {
        let [fast, slow] = self.samples;
        fast as f64 / (fast + slow).max(1) as f64
    }
}

impl fmt::Display for PlacementStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        match &self.memories[..] {
            [fast, slow] => {
                write!(f, "fast: {fast}, {:.1} MiB of nodes", mib(self.fast_bytes))?;
                if let Some(limit) = self.limit {
                    write!(f, " of {:.1} allowed", mib(limit))?;
                }
                writeln!(f, "; slow: {slow}, {:.1} MiB", mib(self.slow_bytes))?;
                writeln!(
                    f,
                    "noted lookups with a fast leaf: {:.1} %; nodes moved: {} up, {} down, in {} periods",
                    self.fast_share() * 100.0,
                    self.promoted,
                    self.demoted,
                    self.periods
                )?;
                writeln!(
                    f,
                    "put off: {} busy, {} changed, {} no room, {} with fast children; over budget: {}",
                    self.busy, self.stale, self.no_room, self.bound, self.over_budget
                )?;
                let (asked, wrong) = self.residence;
                if asked > 0 {
                    writeln!(
                        f,
                        "pages on another node than they should: {wrong} of {asked} looked up"
                    )?;
                }
            }
            _ => writeln!(
                f,
                "one kind of memory, {:.1} MiB of nodes",
                mib(self.fast_bytes + self.slow_bytes)
            )?,
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}
