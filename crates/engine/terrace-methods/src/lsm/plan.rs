//! What step is due: from where, how deep, over which range.
//!
//! All of it goes by figures that are hints: a wrong one costs I/O, never an answer.
//!
//! How deep a step goes is decided by density. Where what comes down is a third or more of what a level
//! has in the same range, it is merged into that level, the deepest first; where it is thin it stops above
//! and gathers. Of some ranges that lie one behind the other the densest is taken.

use terrace_access::{Edge, Ordered, Window};
use terrace_base::Result;

use super::Lsm;
use super::State;
use super::cursors::Cursors;
use super::level::{Level, Slot, settled};
use super::refused::Place;
use super::sizes::Sizes;
use crate::BTree;
use crate::btree::Predecessor;
use crate::fault::{self, Fault};

/// Pages of the target that a step merges into, at most.
pub(crate) const MOST_TARGET: usize = 32;
/// The same where the memory is small: a part of the frames that hot pages leave, for about twice as many
/// pages are made at once.
const FRAMES_PER_TARGET: u64 = 8;
/// The same as a part of all frames: who makes a step has four times as many pages of memory to itself, which
/// hot records then do not have.
const FRAMES_PER_STEP: u64 = 96;
/// As many pages of the target may be merged in any case.
const LEAST_OF_FRAMES: u64 = 8;
/// Times that ranges are halved where frames are short: then a step makes some pages only.
pub(crate) const MOST_SQUEEZED: u32 = 5;
/// As many again are read of the sources, at most, leaves of the top among them; what would be more is cut.
const READS_COUNTED: usize = 4 * MOST_TARGET;
/// Ranges of which the densest is taken.
const CANDIDATES: usize = 32;
/// A level takes what comes into a range of it if it has at most this many times as much there (simulated 0,
/// 2, 3 and 6).
const SINK: u64 = 3;
/// Pages of each level above that may come along with a thin page of the target.
const MOST_JOINED: usize = 2;
/// Part of a leaf of the top that has records, about.
const TOP_FILL: (u64, u64) = (7, 10);

/// A step to be made.
#[derive(Debug)]
pub(crate) struct Job {
    /// Number of the level that it takes from, counted from the last one; that of the first level and one
    /// more for the top.
    pub source: usize,
    /// Number of the level that it merges into.
    pub target: usize,
    pub low: Vec<u8>,
    pub high: Option<Vec<u8>>,
}

/// A range that a step is to stay within.
type Within = (Vec<u8>, Option<Vec<u8>>);
const ANYWHERE: Within = (Vec::new(), None);

/// A range, and what a step in it would move.
struct Candidate {
    job: Job,
    carried: u64,
    there: u64,
}

impl Candidate {
    fn density(&self, page_bytes: usize) -> f64 {
        self.carried as f64 / self.there.max(page_bytes as u64) as f64
    }
}

fn used(slots: &[Slot]) -> u64 {
    let bytes = slots.iter().filter_map(|slot| slot.entry);
    bytes.map(|entry| u64::from(entry.used)).sum()
}

fn pages(slots: &[Slot], page_bytes: usize) -> usize {
    let entries = slots.iter().filter_map(|slot| slot.entry);
    entries.map(|entry| entry.pages(page_bytes)).sum()
}

