//! How many bytes lie where, and how many of them may be fast: the only place that says "room".
//!
//! Kept true: what [`Budget::try_take`] grants never brings the fast bytes above the limit; only
//! [`Budget::take`], for nodes that must be fast to stay below their parent's tier, does, and
//! counts it.

use crate::faults::{Fault, planted};
use crate::id::Tier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much of the fast memory may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// This many bytes.
    Bytes(u64),
    /// This share of all bytes that the structure has, as it grows; 0 to 1.
    Share(f64),
    /// All it wants: there is one kind of memory.
    All,
}

/// The share of the limit that moves fill; the rest is headroom for births.
const FILL: f64 = 0.98;

/// The bytes of a structure's nodes, by memory, and the limit of the fast ones.
#[derive(Debug)]
pub struct Budget {
    limit: Limit,
    /// Live bytes by tier.
    bytes: [AtomicU64; 2],
    /// Bytes that are always fast: directory, latches, heat.
    fixed: AtomicU64,
    /// Nodes that became fast although there was no room.
    over: AtomicU64,
    /// The most fast bytes that there ever were.
    peak: AtomicU64,
}

impl Budget {
    /// A budget with this limit and nothing used.
    pub fn new(limit: Limit) -> Budget {
        Budget {
            limit,
            bytes: Default::default(),
            fixed: AtomicU64::new(0),
            over: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// The fast bytes that are allowed now. A share is one of the nodes' bytes.
    pub fn limit(&self) -> u64 {
        match self.limit {
            Limit::Bytes(n) => n,
            // What comes is part of all of it, too.
            Limit::Share(f) if f >= 1.0 => u64::MAX,
            Limit::Share(f) => {
                let all = self.bytes(Tier::Fast) + self.bytes(Tier::Slow);
                (all as f64 * f.clamp(0.0, 1.0)) as u64
            }
            Limit::All => u64::MAX,
        }
    }

    /// What moves may fill: the limit without the headroom for births.
    pub fn target(&self) -> u64 {
        match self.limit {
            Limit::All => u64::MAX,
            _ => (self.limit() as f64 * FILL) as u64,
        }
    }

    /// Bytes of nodes in a memory.
    pub fn bytes(&self, tier: Tier) -> u64 {
        self.bytes[tier as usize].load(Relaxed)
    }

    /// Fast bytes that count against the limit. A limit in bytes includes what is always fast; a
    /// share is one of the nodes alone.
    pub fn used(&self) -> u64 {
        let fixed = match self.limit {
            Limit::Bytes(_) => self.fixed.load(Relaxed),
            _ => 0,
        };
        self.bytes(Tier::Fast) + fixed
    }

    /// The most fast bytes that there ever were, of nodes.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// How often a node had to become fast without room.
    pub fn over(&self) -> u64 {
        self.over.load(Relaxed)
    }

    /// Whether more is used than is allowed.
    pub fn strained(&self) -> bool {
        self.used() > self.limit()
    }

    /// Sets the bytes that are always fast.
    pub fn set_fixed(&self, bytes: u64) {
        self.fixed.store(bytes, Relaxed);
    }

    /// Takes this many fast bytes if they are below `bound`, else none.
    pub fn try_take(&self, bytes: u64, bound: u64) -> bool {
        let counted = if planted(Fault::BudgetInNodes) {
            bytes.min(64)
        } else {
            bytes
        };
        let fixed = self.used() - self.bytes(Tier::Fast);
        let room = bound.saturating_sub(fixed);
        let taken = self.bytes[0].fetch_update(Relaxed, Relaxed, |used| {
            (used.saturating_add(counted) <= room).then_some(used + bytes)
        });
        if let Ok(before) = taken {
            self.peak.fetch_max(before + bytes, Relaxed);
        }
        taken.is_ok()
    }

    /// Takes bytes whether or not there is room.
    pub fn take(&self, tier: Tier, bytes: u64) {
        let before = self.bytes[tier as usize].fetch_add(bytes, Relaxed);
        if tier == Tier::Fast {
            self.peak.fetch_max(before + bytes, Relaxed);
            if before + bytes > self.limit() {
                self.over.fetch_add(1, Relaxed);
            }
        }
    }

    /// Gives bytes back.
    pub fn give(&self, tier: Tier, bytes: u64) {
        self.bytes[tier as usize].fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_grows_with_the_structure() {
        let budget = Budget::new(Limit::Share(0.2));
        budget.take(Tier::Slow, 800);
        assert_eq!(budget.limit(), 160);
        assert!(budget.try_take(100, budget.limit()));
        assert!(!budget.try_take(100, budget.limit()));
        assert_eq!(budget.limit(), 180);
    }

    #[test]
    fn a_share_of_all_is_all_from_the_first_byte_on() {
        let budget = Budget::new(Limit::Share(1.0));
        assert!(budget.try_take(100, budget.target()));
        assert!(budget.try_take(100, budget.limit()));
        assert!(!budget.strained());
    }

    #[test]
    fn what_is_always_fast_counts_against_bytes() {
        let budget = Budget::new(Limit::Bytes(1000));
        budget.set_fixed(600);
        assert!(!budget.try_take(500, budget.limit()));
        assert!(budget.try_take(400, budget.limit()));
        assert!(!budget.strained());
        budget.set_fixed(700);
        assert!(budget.strained());
    }

    proptest! {
        #[test]
        fn what_is_granted_stays_within_the_limit(limit in 0u64..10_000, asks in prop::collection::vec((1u64..900, any::<bool>()), 0..100)) {
            let budget = Budget::new(Limit::Bytes(limit));
            let mut held = vec![];
            for (bytes, back) in asks {
                if back && let Some(bytes) = held.pop() {
                    budget.give(Tier::Fast, bytes);
                } else if budget.try_take(bytes, budget.limit()) {
                    held.push(bytes);
                }
                prop_assert!(budget.used() <= limit);
                prop_assert_eq!(budget.bytes(Tier::Fast), held.iter().sum::<u64>());
            }
        }
    }
}
