//! Taking a range out of an LSM-tree: of the top as of any tree, and of each level the entries of whole pages.
//!
//! Before that pages at the edges are *divided*: one that has records on both sides of an edge is made anew as two, in
//! an installation as steps make them, and no reader sees any of it. Then all that goes of a level are whole entries,
//! and its index is cut as a tree is. The first of them leaves one without a page, so that what lies before it still
//! ends where it did. What was taken out of top and indexes becomes an LSM-tree of its own, the *part*.
//!
//! Invariants: nothing is changed before everything is latched, made and built. A part has levels with the numbers that
//! they had, because pages say theirs; and it alone names the pages and large values of what was taken out.

use terrace_access::{
    Attempt, Edge, LevelFigures, Ordered, PreparedDelete, Retry, Window, WriteGuard,
};
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_base::{PageId, Result};
use terrace_pages::{Class, Exclusive, Space};

use super::cursors::Cursors;
use super::entry::{self, Entry};
use super::install::{Change, Install};
use super::level::{Level, Slot, settled};
use super::pace::AtWork;
use super::page::{self, Record};
use super::root::Root;
use super::window::end_of_slot;
use super::{Lsm, State};
use crate::btree::{Predecessor, RangeDelete, Wanted};
use crate::fault::{self, Fault};

/// Leaves of an index that are looked at to count what goes: more are estimated.
const MOST_COUNTED: usize = 2;

/// From `low` to before `high`.
type Bounds<'k> = (&'k [u8], Option<&'k [u8]>);

/// A page that has records on both sides of an edge, and a key between them.
struct Undivided {
    slot: Slot,
    at: Vec<u8>,
    /// Whether what lies before that key goes.
    is_upper: bool,
}

/// Where an edge lies among the entries of a level.
enum Side {
    /// An entry begins here, or there is none around it.
    At(Vec<u8>),
    /// Behind all entries.
    End,
    Undivided(Undivided),
}

/// What a range is in a level.
enum Place {
    Nothing,
    Undivided(Undivided),
    /// Whole entries.
    Entries(Entries),
}

struct Entries {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// Whether the page before the first of them would reach into the range without an entry between.
    gap: bool,
    /// What goes, if it was counted.
    counted: Option<LevelFigures>,
}

/// A level of which something goes.
struct OfLevel<'d> {
    level: &'d Level,
    cut: RangeDelete<'d>,
    /// What is left of it.
    left: LevelFigures,
    is_estimate: bool,
}

/// A range that is about to be taken out.
pub(crate) struct LsmRangeDelete<'d> {
    lsm: &'d Lsm,
    state: &'d State,
    root: Exclusive<'d>,
    top: Option<RangeDelete<'d>>,
    levels: Vec<OfLevel<'d>>,
    part: Option<(Exclusive<'d>, Root)>,
    _at_work: AtWork<'d, Cursors>,
}

impl Drop for LsmRangeDelete<'_> {
    fn drop(&mut self) {
        if let Some((page, _)) = self.part.take() {
            page.free();
        }
    }
}

