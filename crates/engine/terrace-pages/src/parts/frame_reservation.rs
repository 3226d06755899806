//! What the frames of a store give up for others: frames that are lent, and the bytes that they are lent for.

use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Mutex, MutexGuard};

use crate::parts::reserve::CheckpointReserve;

/// The frames that a store lends to others, and the bytes that they are lent for.
#[derive(Default)]
pub(crate) struct FrameReservation {
    /// Frames whose memory was given back, because something else in the budget needed it.
    frames: Mutex<Vec<u32>>,
    count: AtomicU64,
    /// How many there were before the last cut.
    before_cut: AtomicU64,
    /// Bytes that parts above use beyond what was set aside for them.
    extra: AtomicU64,
    /// Of them for hints.
    hints: AtomicU64,
    /// Frames that are set aside for pages that gather changes.
    tops: AtomicU64,
    /// Frames that will be lent soon.
    pub kept: CheckpointReserve,
}

impl FrameReservation {
    /// How many frames are lent.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A cut is about to begin.
    pub fn note_cut(&self) {
        self.before_cut.store(self.count(), Ordering::Relaxed);
    }

    /// How many there were before it.
    pub fn before_cut(&self) -> u64 {
        self.before_cut.load(Ordering::Relaxed)
    }

    /// Which they are, to be changed; whoever does says so with [`FrameReservation::note`].
    pub fn frames(&self) -> MutexGuard<'_, Vec<u32>> {
        self.frames.lock()
    }

    /// These are lent now.
    pub fn note(&self, frames: &[u32]) {
        self.count.store(frames.len() as u64, Ordering::Relaxed);
    }

    /// Bytes that others use beyond what was set aside for them.
    pub fn extra(&self) -> u64 {
        self.extra.load(Ordering::Relaxed)
    }

    /// Others use `bytes` bytes more.
    pub fn take_extra_bytes(&self, bytes: u64) {
        self.extra.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Others use `bytes` bytes less.
    pub fn give_extra_bytes(&self, bytes: u64) {
        self.extra.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` bytes more for hints, if these are `most` at most then; returns whether they are.
    pub fn take_hints(&self, bytes: u64, most: u64) -> bool {
        let take = |taken: u64| Some(taken + bytes).filter(|taken| *taken <= most);
        let taken = self
            .hints
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok();
        if taken {
            self.take_extra_bytes(bytes);
        }
        taken
    }

    /// Hints use `bytes` bytes less.
    pub fn give_hint_bytes(&self, bytes: u64) {
        self.hints.fetch_sub(bytes, Ordering::Relaxed);
        self.give_extra_bytes(bytes);
    }

    /// Frames that are set aside for pages that gather changes.
    pub fn tops(&self) -> u64 {
        self.tops.load(Ordering::Relaxed)
    }

    /// Sets `frames` frames more aside for pages that gather changes.
    pub fn set_tops_aside(&self, frames: u64) {
        self.tops.fetch_add(frames, Ordering::Relaxed);
    }

    /// Sets `frames` frames less aside for them.
    pub fn give_tops_back(&self, frames: u64) {
        self.tops.fetch_sub(frames, Ordering::Relaxed);
    }
}
