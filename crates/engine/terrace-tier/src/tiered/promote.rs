//! Upward migration: a record that was read from the cold tier is copied to the hot one.
//!
//! Under the record's lock, which is taken only if nothing has changed since the read (rule 2).
//! Waits for nothing (rule 13): a promotion that cannot be had at once is not made. Only where the same
//! would be missing for the next one too, whoever read the record brings it in, when all is let go of.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{AccessMethod, Attempt, Flags, Found, NoRoom, Plan, Value, WriteGuard};
use terrace_pages::Retry;

use super::phase::WANTED;
use super::room::LeafRoom;
use super::tiers::{Pair, Tiers};
use crate::Version;
use crate::fault::{Fault, Point, planted, reached};
use crate::policy::Admission;

/// Promotions of a structure that missed a page or a frame until a reader waits for it: so many that few
/// wait.
const MOST_IN_VAIN: u32 = 16;

/// A record that was read from the cold tier.
#[derive(Clone, Copy)]
pub(super) struct ColdRead<'r> {
    pub slot: usize,
    /// The version of its lock as of which it was read.
    pub version: Version,
    pub key: &'r [u8],
    pub value: &'r [u8],
    pub found: Found,
    /// Whether a page had to be read for it.
    pub missed: bool,
    /// Whether the call may wait for the disk: then others of its page may be written along.
    pub may_wait: bool,
}

/// What is known of one that may come up.
#[derive(Clone, Copy)]
struct Candidate {
    /// How often it was asked for lately.
    asked: u8,
    /// Whether another one has to make room for it.
    full: bool,
}

/// The promotions of a structure.
#[derive(Default)]
pub(super) struct Promotions {
    /// Those that missed a page, since one was brought in for them.
    in_vain: AtomicU32,
}

impl Promotions {
    /// After a record was read from the cold tier: perhaps it moves up, and perhaps others of its
    /// page, which is in memory now, are written along. Waits for nothing; may do nothing. Returns
    /// the version of the record's lock that the record has now, if it moved up.
    pub fn after_cold_read<P: Pair>(&self, tiers: &Tiers<P>, read: ColdRead<'_>) -> Version {
        let (found, missed) = (read.found, read.missed);
        if found.large.is_some() || tiers.expires().is_over(Value::Inline(read.value)) {
            return read.version;
        }
        let (context, policy) = (tiers.context(), tiers.policy());
        let full = context.is_full();
        let admission = Admission {
            full,
            random: crate::random::next(),
            depth: found.depth,
            missed,
        };
        // While there is room for all there is nothing to choose.
        let asked = if full {
            context.sketch.add(tiers.hash(read.key))
        } else {
            0
        };
        if asked >= WANTED {
            tiers.events().wanted.add(1);
        }
        let mut now = read.version;
        // Its pages are in memory: the record was read from there.
        let may = tiers.hot().is_some() || matches!(tiers.may_be_hot(), Ok(true));
        if may && policy.admit(admission) || planted(Fault::PolicyIgnored) {
            reached(Point::Read);
            now = self.try_promote(tiers, read, Candidate { asked, full });
        }
        if missed
            && read.may_wait
            && full
            && !P::Cold::CAPABILITIES.blind
            && policy.write_along() > 0
            && tiers.levels().are_stale_likely()
        {
            // Best effort: an error will meet whoever needs these pages.
            let _ = tiers.write_along(read.key, policy.write_along());
        }
        now
    }

    /// A record that was read from the cold tier moves up, as one that was asked for so often: nobody waits for it.
    pub(super) fn bring_up<P: Pair>(&self, tiers: &Tiers<P>, read: ColdRead<'_>, asked: u8) {
        let is_over = tiers.expires().is_over(Value::Inline(read.value));
        if read.found.large.is_some() || is_over || !matches!(tiers.may_be_hot(), Ok(true)) {
            return;
        }
        let full = tiers.context().is_full();
        self.try_promote(tiers, read, Candidate { asked, full });
    }

