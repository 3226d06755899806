//! What the frames of a store give up for others: frames that are lent, and the bytes that they are lent for.

use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Mutex, MutexGuard};

use crate::parts::reserve::Kept;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Lent {
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
    pub kept: Kept,
}

impl Lent {
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

    /// Which they are, to be changed; whoever does says so with [`Lent::note`].
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

    /// So many more.
    pub fn take_extra(&self, bytes: u64) {
        self.extra.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many less.
    pub fn give_extra(&self, bytes: u64) {
        self.extra.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So many more for hints, if these are `most` at most then; whether they are.
    pub fn take_hints(&self, bytes: u64, most: u64) -> bool {
        let take = |taken: u64| Some(taken + bytes).filter(|taken| *taken <= most);
        let taken = self
            .hints
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok();
        if taken {
            self.take_extra(bytes);
        }
        taken
    }

    /// So many less.
    pub fn give_hints(&self, bytes: u64) {
        self.hints.fetch_sub(bytes, Ordering::Relaxed);
        self.give_extra(bytes);
    }

    /// Frames that are set aside for pages that gather changes.
    pub fn tops(&self) -> u64 {
        self.tops.load(Ordering::Relaxed)
    }

    /// So many more.
    pub fn set_tops_aside(&self, frames: u64) {
        self.tops.fetch_add(frames, Ordering::Relaxed);
    }

    /// So many less.
    pub fn give_tops_back(&self, frames: u64) {
        self.tops.fetch_sub(frames, Ordering::Relaxed);
    }
}
