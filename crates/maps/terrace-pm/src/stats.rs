//! What a map has done, and what it has.

use std::sync::atomic::Ordering::Relaxed;

use crate::arena::SEGMENT_BYTES;
use crate::key::Own;
use crate::pm::Domain;
use crate::recover::Recovered;
use crate::tree::Tree;

/// Figures of a map since it was opened; counts, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Whether a write survives a power cut, or only the death of the process.
    pub domain: Domain,
    /// Puts and deletes.
    pub writes: u64,
    /// Pairs that wait in buffers.
    pub buffered: u64,
    /// Pairs that buffers may hold for each leaf.
    pub share: f64,
    /// Drains of buffers.
    pub drains: u64,
    /// Leaves that drains have written.
    pub leaf_writes: u64,
    /// Pairs that drains have written.
    pub drained: u64,
    /// Leaves that were split.
    pub splits: u64,
    /// Leaves that were merged.
    pub merges: u64,
    /// Last-level nodes that were split.
    pub node_splits: u64,
    /// Nodes that came of those.
    pub node_parts: u64,
    /// Records that were copied to the head of the log.
    pub copies: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of memory without buffers.
    pub index_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of the file in use.
    pub file_bytes: u64,
    /// The most bytes that the file will have.
    pub capacity_bytes: u64,
    /// Leaves when it was opened.
    pub opened_leaves: u64,
    /// Records that were replayed when it was opened.
    pub replayed: u64,
}

impl Stats {
    pub(crate) fn of<O: Own>(tree: &Tree<O>, recovered: Recovered) -> Stats {
        let counters = &tree.counters;
        Stats {
            domain: tree.arena.pm().domain(),
            writes: counters.writes.load(Relaxed),
            buffered: tree.buffered() as u64,
            share: tree.budget.share(),
            drains: counters.drains.load(Relaxed),
            leaf_writes: counters.leaf_writes.load(Relaxed),
            drained: counters.drained.load(Relaxed),
            splits: counters.splits.load(Relaxed),
            merges: counters.merges.load(Relaxed),
            node_splits: counters.node_splits.load(Relaxed),
            node_parts: counters.node_parts.load(Relaxed),
            copies: counters.copies.load(Relaxed),
            log_bytes: tree.log.segments() as u64 * SEGMENT_BYTES,
            index_bytes: tree.budget.index(),
            memory_bytes: tree.budget.used(),
            file_bytes: tree.arena.used(),
            capacity_bytes: tree.arena.layout().end(),
            opened_leaves: recovered.leaves,
            replayed: recovered.records,
        }
    }

    /// Pairs that went into a leaf with each write of it, on the average.
    pub fn pairs_per_leaf_write(&self) -> f64 {
        self.drained as f64 / self.leaf_writes.max(1) as f64
    }
}
