//! Writing a batch.
//!
//! The order (see `write/one.rs`): everything is brought into memory first, holding nothing; then the
//! gate, then the record locks in ascending order, then the append, then the changes.

use terrace_access::Retry;
use terrace_base::Result;
use terrace_pages::{Space, WriteGuard};
use terrace_tier::RecordLock;
use terrace_wal::{Appended, Reservation};

use super::changes::Batch;
use super::merges::Again;
use super::wrote::Wrote;
use crate::catalog::opened::Open;
use crate::catalog::registry::RangeRemoved;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::write::expected::Expected;

/// Whether a batch has its place in the order of commits.
enum Place {
    /// With this record, if it is logged.
    Taken(Option<Appended>),
    /// What it rests on does not stand any more.
    Refused,
}

impl Core {
    /// Writes a batch as it is, if what it rests on still stands; the caller holds an operation.
    pub fn write_batch_inside(
        &self,
        batch: &mut Batch,
        logged: bool,
        expected: &Expected<'_>,
    ) -> Result<Wrote> {
        for (open, key, change) in batch.changes() {
            self.heard(open.structure.prefault(key, change))?;
            batch.go_on()?;
        }
        let structures = batch.structures.iter();
        let dirty_each = structures.map(|target| target.open.structure.dirty_each(false));
        let dirty_each = dirty_each.max().unwrap_or(0);
        self.write_prefaulted(
            batch,
            logged,
            dirty_each,
            expected,
            &mut |batch, door, overruled| {
                batch
                    .changes()
                    .zip(overruled)
                    .filter(|(_, overruled)| !**overruled || planted(Fault::OverruledShown))
                    .try_for_each(|((open, key, change), _)| {
                        // The gate was entered once for all of them.
                        self.store().wait_for_saved();
                        open.structure.apply_locked(door, key, change)
                    })
            },
        )
    }

