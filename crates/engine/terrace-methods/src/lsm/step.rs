//! One step: a range of records read, merged, and built into new pages in private memory.
//!
//! It holds nothing while it reads. Only steps change what lies below the top, and there is one at a time,
//! so what it has read of the levels stays as it is; what it has copied of the top may change meanwhile,
//! which the installation finds out.

use std::time::Instant;

use terrace_access::{DroppedBy, LargeRef, Ordered, Value, Waits, Window};
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_pages::{Cause, Space};

use super::cursors::Cursors;
use super::filter;
use super::install::{Change, Install, Part};
use super::level::{Level, Slot, settled};
use super::merge::merge;
use super::page::{self, Image, Record};
use super::plan::{Job, MOST_SQUEEZED};
use super::sizes::AHEAD;
use super::{Lsm, State, Taken};
use crate::fault::{self, Fault, Point};

/// Steps that are given up because what they copied has changed, or frames are short, before the change that
/// waits goes on.
pub(crate) const PATIENCE: u32 = 4 + MOST_SQUEEZED;

/// Steps that are made at once ahead of need: some mebibytes are read and written, then others come.
const STEPS_AHEAD: usize = 4;

/// Looks in a row at which nothing is due after which the memory for a step is given back: some seconds.
const LULL: u32 = 1000;

/// Whether so many leaves of what the top may have are so many that it gives up records ahead of need.
fn is_ahead(leaves: u64, bound: u64) -> bool {
    leaves as f64 >= bound as f64 * AHEAD
}

impl Lsm {
    /// Whether the top has so many times what it is to have at most.
    pub(crate) fn lags_by(&self, times: u64) -> bool {
        let Ok(state) = self.state() else {
            return false;
        };
        self.look_at_top(state) >= times * self.top_bound()
    }

    /// See [`terrace_access::AccessMethod::slow_down`].
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

    /// See [`terrace_access::AccessMethod::catch_up`]. At most one step is waited for: one that somebody else
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
            // Only tombstones were to go down: what the change needs itself it meets at the door.
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

    /// Looks how large the top is.
    pub(crate) fn count_top(&self, state: &State) -> Result<u64> {
        let leaves = settled(&self.store, || state.top.count_leaves(usize::MAX))?;
        self.counters
            .top_leaves
            .store(leaves as u64, Atomic::Relaxed);
        Ok(leaves as u64)
    }

    /// See [`terrace_access::AccessMethod::tend`].
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

    /// Takes memory for the pages that a step has to itself: what it reads, and what it makes. Frames for what the top
    /// has while steps are made are set aside along with it.
    fn take_buffers(&self) {
        let pages = (4 * self.most_target()) as u64;
        let bytes = pages * self.store.page_bytes() as u64;
        let frames = (self.top_bound() as f64 * AHEAD) as u64;
        let take = || {
            self.store.take_extra_bytes(bytes);
            self.store.set_tops_aside(frames);
        };
        let mut taken = self.taken.lock();
        if taken.bytes > 0 {
            return;
        }
        // Somebody may give back what is said to be taken.
        let is_late = fault::planted(Fault::TakenLate);
        if !is_late {
            take();
        }
        *taken = Taken { bytes, frames };
        drop(taken);
        fault::reached(Point::Taking);
        if is_late {
            take();
        }
    }

    /// Gives it back: nothing is due.
    pub(crate) fn give_buffers(&self) {
        let mut taken = self.taken.lock();
        self.store.give_extra_bytes(taken.bytes);
        self.store.give_tops_back(taken.frames);
        *taken = Taken::default();
    }

    /// Gives all memory back that is beside the pages.
    pub(crate) fn give_all(&self) {
        self.give_buffers();
        self.buffers.forget(&self.store);
        self.store.give_extra_bytes(self.charges.forget());
    }

