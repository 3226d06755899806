//! How much memory the leaves of a heap's index get.
//!
//! A cold record costs a read less if the leaf that leads to it is in memory. Such a leaf leads to
//! hundreds of records, all of them cold; a hot page has a hundred, each of which is used more. Which is
//! worth more depends on the skew, so both are measured: hits that leaves of the index save a read for,
//! by leaf, and hits on the hot records that are used least, by page.

use terrace_base::Counter;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_pages::PageStore;

/// An idle share below this says nothing: hits on idle records weigh no more than this allows.
const LEAST_IDLE: f64 = 0.02;
/// Hits on idle records are counted in this many parts of one.
const HIT_PARTS: f64 = 16.0;
/// Most inner pages that are kept: one part in this many of the frames. More gains nothing, because
/// then not all leaves of an index fit beside the hot records.
const INNER_PART: u64 = 2;
/// A hot tier that answers less than one in this many reads of cold records has too little room to be
/// judged: records go before they are asked for again.
const IDLE_TIER: u64 = 8;
/// Fewest inner pages that are kept: one part in this many of the frames. Those above the leaves of an
/// index are far fewer.
const LEAST_INNER_PART: u64 = 32;
/// Steps from none to the most of them.
const INNER_STEPS: u64 = 24;
/// Steps in each round of the hand: what is known of the use of hot records is as old as that, and
/// whoever acts faster goes up and down for ever.
const STEPS_A_ROUND: u64 = 12;
/// A round of the hand.
const ROUND: u64 = 1 << 20;
/// Of a step, what is done at once: one part in this many of the frames, well below what hot pages may be
/// above their cap.
const LITTLE_PART: u64 = 1024;
/// A hot page must be worth this many times as much as a leaf of an index for one to give way to it: hits
/// on records that came in lately, and count as idle before they show what they are, make it look
/// better than it is.
const HOT_WORTH: f64 = 2.5;
/// A leaf of an index is kept when a hot page is worth at most this many times as much. In between
/// nothing changes: each change costs records that must go.
const INNER_WORTH: f64 = 1.5;

/// What has been counted up to some instant.
#[derive(Clone, Copy, Default)]
struct Seen {
    ways: u64,
    idle_hits: u64,
    hot_hits: u64,
    rounds: u64,
}

/// What decides how much memory the leaves of a heap's index get.
#[derive(Default)]
pub(crate) struct IndexShare {
    /// Reads of cold records by way of an index leaf that was in memory.
    ways: Counter,
    /// Hits on idle records, each over the share of records that are.
    idle_hits: Counter,
    /// Rounds of the hands over hot tiers, in parts of [`ROUND`].
    rounds: Counter,
    /// Inner pages that are to have frames set aside, or 0 as long as that is not known.
    target: AtomicU64,
    /// Hits on hot records where an index leads to the cold ones.
    hot_hits: Counter,
    /// The sums up to which they have been looked at.
    seen: Mutex<Seen>,
}

impl IndexShare {
    /// A cold record was read by way of an index whose leaf was in memory.
    pub fn note_way(&self) {
        self.ways.add(1);
    }

    /// A hot record was hit to the cold copy of which an index leads.
    #[inline]
    pub fn note_hot_hit(&self) {
        self.hot_hits.add(1);
    }

    /// A hot record was hit that is idle with this probability; all idle ones are this part of all.
    pub fn note_idle_hit(&self, idle: f64, part: f64) {
        self.idle_hits
            .add((HIT_PARTS * idle / part.max(LEAST_IDLE)) as u64);
    }

    /// The hand has looked at one of the `leaves` leaves of a hot tier.
    pub fn note_look(&self, leaves: u64) {
        self.rounds.add(ROUND / leaves.max(1));
    }

    /// Begins with what was set aside in an earlier opening; 0 is nothing.
    pub fn recall(&self, store: &PageStore, pages: u64) {
        if pages > 0 {
            let (least, most) = bounds(store);
            let pages = pages.clamp(least, most);
            self.target.store(pages, Ordering::Relaxed);
            store.set_inner_kept(pages);
        }
    }

    /// Moves the number of inner pages that are kept a step towards what the hits say. O(1).
    pub fn adapt(&self, store: &PageStore) {
        self.judge(store);
        self.approach(store);
    }

    fn judge(&self, store: &PageStore) {
        let mut seen = self.seen.lock();
        // Under the lock, so that no other thread has seen more.
        let now = Seen {
            ways: self.ways.get(),
            idle_hits: self.idle_hits.get(),
            hot_hits: self.hot_hits.get(),
            rounds: self.rounds.get(),
        };
        if (now.rounds - seen.rounds) * STEPS_A_ROUND < ROUND {
            return;
        }
        let before = std::mem::replace(&mut *seen, now);
        drop(seen);
        let ways = now.ways - before.ways;
        if ways == 0 && store.inner_kept().is_none() {
            // There is no index, or it is not used.
            return;
        }
        let hits = (now.idle_hits - before.idle_hits) as f64 / HIT_PARTS;
        let idles = (now.hot_hits - before.hot_hits) * IDLE_TIER < ways;
        let by_inner = ways as f64 / store.inner_frames().max(1) as f64;
        let by_hot = hits / store.hot_frames().max(1) as f64;
        let (least, most) = bounds(store);
        let step = (most / INNER_STEPS).max(1);
        let there = store.inner_frames();
        let kept = store.inner_kept().unwrap_or(there);
        let kept = if idles || by_hot > by_inner * HOT_WORTH {
            kept.saturating_sub(step)
        } else if by_hot < by_inner * INNER_WORTH {
            kept + step
        } else {
            kept
        };
        // What is not used is not set aside.
        let target = if ways == 0 && kept <= least {
            0
        } else {
            kept.min(there + step).clamp(least, most)
        };
        self.target.store(target, Ordering::Relaxed);
    }

    /// Moves what is set aside for inner pages a little towards what it is to be: hot pages must have
    /// made room before they are asked for more, or they would leave like cold ones.
    fn approach(&self, store: &PageStore) {
        let target = self.target.load(Ordering::Relaxed);
        if target == 0 {
            store.set_inner_kept(0);
            return;
        }
        let kept = store.inner_kept().unwrap_or_else(|| store.inner_frames());
        let little = (store.frames() / LITTLE_PART).max(1);
        if kept > target {
            store.set_inner_kept(kept.saturating_sub(little).max(target));
        } else if store.hot_frames() <= store.hot_cap() {
            store.set_inner_kept((kept + little).min(target));
        }
    }
}

/// Fewest and most inner pages for which frames are set aside.
fn bounds(store: &PageStore) -> (u64, u64) {
    let frames = store.frames();
    (frames / LEAST_INNER_PART, frames / INNER_PART)
}
