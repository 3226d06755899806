//! Where the rounds over a hot tier stand: that of the sweep, and that of tombstones.

use terrace_access::StoragePlace;
use terrace_base::sync::atomic::{AtomicU64, Ordering};

use super::phase::Phase;

/// Leaves that one call of the ageing looks at, at most: a millisecond or so, and more while they give up
/// records that have to be written, which ends as soon as the tier is not full any more.
pub(super) const AGE_LEAVES: u64 = 256;
/// Leaves of which the ageing stays due while a tier has room.
const KEPT_DUE: f64 = 4.0;

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

/// Where the sweep of a hot tier stands. A hint: lost at a crash without harm.
#[derive(Default)]
pub(crate) struct Hand {
    /// Where room is made next.
    pub(super) evicting: Vec<u8>,
    /// Where is looked next. Not the same: room is made one leaf after the other, so that each finds
    /// what has come in since the last pass. A hand that looking moves on, too, leaves leaves out and
    /// comes to others that have filled half, and half as many records go to each cold page that is
    /// read and written for them: while a hash table is loaded that was one in seven of its reads.
    pub(super) looking: Vec<u8>,
    /// Where room is made next by pages of storage (see `stored`).
    pub(super) stored: StoragePlace,
    /// Accesses up to which the looking has been done.
    pub(super) looked: u64,
    /// Misses up to which the ageing has been done.
    pub(super) aged: u64,
    /// When other records have become hot.
    pub(super) phase: Phase,
    /// Leaves that are to age at once because of that.
    pub(super) forgetting: u32,
    /// Lines of the sketch that are to be halved, and a part of one.
    pub(super) halves: f64,
    /// Records per hot leaf, averaged over the leaves looked at.
    pub(super) records: f64,
    /// Leaves looked at since the lowest, and in the whole of the round before; 0 before that.
    pub(super) since_first: u64,
    pub(super) leaves: u64,
}

impl Hand {
    /// The position at which the next step of this task is taken.
    pub(super) fn place(&mut self, task: Task) -> &mut Vec<u8> {
        match task {
            Task::Evict => &mut self.evicting,
            Task::Look { .. } => &mut self.looking,
        }
    }

    /// How many leaves are due, if there is one in so many events, of which there have been `now`;
    /// `done` says up to where they were. At most [`AGE_LEAVES`]: what is not done now is not made up
    /// for later, because ageing late is ageing little.
    pub(super) fn due(now: u64, done: &mut u64, interval: f64) -> u64 {
        let since = now.saturating_sub(*done);
        let due = (since as f64 / interval) as u64;
        *done += if due > AGE_LEAVES {
            since
        } else {
            (due as f64 * interval) as u64
        };
        due.min(AGE_LEAVES)
    }

    /// While there is room nothing needs to be forgotten, and not all at once when that ends. A little
    /// stays due: a tier is full and not full in turns.
    pub(super) fn pass_over(now: u64, done: &mut u64, interval: f64) {
        *done = (*done).max(now.saturating_sub((KEPT_DUE * interval) as u64));
    }
}

/// About how many records per hot leaf are dirty and idle: leaf-local replacement passes by them,
/// so that something else must get them clean. A running mean over the leaves that the hand sees,
/// in 64ths, and one more so that 0 means that it has not seen any.
#[derive(Default)]
pub(crate) struct Stale(AtomicU64);

impl Stale {
    /// Leaves over which the mean runs.
    const LEAVES: u64 = 64;

    pub(super) fn note(&self, records: u64) {
        // Counts of threads that come at the same instant may get lost.
        let sum = match self.0.load(Ordering::Relaxed) {
            0 => records * Self::LEAVES,
            n => (n - 1) - (n - 1).div_ceil(Self::LEAVES) + records,
        };
        self.0.store(sum + 1, Ordering::Relaxed);
    }

    /// Whether it is worth while to look for them.
    pub fn is_likely(&self) -> bool {
        let n = self.0.load(Ordering::Relaxed);
        n == 0 || n > Self::LEAVES / 2
    }
}

/// Where a round that writes tombstones stands. A hint: lost at a crash, with the count of deletes.
#[derive(Default)]
pub(crate) struct Purging {
    pub(super) at: Vec<u8>,
    pub(super) under_way: bool,
    /// Deletes before this round, or the last one.
    pub(super) deletes: u64,
    /// Whether each tombstone is one of them, or of those since: not before the first round after an opening.
    pub(super) is_counted: bool,
    /// Whether changes go on with it.
    pub(super) is_urgent: bool,
}

impl Purging {
    /// Goes on here.
    pub(super) fn resume(&mut self, at: &[u8]) {
        self.at.clear();
        self.at.extend_from_slice(at);
        self.under_way = true;
    }
}
