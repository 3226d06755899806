//! What a structure with two tiers counts.

use crate::counter::{Count, Sets};

/// Figures of one structure since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierStats {
    /// Reads answered by the hot tier (tombstones included).
    pub hot_hits: u64,
    /// Reads answered by the cold (or only) tier.
    pub cold_hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Changes, deletions among them; one that had to begin anew may count twice.
    pub writes: u64,
    /// Records copied to the hot tier after a read.
    pub promotions: u64,
    /// Records dropped from the hot tier by sweep and demotion.
    pub demotions: u64,
    /// Records dropped from a full hot leaf to make room in it.
    pub replacements: u64,
    /// Dirty records written to the cold tier.
    pub cleaned: u64,
    /// Hot leaves that the ageing has looked at.
    pub swept_leaves: u64,
    /// Hot leaves freed by packing.
    pub packed_leaves: u64,
    /// Sum of the fills of the swept leaves, in thousandths.
    pub swept_fill_thousandths: u64,
}

/// Events since the structure was opened. What reads and writes count is in front, in one cache line.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Events {
    pub hot_hits: Count,
    pub cold_hits: Count,
    pub misses: Count,
    pub writes: Count,
    /// Writes of keys that the hot tier did not have.
    pub newcomers: Count,
    pub promotions: Count,
    pub replacements: Count,
    pub demotions: Count,
    pub cleaned: Count,
    pub swept: Count,
    pub packed: Count,
    pub fill: Count,
    /// Reads that the cold tier answered, of records that are wanted (see `phase`).
    pub wanted: Count,
    /// Writes that left a tombstone.
    pub deletes: Count,
}

impl Events {
    /// All of them, of all threads.
    pub fn stats(all: &Sets<Events>) -> TierStats {
        let e = all;
        TierStats {
            hot_hits: e.sum(|e| &e.hot_hits),
            cold_hits: e.sum(|e| &e.cold_hits),
            misses: e.sum(|e| &e.misses),
            writes: e.sum(|e| &e.writes),
            promotions: e.sum(|e| &e.promotions),
            demotions: e.sum(|e| &e.demotions),
            replacements: e.sum(|e| &e.replacements),
            cleaned: e.sum(|e| &e.cleaned),
            swept_leaves: e.sum(|e| &e.swept),
            packed_leaves: e.sum(|e| &e.packed),
            swept_fill_thousandths: e.sum(|e| &e.fill),
        }
    }
}
