//! What has expired, for those who drop it, and how much that was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_access::{DroppedBy, Expiry, Value};
use terrace_base::lease::{Lease, coarse, coarse_is_over};

use crate::clock::Clock;

/// What has expired, and how much of it was dropped.
pub struct Expired {
    clock: Arc<Clock>,
    hidden: AtomicU64,
    by_demotion: AtomicU64,
    by_merge: AtomicU64,
    by_round: AtomicU64,
}

/// Records that had expired, since the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ExpiryStats {
    /// Times that a reader came by one and was not shown it.
    pub hidden: u64,
    /// Dropped by who made room in the hot tier.
    pub dropped_by_demotion: u64,
    /// Dropped by merges of LSM-trees.
    pub dropped_by_merge: u64,
    /// Dropped by rounds that look for them.
    pub dropped_by_round: u64,
    /// Steps of the wall clock, forward or back, that were seen.
    pub clock_steps: u64,
}

impl Expired {
    /// By this clock; nothing so far.
    pub fn new(clock: Arc<Clock>) -> Arc<Expired> {
        Arc::new(Expired {
            clock,
            hidden: AtomicU64::new(0),
            by_demotion: AtomicU64::new(0),
            by_merge: AtomicU64::new(0),
            by_round: AtomicU64::new(0),
        })
    }

    /// A reader was not shown one.
    pub fn note_hidden(&self) {
        self.hidden.fetch_add(1, Ordering::Relaxed);
    }

    /// How much it was so far.
    pub fn stats(&self) -> ExpiryStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ExpiryStats {
            hidden: of(&self.hidden),
            dropped_by_demotion: of(&self.by_demotion),
            dropped_by_merge: of(&self.by_merge),
            dropped_by_round: of(&self.by_round),
            clock_steps: self.clock.steps(),
        }
    }
}

/// The same for rows of tables, which are dropped only together with their entries.
pub struct OfRows(pub Arc<Expired>);

impl Expiry for OfRows {
    fn is_over(&self, _: Value<'_>) -> bool {
        false
    }

    fn may_be_dropped(&self, value: Value<'_>) -> bool {
        self.0.is_over(value)
    }

    fn gone(&self, value: &[u8]) -> u32 {
        self.0.gone(value)
    }

    fn note_dropped(&self, by: DroppedBy, records: u64) {
        self.0.note_dropped(by, records);
    }
}

impl Expiry for Expired {
    fn is_over(&self, value: Value<'_>) -> bool {
        match value {
            Value::Inline(stored) => {
                // What has no lease is damage, and is not dropped.
                let lease = Lease::split(stored).map_or(Lease::ENDLESS, |(lease, _)| lease);
                lease != Lease::ENDLESS && lease.is_over(self.clock.now())
            }
            Value::Large(large) => large.gone > 0 && coarse_is_over(large.gone, self.clock.now()),
        }
    }

    fn gone(&self, value: &[u8]) -> u32 {
        Lease::split(value).map_or(0, |(lease, _)| coarse(lease))
    }

    fn note_dropped(&self, by: DroppedBy, records: u64) {
        let count = match by {
            DroppedBy::Demotion => &self.by_demotion,
            DroppedBy::Merge => &self.by_merge,
            DroppedBy::Round => &self.by_round,
        };
        count.fetch_add(records, Ordering::Relaxed);
    }
}
