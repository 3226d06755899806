//! Windows over the top and all levels.
//!
//! The range of a window is what the top's leaf and one entry of each level have in common. The top is
//! copied first, then the entries are read from above to below (what moves meanwhile moves down), then
//! their pages, which are immutable: a page that was merged away is another one, and the attempt starts
//! over. Of each key the version from the highest place counts; tombstones are left out.

use terrace_access::{Attempt, Edge, Flags, Ordered, Retry, Sampled, Window};
use terrace_base::sync::atomic::Ordering;
use terrace_pages::PageStore;

use super::level::Level;
use super::packed::Buffer;
use super::page;
use super::scratch::Scratch;
use super::{Lsm, State};
use crate::btree::Predecessor;

/// What a range is cut down to: `low <= key < high`.
struct Range {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl Range {
    fn cut(&mut self, low: &[u8], high: Option<&[u8]>) {
        if self.low.as_slice() < low {
            self.low.clear();
            self.low.extend_from_slice(low);
        }
        if let Some(high) = high
            && self.high.as_deref().is_none_or(|h| high < h)
        {
            self.high = Some(high.to_vec());
        }
    }
}

/// Counters of a byte for each frame of the memory: upper levels have some pages for each frame where data is
/// much larger than memory. Two pages that share one are merged a little early.
const COUNTERS_PER_FRAME: u64 = 4;
/// Fewest and most of them.
const COUNTERS: (u64, u64) = (1 << 10, 1 << 20);

/// How many counters a store of this memory gets.
fn counters_of(store: &PageStore) -> u64 {
    (COUNTERS_PER_FRAME * store.frames()).clamp(COUNTERS.0, COUNTERS.1)
}

impl Lsm {
    /// See [`terrace_access::Ordered::try_window_if`]. O(records of a page for each level).
    pub(crate) fn window(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let mut scratch = self.scratch.lock().pop().unwrap_or_default();
        let done = self.buffers.with(&self.store, |buffer| {
            self.window_with((&mut scratch, buffer), edge, select, window)
        });
        let mut kept = self.scratch.lock();
        if kept.len() < super::MOST_SCRATCH {
            kept.push(scratch);
        }
        done
    }

