//! Writing a batch.
//!
//! The order (see `write/one.rs`): everything is brought into memory first, holding nothing; then the
//! gate, then the record locks in ascending order, then the append, then the changes.

use terrace_access::{Interrupt, Window};
use terrace_base::Result;
use terrace_pages::{Door, Space};
use terrace_tier::RecordLock;
use terrace_wal::Durability;

use super::changes::Batch;
use super::merges::Again;
use super::wrote::Wrote;
use crate::api::database::Database;
use crate::catalog::opened::Open;
use crate::catalog::registry::RangeRemoved;
use crate::core::Core;
use crate::kinds::spec::Tiers;
use crate::latency::Call;
use crate::planted::{Fault, planted};
use crate::table::rows::Expected;

impl Core {
    /// Writes a batch, which is as it was afterwards.
    pub fn write_batch(&self, batch: &mut Batch, durability: Option<Durability>) -> Result<()> {
        let pass = self.passes.enter()?;
        let logged = batch.logged(self)?;
        let in_force = self.durability(logged, durability)?;
        if batch.is_empty() {
            return Ok(());
        }
        // Asked within the pass in which it is written: nobody makes an index meanwhile.
        let appended = if batch.changes_indexes() || batch.has_merges() {
            drop(pass);
            self.write_rounds(batch, None)?.flatten()
        } else {
            let wrote = self.write_batch_inside(batch, logged, &Expected::default())?;
            drop(pass);
            match wrote {
                Wrote::Done(appended) => appended,
                Wrote::Changed | Wrote::Interrupted(_) => None,
                Wrote::Claimed(claim) => {
                    let _owed = self.turn.wait_for(&claim);
                    return self.write_batch(batch, durability);
                }
            }
        };
        match (appended, in_force) {
            (Some(appended), Some(durability)) => self.commit(appended, durability),
            // Nothing had to be changed. What it was found out from may not be durable yet.
            (None, Some(durability)) => self.confirm(durability),
            (_, None) => Ok(()),
        }
    }

