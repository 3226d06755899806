//! Events and frames, counted.

use terrace_base::sync::atomic::AtomicU64;

use crate::frames::cause::CAUSES;

/// Events counted since the store was opened; all relaxed.
#[derive(Default)]
pub struct Counters {
    /// By cause.
    pub page_reads: [AtomicU64; CAUSES],
    pub page_writes: AtomicU64,
    pub map_bytes: AtomicU64,
    pub checkpoint_page_writes: AtomicU64,
    pub checkpoint_hot_writes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub evictions: AtomicU64,
    pub discarded_writes: AtomicU64,
    pub waits_for_frames: AtomicU64,
    pub waits_for_undo: AtomicU64,
    /// Page writes owed: one for each dirty frame, and one more for each page, in a frame or
    /// freed, whose content at the cut must be reconstructed.
    pub dirty: AtomicU64,
    /// Frames of hot pages.
    pub hot: AtomicU64,
    /// Frames of inner pages of cold tiers.
    pub inner: AtomicU64,
    /// Frames of pages that gather changes.
    pub tops: AtomicU64,
    /// Slots held by no layer, as of the last change.
    pub free_slots: AtomicU64,
}
