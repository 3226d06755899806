//! Events and frames, counted.

use terrace_base::sync::atomic::{AtomicU64, Ordering};

use crate::parts::cause::{CAUSES, WAYS};

/// Bounds by which pages that have left are told from each other: they were asked for more seldom than that.
pub const HITS_BELOW: [u8; 5] = [1, 2, 3, 5, 9];

/// A number that many threads change, in no order with anything else.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    #[inline]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    #[inline]
    pub fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }
}

/// Events counted since the store was opened.
#[derive(Default)]
pub struct Counters {
    /// By cause.
    pub page_reads: [Count; CAUSES],
    pub page_writes: Count,
    pub map_bytes: Count,
    pub checkpoint_page_writes: Count,
    pub checkpoint_hot_writes: Count,
    pub checkpoints: Count,
    pub evictions: Count,
    /// Pages of records that have left, by how they came.
    pub left: [LeftCounters; WAYS],
    pub discarded_writes: Count,
    pub waits_for_frames: Count,
    pub waits_for_undo: Count,
    /// Page writes owed: one for each dirty frame, and one more for each page, in a frame or
    /// freed, whose content at the cut must be reconstructed.
    pub dirty: Count,
    /// Frames of hot pages.
    pub hot: Count,
    /// Of them those of pages that lie in memory alone.
    pub memory: Count,
    /// Frames of inner pages of cold tiers.
    pub inner: Count,
    /// Frames of pages that gather changes.
    pub tops: Count,
    /// Slots held by no layer, as of the last change.
    pub free_slots: Count,
}

/// Pages of records that came in one way and have left, and how often they were asked for meanwhile.
#[derive(Default)]
pub struct LeftCounters {
    pub pages: Count,
    pub hits: Count,
    /// By how often: see [`HITS_BELOW`].
    pub by_hits: [Count; HITS_BELOW.len() + 1],
}

impl LeftCounters {
    /// One more, which was asked for so often.
    pub fn note(&self, hits: u8) {
        let by = HITS_BELOW.partition_point(|below| *below <= hits);
        self.pages.add(1);
        self.hits.add(u64::from(hits));
        self.by_hits[by].add(1);
    }
}