    /// Writes a batch as it is, if what it rests on still stands; the caller has a pass.
    pub fn write_batch_inside(
        &self,
        batch: &mut Batch,
        logged: bool,
        expected: &Expected<'_>,
    ) -> Result<Wrote> {
        for (open, key, _) in batch.changes() {
            open.structure.prefault(key).map_err(|e| self.failed(e))?;
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
                        // The door was passed once for all of them.
                        self.store.wait_for_saved();
                        open.structure.apply_locked(door, key, change)
                    })
            },
        )
    }

    /// Writes a batch of puts in one structure, each key once: `run` has the same, in the order of the
    /// structure. They go straight to where records rest, unless the structure has indexes, or two tiers and
    /// for these records many pages would have to be read. With one tier nothing is done then; returns the
    /// number of first records for which it would not be many.
    pub fn write_sorted(&self, batch: &mut Batch, run: &Window) -> Result<Option<usize>> {
        let pass = self.passes.enter()?;
        let logged = batch.logged(self)?;
        let in_force = self.durability(logged, Some(Durability::Buffered))?;
        let Some(open) = batch.structures.first().map(|target| target.open.clone()) else {
            return Ok(None);
        };
        // Asked within the pass in which it is written: nobody makes an index meanwhile.
        if batch.changes_indexes() {
            drop(pass);
            return self.write_batch(batch, in_force).map(|()| None);
        }
        let structure = &open.structure;
        let reached = structure.prefault_run(run).map_err(|e| self.failed(e))?;
        if reached < run.len() {
            drop(pass);
            return match open.spec.tiers {
                Tiers::One => Ok(Some(reached)),
                Tiers::Two => self.write_batch(batch, in_force).map(|()| None),
            };
        }
        let dirty_each = structure.dirty_each(true);
        let expected = Expected::default();
        let written =
            self.write_prefaulted(batch, logged, dirty_each, &expected, &mut |_, door, _| {
                self.store.wait_for_saved();
                structure.apply_run_locked(door, run)
            })?;
        drop(pass);
        match (written, in_force) {
            (Wrote::Done(Some(appended)), Some(durability)) => self.commit(appended, durability)?,
            (Wrote::Claimed(claim), _) => {
                let _owed = self.turn.wait_for(&claim);
                return self.write_sorted(batch, run);
            }
            _ => {}
        }
        Ok(None)
    }

    /// The rest of writing a batch, once what it needs is in memory: `apply` makes its changes, told which of
    /// them a later one overrules, and makes no more than `dirty_each` pages dirty for each.
    #[allow(clippy::type_complexity)]
    fn write_prefaulted(
        &self,
        batch: &mut Batch,
        logged: bool,
        dirty_each: u64,
        expected: &Expected<'_>,
        apply: &mut dyn FnMut(&Batch, &Door<'_>, &[bool]) -> Result<()>,
    ) -> Result<Wrote> {
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
            (true, false) => Some(self.log.reserve(bytes)),
            (true, true) => Some(self.log.reserve_urgent(bytes)),
        }
        .transpose()
        .map_err(|e| self.failed(e))?;
        let locks = &self.tiers.locks;
        let slot_of = |open: &Open, key: &[u8]| locks.slot(open.id(), key);
        let (mut slots, mut overruled) = batch.slots(slot_of);
        if expected.merging.is_any() {
            slots.extend(expected.merging.slots());
            slots.sort_unstable();
            slots.dedup();
        }
        // Behind the append nothing may fail, so there must be space for all of it before.
        let (page_bytes, live) = (self.store.page_bytes(), self.store.live_pages());
        let mut promise = batch.promise(page_bytes, live, dirty_each);
        promise.new += (4 * expected.merging.slack(batch.payload.len()) / page_bytes) as u64;
        let lock_all = || -> Vec<_> { slots.iter().map(|slot| locks.lock(*slot)).collect() };
        if let Some((open, (low, high))) = batch.range() {
            let pages = self.registry.pages_of_cut(open);
            promise.new += pages;
            promise.dirty += pages;
            let there = open.structure.prefault_cut(low, high);
            there.map_err(|e| self.failed(e))?;
        }
        let locked = planted(Fault::LockedBeforeGate).then(lock_all);
        let early = planted(Fault::AppendedBeforeGate).then(|| {
            let reservation = reservation.as_mut()?;
            Some(self.log.append(reservation, &[&batch.payload]))
        });
        let door = self.store.enter_for_many(space, promise);
        let door = door.map_err(|e| self.failed(e))?;
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
            Ok(Again::WorkedOut) if kept(batch) => overruled = batch.slots(slot_of).1,
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
        let stands = || expected.stands(self, &ours);
        let middle = batch.operations.get(batch.operations.len() / 2);
        let torn = middle.filter(|_| planted(Fault::TornBatch) && batch.operations.len() > 1);
        let mut gone = None;
        let appended = match (early.flatten(), reservation.as_mut(), torn) {
            // Nobody is at work who could change what it rests on between the look and the append.
            (_, reservation, _) if batch.has_range() => match stands() {
                false => None,
                true => match self.take_range(batch, &door, reservation) {
                    Ok(taken) => Some(gone.insert(taken).appended),
                    Err(Interrupt::Fail(e)) => return Err(self.failed(e)),
                    Err(interrupt) => {
                        held.into_iter().for_each(RecordLock::release_unchanged);
                        return Ok(Wrote::Interrupted(interrupt));
                    }
                },
            },
            (Some(early), _, _) => Some(Some(early)),
            (None, Some(reservation), Some(middle)) => {
                Some(Some(batch.append_torn(middle, |part| {
                    let appended = self.log.append(reservation, &[part]);
                    let _ = self.log.flush();
                    appended
                })))
            }
            (None, Some(reservation), None) if expected.rests_on_nothing() => {
                Some(Some(self.log.append(reservation, &[&batch.payload])))
            }
            // Looked at before too: what has to be read for it comes while nobody waits.
            (None, Some(reservation), None) => stands()
                .then(|| self.log.append_if(reservation, &[&batch.payload], stands))
                .flatten()
                .map(Some),
            // Without log there is no order of commits to keep.
            (None, None, _) => {
                // The locks that are held here are to be seen before those of others are looked at.
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                stands().then_some(None)
            }
        };
        let Some(appended) = appended else {
            held.into_iter().for_each(RecordLock::release_unchanged);
            return Ok(Wrote::Changed);
        };
        let applied = apply(batch, &door, &overruled);
        // Without log a batch that was applied in part cannot be completed either. While the door is held:
        // no cut may have the half of it.
        let applied = applied.map_err(|e| self.kill(e));
        drop(held);
        drop(door);
        if let Some(gone) = gone {
            if let Some(part) = gone.part {
                self.registry.open_part(part);
            }
            if gone.removed != RangeRemoved::Nothing && !planted(Fault::CutUnseen) {
                locks.change_all();
            }
        }
        applied.map(|()| Wrote::Done(appended))
    }
}

impl Database {
    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new()
    }

    /// Makes all changes of a batch, in their order, or none: whatever crash comes, either all or
    /// none are found afterwards. Other threads may see some of them before others. In a unique index
    /// of a table, two rows may exchange their keys: what counts is what is so after the batch. With `None` it
    /// is as durable as [`crate::Options::durability`] says.
    ///
    /// # Errors
    /// Then nothing was changed, unless it is [`crate::Error::Poisoned`].
    pub fn write(&self, mut batch: Batch, durability: impl Into<Option<Durability>>) -> Result<()> {
        let core = &self.handle.core;
        let durability = durability.into();
        let write = || core.write_batch(&mut batch, durability);
        core.latencies.timed_always(Call::Batch, write)
    }
}
