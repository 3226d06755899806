//! When steps are made, and by whom: by changes that find the top full or tombstones many, and ahead of need.

use std::time::Instant;

use terrace_access::Waits;
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_pages::Space;

use super::cursors::Cursors;
use super::level::{Level, settled};
use super::plan::Job;
use super::sizes::AHEAD;
use super::step::PATIENCE;
use super::{Lsm, State};
use crate::fault::{self, Fault};

/// Steps that are made at once ahead of need: some mebibytes are read and written, then others come.
const STEPS_AHEAD: usize = 4;

/// Looks in a row at which nothing is due after which the memory for a step is given back: some seconds.
const LULL: u32 = 1000;

/// Whether `leaves` leaves of the `bound` that the top may have are enough that it gives up records ahead of need.
fn is_ahead(leaves: u64, bound: u64) -> bool {
    leaves as f64 >= bound as f64 * AHEAD
}

impl Lsm {
    /// Whether the top has `times` times what it is to have at most.
    pub(crate) fn lags_by(&self, times: u64) -> bool {
        let Ok(state) = self.state() else {
            return false;
        };
        self.look_at_top(state) >= times * self.top_bound()
    }

    /// See [`terrace_access::Merging::slow_down`].
    pub(crate) fn wait_a_little(&self, bytes: u64) {
        let Some(state) = self.state.get() else {
            return;
        };
        let c = &self.counters;
        let bytes = match bytes {
            0 => c.arrived_bytes.load(Atomic::Relaxed) / c.changes.load(Atomic::Relaxed).max(1),
            bytes => bytes,
        };
        let leaves = self.look_at_top(state);
        if let Some(time) = self.pace.wait_for(leaves, self.top_bound(), bytes) {
            std::thread::sleep(time);
        }
    }

    /// See [`terrace_access::Merging::catch_up`]. At most one step is waited for: one that another thread
    /// is at, or one that is made here.
    pub(crate) fn make_due_step(&self, space: Space, waits: &mut Waits) -> Result<bool> {
        let state = settled(&self.store, || self.state())?;
        let (leaves, bound) = (self.look_at_top(state), self.top_bound());
        let is_dead_much = self.is_dead_much(state);
        if leaves < bound && !is_dead_much {
            return Ok(is_ahead(leaves, bound));
        }
        if !waits.may_wait() && !fault::planted(Fault::EndlessWaits) {
            return Ok(true);
        }
        let c = &self.counters;
        let done = match self.work.begin_or_wait() {
            Some(mut cursors) => {
                // From here on steps are this change's own: until now others made them, and were not waited for.
                let before = c.steps.load(Atomic::Relaxed);
                let done = match leaves < bound {
                    true => self.purge_at_work(state, &mut cursors.purging, false),
                    false => self.step_at_work(state, &mut cursors, 1.0, space),
                };
                waits.note(c.steps.load(Atomic::Relaxed).saturating_sub(before));
                done
            }
            None => {
                waits.note(1);
                Ok(true)
            }
        };
        if let Some(steps) = waits.of_this_change() {
            c.waits.fetch_add(1, Atomic::Relaxed);
            c.most_waits.fetch_max(steps, Atomic::Relaxed);
        }
        match done {
            // Only tombstones were to go down: what the change needs itself it meets as it enters the gate.
            Err(e) if e.is_no_room() && leaves < bound => Ok(true),
            // Deletes are the way out of a full disk, and of a full page table: they go on for a while.
            Err(e) if e.is_no_room() && space == Space::Reserve && !self.lags_by(2) => Ok(true),
            // A page that this change has nothing to do with: others are merged, and who needs it meets it.
            Err(e) if e.is_unreadable() => Ok(true),
            done => done.map(|_| true),
        }
    }

    /// Makes the step that is due, if any; the top gives up records from this part of its bound on.
    /// Returns whether one was made. Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store; then nothing has changed.
    pub fn step(&self, from: f64, space: Space) -> Result<bool> {
        let state = settled(&self.store, || self.state())?;
        let mut cursors = self.work.keep();
        self.step_at_work(state, &mut cursors, from, space)
    }

