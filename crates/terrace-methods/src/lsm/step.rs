//! One step: a range of records read, merged, and built into new pages in private memory.
//!
//! It holds nothing while it reads. Only steps change what lies below the top, and there is one at a time,
//! so what it has read of the levels stays as it is; what it has copied of the top may change meanwhile,
//! which the installation finds out.

use terrace_access::{Edge, LargeRef, Ordered, Window};
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_pages::Space;

use super::filter;
use super::install::{Change, Install, Part};
use super::level::{Level, Slot, settled};
use super::merge::merge;
use super::page::{self, Image, Record};
use super::plan::Job;
use super::{Lsm, State};
use crate::fault::{self, Fault, Point};

/// Steps that are given up because what they copied has changed, before the change that waits goes on.
const PATIENCE: u32 = 4;

/// Share of its bound in hundredths from which on the top gives up records ahead of need.
const AHEAD: u64 = 50;
/// Steps that are made at once ahead of need: some mebibytes are read and written, then others come.
const STEPS_AHEAD: usize = 4;

impl Lsm {
    /// Whether the top has so many times what it is to have at most.
    pub(crate) fn lags_by(&self, times: u64) -> bool {
        let Ok(state) = self.state() else {
            return false;
        };
        self.look_at_top(state) >= times * self.top_bound()
    }

    /// See [`terrace_access::AccessMethod::catch_up`].
    pub(crate) fn make_due_step(&self, space: Space) -> Result<()> {
        let state = settled(&self.store, || self.state())?;
        if self.look_at_top(state) < self.top_bound() {
            return Ok(());
        }
        let c = &self.counters;
        c.waits.fetch_add(1, Atomic::Relaxed);
        c.most_waits.fetch_max(1, Atomic::Relaxed);
        match self.step(1.0, space) {
            // Deletes are the way out of a full disk: they go on for a while.
            Err(e) if e.is_disk_full() && space == Space::Reserve && !self.lags_by(2) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Makes the step that is due, if any; the top gives up records from this part of its bound on.
    /// Returns whether one was made. Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store; then nothing has changed.
    pub fn step(&self, from: f64, space: Space) -> Result<bool> {
        let state = settled(&self.store, || self.state())?;
        let mut cursors = self.work.lock();
        // Others may have made it while this one waited.
        self.count_top(state)?;
        let sizes = self.sizes(state);
        let Some(mut source) = sizes.due(from) else {
            return Ok(false);
        };
        if sizes.wants_level() {
            self.add_level(state, space)?;
            source += usize::from(source == sizes.levels.len());
        }
        for _ in 0..PATIENCE {
            let Some(job) = self.plan(state, &mut cursors, source)? else {
                return Ok(false);
            };
            if self.carry_out(state, &job, space)? {
                self.count_top(state)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks how large the top is.
    pub(crate) fn count_top(&self, state: &State) -> Result<()> {
        let leaves = settled(&self.store, || state.top.count_leaves(usize::MAX))?;
        self.counters
            .top_leaves
            .store(leaves as u64, Atomic::Relaxed);
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::tend`].
    pub(crate) fn work_ahead(&self) -> Result<()> {
        let state = settled(&self.store, || self.state())?;
        if self.look_at_top(state) * 100 < self.top_bound() * AHEAD {
            return Ok(());
        }
        for _ in 0..STEPS_AHEAD {
            if !self.step(AHEAD as f64 / 100.0, Space::Migration)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads, merges, builds and installs. False where that was given up because a record that has a chain
    /// has changed.
    pub(crate) fn carry_out(&self, state: &State, job: &Job, space: Space) -> Result<bool> {
        let (low, high) = (job.low.as_slice(), job.high.as_deref());
        let mut change = Change::default();
        // The newest first: the top, the levels from above, the target.
        let mut inputs = Vec::new();
        if job.source == state.count() {
            let mut top = Window::new();
            self.read_top(state, (low, high), &mut top)?;
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
                let parts = self.left_of(level, &slots, (low, high))?;
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
            self.read_page(target, slot, all, &mut window)?;
        }
        inputs.push(window);
        let ends = self.nothing_below(state, job.target, (&out_low, out_high.as_deref()))?;
        let merged = merge(&inputs, ends || fault::planted(Fault::TombstoneEarly));
        let mut parts: Vec<Part> = self
            .pack(
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
        fault::reached(Point::Merged);
        let done = self.install(state, &mut change, top, space)?;
        if done {
            self.counters.steps.fetch_add(1, Atomic::Relaxed);
        }
        Ok(done)
    }

    /// Copies the records of the top in a range.
    fn read_top(
        &self,
        state: &State,
        (low, high): (&[u8], Option<&[u8]>),
        into: &mut Window,
    ) -> Result<()> {
        let mut part = Window::new();
        let mut at = low.to_vec();
        loop {
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
                _ => return Ok(()),
            }
        }
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
        settled(&self.store, || {
            level.with_page(&self.store, (entry, &slot.low), |page| {
                page::copy(page, &entry.name, range, into)
            })
        })
    }

    /// What is left of the pages of a source of which only a part lies in the range.
    fn left_of(
        &self,
        level: &Level,
        slots: &[Slot],
        (low, high): (&[u8], Option<&[u8]>),
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let Some((first, last)) = slots.first().zip(slots.last()) else {
            return Ok(parts);
        };
        if first.low.as_slice() < low {
            self.rest(level, first, (&first.low, Some(low)), &mut parts)?;
        }
        parts.push(Part {
            low: first.low.as_slice().max(low).to_vec(),
            image: None,
        });
        if let Some(high) = high
            && last.high.as_deref().is_none_or(|end| high < end)
        {
            self.rest(level, last, (high, last.high.as_deref()), &mut parts)?;
        }
        Ok(parts)
    }

    fn rest(
        &self,
        level: &Level,
        slot: &Slot,
        (low, high): (&[u8], Option<&[u8]>),
        parts: &mut Vec<Part>,
    ) -> Result<()> {
        let mut window = Window::new();
        self.read_page(level, slot, (low, high), &mut window)?;
        let records: Vec<Record<'_>> = (0..window.len()).map(|i| Record::of(&window, i)).collect();
        let images = self.pack(level.number, &records, (low, high))?;
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

    /// Builds pages of a level. Those of the last one have no filter: most of what is looked for is there.
    fn pack(
        &self,
        level: u8,
        records: &[Record<'_>],
        range: (&[u8], Option<&[u8]>),
    ) -> Result<Vec<Image>> {
        let page_bytes = self.store.page_bytes();
        let most = match level {
            0 => 0,
            _ => super::max_inline(page_bytes) - super::entry::ENTRY_BYTES,
        };
        page::pack(records, range, page_bytes, |of| {
            let strange = u64::from(fault::planted(Fault::StrangeFilter));
            let structure = self.root.0 + strange;
            let hashes = of.iter().map(|r| filter::hash(structure, r.key));
            filter::build(hashes, most)
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

    /// Makes sure that the entries around a key can be changed without reading anything.
    pub(crate) fn reach_entries(&self, level: &Level, key: &[u8]) -> Result<()> {
        settled(&self.store, || level.index.try_reach(Edge::From(key)))?;
        if !key.is_empty() {
            settled(&self.store, || level.index.try_reach(Edge::Below(key)))?;
        }
        Ok(())
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