fn min_high(a: Option<Vec<u8>>, b: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Lsm {
    /// Pages of the target that a step merges into, at most.
    pub(crate) fn most_target(&self) -> usize {
        if fault::planted(Fault::StepTooLong) {
            return 4 * MOST_TARGET;
        }
        let store = &self.store;
        let beside = store.frames().saturating_sub(store.hot_cap());
        let of_all = (store.frames() / FRAMES_PER_STEP).max(LEAST_OF_FRAMES);
        let most = (beside / FRAMES_PER_TARGET).min(of_all);
        let most = (most as usize).clamp(2, MOST_TARGET);
        // One that found no frames is made in parts.
        let squeezed = self
            .squeezed
            .load(super::Ordering::Relaxed)
            .min(MOST_SQUEEZED);
        (most >> squeezed).max(1)
    }

    /// Sizes as they are now, about.
    pub(crate) fn sizes(&self, state: &State) -> Sizes {
        let page = self.store.page_bytes() as u64;
        let levels = 0..state.count();
        Sizes {
            top: self.counters.top_leaves.load(super::Ordering::Relaxed) * page,
            bound: self.top_bound() * page,
            base: self.size_of_levels() * page,
            levels: levels
                .filter_map(|n| state.level(n))
                .map(|level| level.figures().bytes)
                .collect(),
        }
    }

    /// The step from this source that moves most for what it merges, among the next ranges.
    pub(crate) fn plan(
        &self,
        state: &State,
        cursors: &mut Cursors,
        source: usize,
    ) -> Result<Option<Job>> {
        let mut at = std::mem::take(&mut cursors.at[source]);
        let next_below = source.saturating_sub(1).min(self.sizes(state).used() - 1);
        let best = self.densest(state, (source, next_below), &mut at);
        // Whatever was in the way, the next one begins behind it.
        cursors.at[source] = match &best {
            Ok(Some(best)) => best.job.high.clone().unwrap_or_default(),
            _ => at,
        };
        Ok(best?.map(|best| best.job))
    }

    /// The densest of the next ranges from `at` on, which goes along.
    fn densest(
        &self,
        state: &State,
        (source, next_below): (usize, usize),
        at: &mut Vec<u8>,
    ) -> Result<Option<Candidate>> {
        let page_bytes = self.store.page_bytes();
        let mut wrapped = at.is_empty();
        let mut best: Option<Candidate> = None;
        for _ in 0..CANDIDATES {
            let next = match self.candidate_from(state, (source, next_below), at) {
                Ok(Some(candidate)) => {
                    let next = candidate.job.high.clone();
                    let density = candidate.density(page_bytes);
                    if best
                        .as_ref()
                        .is_none_or(|best| density > best.density(page_bytes))
                    {
                        best = Some(candidate);
                    }
                    next
                }
                Ok(None) => None,
                // An index page that cannot be read: what it leads to stays as it is.
                Err(e) if e.is_unreadable() => self.behind_unreadable(state, source, at),
                Err(e) => return Err(e),
            };
            match next {
                Some(next) => *at = next,
                None => {
                    at.clear();
                    if wrapped {
                        break;
                    }
                    wrapped = true;
                }
            }
        }
        Ok(best)
    }

    /// What a step from this source would do here, or at the next place where it has something.
    fn candidate_from(
        &self,
        state: &State,
        (source, next_below): (usize, usize),
        at: &[u8],
    ) -> Result<Option<Candidate>> {
        let levels = (source, next_below);
        let Some(here) = self.candidate(state, levels, at.to_vec())? else {
            return Ok(None);
        };
        if here.carried > 0 {
            return Ok(Some(here));
        }
        match self.next_of_source(state, source, &here.job.low.max(at.to_vec()))? {
            Some(next) => self.candidate(state, levels, next),
            None => Ok(None),
        }
    }

    /// Where to go on behind a page of an index that cannot be read: what lies above the leaves of the
    /// indexes, or of the top, says where the next one begins. `None` where none does.
    pub(crate) fn behind_unreadable(
        &self,
        state: &State,
        source: usize,
        at: &[u8],
    ) -> Option<Vec<u8>> {
        let fence = |tree: &BTree| {
            let fences = settled(&self.store, || tree.descent().leaf_fences(at, None, 1));
            fences.ok()?.into_iter().next()
        };
        // A fence is cut short: what lies between it and the first entry belongs to a page that only the leaf
        // before it knows.
        let entry = |tree: &BTree| {
            let fence = fence(tree)?;
            let mut window = Window::new();
            window.set_keys_only(true);
            let from = Edge::From(&fence);
            let read = settled(&self.store, || tree.try_window(from, &mut window));
            let first = window.lower_bound(&fence);
            match read.is_ok() && first < window.len() {
                true => Some(window.key(first).to_vec()),
                false => Some(fence),
            }
        };
        let levels = (0..=source).filter_map(|number| state.level(number));
        let nearest = levels.filter_map(|level| entry(&level.index)).min();
        nearest.or_else(|| fence(&state.top))
    }

    /// Where the next page of the source begins, or its next leaf.
    fn next_of_source(&self, state: &State, source: usize, at: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(level) = state.level(source).filter(|_| source < state.count()) else {
            let fences = settled(&self.store, || state.top.descent().leaf_fences(at, None, 1))?;
            return Ok(fences.into_iter().next());
        };
        let slots = level.slots(&self.store, (at, None), 1)?;
        let mut pages = slots.into_iter().filter(|slot| slot.entry.is_some());
        Ok(pages.next().map(|slot| slot.low))
    }

    /// A step ends with a page that is as full as it happens to be. The next one begins there, as a rule, and
    /// takes it along if it is thin, and little lies above it: or each would leave half a page of room.
    pub(crate) fn join_thin(&self, state: &State, job: &mut Job) -> Result<()> {
        let Some(level) = state.level(job.target).filter(|_| !job.low.is_empty()) else {
            return Ok(());
        };
        let mut floor = Predecessor::default();
        let below = Edge::Below(&job.low);
        let entry = settled(&self.store, || level.entry_at(below, &mut floor))?;
        let full = self.bytes_of_full(level);
        let is_thin = |used: u32| 2 * u64::from(used) <= full;
        // A gap, and a page that the range begins within, are as they are.
        let here = settled(&self.store, || {
            level.entry_at(Edge::From(&job.low), &mut Predecessor::default())
        })?;
        let is_whole = here.is_some_and(|here| entry.is_none_or(|entry| entry.name != here.name));
        if !is_whole || !entry.is_some_and(|entry| is_thin(entry.used)) {
            return Ok(());
        }
        let high = Some(job.low.clone());
        let (_, reads) = self.above(state, (job.source, job.target), &floor.key, &high)?;
        if reads <= MOST_JOINED * state.count() && self.refused.is_free(&floor.key, high.as_deref())
        {
            job.low = floor.key;
        }
        Ok(())
    }

    /// Bytes of records that a full page of a level has, about: more than there is room for where pages are
    /// compressed.
    pub(crate) fn bytes_of_full(&self, level: &Level) -> u64 {
        let figures = level.figures();
        let mean = figures.bytes / figures.pages.max(1);
        mean.max(self.store.page_bytes() as u64)
    }

    /// A step from the top to the last level.
    pub(crate) fn range_to_last(&self, state: &State, low: Vec<u8>) -> Result<Job> {
        let candidate = self.candidate_as_deep(state, (state.count(), 0), low, ANYWHERE)?;
        Ok(candidate.job)
    }

    /// A step from a level to one below it, or deeper where it is dense.
    pub(crate) fn range_down(
        &self,
        state: &State,
        (source, target): (usize, usize),
        low: Vec<u8>,
    ) -> Result<Job> {
        let candidate = self.candidate_as_deep(state, (source, target), low, ANYWHERE)?;
        Ok(candidate.job)
    }

    /// What a step from this source would do at this place, or behind what is refused there.
    fn candidate(
        &self,
        state: &State,
        levels: (usize, usize),
        mut low: Vec<u8>,
    ) -> Result<Option<Candidate>> {
        let within = loop {
            match self.refused.place(&low) {
                Place::Free(from, to) => break (from, to),
                Place::Refused(Some(end)) => low = end,
                Place::Refused(None) => return Ok(None),
            }
        };
        self.candidate_as_deep(state, levels, low, within).map(Some)
    }

    /// The same; it goes as deep as density says, but not less than the last of some levels, and stays within
    /// some range.
    fn candidate_as_deep(
        &self,
        state: &State,
        (source, next_below): (usize, usize),
        at: Vec<u8>,
        (from, to): Within,
    ) -> Result<Candidate> {
        let page_bytes = self.store.page_bytes();
        let mut target = 0;
        loop {
            let Some(level) = state.level(target) else {
                return Err(super::page::wrong(self.root, "a level of it is missing"));
            };
            let most = self.most_target();
            let mut slots = level.slots(&self.store, (&at, to.as_deref()), most)?;
            let mut low = at.clone();
            if let Some(first) = slots.first()
                && first.entry.is_some()
            {
                low.clone_from((&first.low).max(&from));
            }
            let end = |slots: &[Slot]| {
                let last = slots.last().and_then(|slot| slot.high.clone());
                min_high(last, to.clone())
            };
            let mut high = end(&slots);
            let (mut carried, mut reads) = self.above(state, (source, target), &low, &high)?;
            if target < next_below && used(&slots) > SINK * carried {
                target += 1;
                continue;
            }
            let mut most = most;
            while reads + pages(&slots, page_bytes) > 2 * self.most_target() && most > 1 {
                most /= 2;
                while pages(&slots, page_bytes) > most && slots.len() > 1 {
                    slots.pop();
                }
                high = end(&slots);
                (carried, reads) = self.above(state, (source, target), &low, &high)?;
            }
            if reads + pages(&slots, page_bytes) > 2 * self.most_target() {
                // The page of the target goes as a whole, and of the sources what is not done yet.
                low.clone_from(&at);
                high = self.cut(state, (source, target), &low, high)?;
                (carried, _) = self.above(state, (source, target), &low, &high)?;
            }
            let there = used(&slots);
            let job = Job {
                source,
                target,
                low,
                high,
            };
            return Ok(Candidate {
                job,
                carried,
                there,
            });
        }
    }

    /// Bytes and pages that a step would carry from its sources, about: of pages that reach beyond the
    /// range a half.
    fn above(
        &self,
        state: &State,
        (source, target): (usize, usize),
        low: &[u8],
        high: &Option<Vec<u8>>,
    ) -> Result<(u64, usize)> {
        let high = high.as_deref();
        let (mut bytes, mut reads) = (0, 0);
        for number in target + 1..=source {
            let Some(level) = state.level(number).filter(|_| number < state.count()) else {
                let fences = settled(&self.store, || {
                    state.top.descent().leaf_fences(low, high, READS_COUNTED)
                })?;
                // Where the top is a leaf, or the range has no end on either side, that is all of it.
                let whole = usize::from(low.is_empty() && high.is_none());
                let leaves = fences.len() + whole;
                bytes += (leaves * self.store.page_bytes()) as u64 * TOP_FILL.0 / TOP_FILL.1;
                reads += leaves;
                continue;
            };
            let slots = level.slots(&self.store, (low, high), READS_COUNTED)?;
            for slot in &slots {
                let Some(entry) = slot.entry else { continue };
                let ends_behind = match (&slot.high, high) {
                    (Some(end), Some(high)) => end.as_slice() > high,
                    (end, high) => end.is_none() && high.is_some(),
                };
                let is_whole = slot.low.as_slice() >= low && !ends_behind;
                bytes += u64::from(entry.used) / if is_whole { 1 } else { 2 };
                reads += entry.pages(self.store.page_bytes());
            }
        }
        Ok((bytes, reads))
    }

    /// A nearer end for a range in which there is too much above a single page of the target.
    fn cut(
        &self,
        state: &State,
        (source, target): (usize, usize),
        low: &[u8],
        mut high: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let most = self.most_target();
        for number in target + 1..=source {
            let end = match state.level(number).filter(|_| number < state.count()) {
                Some(level) => {
                    let slots = level.slots(&self.store, (low, high.as_deref()), most)?;
                    slots.last().and_then(|slot| slot.high.clone())
                }
                None => {
                    let fences = settled(&self.store, || {
                        state.top.descent().leaf_fences(low, high.as_deref(), most)
                    })?;
                    match fences.len() {
                        n if n == most => fences.last().cloned(),
                        _ => None,
                    }
                }
            };
            high = min_high(high, end);
        }
        Ok(high)
    }
}
