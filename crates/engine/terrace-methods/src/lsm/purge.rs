//! Tombstones on their way out: ranges that have some are merged into the last level, one after the other.
//!
//! A tombstone that nothing pushes on would stay above for ever, and with it the record that it hides. So
//! when there are many, or after a while, a round through all keys takes them down, the records around them
//! along: after all is deleted no page is left.
//!
//! Where they are so many that who looks for the first record would read page after page of records that are not
//! there any more, changes make steps of that round themselves. As many as a part of all records may wait, so each
//! delete costs as much as to write some records, and few are left when all is deleted.

use terrace_access::{Edge, Flags, Ordered, Window};
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_pages::Space;

use super::cursors::Purging;
use super::entry::Entry;
use super::level::{Level, settled};
use super::plan::Job;
use super::step::PATIENCE;
use super::{Lsm, State};
use crate::btree::Predecessor;
use crate::fault::{self, Fault};

/// A round is due when there is a tombstone for this many records of the last level.
const RECORDS_PER_TOMBSTONE: u64 = 64;
/// The same where there are few records.
const LEAST_DELETES: u64 = 64;
/// Changes take tombstones down where there is one for this many records of the last level.
const RECORDS_PER_URGENT: u64 = 4;
/// The same where there are few records: those of some dozen pages.
const LEAST_URGENT: u64 = 1024;
/// Ranges that one call looks at, at most.
const RANGES: usize = 16;
/// Steps that one call makes, at most: a caller may wait for its end.
const STEPS: usize = 1;

impl Lsm {
    /// See [`terrace_access::Merging::purge`].
    pub(crate) fn purge_some(&self, waited: bool) -> Result<bool> {
        let state = settled(&self.store, || self.state())?;
        let mut cursors = self.work.begin(&self.store);
        self.purge_at_work(state, &mut cursors.purging, waited)
    }

    /// Tombstones above the last level that may wait.
    pub(crate) fn most_dead(&self, state: &State) -> u64 {
        if fault::planted(Fault::DeadWait) {
            return u64::MAX;
        }
        let records = state.level(0).map_or(0, |level| level.figures().records);
        (records / RECORDS_PER_URGENT).max(LEAST_URGENT)
    }

    /// Whether there are more.
    pub(crate) fn is_dead_much(&self, state: &State) -> bool {
        let top = self.counters.top_dead.load(Atomic::Relaxed);
        let levels = (1..state.count()).filter_map(|number| state.level(number));
        let dead = levels.map(|level| level.figures().tombstones).sum::<u64>();
        top + dead >= self.most_dead(state)
    }

    /// Some ranges of a round, by who is at work.
    pub(crate) fn purge_at_work(
        &self,
        state: &State,
        purging: &mut Purging,
        waited: bool,
    ) -> Result<bool> {
        let mut at = match purging.at.take() {
            Some(at) => at,
            None if self.are_tombstones_many(state, purging, waited)? => {
                purging.deletes = self.counters.deletes.load(Atomic::Relaxed);
                purging.of_top = self.counters.top_dead.load(Atomic::Relaxed);
                purging.has_begun = true;
                Vec::new()
            }
            None => return Ok(false),
        };
        let mut steps = 0;
        for _ in 0..RANGES {
            let next = match self.purge_range(state, &at, &mut steps) {
                Ok(next) => next,
                // What lies behind a page that cannot be read is passed over.
                Err(e) if e.is_unreadable() => self.behind_unreadable(state, state.count(), &at),
                Err(e) => {
                    // A full disk, say: it goes on here.
                    purging.at = Some(at);
                    return Err(e);
                }
            };
            match next {
                Some(high) => at = high,
                None => {
                    self.end_of_round(purging);
                    return Ok(false);
                }
            }
            if steps == STEPS {
                break;
            }
        }
        purging.at = Some(at);
        Ok(true)
    }

    /// What the top had when the round began is gone: what is counted beyond that is not known any more.
    fn end_of_round(&self, purging: &mut Purging) {
        let since = self.counters.deletes.load(Atomic::Relaxed) - purging.deletes;
        let top = self.counters.top_dead.load(Atomic::Relaxed);
        self.counters
            .fewer_dead(top.saturating_sub(since).min(purging.of_top));
    }

    /// Takes the next range down if it has tombstones, and counts that; returns where the one behind it begins.
    fn purge_range(&self, state: &State, at: &[u8], steps: &mut usize) -> Result<Option<Vec<u8>>> {
        let job = self.range_to_last(state, at.to_vec())?;
        if !self.has_tombstones(state, &job)? {
            return Ok(job.high);
        }
        *steps += 1;
        let behind = job.high.clone();
        match self.carry_down(state, job, Space::Reserve) {
            // What lies on a page that cannot be read stays.
            Err(e) if e.is_unreadable() => Ok(behind),
            done => done,
        }
    }