    /// The rest of writing a batch, once what it needs is in memory: `apply` makes its changes, told which of
    /// them a later one overrules, and makes no more than `dirty_each` pages dirty for each.
    #[allow(clippy::type_complexity)]
    pub fn write_prefaulted(
        &self,
        batch: &mut Batch,
        logged: bool,
        dirty_each: u64,
        expected: &Expected<'_>,
        apply: &mut dyn FnMut(&Batch, &WriteGuard<'_>, &[bool]) -> Result<()>,
    ) -> Result<Wrote> {
        let logged = batch.is_logged_now(self, logged);
        let only_deletes = batch.deletes == batch.operations.len();
        let space = if only_deletes {
            Space::Reserve
        } else {
            Space::Ordinary
        };
        let bytes =
            batch.reservation() + batch.range_bytes() + expected.merging.slack(batch.payload.len());
        let mut reservation = match (logged, only_deletes) {
            (false, _) => None,
            (true, false) => Some(self.log().reserve(bytes)),
            (true, true) => Some(self.log().reserve_urgent(bytes)),
        }
        .transpose()
        .map_err(|e| self.failed(e))?;
        let locks = &self.tiers().locks;
        let slot_of = |open: &Open, key: &[u8]| locks.slot(open.id(), key);
        let (mut slots, mut overruled) = batch.slots(slot_of);
        batch.overrule_by_range(&mut overruled);
        if expected.merging.is_any() {
            slots.extend(expected.merging.slots());
            slots.sort_unstable();
            slots.dedup();
        }
        // Behind the append nothing may fail, so there must be space for all of it before.
        let (page_bytes, live) = (self.store().page_bytes(), self.store().live_pages());
        let mut promise = batch.promise(page_bytes, live, dirty_each);
        promise.new += (4 * expected.merging.slack(batch.payload.len()) / page_bytes) as u64;
        let lock_all = || -> Vec<_> { slots.iter().map(|slot| locks.lock(*slot)).collect() };
        if let Some((open, (low, high))) = batch.range() {
            let pages = self.registry().pages_of_cut(open);
            promise.new += pages;
            promise.dirty += pages;
            self.heard(open.structure.prefault_cut(low, high))?;
        }
        let locked = planted(Fault::LockedBeforeGate).then(lock_all);
        let early = planted(Fault::AppendedBeforeGate).then(|| {
            let reservation = reservation.as_mut()?;
            Some(self.log().append(reservation, &[&batch.payload]))
        });
        let door = self.heard(self.store().enter_for_many(space, promise))?;
        let held = locked.unwrap_or_else(lock_all);
        // The version before it was locked here: the one that readers have seen.
        let version_of = |slot| {
            let at = slots.binary_search(&slot).ok()?;
            Some(held[at].version_after_unchanged())
        };
        if !expected.holds(version_of) {
            held.into_iter().for_each(RecordLock::release_unchanged);
            return Ok(Wrote::Changed);
        }
        let again = expected
            .merging
            .again((self, &expected.before), batch, locks, version_of);
        let kept = |batch: &Batch| {
            // What was worked out again needs no more than what was prepared.
            let needs = batch.promise(page_bytes, live, dirty_each);
            !batch.has_no_changes()
                && needs.new <= promise.new
                && needs.dirty <= promise.dirty
                && (!only_deletes || batch.deletes == batch.operations.len())
        };
        match again {
            Ok(Again::Same) => {}
            Ok(Again::WorkedOut) if kept(batch) => {
                overruled = batch.slots(slot_of).1;
                batch.overrule_by_range(&mut overruled);
            }
            other => {
                held.into_iter().for_each(RecordLock::release_unchanged);
                // With the gate and all locks let go of.
                drop(door);
                return other.map(|_| Wrote::Changed).map_err(|e| self.failed(e));
            }
        }
        let standing = expected.standing;
        let claim = match planted(Fault::BatchUnwatched) {
            true => None,
            false => batch.tell_watchers(standing),
        };
        let claim = match planted(Fault::CutUnwatched) {
            true => claim,
            false => claim.or_else(|| batch.tell_watchers_of_range(standing)),
        };
        if let Some(claim) = claim {
            held.into_iter().for_each(RecordLock::release_unchanged);
            return Ok(Wrote::Claimed(claim));
        }
        let ours = |slot| slots.binary_search(&slot).is_ok() && !planted(Fault::OwnLockRefused);
        let stands = || expected.stands(locks, self.clock(), &ours);
        let mut gone = None;
        let place = match early.flatten() {
            // No thread is at work that could change what it rests on between the look and the append.
            _ if batch.has_range() => match stands() {
                false => Place::Refused,
                true => match self.take_range(batch, &door, reservation.as_mut()) {
                    Ok(taken) => Place::Taken(gone.insert(taken).appended),
                    Err(Retry::Fail(e)) => return Err(self.failed(e)),
                    Err(interrupt) => {
                        held.into_iter().for_each(RecordLock::release_unchanged);
                        return Ok(Wrote::Interrupted(interrupt));
                    }
                },
            },
            Some(early) => Place::Taken(Some(early)),
            None => self.append_batch(batch, reservation.as_mut(), expected, stands),
        };
        let Place::Taken(appended) = place else {
            held.into_iter().for_each(RecordLock::release_unchanged);
            return Ok(Wrote::Changed);
        };
        let applied = apply(batch, &door, &overruled);
        // Without log a batch that was applied in part cannot be completed either. While the write guard is held:
        // no cut may have the half of it.
        let applied = applied.map_err(|e| self.kill(e));
        drop(held);
        drop(door);
        if let Some(gone) = gone {
            if let Some(part) = gone.part {
                self.registry().open_part(part);
            }
            if gone.removed != RangeRemoved::Nothing && !planted(Fault::CutUnseen) {
                locks.change_all();
            }
        }
        applied.map(|()| Wrote::Done(appended))
    }

    /// Gives a batch without a range its place. The caller is inside the gate and holds the locks.
    fn append_batch(
        &self,
        batch: &Batch,
        reservation: Option<&mut Reservation<'_>>,
        expected: &Expected<'_>,
        stands: impl Fn() -> bool,
    ) -> Place {
        let Some(reservation) = reservation else {
            // Without log there is no order of commits to keep. The locks that are held here are to be seen before those
            // of others are looked at.
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            return match stands() {
                true => Place::Taken(None),
                false => Place::Refused,
            };
        };
        let middle = batch.operations.get(batch.operations.len() / 2);
        if let Some(middle) = middle
            && planted(Fault::TornBatch)
            && batch.operations.len() > 1
        {
            return Place::Taken(Some(batch.append_torn(middle, |part| {
                let appended = self.log().append(reservation, &[part]);
                let _ = self.log().flush();
                appended
            })));
        }
        let payload: &[&[u8]] = &[&batch.payload];
        if expected.rests_on_nothing() {
            return Place::Taken(Some(self.log().append(reservation, payload)));
        }
        // Looked at before too: what has to be read for it comes while no thread waits.
        match stands() {
            true => match self.log().append_if(reservation, payload, stands) {
                Some(appended) => Place::Taken(Some(appended)),
                None => Place::Refused,
            },
            false => Place::Refused,
        }
    }
}
