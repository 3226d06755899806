//! Where the sweep of a hot tier stands, what it has learnt of the leaves on its way, and what has become due since.
//!
//! Invariants: a leaf that was taken is its taker's alone, for the hand has moved on. It goes past a leaf that
//! cannot be read, or it would stand there for good. All of it are hints: lost at a crash without harm.

use terrace_access::{Edge, Flags, Ordered, StoragePlace, Sweep, Window};
use terrace_base::Result;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::Ordering;
use terrace_pages::Retry;

use super::leaves::behind;
use super::phase::{Phase, Seen};
use super::tiers::{Pair, Tiers};
use crate::context::TierContext;

/// Leaves that one call of the ageing looks at, at most: a millisecond or so, and more while they give up
/// records that have to be written, which ends as soon as the tier is not full any more.
const AGE_LEAVES: u64 = 256;
/// Leaves of which the ageing stays due while a tier has room.
const KEPT_DUE: f64 = 4.0;
/// Writes of new keys that age as much as one miss does: a load would make everything forgotten.
const NEWCOMERS_PER_MISS: u64 = 4;
/// Fill of cold leaves that is assumed when the number of records is estimated: they are full where the
/// sweep has filled them, and less so where records came in random order.
const COLD_FILL: f64 = 0.8;
/// Records of a hot leaf before one was looked at.
const RECORDS_AT_FIRST: f64 = 64.0;
/// What the leaf just looked at weighs in the mean of records per leaf.
const NEWEST: f64 = 0.05;
/// Accesses per record, since the structure was opened, after which it is known what is used. Use
/// counts come back from disk as they were when their page was last written, which may have been
/// before most of its records were used.
const KNOWN_ACCESSES: f64 = 1.0;

/// What a step of the sweep is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Count uses down and let the idle records go: room is needed.
    Evict,
    /// If it is known by now what is used, let the idle records go if they are many.
    Look {
        known: bool,
        /// Count uses down, too.
        age: bool,
    },
}

/// What has become due.
pub(super) struct Pending {
    /// Leaves to be looked at.
    pub looks: u64,
    /// How many of them, the first ones, age.
    pub ages: u64,
    /// Whether it is known what is used.
    pub known: bool,
    /// Lines of the sketch that are to be halved.
    pub halves: usize,
}

/// Where the sweep of a hot tier stands, and what has become due.
#[derive(Default)]
pub(super) struct Rounds {
    hand: Mutex<Hand>,
}

#[derive(Default)]
struct Hand {
    /// Where room is made next.
    evicting: Vec<u8>,
    /// Where is looked next. Not the same: room is made one leaf after the other, so that each finds
    /// what has come in since the last pass. A hand that looking moves on, too, leaves leaves out and
    /// comes to others that have filled half, and half as many records go to each cold page that is
    /// read and written for them: while a hash table is loaded that was one in seven of its reads.
    looking: Vec<u8>,
    /// Where room is made next by pages of storage (see `stored`).
    stored: StoragePlace,
    /// Accesses up to which the looking has been done.
    looked: u64,
    /// Misses up to which the ageing has been done.
    aged: u64,
    /// When other records have become hot.
    phase: Phase,
    /// Leaves that are to age at once because of that.
    forgetting: u32,
    /// Lines of the sketch that are to be halved, and a part of one.
    halves: f64,
    /// Records per hot leaf, averaged over the leaves looked at.
    records: f64,
    /// Leaves looked at since the lowest, and in the whole of the round before; 0 before that.
    since_first: u64,
    leaves: u64,
}

