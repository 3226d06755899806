//! What was saved of a hot tier, on its way back into a new one after an opening.
//!
//! It comes leaf by leaf of the saved tree: when somebody asks for a record of it, and otherwise in order, by a thread
//! that goes through all. Invariant: *of a range that is not loaded nothing is hot*. So whoever looks at a record or
//! changes one has its range loaded first, and everything that is done with hot records alone need not know of this. Who
//! saves passes over such a range: what is saved of it is right.
//!
//! A saved page that cannot be read is an error of its keys, as any other is: its range stays as it is.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use terrace_access::{Attempt, Edge, Flags, Ordered, Retry, Value, Waits, Window};
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::{Error, Result};
use terrace_pages::{PageStore, Space};

use super::entry::{until, until_settled};
use super::leaves::behind;
use super::tiers::{Pair, Tiers};
use crate::context::TierContext;
use crate::fault::{Fault, planted};
use crate::locks::RecordLock;
use crate::value::{Guard, free_large};

/// Records that are put under one write guard: so few that a cut need not wait for long.
const AT_ONCE: usize = 64;
/// Hot leaves that make room for a leaf that is loaded, before its records go straight to the cold tier.
const HELP_ENOUGH: u64 = 160;

/// Ranges of a structure that are kept in mind, each by two positions.
const MOST_RANGES: usize = match cfg!(feature = "planted-faults") {
    true => 8,
    false => 512,
};

/// A range of positions; `None` is the end.
pub(super) type Range = (Vec<u8>, Option<Vec<u8>>);

/// Which ranges of a saved tree are loaded.
#[derive(Default)]
pub(super) struct Loading {
    /// Whether some may not be. Once all are it stays so.
    is_left: AtomicBool,
    /// Whoever loads has it: one thread at a time. It is taken by who is outside the gate and holds no lock of a record.
    turn: Mutex<()>,
    loaded: Mutex<Loaded>,
}

/// Ranges apart from each other, each by its low end.
#[derive(Default)]
struct Loaded(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

/// Where a position lies: in a range that is loaded, or between two; and where that ends.
struct Part {
    is_loaded: bool,
    end: Option<Vec<u8>>,
}

impl Loaded {
    /// The range that is loaded and begins last at this edge or before it.
    fn before(&self, edge: Edge<'_>) -> Option<(&Vec<u8>, &Option<Vec<u8>>)> {
        let end = match edge {
            Edge::From(from) => Included(from),
            Edge::Below(below) => Excluded(below),
            Edge::End => Unbounded,
        };
        self.0.range::<[u8], _>((Unbounded, end)).next_back()
    }

    /// The range that is loaded and covers this edge.
    fn around(&self, edge: Edge<'_>) -> Option<Range> {
        let (low, high) = self.before(edge)?;
        let covers = match (edge, high.as_deref()) {
            (_, None) => true,
            (Edge::From(from), Some(high)) => from < high,
            (Edge::Below(below), Some(high)) => below <= high,
            (Edge::End, Some(_)) => false,
        };
        covers.then(|| (low.clone(), high.clone()))
    }

    /// The range between two that are loaded which covers this edge; one that is loaded does not.
    fn between(&self, edge: Edge<'_>) -> Range {
        let low = self.before(edge).and_then(|(_, high)| high.clone());
        let low = low.unwrap_or_default();
        let behind = (Included(low.as_slice()), Unbounded);
        let next = self.0.range::<[u8], _>(behind).next();
        (low, next.map(|(low, _)| low.clone()))
    }

    /// This range, which is not loaded, is loaded now.
    fn add(&mut self, (mut low, mut high): Range) {
        if let Some((before, end)) = self.before(Edge::From(&low))
            && end.as_ref() == Some(&low)
        {
            low = before.clone();
        }
        if let Some(next) = &high
            && let Some(end) = self.0.remove(next)
        {
            high = end;
        }
        self.0.insert(low, high);
    }

    fn is_all(&self) -> bool {
        self.0.get(b"".as_slice()) == Some(&None)
    }
}

impl Loading {
    /// Of a structure that was opened, of which something is saved.
    pub fn begin() -> Loading {
        Loading {
            is_left: AtomicBool::new(!planted(Fault::SavedForgotten)),
            ..Loading::default()
        }
    }

    /// Whether anything may be left to be loaded.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    /// Where this position lies.
    fn part(&self, from: &[u8]) -> Part {
        if !self.is_left() {
            return Part {
                is_loaded: true,
                end: None,
            };
        }
        let loaded = self.loaded.lock();
        match loaded.around(Edge::From(from)) {
            Some((_, end)) => Part {
                is_loaded: true,
                end,
            },
            None => Part {
                is_loaded: false,
                end: loaded.between(Edge::From(from)).1,
            },
        }
    }

    /// Up to where what lies from this position on is loaded; or where what is not ends.
    pub fn loaded_up_to(
        &self,
        from: &[u8],
    ) -> std::result::Result<Option<Vec<u8>>, Option<Vec<u8>>> {
        match self.part(from) {
            Part {
                is_loaded: true,
                end,
            } => Ok(end),
            Part { end, .. } => Err(end),
        }
    }

    fn add(&self, range: Range) {
        let mut loaded = self.loaded.lock();
        loaded.add(range);
        if loaded.is_all() {
            // Who has asked just before finds the one range.
            self.is_left.store(false, Ordering::Release);
        }
    }
}

/// A saved tree and what of it is loaded.
pub(super) struct Loads<'l, P: Pair> {
    pub tiers: &'l Tiers<P>,
    pub tree: Option<Arc<P::Hot>>,
    pub loading: &'l Loading,
}

