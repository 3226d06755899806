//! One step: a range of records read, merged, and built into new pages in private memory.
//!
//! It holds nothing while it reads. Only steps change what lies below the top, and there is one at a time,
//! so what it has read of the levels stays as it is; what it has copied of the top may change meanwhile,
//! which the installation finds out.

use terrace_access::{DroppedBy, Ordered, Value, Window};
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_pages::{Cause, Space};

use super::filter;
use super::install::{Change, Install, Part};
use super::level::{Level, Slot, settled};
use super::merge::merge;
use super::page::{self, Image, Record};
use super::plan::{Job, MOST_SQUEEZED};
use super::sizes::AHEAD;
use super::{Lsm, State};
use crate::fault::{self, Fault, Point};

/// Steps that are given up because what they copied has changed, or frames are short, before the change that
/// waits goes on.
pub(crate) const PATIENCE: u32 = 4 + MOST_SQUEEZED;

impl Lsm {
    /// Looks how large the top is.
    pub(crate) fn count_top(&self, state: &State) -> Result<u64> {
        let leaves = settled(&self.store, || state.top.descent().count_leaves(usize::MAX))?;
        self.counters
            .top_leaves
            .store(leaves as u64, Atomic::Relaxed);
        Ok(leaves as u64)
    }

    /// Takes memory for the pages that a step has to itself: what it reads, and what it makes. Frames for what the top
    /// has while steps are made are set aside along with it.
    fn take_buffers(&self) {
        let pages = (4 * self.most_target()) as u64;
        let bytes = pages * self.store.page_bytes() as u64;
        let frames = (self.top_bound() as f64 * AHEAD) as u64;
        self.taken.take(&self.store, bytes, frames);
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
        // Not of large ones, whose pages a reader may be reading, or name in a tier above: only who holds the
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
