//! Tombstones on their way out: what was deleted leaves the cold tier, and its tombstone the hot one.
//!
//! A delete touches no cold page (rule 10), it leaves a tombstone above. Whoever makes room takes
//! tombstones with him; but where no writer needs room they would stay for ever, and with them the
//! records below: after everything was deleted the file would be as long as before. So a round through
//! the hot leaves writes tombstones, and nothing else: when there are about enough of them that each cold
//! leaf is worth a read, or after a while, and in a compaction, if there is any: what is deleted may be few values
//! of many pages each. How many a hot tier had when it was opened is not known, so there is one round then.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{AccessMethod, Flags, Ordered, Tier, Waits, Window};
use terrace_base::Result;
use terrace_base::sync::Mutex;
use terrace_pages::{PageStore, Space};

use super::entry::Entry;
use super::leaves::{behind, pack};
use super::migrate::Selected;
use super::tiers::{Pair, Tiers};
use crate::context::TierContext;

/// Deletes since the last round, for each hot leaf, before which there is no other at once. A look at a leaf that
/// is in memory takes about half a microsecond.
const DELETES_PER_LEAF: f64 = 1.0 / 64.0;
/// The same for a structure with few leaves.
const LEAST_DELETES: u64 = 64;
/// Hot leaves that one call goes through, at most.
const STEP_LEAVES: usize = 64;
/// Changes of which one takes tombstones down where they are many, and hot leaves that it goes through for that.
const CHANGES_PER_HELP: u64 = 16;
const HELP_LEAVES: usize = 4;
/// Cold leaves after which it goes no further: each may have to be read, and the thread that does this
/// has more to do.
const STEP_COLD_LEAVES: usize = 64;

/// Scans that leave tombstones alone after one could not write them, on a full disk say.
const SCANS_AFTER_AN_ERROR: u32 = 256;

/// Where the round of a hot tier stands. A hint: lost at a crash, with the count of deletes.
#[derive(Default)]
struct Round {
    at: Vec<u8>,
    under_way: bool,
    /// Deletes before this round, or the last one.
    deletes: u64,
    /// Whether each tombstone is one of them, or of those since: not before the first round after an opening.
    is_counted: bool,
    /// Whether changes go on with it.
    is_urgent: bool,
}

impl Round {
    /// Goes on here.
    fn resume(&mut self, at: &[u8]) {
        self.at.clear();
        self.at.extend_from_slice(at);
        self.under_way = true;
    }

    /// Goes on behind the leaf that was just taken, if there is any.
    fn go_on(&mut self, behind: Option<&Vec<u8>>) {
        match behind {
            Some(position) => self.resume(position),
            None => self.under_way = false,
        }
    }
}

/// The rounds of one structure.
#[derive(Default)]
pub(super) struct Purges {
    round: Mutex<Round>,
    /// Scans that leave tombstones alone.
    put_off: AtomicU32,
}

impl Purges {
    /// Of a structure that was just made, or opened: then what is there has not been counted.
    pub fn of(is_new: bool) -> Purges {
        let purges = Purges::default();
        purges.round.lock().is_counted = is_new;
        purges
    }

    /// Goes on with the round, or begins one if it is due: some leaves. With `waited` it is due if there is, or may
    /// be, any tombstone. Returns whether one is under way. Blocking; the caller holds
    /// nothing.
    ///
    /// # Errors
    /// Those of the store, but for pages that cannot be read: what belongs there stays above.
    pub fn go_on<P: Pair>(&self, tiers: &Tiers<P>, waited: bool) -> Result<bool> {
        match self.is_under_way(tiers, waited)? {
            true => self.purge_leaves(tiers, STEP_LEAVES),
            false => Ok(false),
        }
    }

