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
use super::root::MOST_LEVELS;
use crate::BTree;
use crate::btree::Floor;
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
/// A level takes what comes into a range of it if it has at most so many times as much there (simulated 0,
/// 2, 3 and 6).
const SINK: u64 = 3;
/// How many times as much each level has as the one above it, at most: then there is one more.
const MOST_RATIO: f64 = 8.0;
/// Share of a level's target above which nothing more is put into it before some has gone on, but for what the top
/// must give up.
const FULL: f64 = 1.25;
/// The same of a level that is not to be used any more and has something: more than it is to have.
const UNUSED: f64 = 1.1;
/// From this part of the way to [`FULL`] on a level gives up records, until it has as much less than it is to have:
/// steps that follow each other in one level find pages of its index in memory.
const BEGINS: f64 = 0.15;
/// Share of its bound from which on the top gives up records ahead of need.
pub(crate) const AHEAD: f64 = 0.7;
/// From this part of the way from there to its bound on the top has its turn.
const HALF_WAY: f64 = 0.5;
/// Steps of levels between two of the top then, at most: about twice as many as it takes to bring what one takes out of
/// the top to the last level.
const MOST_BELOW: u32 = 8;
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

/// Sizes in bytes: of the top and what it may have, of each level, the last one first.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    pub top: u64,
    pub bound: u64,
    /// What levels are sized by: as if the top might have so much.
    pub base: u64,
    pub levels: Vec<u64>,
}

impl Sizes {
    /// How many times as much each level is to have as the one above it, where there are so many.
    fn ratio_of(&self, count: usize) -> f64 {
        let last = self.levels.first().copied().unwrap_or(0).max(1) as f64;
        let ratio = last / self.base.max(1) as f64;
        ratio.powf(1.0 / count.max(1) as f64).max(1.0)
    }

    /// How many levels are made use of, counted from the last one: nothing is put into those above, which a tree
    /// that has shrunk does without, or one with more memory. An empty one is used when there would be one more
    /// without it, and one that has something until it is far from that.
    pub fn used(&self) -> usize {
        let mut used = self.levels.len().max(1);
        while used > 1 {
            let most = match self.levels[used - 1] {
                0 => MOST_RATIO,
                _ => MOST_RATIO / 2.0,
            };
            if self.ratio_of(used - 1) > most {
                break;
            }
            used -= 1;
        }
        used
    }

    fn ratio(&self) -> f64 {
        self.ratio_of(self.used())
    }

    /// Whether one more level is to be begun above all others.
    pub fn wants_level(&self) -> bool {
        self.levels.len() < MOST_LEVELS && self.ratio() > MOST_RATIO
    }

    /// Bytes of a level over what it is to have; the last one may have any.
    fn score(&self, level: usize) -> f64 {
        let bytes = self.levels.get(level).copied().unwrap_or(0);
        if level >= self.used() && bytes > 0 {
            return UNUSED;
        }
        let last = self.levels.first().copied().unwrap_or(0) as f64;
        let target = (last / self.ratio().powi(level as i32)).max(self.base as f64);
        bytes as f64 / target
    }

    /// What the top has of what it may have.
    fn share(&self) -> f64 {
        self.top as f64 / self.bound.max(1) as f64
    }

    /// Whether the top has so much of it.
    pub fn is_top_due(&self, from: f64) -> bool {
        self.share() >= from
    }

    /// How far the top has come from where it begins to give up records to its bound.
    fn urgency_of_top(&self) -> f64 {
        (self.share() - AHEAD) / (1.0 - AHEAD)
    }

    /// How far a level has come from what it is to have to what it may have at most, and no further.
    fn urgency(&self, level: usize) -> f64 {
        ((self.score(level) - 1.0) / (FULL - 1.0)).min(1.0)
    }

