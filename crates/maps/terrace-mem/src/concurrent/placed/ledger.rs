//! What is counted of a map over two kinds of memory, and of each of its segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What the segments of a map take, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes of segments by memory, as long as a reader can see them.
    pub(super) bytes: [AtomicU64; 2],
    /// Bytes of headers and bounds, as of the last look.
    pub(super) other: AtomicU64,
    /// Those of dynamic stages, with what was written since.
    pub(super) dynamic: AtomicU64,
    /// Entries that the dynamic stage of a part may have, where all of them take much; 0: as many as
    /// without a limit.
    pub(super) most: AtomicUsize,
    /// Bytes of copies, as long as a reader can see them.
    pub(super) copies: Arc<AtomicU64>,
    pub(super) peak: AtomicU64,
    /// Noted lookups: of fast segments, of slow ones, by copies.
    pub(super) noted: [AtomicU64; 3],
    /// Of the last, those that found the record which its set would lose first.
    pub(super) least: AtomicU64,
    /// Copies that were made.
    pub(super) copied: AtomicU64,
    pub(super) promoted: AtomicU64,
    pub(super) demoted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) periods: AtomicU64,
    pub(super) ids: AtomicU64,
}

impl Ledger {
    pub(super) fn fast(&self) -> u64 {
        self.bytes[0].load(Relaxed)
    }

    pub(super) fn used(&self) -> u64 {
        self.fast() + self.not_segments()
    }

    pub(super) fn not_segments(&self) -> u64 {
        let always = self.other.load(Relaxed) + self.dynamic.load(Relaxed);
        always + self.copies.load(Relaxed)
    }

    /// The dynamic stage of a part takes this many bytes.
    pub(super) fn resized(&self, seat: &Seat, bytes: u64) {
        let before = seat.dynamic.swap(bytes, Relaxed);
        // The sum may be one that was made without the part.
        let _ = self.dynamic.fetch_update(Relaxed, Relaxed, |sum| {
            (bytes != before).then_some((sum + bytes).saturating_sub(before))
        });
    }

    /// Takes this many fast bytes for a segment, if all stay below the bound.
    pub(super) fn try_take(&self, bytes: u64, bound: u64) -> bool {
        let room = bound.saturating_sub(self.not_segments());
        let took = self.bytes[0].fetch_update(Relaxed, Relaxed, |used| {
            (used.saturating_add(bytes) <= room).then_some(used + bytes)
        });
        self.peak.fetch_max(self.used(), Relaxed);
        took.is_ok()
    }

    /// A number that no other segment of the map has or had.
    pub(super) fn id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed) + 1
    }
}

/// In which memory a segment lies, and how often it is looked at.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Where there is one kind of memory: none.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// For who is told of touches.
    pub(super) id: u64,
    /// Noted lookups, halved now and then.
    pub(super) heat: AtomicU32,
    /// Bytes of the dynamic stage of the part, as they were seen last.
    pub(super) dynamic: AtomicU64,
    pub(super) slow: bool,
    /// Bytes by memory.
    pub(super) bytes: [u64; 2],
}

impl Seat {
    /// Whether a lookup waits for slow memory.
    #[inline(always)]
    pub(crate) fn is_slow(&self) -> bool {
        self.slow
    }

    pub(super) fn all_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }

    /// Adds to the heat; two that add at once may count as one.
    pub(super) fn warm(&self) {
        let heat = self.heat.load(Relaxed);
        self.heat.store(heat.saturating_add(1), Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            for (sum, bytes) in ledger.bytes.iter().zip(self.bytes) {
                sum.fetch_sub(bytes, Relaxed);
            }
        }
    }
}
