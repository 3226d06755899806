//! What is claimed of the free space and asked of it, beside what the page map knows.

use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::parts::promise::Promise;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Claims {
    /// Sums of what was promised to those who change much behind one door: pages to become dirty, new ones.
    promised: [AtomicU64; 2],
    /// Slots for others that were missing when somebody who does not wait was sent away.
    missing: AtomicU64,
    /// Whether everybody may use the reserve of space.
    all_reserve: AtomicBool,
    wants_checkpoint: AtomicBool,
    /// Writes go below this slot if there is room; 0 for wherever they go usually.
    compact_below: AtomicU64,
    /// Whether checkpoints leave no room at the end of the file.
    compact_tight: AtomicBool,
    /// Held by who changes the length of the file.
    pub growing: Mutex<()>,
}

impl Claims {
    /// Counts what was promised.
    #[inline]
    pub fn promise(&self, promise: Promise) {
        for (sum, more) in self.promised.iter().zip([promise.dirty, promise.new]) {
            if more > 0 {
                sum.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The end of a promise.
    #[inline]
    pub fn take_back(&self, promise: Promise) {
        for (sum, less) in self.promised.iter().zip([promise.dirty, promise.new]) {
            if less > 0 {
                sum.fetch_sub(less, Ordering::Relaxed);
            }
        }
    }

    /// What is promised to all together.
    #[inline]
    pub fn promised(&self) -> Promise {
        let [dirty, new] = [0, 1].map(|i| self.promised[i].load(Ordering::Relaxed));
        Promise { dirty, new }
    }

    /// Somebody who does not wait was sent away, for so many slots were missing for others.
    pub fn miss(&self, slots: u64) {
        self.missing.fetch_max(slots, Ordering::Relaxed);
    }

    /// The most that was missing for one of them since it was taken.
    pub fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// The same, which is forgotten.
    pub fn take_missing(&self) -> u64 {
        self.missing.swap(0, Ordering::Relaxed)
    }

    /// Says whether everybody may use the reserve of space.
    pub fn open_reserve(&self, open: bool) {
        self.all_reserve.store(open, Ordering::Relaxed);
    }

    /// Whether everybody may.
    #[inline]
    pub fn is_reserve_open(&self) -> bool {
        self.all_reserve.load(Ordering::Relaxed)
    }

    /// Somebody found no space on the disk, or has found some since.
    pub fn want_checkpoint(&self, wanted: bool) {
        self.wants_checkpoint.store(wanted, Ordering::Relaxed);
    }

    /// Whether somebody has found none.
    pub fn wants_checkpoint(&self) -> bool {
        self.wants_checkpoint.load(Ordering::Relaxed)
    }

    /// The same, which is forgotten.
    pub fn take_wanted_checkpoint(&self) -> bool {
        self.wants_checkpoint.swap(false, Ordering::Relaxed)
    }

    /// Below which slot writes go if there is room.
    pub fn compact_below(&self) -> Option<u64> {
        Some(self.compact_below.load(Ordering::Relaxed)).filter(|slot| *slot > 0)
    }

    /// Sets it; 0 for wherever they go usually.
    pub fn set_compact_below(&self, slot: u64) {
        self.compact_below.store(slot, Ordering::Relaxed);
    }

    /// Whether checkpoints leave no room at the end of the file.
    pub fn is_tight(&self) -> bool {
        self.compact_tight.load(Ordering::Relaxed)
    }

    /// Says whether they do.
    pub fn set_tight(&self, tight: bool) {
        self.compact_tight.store(tight, Ordering::Relaxed);
    }
}
