//! How the memory is divided between hot records and cold pages.
//!
//! Point operations want hot records; scans, structures with one tier and large values want pages.
//! Who reads pages from disk would have had use for more memory: so each side gets memory in
//! proportion to its misses, which is right where the misses of both fall off alike as their memory
//! grows. Of the page side only misses on pages that left lately count: a scan that reads everything
//! once has no use for memory, and gets none.
//!
//! (What the leaves of an index get is decided in `index_share`.)

use terrace_base::sync::Mutex;
use terrace_pages::{Interrupt, PageStore, WHOLE_SHARE};

use crate::counter::Counter;

/// Smallest share of hot pages, in per mille of their cap.
const LEAST: u32 = 50;
/// Most that the share changes at once, in per mille: what the demotion can follow.
const STEP: u32 = 8;
/// Differences that are left alone, in per mille.
const SMALL: u32 = 30;
/// The share is looked at again after so many misses: one part in this many of the frames.
const EVIDENCE_PART: u64 = 64;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Share {
    for_records: Counter,
    for_pages: Counter,
    /// The two sums up to which the share has been looked at.
    seen: Mutex<(u64, u64)>,
}

impl Share {
    /// A point operation met this interrupt.
    pub fn note_for_records(&self, interrupt: &Interrupt) {
        if matches!(interrupt, Interrupt::Miss(_)) {
            self.for_records.add(1);
        }
    }

    /// Somebody met this interrupt whom hot records do not help.
    pub fn note_for_pages(&self, interrupt: &Interrupt, store: &PageStore) {
        if let Interrupt::Miss(pid) = interrupt
            && store.left_lately(*pid)
        {
            self.for_pages.add(1);
        }
    }

    /// Begins with the share of an earlier opening; 0 is none.
    pub fn recall(&self, store: &PageStore, share: u32) {
        if share > 0 {
            store.set_hot_share(share.clamp(LEAST, WHOLE_SHARE));
        }
    }

    /// Moves the share a step towards what the misses say. O(1).
    pub fn adapt(&self, store: &PageStore) {
        let mut seen = self.seen.lock();
        // Under the lock, so that nobody has seen more.
        let now = (self.for_records.get(), self.for_pages.get());
        let (records, pages) = (now.0 - seen.0, now.1 - seen.1);
        if (records + pages) * EVIDENCE_PART < store.frames() {
            return;
        }
        *seen = now;
        drop(seen);
        let share = store.hot_share();
        let wanted = (u64::from(WHOLE_SHARE) * records / (records + pages)) as u32;
        let wanted = wanted.clamp(LEAST, WHOLE_SHARE);
        if wanted == WHOLE_SHARE || wanted > share + SMALL {
            store.set_hot_share((share + STEP).min(wanted));
        } else if wanted + SMALL < share && store.hot_frames() <= store.hot_cap() {
            store.set_hot_share((share - STEP).max(wanted));
        }
    }
}