impl<P: Pair> Loads<'_, P> {
    /// Loads the range of a key, if it is not loaded. Blocking.
    pub fn load_key(&self, key: &[u8]) -> Result<()> {
        let Some(tree) = &self.tree else {
            return self.nothing_is_saved();
        };
        let mut place = Vec::new();
        let position = until_settled(self.tiers.store(), || {
            tree.try_position(key, &mut place).map(<[u8]>::to_vec)
        })?;
        self.load_at(Edge::From(&position)).map(drop)
    }

    /// The same, as far as it takes nothing that is on disk; whether it is loaded.
    pub fn try_has(&self, key: &[u8]) -> Attempt<bool> {
        let Some(tree) = &self.tree else {
            return Ok(true);
        };
        let mut place = Vec::new();
        let edge = Edge::From(tree.try_position(key, &mut place)?);
        if !self.loading.is_left() || self.loading.loaded.lock().around(edge).is_some() {
            return Ok(true);
        }
        tree.try_reach(edge).map(|()| false)
    }

    /// Whether the range of a key is not loaded, as far as can be told at once.
    pub fn lacks(&self, key: &[u8]) -> bool {
        let mut place = Vec::new();
        let Ok(position) = self.tiers.cold().try_position(key, &mut place) else {
            return false;
        };
        self.loading.loaded_up_to(position).is_err() && !planted(Fault::HotBeforeLoaded)
    }

    /// Loads what lies at this edge, if it is not loaded. Returns the range around it that is, or nothing where all is.
    /// Blocking.
    pub fn load_at(&self, edge: Edge<'_>) -> Result<Option<Range>> {
        let loading = self.loading;
        let edge = match edge {
            // Nothing lies below the first position.
            Edge::Below(b"") => Edge::From(b""),
            edge => edge,
        };
        let around = || match loading.is_left() {
            true => loading.loaded.lock().around(edge).map(Some),
            false => Some(None),
        };
        if let Some(range) = around() {
            return Ok(range);
        }
        self.load_before(edge)?;
        match self.load_leaf(edge, PageStore::settle) {
            Err(e) if e.is_unreadable() && planted(Fault::UnreadableForgotten) => {
                let range = loading.loaded.lock().between(edge);
                loading.add(range);
            }
            loaded => loaded?,
        }
        around().ok_or_else(|| {
            let what = "a page of what was saved of a hot tier covers no position that leads to it";
            Error::corrupt("data", None, what)
        })
    }

    /// Where there are many ranges already, what lies between the one before this edge and the edge comes first: so they
    /// become no more.
    fn load_before(&self, edge: Edge<'_>) -> Result<()> {
        let Edge::From(position) = edge else {
            return Ok(());
        };
        let mut next = {
            let loaded = self.loading.loaded.lock();
            (loaded.0.len() >= MOST_RANGES).then(|| loaded.between(edge).0)
        };
        while let Some(from) = next.filter(|from| from.as_slice() < position) {
            next = self.load_from(&from, PageStore::settle)?;
        }
        Ok(())
    }

    /// Loads all that lies in this range. Blocking.
    pub fn load_range(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let mut from = low.to_vec();
        while let Some((_, Some(end))) = self.load_at(Edge::From(&from))? {
            if high.is_some_and(|high| end.as_slice() >= high) {
                break;
            }
            from = end;
        }
        Ok(())
    }

    /// Loads the next leaf from this position on that is not loaded. Where to go on, or nothing at the end. What cannot
    /// be read is passed over. Blocking.
    pub fn load_next(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.load_from(from, PageStore::settle_in_order)
    }

    fn load_from(
        &self,
        from: &[u8],
        settle: impl Fn(&PageStore, Retry) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        let part = self.loading.part(from);
        if part.is_loaded {
            return Ok(part.end);
        }
        match self.load_leaf(Edge::From(from), settle) {
            Ok(()) => Ok(self.loading.part(from).end),
            Err(e) if e.is_unreadable() => Ok(self
                .tree
                .as_ref()
                .and_then(|tree| behind(self.tiers, tree, from))),
            Err(e) => Err(e),
        }
    }

    /// Loads all that can be read. Blocking.
    pub fn load_all(&self) -> Result<()> {
        let mut from = Vec::new();
        while self.loading.is_left()
            && let Some(next) = self.load_next(&from)?
        {
            from = next;
        }
        Ok(())
    }

    fn nothing_is_saved(&self) -> Result<()> {
        self.loading.is_left.store(false, Ordering::Release);
        Ok(())
    }

    /// Loads what the saved leaf at this edge has of the range there that is not loaded.
    fn load_leaf(
        &self,
        edge: Edge<'_>,
        settle: impl Fn(&PageStore, Retry) -> Result<()>,
    ) -> Result<()> {
        let Some(tree) = &self.tree else {
            return self.nothing_is_saved();
        };
        let store = self.tiers.store();
        // Others load meanwhile.
        until(store, settle, || tree.try_reach(edge))?;
        let _turn = self.loading.turn.lock();
        let range = {
            let loaded = self.loading.loaded.lock();
            if !self.loading.is_left() || loaded.around(edge).is_some() {
                return Ok(());
            }
            loaded.between(edge)
        };
        self.tiers.context().with_windows(|saved, _| {
            // Clean ones are what only a hot tier has that lay in the file.
            let mut select = |flags: Flags| flags.is_dirty();
            until_settled(store, || tree.try_window_if(edge, &mut select, saved))?;
            // A leaf may have come together with one that is loaded, and changed since.
            saved.restrict(&range.0, range.1.as_deref());
            let loaded = (saved.low.clone(), saved.high.clone());
            if planted(Fault::LoadedEarly) {
                self.loading.add(loaded);
                terrace_base::sync::yield_now();
                return self.put_all(saved);
            }
            self.put_all(saved)?;
            self.loading.add(loaded);
            Ok(())
        })
    }

    /// Puts saved records into the hot tier, of which nothing is there.
    fn put_all(&self, saved: &Window) -> Result<()> {
        let (tiers, store) = (self.tiers, self.tiers.store());
        let context = tiers.context();
        let (mut next, mut helped) = (0, 0);
        let mut waits = Waits::of_a_change();
        let mut guard = Guard::new(store);
        while next < saved.len() {
            let door = store.enter_for(Space::Saving)?;
            let mut chains = [None; 2];
            let some = &mut || {
                for _ in 0..AT_ONCE.min(saved.len() - next) {
                    let key = P::Hot::key_at(saved.key(next));
                    let is_deleted = saved.entry(next).flags.is_deleted();
                    let value = (!is_deleted).then(|| Value::Inline(saved.value(next)));
                    let hash = tiers.hash(key);
                    let slot = context.locks.slot_of(hash);
                    let lock = context.locks.lock(slot);
                    let may_unlink = || guard.allows_unlinking();
                    let put = tiers.may_be_hot().and_then(|may_be| {
                        if may_be && helped < HELP_ENOUGH {
                            let put =
                                tiers.put_hot(&door, (key, hash), value, &may_unlink, &mut || ());
                            return put.map(|_| [None; 2]);
                        }
                        tiers.apply_cold(&door, key, value, &may_unlink, &mut || ())
                    });
                    // For readers nothing has changed.
                    RecordLock::release_moved(lock);
                    chains = put?;
                    next += 1;
                    if chains.iter().any(Option::is_some) {
                        break;
                    }
                }
                Ok(())
            };
            let put: Attempt<()> = some();
            drop(door);
            free_large(store, chains.into_iter().flatten())?;
            let Err(interrupt) = put else {
                continue;
            };
            let is_full = matches!(interrupt, Retry::HotFull);
            if is_full {
                helped += context.hot.leaves_of_help();
            }
            let settle = |interrupt| context.settle_for(interrupt, Space::Reserve, &mut waits);
            match TierContext::settle_or(interrupt, settle, |page| tiers.does_without(page)) {
                // A page that these have nothing to do with.
                Err(e) if is_full && e.is_unreadable() => helped = HELP_ENOUGH,
                settled => settled?,
            }
            guard.take_if_wanted();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITIONS: u8 = 40;

    fn position(at: u8) -> Vec<u8> {
        match at {
            0 => Vec::new(),
            at => vec![at],
        }
    }

    fn end(at: u8) -> Option<Vec<u8>> {
        (at < POSITIONS).then(|| position(at))
    }

    /// Of all positions those that are loaded, beside the same as single ones.
    #[test]
    fn ranges_are_what_their_positions_are() {
        for seed in 0..200 {
            let mut random = terrace_sim::Rng::new(seed);
            let mut loaded = Loaded::default();
            let mut model = [false; POSITIONS as usize];
            while !loaded.is_all() {
                let at = random.below(u64::from(POSITIONS)) as u8;
                let is_loaded = model[usize::from(at)];
                let same = |at: &u8| model[usize::from(*at)] == is_loaded;
                let low = (0..=at).rev().take_while(same).last().unwrap();
                let high = (at..POSITIONS).take_while(same).last().unwrap() + 1;
                let from = position(at);
                let edges = [
                    (Edge::From(&from), at),
                    (Edge::Below(&[at + 1]), at),
                    (Edge::End, POSITIONS - 1),
                ];
                for (edge, covers) in edges {
                    let around = loaded.around(edge);
                    assert_eq!(around.is_some(), model[usize::from(covers)], "{edge:?}");
                    if covers != at {
                        continue;
                    }
                    let range = around.unwrap_or_else(|| loaded.between(edge));
                    assert_eq!(range, (position(low), end(high)), "{edge:?}");
                }
                if !is_loaded {
                    let part = at..at + 1 + random.below(u64::from(high - at)) as u8;
                    loaded.add((position(part.start), end(part.end)));
                    part.for_each(|at| model[usize::from(at)] = true);
                }
                assert!(loaded.0.len() <= usize::from(POSITIONS) / 2 + 1);
            }
            assert!(model.iter().all(|is_loaded| *is_loaded));
        }
    }
}
