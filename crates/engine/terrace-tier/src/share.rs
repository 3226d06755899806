//! How the memory is divided between hot records and cold pages.
//!
//! Point operations want hot records; scans, structures with one tier and large values want pages.
//! Who reads pages from disk would have had use for more memory: so each side gets memory in
//! proportion to its misses, which is right where the misses of both fall off alike as their memory
//! grows. Of the page side only misses on pages that left lately count: a scan that reads everything
//! once has no use for memory, and gets none.
//!
//! Each step costs: what leaves the hot tier is written below, and is read again if it was wrong. So misses are
//! averaged, and where the share has turned round lately only a larger difference moves it.
//!
//! (What the leaves of an index get is decided in `index_share`.)

use terrace_base::Counter;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU32, Ordering};
use terrace_pages::{PageStore, Retry, WHOLE_SHARE};

/// Smallest share of hot pages, in per mille of their cap.
const LEAST: u32 = 50;
/// Most that the share changes at once, in per mille: what the demotion can follow.
const STEP: u32 = 8;
/// Differences that are left alone, in per mille, at least and at most: twice as large ones after each turn.
const SMALL: u32 = 30;
const LARGE: u32 = 240;
/// They become smaller again by one part in this many with each look that finds nothing to do.
const FORGIVEN_PART: u32 = 64;
/// What the last look saw is one part in this many of what is gone by.
const NEW_PART: f64 = 8.0;
/// Fewer misses on average in favour of pages are none.
const NONE: f64 = 0.1;
/// The share is looked at again when misses have come to one part in this many of the frames.
const EVIDENCE_PART: u64 = 64;

/// The division of the memory between hot records and cold pages.
#[derive(Default)]
pub(crate) struct Share {
    for_records: Counter,
    for_pages: Counter,
    seen: Mutex<Seen>,
    /// The share, where a policy has said it; 0 where not.
    fixed: AtomicU32,
}

/// What is gone by.
#[derive(Clone, Copy)]
struct Seen {
    /// The two sums up to which the share has been looked at.
    sums: (u64, u64),
    /// The two numbers of misses of a look, on average.
    each: (f64, f64),
    /// Differences that are left alone.
    band: u32,
    /// Whether the last step was up, and whether there was one.
    up: Option<bool>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            sums: (0, 0),
            each: (0.0, 0.0),
            band: SMALL,
            up: None,
        }
    }
}

impl Seen {
    /// The share after a look that saw these numbers of misses of either kind; `may_fall` where what was decided before
    /// is done.
    fn next(&mut self, (records, pages): (u64, u64), share: u32, may_fall: bool) -> u32 {
        let mean = |old: f64, new: u64| old + (new as f64 - old) / NEW_PART;
        self.each = (mean(self.each.0, records), mean(self.each.1, pages));
        let (for_records, for_pages) = self.each;
        let wanted = f64::from(WHOLE_SHARE) * for_records / (for_records + for_pages);
        let none_for_pages = for_pages < NONE;
        let wanted = match none_for_pages {
            true => WHOLE_SHARE,
            false => (wanted as u32).clamp(LEAST, WHOLE_SHARE),
        };
        if none_for_pages && share < WHOLE_SHARE || wanted > share + self.band {
            self.turn(true);
            (share + STEP).min(wanted)
        } else if wanted + self.band < share {
            if !may_fall {
                return share;
            }
            self.turn(false);
            share.saturating_sub(STEP).max(wanted)
        } else {
            let less = (self.band / FORGIVEN_PART).max(1);
            self.band = (self.band - less).max(SMALL);
            share
        }
    }

    fn turn(&mut self, up: bool) {
        if self.up == Some(!up) {
            self.band = (self.band * 2).min(LARGE);
        }
        self.up = Some(up);
    }
}

impl Share {
    /// A point operation met this retry.
    pub fn note_for_records(&self, interrupt: &Retry) {
        if matches!(interrupt, Retry::Miss(_)) {
            self.for_records.add(1);
        }
    }

    /// A caller that hot records do not help met this retry.
    pub fn note_for_pages(&self, interrupt: &Retry, store: &PageStore) {
        if let Retry::Miss(pid) = interrupt
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

    /// From now on the share is this one.
    pub fn fix(&self, store: &PageStore, share: u32) {
        let share = share.clamp(1, WHOLE_SHARE);
        self.fixed.store(share, Ordering::Relaxed);
        store.set_hot_share(share);
    }

    /// Moves the share a step towards what the misses say. O(1).
    pub fn adapt(&self, store: &PageStore) {
        let fixed = self.fixed.load(Ordering::Relaxed);
        if fixed > 0 {
            return store.set_hot_share(fixed);
        }
        let mut seen = self.seen.lock();
        // Under the lock, so that no other thread has seen more.
        let now = (self.for_records.get(), self.for_pages.get());
        let new = (now.0 - seen.sums.0, now.1 - seen.sums.1);
        if (new.0 + new.1) * EVIDENCE_PART < store.frames() {
            return;
        }
        seen.sums = now;
        let share = store.hot_share();
        let next = seen.next(new, share, store.hot_frames() <= store.hot_cap());
        drop(seen);
        if next != share {
            store.set_hot_share(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares after looks that see this.
    fn after(looks: &[(u64, u64)], from: u32) -> (Seen, Vec<u32>) {
        let (mut seen, mut share) = (Seen::default(), from);
        let shares = looks.iter().map(|new| {
            share = seen.next(*new, share, true);
            share
        });
        let shares = shares.collect();
        (seen, shares)
    }

    #[test]
    fn memory_goes_to_those_who_miss_it() {
        let (_, shares) = after(&[(90, 10); 400], 500);
        assert!((870..=900).contains(shares.last().unwrap()), "{shares:?}");
        let (_, shares) = after(&[(10, 90); 400], 500);
        assert!((100..=130).contains(shares.last().unwrap()), "{shares:?}");
        // No reader misses pages any more.
        let (_, shares) = after(&[(50, 0); 400], 300);
        assert_eq!(shares.last(), Some(&WHOLE_SHARE));
        let (_, shares) = after(&[(0, 50); 400], 300);
        assert!(*shares.last().unwrap() <= LEAST + SMALL);
    }

    #[test]
    fn misses_that_come_and_go_move_it_little() {
        // On average as it is; each look by itself says something else.
        let looks: Vec<_> = (0..2000)
            .map(|i| match i / 3 % 2 {
                0 => (80, 20),
                _ => (20, 80),
            })
            .collect();
        let (seen, shares) = after(&looks, 500);
        let moved: u32 = shares.windows(2).map(|two| two[0].abs_diff(two[1])).sum();
        assert!(moved < 500, "{moved}");
        assert!(seen.band > SMALL);
        // It is as quick as ever once they stay.
        let (_, shares) = after(&[looks, vec![(95, 5); 300]].concat(), 500);
        assert!(*shares.last().unwrap() > 850);
    }

    #[test]
    fn it_falls_only_when_what_was_decided_is_done() {
        let mut seen = Seen::default();
        assert_eq!(seen.next((10, 90), 800, false), 800);
        assert_eq!(seen.next((10, 90), 800, true), 800 - STEP);
    }
}