    /// Before a change: where tombstones are so many that it is tiresome to look for the first record, it takes some
    /// down, and what they come to goes on with that; of other changes than deletes one in some does. `hash` is that of
    /// its key. Blocking; the caller holds nothing.
    pub fn for_change<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        hash: u64,
        space: Space,
        waits: &mut Waits,
    ) -> Result<()> {
        let helps = hash.is_multiple_of(CHANGES_PER_HELP);
        let Some(merging) = tiers.cold().merging() else {
            return Ok(());
        };
        if !helps && space != Space::Reserve {
            return Ok(());
        }
        let done = (|| {
            if helps && self.is_urgent(deletes(tiers), merging.most_marks_above()) {
                let goes_on =
                    self.is_under_way(tiers, false)? && self.purge_leaves(tiers, HELP_LEAVES)?;
                self.round.lock().is_urgent = goes_on;
            }
            merging.catch_up(space, waits)
        })();
        match done {
            // The change meets what is in its own way.
            Err(e) if e.is_unreadable() || e.is_no_room() => Ok(()),
            done => done.map(drop),
        }
    }

    /// Whether changes take tombstones down: from the moment at which there are too many to the end of the round.
    fn is_urgent(&self, deletes: u64, too_many: u64) -> bool {
        let mut round = self.round.lock();
        round.is_urgent |= deletes.saturating_sub(round.deletes) >= too_many;
        round.is_urgent
    }

    /// Goes through at most `most` leaves of the round; whether it goes on.
    fn purge_leaves<P: Pair>(&self, tiers: &Tiers<P>, most: usize) -> Result<bool> {
        let mut cold_leaves = 0;
        for _ in 0..most {
            if cold_leaves >= STEP_COLD_LEAVES {
                return Ok(true);
            }
            if !self.purge_leaf(tiers, &mut cold_leaves)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the tombstones of this range, of one cold leaf, that a scan has walked over, so that the next
    /// scan does not. Only if that takes no waiting, and never an error of the scan: the round, or who
    /// makes room, does what is left. The caller holds nothing.
    pub fn purge_walked<P: Pair>(&self, tiers: &Tiers<P>, low: &[u8], high: Option<&[u8]>) {
        let Some(hot) = tiers.hot() else { return };
        let put_off = &self.put_off;
        if put_off.load(Ordering::Relaxed) > 0 {
            put_off.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let entry = Entry::Try;
        let purged = tiers
            .write_tombstones(low, high, entry)
            .and_then(|written| {
                if written > 0 {
                    tiers.close_up(low, high, entry)?;
                    pack(tiers, hot, low, entry)?;
                }
                Ok(())
            });
        if purged.is_err() {
            put_off.store(SCANS_AFTER_AN_ERROR, Ordering::Relaxed);
        }
    }

    /// Whether a round is under way, which begins now if it is due.
    pub fn is_under_way<P: Pair>(&self, tiers: &Tiers<P>, waited: bool) -> Result<bool> {
        let Some(hot) = tiers.hot() else {
            return Ok(false);
        };
        let since = |round: &Round| deletes(tiers).saturating_sub(round.deletes);
        {
            let round = self.round.lock();
            let due = match waited {
                true => !round.is_counted || since(&round) > 0,
                false => since(&round) >= LEAST_DELETES,
            };
            if round.under_way || !due {
                return Ok(round.under_way);
            }
        }
        let store = tiers.store();
        let enough = match waited {
            true => 0.0,
            false => leaves(store, tiers.cold())? + DELETES_PER_LEAF * leaves(store, hot)?,
        };
        let mut round = self.round.lock();
        if !round.under_way && since(&round) as f64 >= enough {
            round.deletes = deletes(tiers);
            round.is_counted = true;
            round.resume(b"");
        }
        Ok(round.under_way)
    }

    /// The next leaf, or a part of it; counts the cold leaves that it has to do with. Returns whether the
    /// round goes on.
    fn purge_leaf<P: Pair>(&self, tiers: &Tiers<P>, cold_leaves: &mut usize) -> Result<bool> {
        let Some(hot) = tiers.hot() else {
            return Ok(false);
        };
        // It is what deletes are for.
        let entry = Entry::Wait(Space::Reserve);
        tiers.context().with_windows(|dead, span| {
            dead.set_keys_only(true);
            let position = match self.take_leaf(tiers, hot, dead)? {
                Taken::Leaf(position) => position,
                Taken::None { goes_on } => return Ok(goes_on),
            };
            let mut next = 0;
            while next < dead.len() {
                if *cold_leaves >= STEP_COLD_LEAVES {
                    self.round.lock().resume(dead.key(next));
                    return Ok(true);
                }
                *cold_leaves += 1;
                let key = dead.key(next);
                if let Err(e) = tiers.cold_span(key, span) {
                    self.resume_unless_unreadable(key, e)?;
                    next += 1;
                    continue;
                }
                let low = span.low.as_slice().max(&dead.low);
                let highs = [&span.high, &dead.high].into_iter().flatten();
                if let Err(e) = tiers.write_tombstones(low, highs.min().map(Vec::as_slice), entry) {
                    self.resume_unless_unreadable(key, e)?;
                }
                next = match &span.high {
                    Some(high) => dead.lower_bound(high).max(next + 1),
                    None => dead.len(),
                };
            }
            if !dead.is_empty() {
                pack(tiers, hot, &position, entry)?;
            }
            Ok(dead.high.is_some())
        })
    }

    /// Copies the tombstones of the next leaf. It is this call's alone: the round goes on at once.
    fn take_leaf<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        hot: &P::Hot,
        dead: &mut Window,
    ) -> Result<Taken> {
        loop {
            let mut round = self.round.lock();
            if !round.under_way {
                return Ok(Taken::None { goes_on: false });
            }
            let mut select = |flags: Flags| Selected::Deleted.wants(flags);
            let at = round.at.clone();
            let Err(interrupt) = hot.try_window_within(&at, None, &mut select, dead) else {
                round.go_on(dead.high.as_ref());
                return Ok(Taken::Leaf(at));
            };
            drop(round);
            if let Err(e) = tiers.store().settle(interrupt) {
                // It goes past a leaf that cannot be read.
                let next = match e.is_unreadable() {
                    true => behind(tiers, hot, &at),
                    false => None,
                };
                let mut round = self.round.lock();
                round.go_on(next.as_ref());
                let goes_on = round.under_way;
                return unless_unreadable(e).map(|()| Taken::None { goes_on });
            }
        }
    }

    /// What stands in the way of the tombstone at this position: a page that cannot be read is passed by;
    /// anything else, a full disk say, passes, and the round goes on here then.
    fn resume_unless_unreadable(&self, position: &[u8], error: terrace_base::Error) -> Result<()> {
        let passed = unless_unreadable(error);
        if passed.is_err() {
            self.round.lock().resume(position);
        }
        passed
    }
}

/// What a round finds where it goes on.
enum Taken {
    /// A leaf, here.
    Leaf(Vec<u8>),
    /// Nothing; there may be more behind it.
    None { goes_on: bool },
}

/// Deletes since the structure was opened.
fn deletes<P: Pair>(tiers: &Tiers<P>) -> u64 {
    tiers.events().sum(|e| &e.deletes)
}

/// About how many leaves a tier has: the estimate of one leaf.
fn leaves<M: Tier>(store: &PageStore, tier: &M) -> Result<f64> {
    loop {
        match tier.try_random(&mut crate::random::next) {
            Ok((leaves, _)) => return Ok(leaves),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
}

/// Who needs what cannot be read meets the error himself.
pub(super) fn unless_unreadable(error: terrace_base::Error) -> Result<()> {
    if error.is_unreadable() {
        return Ok(());
    }
    Err(error)
}

impl TierContext {
    /// Goes on with the rounds that write tombstones, of all structures, or begins them: with `waited` also
    /// where there are few. Returns whether one is under way. For those who do without the background
    /// thread; bounded; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn purge(&self, waited: bool) -> Result<bool> {
        let mut more = false;
        for tier in self.hot.all() {
            more |= tier.purge(waited)?;
        }
        let asked = &self.purge_below;
        if waited {
            asked.store(true, Ordering::Relaxed);
        }
        if more {
            // First all that comes from above.
            return Ok(true);
        }
        let waited = asked.swap(false, Ordering::Relaxed);
        for structure in self.merging() {
            more |= structure.purge_below(waited)?;
        }
        Ok(more)
    }
}