    /// Reads, merges, builds and installs. False where that was given up because a record that has a chain
    /// has changed.
    pub(crate) fn carry_out(&self, state: &State, job: &Job, space: Space) -> Result<bool> {
        let _because = Cause::Merging.begin();
        self.take_buffers();
        let (low, high) = (job.low.as_slice(), job.high.as_deref());
        let mut change = Change::default();
        // The newest first: the top, the levels from above, the target.
        let mut inputs = Vec::new();
        if job.source == state.count() {
            let mut top = Window::new();
            change.top_leaves = self.read_top(state, (low, high), &mut top)?;
            inputs.push(top);
        }
        let has_top = !inputs.is_empty();
        let mut sources = job.target + 1..=job.source;
        if fault::planted(Fault::MiddleLeftOut) && job.source > job.target + 1 {
            sources = job.source..=job.source;
        }
        for level in sources.rev().filter_map(|number| state.level(number)) {
            let slots = level.slots(&self.store, (low, high), usize::MAX)?;
            let mut window = Window::new();
            for slot in &slots {
                self.read_page(level, slot, (low, high), &mut window)?;
            }
            inputs.push(window);
            if !fault::planted(Fault::SourceKept) {
                let parts = self.left_of(state, level, &slots, (low, high))?;
                change.levels.push(Install::new(level, &slots, parts));
            }
        }
        let Some(target) = state.level(job.target) else {
            return Ok(false);
        };
        let slots = target.slots(&self.store, (low, high), usize::MAX)?;
        let (out_low, out_high) = output_range(&slots, (low, high));
        let mut window = Window::new();
        for slot in &slots {
            let all = (slot.low.as_slice(), slot.high.as_deref());
            if fault::planted(Fault::TargetCut) && slots.len() > 1 && slot.high == out_high {
                continue;
            }
            self.read_page(target, slot, all, &mut window)?;
        }
        inputs.push(window);
        let ends = self.nothing_below(state, job.target, (&out_low, out_high.as_deref()))?;
        let expiry = self.expiry.get();
        // Not of large ones, whose pages somebody may be reading, or name in a tier above: only who holds the
        // record's lock gives these back.
        let is_over = |value: Value<'_>| {
            matches!(value, Value::Inline(_)) && expiry.is_some_and(|expiry| expiry.is_over(value))
        };
        let merged = merge(
            &inputs,
            ends || fault::planted(Fault::TombstoneEarly),
            &is_over,
        );
        let mut parts: Vec<Part> = self
            .pack(
                state,
                target.number,
                &merged.records,
                (&out_low, out_high.as_deref()),
            )?
            .into_iter()
            .map(|image| Part {
                low: image.low.clone(),
                image: Some(image),
            })
            .collect();
        if fault::planted(Fault::OutputGap) {
            parts.pop();
        }
        if parts.is_empty() {
            parts.push(Part {
                low: out_low.clone(),
                image: None,
            });
        }
        if let Some(last) = slots.last()
            && last.entry.is_none()
            && last.high != out_high
            && let Some(end) = &out_high
        {
            // The gap goes on behind the range.
            parts.push(Part {
                low: end.clone(),
                image: None,
            });
        }
        change.levels.push(Install::new(target, &slots, parts));
        change.dropped = merged.dropped;
        let top = has_top.then(|| &inputs[0]);
        let early = match fault::planted(Fault::PagesEarly) {
            true => self.make_early(&mut change, space)?,
            false => Vec::new(),
        };
        fault::reached(Point::Merged);
        self.unmake_early(&early, space)?;
        let done = self.install(state, &mut change, top, space)?;
        if done {
            if let Some(expiry) = expiry
                && merged.expired > 0
            {
                expiry.note_dropped(DroppedBy::Merge, merged.expired);
            }
            self.counters.steps.fetch_add(1, Atomic::Relaxed);
            let less = |squeezed: u32| squeezed.checked_sub(1);
            let _ = self
                .squeezed
                .fetch_update(Atomic::Relaxed, Atomic::Relaxed, less);
        }
        Ok(done)
    }

    /// Copies the records of the top in a range; from how many leaves.
    fn read_top(
        &self,
        state: &State,
        (low, high): (&[u8], Option<&[u8]>),
        into: &mut Window,
    ) -> Result<u64> {
        let mut part = Window::new();
        let mut at = low.to_vec();
        for leaves in 1.. {
            settled(&self.store, || {
                state
                    .top
                    .try_window_within(&at, high, &mut |_| true, &mut part)
            })?;
            for i in 0..part.len() {
                into.push_from(&part, i);
            }
            match part.high.take() {
                Some(next) if high.is_none_or(|high| next.as_slice() < high) => at = next,
                _ => return Ok(leaves),
            }
        }
        Ok(0)
    }

    /// Copies the records of a page that lie in a range.
    fn read_page(
        &self,
        level: &Level,
        slot: &Slot,
        range: (&[u8], Option<&[u8]>),
        into: &mut Window,
    ) -> Result<()> {
        let Some(entry) = &slot.entry else {
            return Ok(());
        };
        if !self.store.is_resident(entry.name.page) {
            self.counters.merge_reads.fetch_add(1, Atomic::Relaxed);
        }
        let read = self.buffers.with(&self.store, |buffer| {
            settled(&self.store, || {
                level.with_page(&self.store, (entry, &slot.low), |page| {
                    page::copy(page, &entry.name, range, (buffer, into))
                })
            })
        });
        if let Err(e) = &read
            && e.is_unreadable()
        {
            self.refused.add(&slot.low, slot.high.as_deref());
        }
        read
    }

    /// What is left of the pages of a source of which only a part lies in the range.
    fn left_of(
        &self,
        state: &State,
        level: &Level,
        slots: &[Slot],
        (low, high): (&[u8], Option<&[u8]>),
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let Some((first, last)) = slots.first().zip(slots.last()) else {
            return Ok(parts);
        };
        if first.low.as_slice() < low {
            let first = std::slice::from_ref(first);
            self.rest(state, level, first, (&first[0].low, Some(low)), &mut parts)?;
        }
        parts.push(Part {
            low: first.low.as_slice().max(low).to_vec(),
            image: None,
        });
        if let Some(high) = high
            && last.high.as_deref().is_none_or(|end| high < end)
        {
            let end = last.high.as_deref();
            let last = std::slice::from_ref(last);
            self.rest(state, level, last, (high, end), &mut parts)?;
        }
        Ok(parts)
    }

    /// What pages have in a range, in pages of their own.
    pub(crate) fn rest(
        &self,
        state: &State,
        level: &Level,
        slots: &[Slot],
        (low, high): (&[u8], Option<&[u8]>),
        parts: &mut Vec<Part>,
    ) -> Result<()> {
        let mut window = Window::new();
        for slot in slots {
            self.read_page(level, slot, (low, high), &mut window)?;
        }
        let records: Vec<Record<'_>> = (0..window.len()).map(|i| Record::of(&window, i)).collect();
        let images = self.pack(state, level.number, &records, (low, high))?;
        if images.is_empty() {
            parts.push(Part {
                low: low.to_vec(),
                image: None,
            });
        }
        parts.extend(images.into_iter().map(|image| Part {
            low: image.low.clone(),
            image: Some(image),
        }));
        Ok(())
    }

    /// Builds pages of a level. Those of the last one have no filter as long as most of what is looked for is
    /// there.
    fn pack(
        &self,
        state: &State,
        level: u8,
        records: &[Record<'_>],
        range: (&[u8], Option<&[u8]>),
    ) -> Result<Vec<Image>> {
        let page_bytes = self.store.page_bytes();
        let room = super::max_inline(page_bytes) - super::entry::ENTRY_BYTES;
        let (bits, most) = match (level, state.level(0)) {
            (0, Some(last)) if last.wants_filters() => (filter::BITS_OF_LAST, room),
            (0, _) => (0, 0),
            _ => (filter::BITS, room),
        };
        let compress = level < self.compressed.load(Atomic::Relaxed);
        page::pack(records, range, (page_bytes, compress), |of| {
            let strange = u64::from(fault::planted(Fault::StrangeFilter));
            let structure = self.root.0 + strange;
            let hashes = of.iter().map(|r| filter::hash(structure, r.key));
            filter::build(hashes, bits, most)
        })
    }

    /// Whether no page below this level overlaps the range.
    fn nothing_below(
        &self,
        state: &State,
        target: usize,
        range: (&[u8], Option<&[u8]>),
    ) -> Result<bool> {
        for level in (0..target).filter_map(|number| state.level(number)) {
            let slots = level.slots(&self.store, range, 1)?;
            if slots.iter().any(|slot| slot.entry.is_some()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether records of the top with chains are what they were: bit for bit.
    pub(crate) fn chains_still_there(
        &self,
        state: &State,
        copied: &Window,
    ) -> terrace_access::Attempt<bool> {
        let mut now = Window::new();
        for i in 0..copied.len() {
            let Some(large) = copied.entry(i).large else {
                continue;
            };
            let key = copied.key(i);
            let behind = [key, &[0]].concat();
            state
                .top
                .try_window_within(key, Some(&behind), &mut |_| true, &mut now)?;
            let same: Option<LargeRef> = match now.len() {
                1 if now.key(0) == key => now.entry(0).large,
                _ => None,
            };
            if same != Some(large) {
                return Ok(fault::planted(Fault::StaleChain));
            }
        }
        Ok(true)
    }
}

/// What the output of a step covers: whole pages of the target, and of a gap only the range itself.
fn output_range(slots: &[Slot], (low, high): (&[u8], Option<&[u8]>)) -> (Vec<u8>, Option<Vec<u8>>) {
    let out_low = match slots.first() {
        Some(first) if first.entry.is_some() => first.low.as_slice(),
        Some(first) => first.low.as_slice().max(low),
        None => low,
    };
    let out_high = match slots.last() {
        Some(last) if last.entry.is_some() => last.high.clone(),
        Some(last) => match (&last.high, high) {
            (Some(end), Some(high)) => Some(end.as_slice().min(high).to_vec()),
            (Some(end), None) => Some(end.clone()),
            (None, high) => high.map(<[u8]>::to_vec),
        },
        None => high.map(<[u8]>::to_vec),
    };
    (out_low.to_vec(), out_high)
}