    /// Returns the version of the record's lock that the record has now.
    fn try_promote<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        read: ColdRead<'_>,
        candidate: Candidate,
    ) -> Version {
        match tiers.promote_or_make_room(read, candidate) {
            Ok(promoted) => {
                tiers.events().promotions.add(1);
                promoted
            }
            Err(interrupt) => {
                self.not_promoted(tiers, interrupt);
                read.version
            }
        }
    }

    /// After a promotion that could not be had. What was missing is brought in if others would miss it
    /// too: for the first one, which makes the hot tier and has the catalog say so, and where it is so
    /// again and again. No other reader might ever need those pages.
    #[cold]
    fn not_promoted<P: Pair>(&self, tiers: &Tiers<P>, interrupt: Retry) {
        if !matches!(interrupt, Retry::Miss(_) | Retry::NoFrame) {
            return;
        }
        let in_vain = self.in_vain.fetch_add(1, Ordering::Relaxed) + 1;
        if tiers.hot().is_none() || in_vain >= MOST_IN_VAIN {
            self.in_vain.store(0, Ordering::Relaxed);
            // Best effort: an error will meet whoever needs the page.
            let _ = tiers.store().settle(interrupt);
        }
    }
}

impl<P: Pair> Tiers<P> {
    /// As [`Tiers::promote`]; where there is no room for it, and the policy makes some, a second time.
    fn promote_or_make_room(&self, read: ColdRead<'_>, candidate: Candidate) -> Attempt<Version> {
        let promoted = self.promote(read, candidate);
        if matches!(promoted, Err(Retry::HotFull)) && self.policy().makes_room() {
            // Best effort: an error will meet whoever needs these pages.
            let _ = self.context().settle(Retry::HotFull);
            return self.promote(read, candidate);
        }
        promoted
    }

    fn promote(&self, read: ColdRead<'_>, candidate: Candidate) -> Attempt<Version> {
        let (store, locks) = (self.store(), &self.context().locks);
        let door = match planted(Fault::PromotionWaits) {
            true => store.enter()?,
            false => store.try_enter().ok_or(Retry::Conflict)?,
        };
        let lock = if planted(Fault::PromotionWithoutLock) {
            None
        } else if planted(Fault::PromotionUnchecked) {
            locks.try_lock(read.slot)
        } else {
            let lock = locks.upgrade(read.slot, read.version);
            Some(lock.ok_or(Retry::Conflict)?)
        };
        reached(Point::Promoting);
        let promoted = self.promote_locked(&door, read, candidate);
        let mut now = read.version;
        match lock {
            Some(lock) if promoted.is_err() => lock.release_unchanged(),
            Some(lock) => now = lock.release_moved(),
            None => {}
        }
        drop(door);
        if let Err(Retry::HotFull) = promoted {
            self.context().wake_demoter();
        }
        promoted.map(|()| now)
    }

    fn promote_locked(
        &self,
        door: &WriteGuard<'_>,
        read: ColdRead<'_>,
        candidate: Candidate,
    ) -> Attempt<()> {
        let asked = candidate.asked;
        let newcomer = Flags::NONE.with_use_count(self.policy().newcomer(asked));
        let flags = match self.is_inclusive() {
            true => newcomer,
            false => newcomer.with(Flags::DIRTY),
        };
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            Ok(match before {
                None => Plan::Put(Value::Inline(read.value), flags),
                Some(_) => Plan::Keep,
            })
        };
        let erase_cold = || {
            let mut erase = |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
            self.cold()
                .try_edit(door, read.key, &mut erase, &mut NoRoom, &mut || Ok(()))
        };
        let hot = self.hot_or_made(door)?;
        let store = self.store();
        if candidate.full
            && P::Hot::CAPABILITIES.shares_room
            && self.policy().replaces_in_leaf()
            && (store.hot_frames() > store.hot_cap()
                || self.levels().draw_idle(asked.saturating_sub(1)))
        {
            // There may be room for which no record has to go. It is not for a record that was asked for
            // no more often than those that go next: others are on their way that are worth it. And
            // while pages have to be given up, the holes are for the rows on them.
            return Err(Retry::Conflict);
        }
        if planted(Fault::EraseBeforeCopy) && !self.is_inclusive() {
            erase_cold()?;
            reached(Point::BetweenTiers);
        }
        let mut room = LeafRoom::for_promotion(self, asked);
        let done = hot.try_edit(door, read.key, &mut plan, &mut room, &mut || Ok(()))?;
        if !done.changed {
            return Err(Retry::Conflict);
        }
        reached(Point::BetweenTiers);
        if !self.is_inclusive() {
            // Copy before erase (rule 5). If the erase cannot be done now, the cold tier keeps a
            // stale copy that the dirty hot one hides.
            let _ = erase_cold();
        }
        Ok(())
    }
}