impl Rounds {
    /// Copies of the leaf at the hand what `select` wants, and moves the hand on. Returns where the leaf was.
    /// Blocking.
    pub fn take_leaf<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        hot: &P::Hot,
        task: Task,
        select: &mut dyn FnMut(Flags) -> bool,
        leaf: &mut Window,
    ) -> Result<Vec<u8>> {
        loop {
            let mut hand = self.hand.lock();
            let at = hand.place(task).clone();
            let Err(interrupt) = hot.try_window_if(Edge::From(&at), select, leaf) else {
                let next = leaf.high.as_deref().unwrap_or_default();
                let place = hand.place(task);
                place.clear();
                place.extend_from_slice(next);
                match task {
                    Task::Evict => tiers.note_one_leaf(next.is_empty() && at.is_empty()),
                    Task::Look { .. } => hand.count_leaf(next.is_empty(), tiers),
                }
                return Ok(at);
            };
            drop(hand);
            let Err(e) = tiers.store().settle(interrupt) else {
                continue;
            };
            if e.is_unreadable() {
                let behind = behind(tiers, hot, &at).unwrap_or_default();
                let mut hand = self.hand.lock();
                let place = hand.place(task);
                if *place == at {
                    *place = behind;
                }
            }
            return Err(e);
        }
    }

    /// The positions of the records on the next page of storage; false where there is none. Blocking.
    pub fn take_stored<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        hot: &P::Hot,
        positions: &mut Vec<Vec<u8>>,
    ) -> Result<bool> {
        loop {
            let collected = {
                let mut hand = self.hand.lock();
                hot.try_collect_stored(&mut hand.stored, positions)
            };
            match collected {
                Ok(is_any) => return Ok(is_any),
                Err(Retry::Conflict) => tiers.store().back_off()?,
                Err(interrupt) => tiers.store().settle(interrupt)?,
            }
        }
    }

    /// A leaf was visited that has `records` records.
    pub fn note_visit(&self, task: Task, records: usize, context: &TierContext) {
        let mut hand = self.hand.lock();
        if task != Task::Evict {
            let leaves = hand.leaves.max(hand.since_first);
            context.index_share.note_look(leaves);
        }
        hand.records = match hand.records > 0.0 {
            true => hand.records * (1.0 - NEWEST) + records as f64 * NEWEST,
            false => records as f64,
        };
    }

    /// The leaves of this structure, which is no more, count no longer.
    pub fn forget_leaves(&self, context: &TierContext) {
        let leaves = std::mem::take(&mut self.hand.lock().leaves);
        context.hot_leaves.fetch_sub(leaves, Ordering::Relaxed);
    }

    /// What has become due by the accesses and misses since the last call; nothing while there is room.
    pub fn due<P: Pair>(&self, tiers: &Tiers<P>) -> Option<Pending> {
        let (context, policy, e) = (tiers.context(), tiers.policy(), tiers.events());
        let cold_hits = e.sum(|e| &e.cold_hits);
        let hits = e.sum(|e| &e.hot_hits) + cold_hits;
        let accesses = hits + e.sum(|e| &e.misses) + e.sum(|e| &e.writes);
        let seen = Seen {
            reads: hits,
            misses: cold_hits,
            wanted: e.sum(|e| &e.wanted),
        };
        // Lookups that find nothing are none: no hot record would have spared them.
        let misses = cold_hits + e.sum(|e| &e.newcomers) / NEWCOMERS_PER_MISS;
        let hot_frames = tiers.store().hot_frames();
        let cold_pages = tiers.store().pages_in_use().saturating_sub(hot_frames);
        let hot_pages = hot_frames.max(1) as f64;

        let hand = &mut *self.hand.lock();
        // In a heap a leaf is one of the index, and many pages are none. As many records are taken to
        // lie on a page below as above.
        let hot_leaves = match hand.leaves > 0 {
            true => hand.leaves as f64,
            false => hot_pages,
        };
        let per_leaf = match hand.records > 0.0 {
            true => hand.records,
            false => RECORDS_AT_FIRST,
        };
        let records = hot_leaves * per_leaf * cold_pages.max(1) as f64 / hot_pages * COLD_FILL;
        let interval = |per_record: f64| (per_record * records / hot_leaves).max(1.0);
        let per_look = interval(policy.accesses_per_look());
        let per_age = interval(policy.misses_per_ageing());
        if !context.is_full() {
            pass_over(accesses, &mut hand.looked, per_look);
            pass_over(misses, &mut hand.aged, per_age);
            hand.phase.pass_over(seen);
            return None;
        }
        let looks = due(accesses, &mut hand.looked, per_look);
        let rounds = hand.phase.rounds_due(seen, records);
        let more = (rounds as f64 * hot_leaves) as u32;
        hand.forgetting = hand.forgetting.saturating_add(more);
        let by_misses = due(misses, &mut hand.aged, per_age);
        let ages = (by_misses + u64::from(hand.forgetting)).min(AGE_LEAVES);
        hand.forgetting -= (ages - by_misses) as u32;
        // The counters outside, of all structures, fade as fast as those inside.
        let all_leaves = (context.hot_leaves.load(Ordering::Relaxed) as f64).max(hot_leaves);
        hand.halves += ages as f64 * context.sketch.lines() as f64 / all_leaves;
        let halves = hand.halves as usize;
        hand.halves = hand.halves.fract();
        Some(Pending {
            looks,
            ages,
            known: accesses as f64 >= records * KNOWN_ACCESSES,
            halves,
        })
    }
}

impl Hand {
    /// The position at which the next step of this task is taken.
    fn place(&mut self, task: Task) -> &mut Vec<u8> {
        match task {
            Task::Evict => &mut self.evicting,
            Task::Look { .. } => &mut self.looking,
        }
    }

    /// One more leaf was looked at, perhaps the last one.
    fn count_leaf<P: Pair>(&mut self, ended: bool, tiers: &Tiers<P>) {
        self.since_first += 1;
        // One that is no more counts no longer, whoever is still at work here.
        if ended && !tiers.is_retired() {
            let counted = std::mem::take(&mut self.since_first);
            let all = &tiers.context().hot_leaves;
            all.fetch_add(counted.wrapping_sub(self.leaves), Ordering::Relaxed);
            self.leaves = counted;
        }
    }
}

/// How many leaves are due, if there is one in `interval` events, of which there have been `now`;
/// `done` says up to where they were. At most [`AGE_LEAVES`]: what is not done now is not made up
/// for later, because ageing late is ageing little.
fn due(now: u64, done: &mut u64, interval: f64) -> u64 {
    let since = now.saturating_sub(*done);
    let due = (since as f64 / interval) as u64;
    *done += match due > AGE_LEAVES {
        true => since,
        false => (due as f64 * interval) as u64,
    };
    due.min(AGE_LEAVES)
}

/// While there is room nothing needs to be forgotten, and not all at once when that ends. A little
/// stays due: a tier is full and not full in turns.
fn pass_over(now: u64, done: &mut u64, interval: f64) {
    *done = (*done).max(now.saturating_sub((KEPT_DUE * interval) as u64));
}