    fn step_at_work(
        &self,
        state: &State,
        cursors: &mut Cursors,
        from: f64,
        space: Space,
    ) -> Result<bool> {
        let (began, before) = (
            Instant::now(),
            self.counters.left_bytes.load(Atomic::Relaxed),
        );
        // Others may have made it while this one waited.
        let window = self.count_top(state)?.max(1) * self.store.page_bytes() as u64;
        let of = |n: &terrace_base::sync::atomic::AtomicU64| n.load(Atomic::Relaxed);
        let c = &self.counters;
        self.absorbed
            .look(c.user_bytes.get(), of(&c.arrived_bytes), window);
        let sizes = self.sizes(state);
        let Some(mut source) = sizes.due(from, (cursors.below, cursors.run)) else {
            return Ok(false);
        };
        if sizes.wants_level() {
            self.add_level(state, space)?;
            source += usize::from(source == sizes.levels.len());
        }
        self.refused.turn();
        // What could not be read is passed over from then on.
        let mut unreadable = None;
        // Where a level has nothing that can be merged the top may have.
        let top = state.count();
        let sources = [
            Some(source),
            (source != top && sizes.is_top_due(from)).then_some(top),
        ];
        for source in sources.into_iter().flatten() {
            for _ in 0..PATIENCE {
                let Some(mut job) = self.plan(state, cursors, source)? else {
                    break;
                };
                if !self.is_anything_above(state, &job)? {
                    // Leaves without records, which could not be joined when they lost them.
                    self.join_empty(state, &job, space)?;
                    continue;
                }
                let done = self
                    .join_thin(state, &mut job)
                    .and_then(|()| self.carry_out(state, &job, space));
                match done {
                    Ok(true) => {
                        if source != top {
                            cursors.run = source;
                        }
                        cursors.below = match source == top {
                            true => 0,
                            false => cursors.below.saturating_add(1),
                        };
                        let left = self.counters.left_bytes.load(Atomic::Relaxed) - before;
                        self.pace.note(left, began.elapsed());
                        self.count_top(state)?;
                        return Ok(true);
                    }
                    Ok(false) => {}
                    Err(e) if e.is_unreadable() => {
                        self.refuse(&job);
                        unreadable = Some(e);
                        continue;
                    }
                    Err(e) => return Err(e),
                }
                if self.store.try_large_guard().is_none() {
                    // It was given up for a cut, which is not waited for here.
                    break;
                }
            }
        }
        self.count_top(state)?;
        unreadable.map_or(Ok(false), Err)
    }

    /// This step cannot be made: where it is not known which page is in the way its range is passed over.
    fn refuse(&self, job: &Job) {
        let (low, high) = (job.low.as_slice(), job.high.as_deref());
        if self.refused.is_free(low, high) {
            self.refused.add(low, high);
        }
    }

    /// See [`terrace_access::Merging::tend`].
    pub(crate) fn work_ahead(&self) -> Result<()> {
        let state = settled(&self.store, || self.state())?;
        if state.downwards().any(Level::is_estimate) {
            let _at_work = self.work.keep();
            match self.count_some(state) {
                // A page of an index that cannot be read: it stays an estimate.
                Err(e) if e.is_unreadable() => {}
                counted => counted?,
            }
        }
        for _ in 0..STEPS_AHEAD {
            if !self.is_dead_much(state) || !self.purge_some(false)? {
                break;
            }
        }
        if !is_ahead(self.look_at_top(state), self.top_bound()) {
            self.pace.rest();
            self.settle_charged(state)?;
            // Not in each lull: the hot tier would grow into it, and have to go again at the next step.
            if self.lull.fetch_add(1, Atomic::Relaxed) >= LULL {
                self.give_buffers();
            }
            return Ok(());
        }
        self.lull.store(0, Atomic::Relaxed);
        for _ in 0..STEPS_AHEAD {
            if !self.step(AHEAD, Space::Migration)? {
                break;
            }
        }
        self.settle_charged(state)
    }
}