    /// From where a step is due: the number of a level, or one more than the highest for the top, which gives up
    /// records from this part of its bound on. `below` are the steps since the last one from the top, and `run` is
    /// the level that the last of them took from.
    ///
    /// What has come furthest goes first, and a level that has too much before anything is put into it; but from half
    /// way to its bound on the top has its turn after some steps. Levels have too much all at once where the hot tier
    /// begins to gather less, or there is one more of them: callers would wait at the top until all of it was done.
    pub fn due(&self, from: f64, (below, run): (u32, usize)) -> Option<usize> {
        let top = self.is_top_due(from).then_some(self.levels.len());
        let mut level = None;
        for number in 1..self.levels.len() {
            let urgency = self.urgency(number);
            let from = match number == run {
                true => -BEGINS,
                false => BEGINS,
            };
            if urgency > from && level.is_none_or(|(_, most)| urgency > most) {
                level = Some((number, urgency));
            }
        }
        let Some((level, urgency)) = level else {
            return top;
        };
        let of_top = self.urgency_of_top();
        let is_its_turn =
            of_top >= HALF_WAY && below >= MOST_BELOW && !fault::planted(Fault::LevelsFirst);
        let is_top_first = is_its_turn || (urgency < 1.0 && of_top >= urgency);
        top.filter(|_| is_top_first).or(Some(level))
    }
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
            let fences = settled(&self.store, || tree.leaf_fences(at, None, 1));
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
            let fences = settled(&self.store, || state.top.leaf_fences(at, None, 1))?;
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
        let mut floor = Floor::default();
        let below = Edge::Below(&job.low);
        let entry = settled(&self.store, || level.entry_at(below, &mut floor))?;
        let full = self.bytes_of_full(level);
        let is_thin = |used: u32| 2 * u64::from(used) <= full;
        // A gap, and a page that the range begins within, are as they are.
        let here = settled(&self.store, || {
            level.entry_at(Edge::From(&job.low), &mut Floor::default())
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
                    state.top.leaf_fences(low, high, READS_COUNTED)
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
                        state.top.leaf_fences(low, high.as_deref(), most)
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

#[cfg(test)]
mod tests {
    use terrace_base::checksum::mix;

    use super::*;

    /// What is due where nothing was done before.
    fn first(sizes: Sizes, from: f64) -> Option<usize> {
        sizes.due(from, (0, 0))
    }

    fn sizes(top: u64, levels: &[u64]) -> Sizes {
        Sizes {
            top,
            bound: 100,
            base: 100,
            levels: levels.to_vec(),
        }
    }

    #[test]
    fn what_has_too_much_is_due() {
        assert_eq!(first(sizes(99, &[1000]), 1.0), None);
        assert_eq!(first(sizes(100, &[1000]), 1.0), Some(1));
        assert_eq!(first(sizes(50, &[1000]), 0.5), Some(1));
        // 10,000 below 100 is a ratio of 10 with two levels: the upper one is to have 1000.
        assert_eq!(first(sizes(0, &[10_000, 900]), 1.0), None);
        assert_eq!(first(sizes(0, &[10_000, 1100]), 1.0), Some(1));
        assert_eq!(first(sizes(200, &[10_000, 1100]), 1.0), Some(2));
        // Nothing is put into a level that has a quarter too much.
        assert_eq!(first(sizes(300, &[10_000, 1300]), 1.0), Some(1));
        assert!(sizes(0, &[900]).wants_level());
        assert!(!sizes(0, &[800]).wants_level());
        assert!(!sizes(0, &[6400, 800]).wants_level());
    }

    /// A tree that has shrunk, or has more memory, does without its upper levels, one after the other, and not at
    /// the size at which it got them.
    #[test]
    fn levels_that_are_not_needed_are_not_used() {
        assert_eq!(sizes(0, &[6500, 800]).used(), 2);
        assert_eq!(sizes(0, &[700, 0]).used(), 1);
        assert_eq!(sizes(0, &[900, 0]).used(), 2);
        assert_eq!(sizes(0, &[700, 50]).used(), 2, "it has something");
        assert_eq!(sizes(0, &[400, 50]).used(), 1);
        assert_eq!(sizes(0, &[0, 0, 0]).used(), 1);
        assert_eq!(sizes(0, &[6000, 300, 0]).used(), 2);
        assert_eq!(sizes(0, &[]).used(), 1);
        // What one has is due, behind a top that is full.
        assert_eq!(first(sizes(70, &[400, 50]), 0.7), Some(1));
        assert_eq!(first(sizes(110, &[400, 50]), 0.7), Some(2));
    }

    /// Sizes of levels that all have much more than they are to have, and how full the top comes to be while records
    /// come to it as fast as a step in ten takes them out.
    fn fullest_top(sizes: &Sizes) -> (u64, u32) {
        let mut all = sizes.clone();
        let (mut below, mut run, mut most) = (0, 0, (all.top, 0));
        for _ in 0..10_000 {
            all.top += 2;
            let Some(source) = all.due(AHEAD, (below, run)) else {
                continue;
            };
            let is_top = source == all.levels.len();
            (below, run) = match is_top {
                true => (0, run),
                false => (below + 1, source),
            };
            let from = match is_top {
                true => &mut all.top,
                false => &mut all.levels[source],
            };
            let moved = (*from).min(20);
            *from -= moved;
            all.levels[source - 1] += moved;
            most.0 = most.0.max(all.top);
            if all.urgency_of_top() >= HALF_WAY {
                most.1 = most.1.max(below);
            }
        }
        most
    }

    /// Levels may have too much all at once: nobody waits at the top until all of it has gone on.
    #[test]
    fn the_top_has_its_turn_however_much_levels_have() {
        for levels in [&[60_000, 40_000][..], &[200_000, 60_000, 20_000]] {
            let (most, below) = fullest_top(&sizes(60, levels));
            assert!(most < 110, "the top comes to {most} of 100");
            assert!(below <= MOST_BELOW + 1, "{below} steps below it");
            fault::plant(Some(Fault::LevelsFirst));
            let (most, below) = fullest_top(&sizes(60, levels));
            fault::plant(None);
            assert!(most > 150 && below > 2 * MOST_BELOW, "{most}, {below}");
        }
    }

    /// Steps go on in a level once they have begun there, and do not begin for next to nothing.
    #[test]
    fn steps_follow_each_other_in_one_level() {
        let with = |has: u64, run| sizes(0, &[10_000, has]).due(1.0, (0, run));
        assert_eq!([with(1030, 0), with(1050, 0)], [None, Some(1)]);
        assert_eq!([with(970, 1), with(950, 1)], [Some(1), None]);
    }

    /// Whatever the sizes, steps as they are due come to an end, and each moves something down.
    #[test]
    fn due_work_is_always_found_and_ends() {
        for seed in 0..300u64 {
            let draw = |n, most| mix(seed, n) % most;
            let count = 1 + draw(0, 4) as usize;
            let mut all = sizes(
                draw(1, 400),
                &(0..count)
                    .map(|n| draw(2 + n as u64, 20_000))
                    .collect::<Vec<_>>(),
            );
            let (mut rounds, mut below, mut run) = (0, 0, 0);
            while let Some(source) = all.due(1.0, (below, run)) {
                (below, run) = match source == all.levels.len() {
                    true => (0, run),
                    false => (below + 1, source),
                };
                let from = match source == all.levels.len() {
                    true => &mut all.top,
                    false => &mut all.levels[source],
                };
                let moved = (*from).min(50);
                assert!(moved > 0, "seed {seed}: a step that moves nothing");
                *from -= moved;
                let target = (source - 1).min(all.used() - 1);
                all.levels[target] += moved;
                rounds += 1;
                assert!(rounds < 10_000, "seed {seed}: it does not end");
            }
            assert!(all.top < all.bound);
        }
    }
}