    fn window_with(
        &self,
        (scratch, buffer): (&mut Scratch, &mut Buffer),
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let state = self.state()?;
        let edge = first_if_nothing(edge);
        let limit = window.limit();
        if scratch.sources.is_empty() {
            scratch.sources.push(Window::new());
        }
        scratch.sources[0].set_limit(limit);
        state.top.try_window(edge, &mut scratch.sources[0])?;
        let mut range = Range {
            low: scratch.sources[0].low.clone(),
            high: scratch.sources[0].high.clone(),
        };
        // How many there are is asked after the top has answered.
        let mut found = Vec::new();
        for level in state.downwards() {
            let entry = level.entry_at(edge, &mut scratch.floor)?;
            range.cut(&scratch.floor.key, scratch.floor.next.as_deref());
            found.extend(entry.map(|entry| (level, entry, scratch.floor.key.clone())));
        }
        // Nothing but what is next to the edge is copied; the upper ones bound what lies below them.
        for (n, (level, entry, key)) in (1..).zip(&found) {
            if scratch.sources.len() <= n {
                scratch.sources.push(Window::new());
            }
            let source = &mut scratch.sources[n];
            source.clear();
            let read = level.with_page(&self.store, (entry, key), |page| {
                let near = page::near(page, &entry.name, (edge, limit), buffer)?;
                range.cut(&near.0, near.1.as_deref());
                let near = (range.low.as_slice(), range.high.as_deref());
                page::copy(page, &entry.name, near, (buffer, source))
            });
            self.charged(state, level, key, read)?;
        }
        window.clear();
        window.low.clone_from(&range.low);
        window.high = range.high;
        if !window.advances(edge) {
            let what = "its pages do not cover what their entries cover";
            return Err(page::wrong(self.root, what).into());
        }
        merge_into(&scratch.sources[..=found.len()], select, window);
        Ok(())
    }
}

/// Nothing lies below the empty key, no entry either: the first one answers for it.
fn first_if_nothing(edge: Edge<'_>) -> Edge<'_> {
    match edge {
        Edge::Below(b"") => Edge::From(b""),
        other => other,
    }
}

/// Appends the newest version of each key in the window's range, unless it is a tombstone.
fn merge_into(sources: &[Window], select: &mut dyn FnMut(Flags) -> bool, window: &mut Window) {
    let low = window.low.clone();
    let high = window.high.clone();
    let mut at: Vec<(usize, usize)> = sources
        .iter()
        .map(|w| {
            let end = high.as_deref().map_or(w.len(), |high| w.lower_bound(high));
            (w.lower_bound(&low).min(end), end)
        })
        .collect();
    loop {
        let mut newest: Option<usize> = None;
        for (n, source) in sources.iter().enumerate() {
            let (i, end) = at[n];
            if i < end && newest.is_none_or(|m: usize| source.key(i) < sources[m].key(at[m].0)) {
                newest = Some(n);
            }
        }
        let Some(n) = newest else { return };
        let i = at[n].0;
        let key = sources[n].key(i);
        for (older, source) in sources.iter().enumerate().skip(n + 1) {
            let (j, end) = at[older];
            if j < end && source.key(j) == key {
                at[older].0 += 1;
            }
        }
        at[n].0 += 1;
        let flags = sources[n].entry(i).flags;
        if !flags.is_deleted() && select(flags) {
            window.push_from(&sources[n], i);
        }
    }
}

impl Lsm {
    /// Passes on what came of reading a page of a level for a scan, which pays for a read from disk.
    fn charged<T>(&self, state: &State, level: &Level, low: &[u8], read: Attempt<T>) -> Attempt<T> {
        if level.number > 0
            && let Err(Retry::Miss(page)) = read
        {
            let number = usize::from(level.number);
            let below = (0..number).rev().filter_map(|n| state.level(n));
            let pages = below.map(|l| l.figures().pages).find(|pages| *pages > 0);
            let each = pages.unwrap_or(0).div_ceil(level.figures().pages.max(1));
            let counters = counters_of(&self.store);
            let worth = 1 + 2 * each;
            let changes = self.counters.changes.load(Ordering::Relaxed);
            let charge = (counters, changes);
            if self.charges.charge(page, (number, low), worth, charge) {
                self.store.take_extra_bytes(counters);
            }
        }
        read
    }

    /// Makes sure that what a window at this edge needs is in memory (`Miss` otherwise).
    pub(crate) fn reach(&self, edge: Edge<'_>) -> Attempt<()> {
        let state = self.state()?;
        let edge = first_if_nothing(edge);
        state.top.try_reach(edge)?;
        let mut floor = Predecessor::default();
        for level in state.downwards() {
            if let Some(entry) = level.entry_at(edge, &mut floor)? {
                let read = level.with_page(&self.store, (&entry, &floor.key), |_| Ok(()));
                self.charged(state, level, &floor.key, read)?;
            }
        }
        Ok(())
    }

    /// A stretch of keys at random, one over the probability with which it was chosen, for estimates: a
    /// page of the level that has most, or a leaf of the top.
    pub(crate) fn random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        let state = self.state()?;
        let Some(level) = state.finest() else {
            return state.top.try_random(random);
        };
        let (leaves, at) = level.index.try_random(random)?;
        let mut window = Window::new();
        level.index.try_window(Edge::From(&at), &mut window)?;
        if window.is_empty() {
            // The leaf on its left has the entry that covers its keys.
            return Ok((leaves, at));
        }
        let i = random() as usize % window.len();
        Ok((leaves * window.len() as f64, window.key(i).to_vec()))
    }

    /// Copies what lies in such a stretch into `window`. O(records).
    pub(crate) fn chosen(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        let state = self.state()?;
        let (low, high) = match state.finest() {
            None => {
                state.top.try_span(position, window)?;
                (std::mem::take(&mut window.low), window.high.take())
            }
            Some(level) => {
                let mut floor = Predecessor::default();
                level.entry_at(Edge::From(position), &mut floor)?;
                (position.to_vec(), end_of_slot(level, &floor)?)
            }
        };
        let mut part = Window::new();
        let mut at = low.clone();
        window.clear();
        loop {
            self.window(Edge::From(&at), &mut |_| true, &mut part)?;
            part.restrict(&at, high.as_deref());
            for i in 0..part.len() {
                window.push_from(&part, i);
            }
            match part.high.take() {
                Some(next) if high.as_ref().is_none_or(|high| next < *high) => at = next,
                _ => break,
            }
        }
        window.low = low;
        window.high = high;
        Ok(())
    }
}

/// Where the next entry begins.
pub(super) fn end_of_slot(level: &Level, floor: &Predecessor) -> Attempt<Option<Vec<u8>>> {
    let mut next = floor.next.clone();
    let mut window = Window::new();
    window.set_limit(1);
    while let Some(at) = next {
        level.index.try_window(Edge::From(&at), &mut window)?;
        let first = window.lower_bound(&at);
        if first < window.len() {
            return Ok(Some(window.key(first).to_vec()));
        }
        next = window.high.take();
    }
    Ok(None)
}