impl Lsm {
    /// See [`terrace_access::RangeDeletes::prepare_cut`]: divides pages at the edges. Who calls it again when no thread
    /// is at work any more finds them divided.
    pub(crate) fn divide(&self, range: Bounds<'_>) -> Result<()> {
        let state = settled(&self.store, || self.state())?;
        for number in 0..state.count() {
            let Some(level) = state.level(number) else {
                continue;
            };
            loop {
                let _at_work = self.work.keep();
                match settled(&self.store, || self.place(level, range))? {
                    Place::Undivided(page) => self.divide_page(state, level, &page)?,
                    Place::Nothing | Place::Entries(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Makes two pages of one, or more if they do not fit. The half that stays takes in a thin page on its other side,
    /// as an earlier range may have left it: else many small ranges would leave a page for each record.
    fn divide_page(&self, state: &State, level: &Level, page: &Undivided) -> Result<()> {
        let slot = std::slice::from_ref(&page.slot);
        let is_thin = |of: &Option<Entry>| {
            of.is_some_and(|of| 2 * u64::from(of.used) <= self.bytes_of_full(level))
        };
        let beside = match page.is_upper {
            true => level.behind(&self.store, &page.slot)?,
            false => level.before(&self.store, &page.slot)?,
        };
        let outer = if page.is_upper {
            beside.last()
        } else {
            beside.first()
        };
        if !fault::planted(Fault::ThinLeft) && outer.is_some_and(|outer| is_thin(&outer.entry)) {
            let all = match page.is_upper {
                true => [slot, &beside[..]].concat(),
                false => [&beside[..], slot].concat(),
            };
            match self.divide_slots(state, level, &all, &page.at) {
                // The other one may be what cannot be read.
                Err(e) if e.is_unreadable() => {}
                done => return done,
            }
        }
        self.divide_slots(state, level, slot, &page.at)
    }

    /// Makes the pages of these slots anew, so that one begins at `at`.
    fn divide_slots(&self, state: &State, level: &Level, slots: &[Slot], at: &[u8]) -> Result<()> {
        let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
            return Ok(());
        };
        let mut parts = Vec::new();
        self.rest(state, level, slots, (&first.low, Some(at)), &mut parts)?;
        self.rest(state, level, slots, (at, last.high.as_deref()), &mut parts)?;
        let mut change = Change::default();
        change.levels.push(Install::new(level, slots, parts));
        // Not for a cut, for nothing is given up here; and it asks for less each time that it found no room.
        while !self.install(state, &mut change, None, Space::Reserve)? {}
        Ok(())
    }

    /// Where an edge of the range lies.
    fn side(&self, level: &Level, range: Bounds<'_>, is_upper: bool) -> Attempt<Side> {
        let (low, high) = range;
        let key = match (is_upper, high) {
            (false, _) => low,
            (true, Some(high)) => high,
            (true, None) => return Ok(Side::End),
        };
        let mut floor = Predecessor::default();
        let entry = level.entry_at(Edge::From(key), &mut floor)?;
        let Some(entry) = entry.filter(|_| floor.key != key) else {
            return Ok(Side::At(key.to_vec()));
        };
        let mut window = Window::new();
        self.buffers.with(&self.store, |buffer| {
            level.with_page(&self.store, (&entry, &floor.key), |page| {
                window.clear();
                page::copy(page, &entry.name, (&floor.key, None), (buffer, &mut window))
            })
        })?;
        let first = window.lower_bound(low);
        let end = high.map_or(window.len(), |high| window.lower_bound(high));
        let has_inside = first < end;
        let (at, has_before, has_behind) = match is_upper {
            false => (first, first > 0, has_inside),
            true => (end, has_inside, end < window.len()),
        };
        let slot = Slot {
            high: end_of_slot(level, &floor)?,
            low: floor.key,
            entry: Some(entry),
        };
        Ok(match (has_before, has_behind) {
            (true, true) => {
                let (before, behind) = (Record::of(&window, at - 1), Record::of(&window, at));
                let at = before.separator(&behind);
                Side::Undivided(Undivided { slot, at, is_upper })
            }
            (_, false) => slot.high.map_or(Side::End, Side::At),
            (false, true) => Side::At(slot.low),
        })
    }

    /// What the range is in a level.
    fn place(&self, level: &Level, range: Bounds<'_>) -> Attempt<Place> {
        let low = match self.side(level, range, false)? {
            Side::At(low) => low,
            Side::End => return Ok(Place::Nothing),
            Side::Undivided(page) => return Ok(Place::Undivided(page)),
        };
        let high = match self.side(level, range, true)? {
            Side::At(high) => Some(high),
            Side::End => None,
            Side::Undivided(page) => return Ok(Place::Undivided(page)),
        };
        if high.as_ref().is_some_and(|high| *high <= low) {
            return Ok(Place::Nothing);
        }
        let (found, is_all) = self.count_entries(level, (&low, high.as_deref()))?;
        if is_all && found.pages == 0 {
            return Ok(Place::Nothing);
        }
        let mut floor = Predecessor::default();
        let gap = low.is_empty() || level.entry_at(Edge::Below(&low), &mut floor)?.is_some();
        Ok(Place::Entries(Entries {
            low,
            high,
            gap: gap && !fault::planted(Fault::GapForgotten),
            counted: is_all.then_some(found),
        }))
    }

    /// What the entries in a range say of their pages, and whether all of them were looked at. O(1) leaves.
    fn count_entries(
        &self,
        level: &Level,
        (low, high): Bounds<'_>,
    ) -> Attempt<(LevelFigures, bool)> {
        let mut found = LevelFigures::default();
        let mut window = Window::new();
        window.set_most_of_values(entry::ENTRY_BYTES);
        let mut at = low.to_vec();
        for _ in 0..MOST_COUNTED {
            level.index.try_window(Edge::From(&at), &mut window)?;
            for i in window.lower_bound(&at)..window.len() {
                if high.is_some_and(|high| window.key(i) >= high) {
                    return Ok((found, true));
                }
                if let Some(entry) = level.decode(window.value(i))? {
                    entry.add_to(&mut found);
                }
            }
            match window.high.take() {
                Some(next) if high.is_none_or(|high| next.as_slice() < high) => at = next,
                _ => return Ok((found, true)),
            }
        }
        Ok((found, false))
    }

    /// See [`terrace_access::RangeDeletes::try_cut`]. O(levels × height) pages.
    pub(crate) fn cut_out<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        range: Bounds<'_>,
        part: bool,
    ) -> Attempt<LsmRangeDelete<'d>> {
        let state = self.state()?;
        let at_work = self.work.try_keep().ok_or(Retry::Conflict)?;
        let mut places = Vec::new();
        for level in (0..state.count()).filter_map(|number| state.level(number)) {
            places.push(match self.place(level, range)? {
                Place::Nothing => None,
                Place::Entries(entries) => Some(entries),
                Place::Undivided(page) => {
                    let what = format!("a page of level {} was to be divided", level.number);
                    let of = page
                        .slot
                        .entry
                        .map_or(PageId::NONE, |entry| entry.name.page);
                    return Err(page::wrong(of, what).into());
                }
            });
        }
        let used = places.iter().rposition(Option::is_some).map(|n| n + 1);
        let (low, high) = range;
        let mut cut = LsmRangeDelete {
            lsm: self,
            state,
            root: self.store.exclusive(self.root, door)?,
            top: None,
            levels: Vec::new(),
            part: None,
            _at_work: at_work,
        };
        let wanted = Wanted {
            part: part || used.is_some(),
            gap: false,
        };
        let top = state.top.cut(door, low, high, wanted)?;
        let of_top = top.part();
        cut.top = Some(top);
        let Some(of_top) = of_top else {
            return Ok(cut);
        };
        let mut root = Root {
            top: of_top,
            levels: Vec::new(),
            estimates: 0,
        };
        // There is one level at least.
        for (number, entries) in places.iter().enumerate().take(used.unwrap_or(1)) {
            let Some(level) = state.level(number) else {
                continue;
            };
            let (low, high, gap) = match entries {
                Some(entries) => (&entries.low[..], entries.high.as_deref(), entries.gap),
                None => (low, Some(low), false),
            };
            let of_level = level
                .index
                .cut(door, low, high, Wanted { part: true, gap })?;
            let all = level.figures();
            let counted = entries.as_ref().map(|entries| entries.counted);
            let gone = match counted {
                None => LevelFigures::default(),
                Some(Some(counted)) => counted,
                Some(None) => share_of(&all, of_level.share()),
            };
            root.levels.extend(of_level.part().map(|part| (part, gone)));
            cut.levels.push(OfLevel {
                level,
                cut: of_level,
                left: less(&all, &gone),
                is_estimate: counted == Some(None),
            });
        }
        cut.part = Some((self.store.allocate(door, Class::Inner)?, root));
        Ok(cut)
    }

    /// See [`terrace_access::RangeDeletes::close_cut`].
    pub(crate) fn close_range(&self, door: &WriteGuard<'_>, (low, high): Bounds<'_>) {
        let Ok(state) = self.state() else { return };
        state.top.close_range(door, low, high);
        for level in state.downwards() {
            level.index.close_range(door, low, high);
        }
    }
}

/// About this share of it.
fn share_of(of: &LevelFigures, share: f64) -> LevelFigures {
    let part = |n: u64| ((n as f64 * share) as u64).min(n);
    LevelFigures {
        pages: part(of.pages),
        bytes: part(of.bytes),
        records: part(of.records),
        tombstones: part(of.tombstones),
    }
}

fn less(of: &LevelFigures, gone: &LevelFigures) -> LevelFigures {
    LevelFigures {
        pages: of.pages.saturating_sub(gone.pages),
        bytes: of.bytes.saturating_sub(gone.bytes),
        records: of.records.saturating_sub(gone.records),
        tombstones: of.tombstones.saturating_sub(gone.tombstones),
    }
}

impl PreparedDelete for LsmRangeDelete<'_> {
    fn is_empty(&self) -> bool {
        self.part.is_none() && self.top.as_ref().is_none_or(|top| top.is_empty())
    }

    fn part(&self) -> Option<PageId> {
        self.part.as_ref().map(|(page, _)| page.pid())
    }

    fn apply(mut self: Box<Self>) -> Attempt<()> {
        if let Some(top) = self.top.take() {
            let dead = self.lsm.counters.top_dead.load(Atomic::Relaxed);
            self.lsm
                .counters
                .fewer_dead((dead as f64 * top.share()) as u64);
            Box::new(top).apply()?;
        }
        for of_level in std::mem::take(&mut self.levels) {
            let OfLevel {
                level,
                cut,
                left,
                is_estimate,
            } = of_level;
            Box::new(cut).apply()?;
            level.set_figures(left);
            self.lsm.recount.forget(level.number);
            if is_estimate {
                level.set_estimate(true);
            }
        }
        let root = self.state.root();
        root.write(&mut self.root)?;
        if let Some((mut page, root)) = self.part.take() {
            root.write(&mut page)?;
        }
        // How large the top is now is looked at by the next change.
        self.lsm.counters.look_due.store(0, Atomic::Relaxed);
        Ok(())
    }
}
