//! Upward migration: a record that was read from the cold tier is copied to the hot one.
//!
//! Under the record's lock, which is taken only if nothing has changed since the read (rule 2).
//! Waits for nothing (rule 13): a promotion that cannot be had at once is not made. Only where the same
//! would be missing for the next one too, whoever read the record brings it in, when all is let go of.

use std::sync::atomic::Ordering;

use terrace_access::{Attempt, Door, Flags, Found, NoRoom, Plan, Sweep, Tier, Value};
use terrace_pages::Interrupt;

use super::Tiered;
use super::phase::WANTED;
use super::room::LeafRoom;
use crate::Version;
use crate::fault::{Fault, Point, planted, reached};
use crate::locks::hash_of;
use crate::policy::Admission;

/// Promotions of a structure that missed a page or a frame until somebody waits for it: so many that few
/// wait.
const MOST_IN_VAIN: u32 = 16;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// After a record was read from the cold tier: perhaps it moves up, and perhaps others of its
    /// page, which is in memory now, are written along. Waits for nothing; may do nothing. Returns
    /// the version of the record's lock that the record has now, if it moved up.
    pub(crate) fn after_cold_read(
        &self,
        slot: usize,
        version: Version,
        key: &[u8],
        value: &[u8],
        found: Found,
        missed: bool,
    ) -> Version {
        if found.large.is_some() || self.expires.is_over(Value::Inline(value)) {
            return version;
        }
        let policy = &self.options.policy;
        let full = self.context.is_full();
        let admission = Admission {
            full,
            random: crate::random::next(),
            depth: found.depth,
            missed,
        };
        // While there is room for all there is nothing to choose.
        let asked = if full {
            self.context.sketch.add(hash_of(self.id, key))
        } else {
            0
        };
        if asked >= WANTED {
            self.events.wanted.add(1);
        }
        let mut now = version;
        // Its pages are in memory: the record was read from there.
        let may = self.hot().is_some() || matches!(self.may_be_hot(), Ok(true));
        if may && policy.admit(admission) || planted(Fault::PolicyIgnored) {
            reached(Point::Read);
            match self.promote_or_make_room(slot, version, key, value, (asked, full)) {
                Ok(promoted) => {
                    now = promoted;
                    self.events.promotions.add(1);
                }
                Err(interrupt) => self.not_promoted(interrupt),
            }
        }
        if missed && full && !C::BLIND && policy.write_along() > 0 && self.stale.is_likely() {
            // Best effort: an error will meet whoever needs these pages.
            let _ = self.write_along(key, policy.write_along());
        }
        now
    }

    /// As [`Tiered::promote`]; where there is no room for it, and the policy makes some, a second time.
    fn promote_or_make_room(
        &self,
        slot: usize,
        version: Version,
        key: &[u8],
        value: &[u8],
        (asked, full): (u8, bool),
    ) -> Attempt<Version> {
        let promoted = self.promote(slot, version, key, value, (asked, full));
        if matches!(promoted, Err(Interrupt::HotFull)) && self.options.policy.makes_room() {
            // Best effort: an error will meet whoever needs these pages.
            let _ = self.context.settle(Interrupt::HotFull);
            return self.promote(slot, version, key, value, (asked, full));
        }
        promoted
    }

    /// After a promotion that could not be had. What was missing is brought in if others would miss it
    /// too: for the first one, which makes the hot tier and has the catalog say so, and where it is so
    /// again and again. Nobody else might ever need those pages.
    #[cold]
    fn not_promoted(&self, interrupt: Interrupt) {
        if !matches!(interrupt, Interrupt::Miss(_) | Interrupt::NoFrame) {
            return;
        }
        let in_vain = self.in_vain.fetch_add(1, Ordering::Relaxed) + 1;
        if self.hot().is_none() || in_vain >= MOST_IN_VAIN {
            self.in_vain.store(0, Ordering::Relaxed);
            // Best effort: an error will meet whoever needs the page.
            let _ = self.context.store.settle(interrupt);
        }
    }

    fn promote(
        &self,
        slot: usize,
        version: Version,
        key: &[u8],
        value: &[u8],
        (asked, full): (u8, bool),
    ) -> Attempt<Version> {
        let store = &self.context.store;
        let door = if planted(Fault::PromotionWaits) {
            store.enter()?
        } else {
            store.try_enter().ok_or(Interrupt::Conflict)?
        };
        let lock = if planted(Fault::PromotionWithoutLock) {
            None
        } else if planted(Fault::PromotionUnchecked) {
            self.context.locks.try_lock(slot)
        } else {
            let lock = self.context.locks.upgrade(slot, version);
            Some(lock.ok_or(Interrupt::Conflict)?)
        };
        reached(Point::Promoting);
        let promoted = self.promote_locked(&door, key, value, (asked, full));
        let mut now = version;
        match lock {
            Some(lock) if promoted.is_err() => lock.release_unchanged(),
            Some(lock) => now = lock.release_moved(),
            None => {}
        }
        drop(door);
        if let Err(Interrupt::HotFull) = promoted {
            self.context.wake_demoter();
        }
        promoted.map(|()| now)
    }

    fn promote_locked(
        &self,
        door: &Door<'_>,
        key: &[u8],
        value: &[u8],
        (asked, full): (u8, bool),
    ) -> Attempt<()> {
        let newcomer = Flags::NONE.with_use_count(self.options.policy.newcomer(asked));
        let flags = if self.options.inclusive {
            newcomer
        } else {
            newcomer.with(Flags::DIRTY)
        };
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            Ok(if before.is_none() {
                Plan::Put(Value::Inline(value), flags)
            } else {
                Plan::Keep
            })
        };
        let erase_cold = || {
            let mut erase = |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
            self.cold
                .try_edit(door, key, &mut erase, &mut NoRoom, &mut || Ok(()))
        };
        let hot = self.hot_or_made(door)?;
        let store = &self.context.store;
        if full
            && H::SHARES_ROOM
            && self.options.policy.replaces_in_leaf()
            && (store.hot_frames() > store.hot_cap() || self.is_idle_now(asked.saturating_sub(1)))
        {
            // There may be room for which nobody has to go. It is not for a record that was asked for
            // no more often than those that go next: others are on their way that are worth it. And
            // while pages have to be given up, the holes are for the rows on them.
            return Err(Interrupt::Conflict);
        }
        if planted(Fault::EraseBeforeCopy) && !self.options.inclusive {
            erase_cold()?;
            reached(Point::BetweenTiers);
        }
        let mut room = LeafRoom::for_promotion(self, asked);
        let done = hot.try_edit(door, key, &mut plan, &mut room, &mut || Ok(()))?;
        if !done.changed {
            return Err(Interrupt::Conflict);
        }
        reached(Point::BetweenTiers);
        if !self.options.inclusive {
            // Copy before erase (rule 5). If the erase cannot be done now, the cold tier keeps a
            // stale copy that the dirty hot one hides.
            let _ = erase_cold();
        }
        Ok(())
    }
}
