//! What the concurrent map shows of where it lies.

use crate::concurrent::shared::Shared;
use crate::family::Family;
use crate::place::MapPlacement;
use crate::{ConcurrentHybridMap, IndexKey};
use crossbeam_epoch as epoch;
use std::sync::atomic::Ordering::Relaxed;
use terrace_place::{Steps, Store};

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// Fast bytes of slow segments.
    fn fast_keys(&self) -> u64 {
        let guard = epoch::pin();
        let parts = self.directory.load(&guard).parts.iter();
        let seats = parts.map(|part| &part.segment.load(&guard).seat);
        seats
            .filter(|seat| seat.slow)
            .map(|seat| seat.bytes[0])
            .sum()
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> ConcurrentHybridMap<K, V> {
    /// Where the map lies, what its lookups found there, and what was moved. O(parts).
    pub fn placement(&self) -> MapPlacement {
        let Some(on) = &self.shared.place.0 else {
            return MapPlacement::default();
        };
        let (ledger, two) = (&on.ledger, &on.two);
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
        let usage = self.memory_usage();
        let fast_keys = self.shared.fast_keys();
        MapPlacement {
            memories: two.names.to_vec(),
            notes: two.notes_with(fast_keys),
            limit: Some(on.limit()).filter(|limit| *limit < u64::MAX),
            always_fast: (usage.dynamic + usage.directory) as u64,
            fast_segments: ledger.fast(),
            fast_keys,
            slow_segments: of(&ledger.bytes[1]),
            copies: usage.copies as u64,
            peak: of(&ledger.peak),
            committed: Store::committed(&two.slow),
            noted: [0, 1, 2].map(|i| of(&ledger.noted[i])),
            promoted: of(&ledger.promoted),
            demoted: of(&ledger.demoted),
            refused: of(&ledger.refused),
            busy: of(&ledger.busy),
            periods: of(&ledger.periods),
            copied: of(&ledger.copied),
        }
    }

    /// Does a bounded piece of placing: looks at this many segments, or moves one for each 256 of
    /// them. Returns whether there is more to do now. A thread does this unless the placement is
    /// [`Placement::manual`](crate::place::Placement::manual).
    pub fn place_step(&self, steps: Steps) -> bool {
        self.shared.place_step(steps)
    }
}