    /// See [`terrace_access::Merging::settle_down`].
    pub(crate) fn merge_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = settled(&self.store, || self.state())?;
        let _at_work = self.work.begin(&self.store);
        self.count_top(state)?;
        let job = self.range_to_last(state, from.to_vec())?;
        if !self.is_anything_above(state, &job)? && !self.are_pages_thin(state, &job)? {
            return Ok(job.high);
        }
        let low = job.low.clone();
        let high = self.carry_down(state, job, Space::Migration)?;
        let (Some(high), Some(last)) = (high, state.level(0)) else {
            return Ok(None);
        };
        // What is left for the last page goes together with what comes behind it.
        let mut floor = Predecessor::default();
        let entry = settled(&self.store, || {
            last.entry_at(Edge::Below(&high), &mut floor)
        })?;
        let full = self.room_of_pages(last, 1);
        let is_thin = |entry: &Entry| u64::from(entry.used) < full * 15 / 16;
        let goes_on = entry.as_ref().is_some_and(is_thin) && floor.key > low;
        Ok(Some(if goes_on { floor.key } else { high }))
    }

    /// Whether the records of the pages of the last level in the range of a step fit into fewer.
    fn are_pages_thin(&self, state: &State, job: &Job) -> Result<bool> {
        let Some(last) = state.level(0) else {
            return Ok(false);
        };
        let range = (job.low.as_slice(), job.high.as_deref());
        let slots = last.slots(&self.store, range, usize::MAX)?;
        let entries: Vec<Entry> = slots.into_iter().filter_map(|slot| slot.entry).collect();
        let used = entries.iter().map(|entry| u64::from(entry.used)).sum();
        Ok(!entries.is_empty() && self.room_of_pages(last, entries.len() as u64 - 1) >= used)
    }

    /// Bytes of records that `pages` pages of a level have room for, at least, where records are not very long.
    fn room_of_pages(&self, level: &Level, pages: u64) -> u64 {
        let full = self.bytes_of_full(level);
        pages * (full - full / 32)
    }

    /// Makes a step to the last level, a smaller one where frames are short; returns where the next one
    /// begins. Where it is given up because something has changed, the next round finds it.
    fn carry_down(&self, state: &State, mut job: Job, space: Space) -> Result<Option<Vec<u8>>> {
        for _ in 0..PATIENCE {
            if self.carry_out(state, &job, space)? {
                break;
            }
            job = self.range_to_last(state, job.low)?;
        }
        self.count_top(state)?;
        Ok(job.high)
    }

    /// Whether there is a record for a step to carry: one of its sources in its range.
    pub(crate) fn is_anything_above(&self, state: &State, job: &Job) -> Result<bool> {
        let range = (job.low.as_slice(), job.high.as_deref());
        for number in job.target + 1..=job.source {
            let Some(level) = state.level(number).filter(|_| number < state.count()) else {
                return self.is_any_in_top(state, range, &mut |_| true);
            };
            let slots = level.slots(&self.store, range, 1)?;
            if slots.iter().any(|slot| slot.entry.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn are_tombstones_many(&self, state: &State, purging: &Purging, waited: bool) -> Result<bool> {
        let deletes = self.counters.deletes.load(Atomic::Relaxed);
        let above = state.downwards().map(|level| level.figures().tombstones);
        let top = self.counters.top_dead.load(Atomic::Relaxed);
        let dead = above.sum::<u64>() + top.max(deletes.saturating_sub(purging.deletes));
        let records = state.level(0).map_or(0, |level| level.figures().records);
        let enough = (records / RECORDS_PER_TOMBSTONE).max(LEAST_DELETES);
        if dead >= enough || (waited && dead > 0) {
            return Ok(true);
        }
        // How many of what the top had when it was opened are tombstones was never counted.
        let counted = purging.has_begun || !waited;
        Ok(!counted && self.is_any_in_top(state, (b"", None), &mut |_| true)?)
    }

    /// Whether there is a tombstone in the range of a step.
    fn has_tombstones(&self, state: &State, job: &Job) -> Result<bool> {
        let range = (job.low.as_slice(), job.high.as_deref());
        for level in (1..state.count()).filter_map(|number| state.level(number)) {
            let slots = level.slots(&self.store, range, usize::MAX)?;
            let dead = slots.iter().filter_map(|slot| slot.entry);
            if dead.map(|entry| entry.tombstones).sum::<u32>() > 0 {
                return Ok(true);
            }
        }
        self.is_any_in_top(state, range, &mut |flags| flags.is_deleted())
    }

    /// Whether the top has a record of some flags in a range.
    fn is_any_in_top(
        &self,
        state: &State,
        (low, high): (&[u8], Option<&[u8]>),
        wanted: &mut dyn FnMut(Flags) -> bool,
    ) -> Result<bool> {
        let mut window = Window::new();
        window.set_keys_only(true);
        let mut at = low.to_vec();
        loop {
            settled(&self.store, || {
                state.top.try_window_within(&at, high, wanted, &mut window)
            })?;
            if !window.is_empty() {
                return Ok(true);
            }
            match window.high.take() {
                Some(next) if high.is_none_or(|high| next.as_slice() < high) => at = next,
                _ => return Ok(false),
            }
        }
    }
}
