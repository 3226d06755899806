//! Tombstones on their way out: what was deleted leaves the cold tier, and its tombstone the hot one.
//!
//! A delete touches no cold page (rule 10), it leaves a tombstone above. Whoever makes room takes
//! tombstones with him; but where nobody needs room they would stay for ever, and with them the
//! records below: after everything was deleted the file would be as long as before. So a round through
//! the hot leaves writes tombstones, and nothing else: when there are about enough of them that each cold
//! leaf is worth a read, or after a while, and in a compaction, if there is any: what is deleted may be few values
//! of many pages each. How many a hot tier had when it was opened nobody has counted, so there is one round then.

use std::sync::atomic::Ordering;

use terrace_access::{Flags, Sweep, Tier, Waits};
use terrace_base::Result;
use terrace_pages::Space;

use super::Tiered;
use super::hand::Purging;
use super::migrate::{Entry, Selected};
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

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Goes on with the round, or begins one if it is due: some leaves. With `waited` it is due if there is, or may
    /// be, any tombstone. Returns whether one is under way. Blocking; the caller holds
    /// nothing.
    ///
    /// # Errors
    /// Those of the store, but for pages that cannot be read: what belongs there stays above.
    pub(crate) fn purge_due(&self, waited: bool) -> Result<bool> {
        match self.is_purging(waited)? {
            true => self.purge_leaves(STEP_LEAVES),
            false => Ok(false),
        }
    }

    /// Before a change: where tombstones are so many that it is tiresome to look for the first record, it takes some
    /// down, and what they come to goes on with that; of other changes than deletes one in some does. `hash` is that of
    /// its key. Blocking; the caller holds nothing.
    pub(crate) fn purge_for_change(
        &self,
        hash: u64,
        space: Space,
        waits: &mut Waits,
    ) -> Result<()> {
        let helps = hash.is_multiple_of(CHANGES_PER_HELP);
        if !C::BLIND || !helps && space != Space::Reserve {
            return Ok(());
        }
        let done = (|| {
            if helps && self.is_urgent() {
                let goes_on = self.is_purging(false)? && self.purge_leaves(HELP_LEAVES)?;
                self.purging.lock().is_urgent = goes_on;
            }
            self.cold.catch_up(space, waits)
        })();
        match done {
            // The change meets what is in its own way.
            Err(e) if e.is_unreadable() || e.is_no_room() => Ok(()),
            done => done.map(drop),
        }
    }

    /// Whether changes take tombstones down: from the moment at which there are too many to the end of the round.
    fn is_urgent(&self) -> bool {
        let mut purging = self.purging.lock();
        purging.is_urgent |= self.deletes_since(&purging) >= self.cold.most_marks_above();
        purging.is_urgent
    }

    /// Goes through so many leaves of the round; whether it goes on.
    fn purge_leaves(&self, most: usize) -> Result<bool> {
        let mut cold_leaves = 0;
        for _ in 0..most {
            if cold_leaves >= STEP_COLD_LEAVES {
                return Ok(true);
            }
            if !self.purge_leaf(&mut cold_leaves)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the tombstones of this range, of one cold leaf, that a scan has walked over, so that the next
    /// scan does not. Only if that takes no waiting, and never an error of the scan: the round, or who
    /// makes room, does what is left. The caller holds nothing.
    pub(crate) fn purge_walked(&self, low: &[u8], high: Option<&[u8]>) {
        let Some(hot) = self.hot() else { return };
        let put_off = &self.walked_put_off;
        if put_off.load(Ordering::Relaxed) > 0 {
            put_off.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let entry = Entry::Try;
        let purged = self.write_tombstones(low, high, entry).and_then(|written| {
            if written > 0 {
                self.close_up(low, high, entry)?;
                self.pack_leaf(hot, low, entry)?;
            }
            Ok(())
        });
        if purged.is_err() {
            put_off.store(SCANS_AFTER_AN_ERROR, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_purging(&self, waited: bool) -> Result<bool> {
        let Some(hot) = self.hot() else {
            return Ok(false);
        };
        {
            let purging = self.purging.lock();
            let due = match waited {
                true => !purging.is_counted || self.deletes_since(&purging) > 0,
                false => self.deletes_since(&purging) >= LEAST_DELETES,
            };
            if purging.under_way || !due {
                return Ok(purging.under_way);
            }
        }
        let enough = match waited {
            true => 0.0,
            false => self.leaves(&self.cold)? + DELETES_PER_LEAF * self.leaves(hot)?,
        };
        let mut purging = self.purging.lock();
        if !purging.under_way && self.deletes_since(&purging) as f64 >= enough {
            purging.deletes = self.events.sum(|e| &e.deletes);
            purging.is_counted = true;
            purging.resume(b"");
        }
        Ok(purging.under_way)
    }

    fn deletes_since(&self, purging: &Purging) -> u64 {
        let deletes = self.events.sum(|e| &e.deletes);
        deletes.saturating_sub(purging.deletes)
    }

    /// About how many leaves a tier has: the estimate of one leaf.
    fn leaves<M: Tier>(&self, tier: &M) -> Result<f64> {
        loop {
            match tier.try_random(&mut crate::random::next) {
                Ok((leaves, _)) => return Ok(leaves),
                Err(interrupt) => self.context.store.settle(interrupt)?,
            }
        }
    }

    /// The next leaf, or a part of it; counts the cold leaves that it has to do with. Returns whether the
    /// round goes on.
    fn purge_leaf(&self, cold_leaves: &mut usize) -> Result<bool> {
        let Some(hot) = self.hot() else {
            return Ok(false);
        };
        // It is what deletes are for.
        let entry = Entry::Wait(Space::Reserve);
        self.context.with_windows(|dead, span| {
            dead.set_keys_only(true);
            let position = loop {
                // The leaf is this call's alone: the hand moves on at once.
                let mut purging = self.purging.lock();
                if !purging.under_way {
                    return Ok(false);
                }
                let mut select = |flags: Flags| Selected::Deleted.wants(flags);
                let at = purging.at.clone();
                match hot.try_window_within(&at, None, &mut select, dead) {
                    Ok(()) => {
                        match &dead.high {
                            Some(high) => purging.at.clone_from(high),
                            None => purging.under_way = false,
                        }
                        break at;
                    }
                    Err(interrupt) => {
                        drop(purging);
                        if let Err(e) = self.context.store.settle(interrupt) {
                            // The hand goes past a leaf that cannot be read.
                            let behind = match e.is_unreadable() {
                                true => self.behind(hot, &at),
                                false => None,
                            };
                            let mut purging = self.purging.lock();
                            match behind {
                                Some(position) => purging.resume(&position),
                                None => purging.under_way = false,
                            }
                            return unless_unreadable(e).map(|()| purging.under_way);
                        }
                    }
                }
            };
            let mut next = 0;
            while next < dead.len() {
                if *cold_leaves >= STEP_COLD_LEAVES {
                    self.purging.lock().resume(dead.key(next));
                    return Ok(true);
                }
                *cold_leaves += 1;
                let key = dead.key(next);
                if let Err(e) = self.cold_span(key, span) {
                    self.resume_unless_unreadable(key, e)?;
                    next += 1;
                    continue;
                }
                let low = span.low.as_slice().max(&dead.low);
                let highs = [&span.high, &dead.high].into_iter().flatten();
                if let Err(e) = self.write_tombstones(low, highs.min().map(Vec::as_slice), entry) {
                    self.resume_unless_unreadable(key, e)?;
                }
                next = match &span.high {
                    Some(high) => dead.lower_bound(high).max(next + 1),
                    None => dead.len(),
                };
            }
            if !dead.is_empty() {
                self.pack_leaf(hot, &position, entry)?;
            }
            Ok(dead.high.is_some())
        })
    }

    /// What stands in the way of the tombstone at this position: a page that cannot be read is passed by;
    /// anything else, a full disk say, passes, and the round goes on here then.
    fn resume_unless_unreadable(&self, position: &[u8], error: terrace_base::Error) -> Result<()> {
        let passed = unless_unreadable(error);
        if passed.is_err() {
            self.purging.lock().resume(position);
        }
        passed
    }
}

/// Who needs what cannot be read meets the error himself.
fn unless_unreadable(error: terrace_base::Error) -> Result<()> {
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
