//! A step becomes visible: within one entry of the gate, so that no cut has a half of it.
//!
//! In this order: pages are made, which nothing points to yet; then the entries of the target; then what is left of
//! the sources, from the lowest up; then records leave the top; then the pages that no entry names any more are
//! freed. At every instant a look from above finds each record, because what moves is below before it leaves above.
//!
//! Invariant of a level: at every instant the page of an entry covers all keys up to the next entry, and where an
//! entry has no page nothing is up to the next one. Entries change one by one, and a key for which an entry goes
//! falls to the next one on its left. So new entries come from right to left: what is on the left of one that came is
//! still covered by an old one. And what a new one swallows goes from left to right: each falls to the new one. From
//! right to left it would fall to an old one, whose page ends before.
//!
//! Until the first entry is changed nothing is, and a retry lets go of everything. From then on nothing
//! may fail, so the pages of the entries, which were brought into memory before, stay there meanwhile. Only
//! the smallest of steps, for which there were not enough frames, waits inside.

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, LargeRef, NoRoom, Ordered, Plan, Retry, Runs, Sweep, Value,
    Window, WriteGuard,
};
use terrace_base::sync::atomic::Ordering as Atomic;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, PAGE_HEADER_BYTES, Shared, Space, SpaceQuota, Staying};

use super::entry::Entry;
use super::level::{Level, Slot, settled};
use super::name::Name;
use super::page::{Image, new_stamp};
use super::plan::{Job, MOST_SQUEEZED};
use super::{Lsm, State};
use crate::btree::Predecessor;
use crate::fault::{self, Fault, Point};
use crate::overflow;

/// Fill up to which leaves of the top are packed once records have left them.
const PACKED: f64 = 0.95;
/// Attempts after which a step for which there are not enough frames is given up, for a smaller one. Of the
/// smallest what is missing is waited for inside: else no step would ever get on.
const PATIENCE: u32 = 24;

/// Leaves without records that are joined with others at once, at most.
const MOST_JOINED: usize = 64;
/// Pages that are brought into memory for an installation before it is tried, at most.
const LOOKS: usize = 64;

/// What a range of a level is to become.
pub(crate) struct Part {
    /// First key of a page, or of a gap.
    pub low: Vec<u8>,
    pub image: Option<Image>,
}

/// What becomes of a range of a level.
pub(crate) struct Install<'l> {
    level: &'l Level,
    /// First keys of the entries that go, or are replaced, in order.
    old: Vec<Vec<u8>>,
    /// Pages that go, and the first keys of their entries.
    pages: Vec<(Vec<u8>, Entry)>,
    /// What comes instead, in order, without gaps.
    parts: Vec<Part>,
}

impl<'l> Install<'l> {
    /// The level's slots are to become these parts.
    pub fn new(level: &'l Level, slots: &[Slot], mut parts: Vec<Part>) -> Install<'l> {
        // Of two gaps side by side the first is enough.
        let mut after_gap = false;
        parts.retain(|part| {
            let again = after_gap && part.image.is_none();
            after_gap = part.image.is_none();
            !again
        });
        let from = parts
            .first()
            .map(|part| part.low.clone())
            .unwrap_or_default();
        let lows = slots.iter().map(|slot| slot.low.clone());
        Install {
            level,
            old: lows.filter(|low| *low >= from).collect(),
            pages: slots
                .iter()
                .filter_map(|slot| Some((slot.low.clone(), slot.entry?)))
                .collect(),
            parts,
        }
    }
}

/// All that a step changes.
#[derive(Default)]
pub(crate) struct Change<'l> {
    /// The levels from above, the target last.
    pub levels: Vec<Install<'l>>,
    /// Chains that nothing points to afterwards.
    pub dropped: Vec<LargeRef>,
    /// Leaves of the top that lose records.
    pub top_leaves: u64,
}

/// The pages of these names.
fn pages(made: &[Name]) -> impl Iterator<Item = PageId> {
    made.iter().map(|name| name.page)
}

/// Pages of the top that become dirty: leaves that lose records, those on their left that take in what is left, and
/// some nodes above them.
fn of_top(change: &Change<'_>) -> u64 {
    match change.top_leaves {
        0 => 0,
        _ if fault::planted(Fault::TopUnpromised) => 0,
        leaves => 2 * leaves + leaves / 8 + 2,
    }
}

impl Lsm {
    /// Installs a step. `copied` are the records that leave the top. False, and nothing has changed, where
    /// one of them that has a chain is not there any more, there are not enough frames, or large values are to go
    /// and a cut is in the way. The caller is at work.
    pub(crate) fn install(
        &self,
        state: &State,
        change: &mut Change<'_>,
        copied: Option<&Window>,
        space: Space,
    ) -> Result<bool> {
        let store = &self.store;
        let guard = match change.dropped.is_empty() {
            true => None,
            false if fault::planted(Fault::LateGuard) => Some(store.large_guard()),
            false => match store.try_large_guard() {
                None => return Ok(false),
                guard => guard,
            },
        };
        let images = change.levels.iter().flat_map(|install| &install.parts);
        let new = images.filter(|part| part.image.is_some()).count() as u64;
        let entries: usize = change.levels.iter().map(|l| l.parts.len()).sum();
        let splits = (change.levels.len() + entries / 8 + 1) as u64;
        let promise = SpaceQuota {
            dirty: 2 * change.levels.len() as u64 + entries as u64 / 8 + 4 + of_top(change),
            new: new + splits + 1,
        };
        let space = match space {
            Space::Reserve => Space::Reserve,
            _ => Space::Migration,
        };
        let mut patience = PATIENCE;
        loop {
            // What is read is read out here, as far as memory has room for all of it.
            for _ in 0..LOOKS {
                match self.look_ahead(state, change, copied) {
                    Ok(()) => break,
                    Err(interrupt) => store.settle(interrupt)?,
                }
            }
            let door = match store.enter_for_many(space, promise) {
                // A smaller step needs fewer numbers for new pages before those of old ones are free.
                Err(Error::MemoryTooSmall { .. }) if self.squeeze() => return Ok(false),
                entered => entered?,
            };
            let installed =
                self.install_inside(state, &door, (change, patience == 0), copied, splits);
            #[cfg(test)]
            self.note_unpromised(&promise);
            match installed {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(interrupt) => {
                    drop(door);
                    patience = patience.saturating_sub(1);
                    if patience == 0 && self.squeeze() {
                        return Ok(false);
                    }
                    store.settle(interrupt)?;
                }
            }
        }
        if fault::planted(Fault::MergedChainKept) {
            change.dropped.clear();
        }
        fault::free_twice(&mut change.dropped);
        for large in change.dropped.drain(..) {
            overflow::free(store, large)?;
        }
        drop(guard);
        if let Some(copied) = copied {
            let bytes = (0..copied.len()).map(|i| copied.key(i).len() + copied.value(i).len());
            let left = &self.counters.left_bytes;
            left.fetch_add(bytes.sum::<usize>() as u64, Atomic::Relaxed);
            let dead = (0..copied.len()).filter(|&i| copied.entry(i).flags.is_deleted());
            self.counters.fewer_dead(dead.count() as u64);
        }
        let bytes = new * store.page_bytes() as u64;
        self.counters.merge_bytes.fetch_add(bytes, Atomic::Relaxed);
        Ok(true)
    }

    /// Notes by how many the pages that are dirty are more than those of this promise. For tests in which no other
    /// thread is at work, and none was before.
    #[cfg(test)]
    fn note_unpromised(&self, promise: &SpaceQuota) {
        let dirty = self.store.space_seen().dirty;
        let more = dirty.saturating_sub(promise.dirty + promise.new);
        let most = &self.counters.most_unpromised;
        most.fetch_max(more, Atomic::Relaxed);
    }

    /// Halves the ranges of the steps to come; false where they are the smallest already.
    fn squeeze(&self) -> bool {
        let more = |squeezed: u32| (squeezed < MOST_SQUEEZED).then_some(squeezed + 1);
        let halved = self
            .squeezed
            .fetch_update(Atomic::Relaxed, Atomic::Relaxed, more);
        halved.is_ok()
    }

    fn install_inside(
        &self,
        state: &State,
        door: &WriteGuard<'_>,
        (change, waits): (&mut Change<'_>, bool),
        copied: Option<&Window>,
        splits: u64,
    ) -> Attempt<bool> {
        let (mut made, mut staying) = (Vec::new(), Vec::new());
        let ready = self
            .make_pages(door, (change, waits), &mut made)
            .and_then(|()| match waits {
                true => Ok(()),
                false => self
                    .look_ahead(state, change, copied)
                    .and_then(|()| self.let_entries_stay(change, &mut staying))
                    .and_then(|()| self.have_frames(door, splits)),
            });
        if let Err(interrupt) = ready {
            self.unmake(door, pages(&made))?;
            return Err(interrupt);
        }
        // Whoever replaces a record that has a chain waits until its chain is that of a page below, or not.
        let is_large = |w: &&Window| super::page::chains(w).next().is_some();
        let held = copied.filter(is_large).map(|_| self.chains.lock());
        if let (Some(copied), Some(_)) = (copied, &held) {
            match self.chains_still_there(state, copied) {
                Ok(true) => {}
                other => {
                    self.unmake(door, pages(&made))?;
                    return other;
                }
            }
        }
        // Held from here on, the page cannot leave memory before the end. Only shared: whoever needs a frame
        // meanwhile, this thread too, may have to write it.
        let root = match self.store.shared(self.root) {
            Ok(root) => root,
            Err(interrupt) => {
                drop(held);
                self.unmake(door, pages(&made))?;
                return Err(interrupt);
            }
        };
        let installed = self.make_visible(state, door, root, (change, copied), &made);
        drop(staying);
        // Some of it is visible, or may be.
        installed.map_err(|e| self.store.poison(&e))?;
        Ok(true)
    }

    /// Whether records of the top with chains are what they were: bit for bit.
    fn chains_still_there(&self, state: &State, copied: &Window) -> Attempt<bool> {
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

    /// Makes the pages of all images, in the order of the levels and of the parts.
    fn make_pages(
        &self,
        door: &WriteGuard<'_>,
        (change, waits): (&mut Change<'_>, bool),
        made: &mut Vec<Name>,
    ) -> Attempt<()> {
        for install in &mut change.levels {
            let level = install.level.number;
            for image in install.parts.iter_mut().filter_map(|p| p.image.as_mut()) {
                let mut page = loop {
                    match self.store.allocate(door, Class::Cold) {
                        // Those that were made already may be written meanwhile.
                        Err(wait @ Retry::NoFrame) if waits => {
                            self.counters.waits_inside.fetch_add(1, Atomic::Relaxed);
                            self.store.settle(wait)?;
                        }
                        made => break made?,
                    }
                };
                let stamp = new_stamp(&self.store, door.epoch());
                image.sign(stamp, level);
                made.push(Name {
                    page: page.pid(),
                    stamp,
                    level,
                });
                let rest = image.bytes.len() - PAGE_HEADER_BYTES;
                page.fill(PAGE_HEADER_BYTES, rest)?
                    .copy_from_slice(&image.bytes[PAGE_HEADER_BYTES..]);
            }
        }
        Ok(())
    }

    /// Frames for nodes that are split while it becomes visible, when nothing can be waited for: who has had this
    /// many finds them free, unless others have taken them since.
    fn have_frames(&self, door: &WriteGuard<'_>, splits: u64) -> Attempt<()> {
        let mut had = Vec::new();
        let all = (0..splits).try_for_each(|_| {
            had.push(self.store.allocate(door, Class::Cold)?.pid());
            Ok(())
        });
        self.unmake(door, had)?;
        all
    }

    /// What no step may do: pages that nothing points to, outside of the gate. For a fault that tests plant.
    pub(crate) fn make_early(&self, change: &mut Change<'_>, space: Space) -> Result<Vec<Name>> {
        let mut made = Vec::new();
        let door = self.store.enter_for(space)?;
        let done = self.make_pages(&door, (change, true), &mut made);
        drop(door);
        done.or_else(|interrupt| self.store.settle(interrupt))?;
        Ok(made)
    }

    /// The end of that.
    pub(crate) fn unmake_early(&self, made: &[Name], space: Space) -> Result<()> {
        if made.is_empty() {
            return Ok(());
        }
        let door = self.store.enter_for(space)?;
        made.iter()
            .try_for_each(|name| self.free_page(&door, name.page))
    }

    /// `Miss` where something that the installation will change is not in memory.
    fn look_ahead(
        &self,
        state: &State,
        change: &Change<'_>,
        copied: Option<&Window>,
    ) -> Attempt<()> {
        drop(self.store.shared(self.root)?);
        for install in &change.levels {
            let index = &install.level.index;
            let lows = install.parts.iter().map(|part| &part.low);
            for low in lows.chain(&install.old) {
                index.try_reach(Edge::From(low))?;
            }
            if let Some(first) = install.parts.first()
                && !first.low.is_empty()
            {
                index.try_reach(Edge::Below(&first.low))?;
            }
        }
        match copied {
            Some(copied) => state.top.try_reach_run(copied, &mut 0),
            None => Ok(()),
        }
    }

    /// The pages of all entries that the installation will change stay in memory, and the root.
    fn let_entries_stay<'s>(
        &'s self,
        change: &Change<'s>,
        staying: &mut Vec<(PageId, Staying<'s>)>,
    ) -> Attempt<()> {
        staying.push((self.root, self.store.let_stay(self.root)?));
        for install in &change.levels {
            let index = &install.level.index;
            let lows = install.parts.iter().map(|part| &part.low);
            for low in lows.chain(&install.old) {
                index.descent().let_way_stay(Edge::From(low), staying)?;
            }
            if let Some(first) = install.parts.first()
                && !first.low.is_empty()
            {
                index
                    .descent()
                    .let_way_stay(Edge::Below(&first.low), staying)?;
            }
        }
        Ok(())
    }

    /// Frees pages again that nothing points to.
    fn unmake(&self, door: &WriteGuard<'_>, made: impl IntoIterator<Item = PageId>) -> Attempt<()> {
        for page in made {
            self.free_page(door, page)
                .map_err(|e| Retry::Fail(self.store.poison(&e)))?;
        }
        Ok(())
    }

    fn make_visible(
        &self,
        state: &State,
        door: &WriteGuard<'_>,
        root: Shared<'_>,
        (change, copied): (&Change<'_>, Option<&Window>),
        made: &[Name],
    ) -> Result<()> {
        let mut made = made;
        if let Some(copied) = copied.filter(|_| fault::planted(Fault::TopFirst)) {
            self.leave_top(state, door, copied)?;
            fault::reached(Point::Installing);
        }
        // The target is the last one, and the names are in the same order.
        for install in change.levels.iter().rev() {
            let images = install.parts.iter().filter(|p| p.image.is_some()).count();
            let (rest, names) = made.split_at(made.len() - images);
            made = rest;
            self.replace_entries(door, install, names)?;
        }
        if let Some(copied) = copied {
            self.leave_top(state, door, copied)?;
        }
        drop(root);
        self.until_done(|| {
            let mut root = self.store.exclusive(self.root, door)?;
            state.root().write(&mut root)
        })?;
        for (_, entry) in change.levels.iter().flat_map(|install| &install.pages) {
            self.free_page(door, entry.name.page)?;
        }
        Ok(())
    }

    /// Replaces the entries of a range: new ones come from right to left, and the old ones that one of them
    /// swallows go from left to right. See the module's invariant.
    fn replace_entries(
        &self,
        door: &WriteGuard<'_>,
        install: &Install<'_>,
        names: &[Name],
    ) -> Result<()> {
        let index = &install.level.index;
        let (mut old, mut names) = (install.old.as_slice(), names);
        let mut figures = install.level.figures();
        for (_, entry) in &install.pages {
            entry.take_from(&mut figures);
        }
        let mut new = Vec::new();
        let mut value = Vec::new();
        if fault::planted(Fault::LeftToRight) {
            for low in install.old.iter().filter(|low| !low.is_empty()) {
                self.drop_entry(door, install.level, low)?;
                fault::reached(Point::Installing);
            }
            old = &[];
        }
        for part in install.parts.iter().rev() {
            value.clear();
            if let Some(image) = &part.image
                && let Some((name, rest)) = names.split_last()
            {
                names = rest;
                let entry = Entry::of(image, *name);
                entry.encode(&image.filter, &mut value);
                entry.add_to(&mut figures);
                new.push((&part.low, entry));
            }
            let put = Plan::Put(Value::Inline(&value), Flags::NONE);
            self.until_done(|| {
                index.try_edit(door, &part.low, &mut |_| Ok(put), &mut NoRoom, &mut || {
                    Ok(())
                })
            })?;
            fault::reached(Point::Installing);
            let (rest, swallowed) = old.split_at(old.partition_point(|low| *low < part.low));
            old = rest;
            let is_new = |low: &Vec<u8>| install.parts.binary_search_by(|p| p.low.cmp(low)).is_ok();
            let mut goes: Vec<&Vec<u8>> = swallowed.iter().filter(|low| !is_new(low)).collect();
            if fault::planted(Fault::LastGoesFirst) {
                goes.reverse();
            }
            for low in goes {
                self.drop_entry(door, install.level, low)?;
                fault::reached(Point::Installing);
            }
        }
        self.join_gaps(door, install)?;
        let old = install.pages.iter().map(|(low, entry)| (low, entry));
        let new = new.iter().map(|(low, entry)| (*low, entry));
        self.recount.replaced(install.level.number, old, new);
        install.level.set_figures(figures);
        Ok(())
    }

    fn drop_entry(&self, door: &WriteGuard<'_>, level: &Level, key: &[u8]) -> Result<()> {
        self.until_done(|| {
            let erase = &mut |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
            level
                .index
                .try_edit(door, key, erase, &mut NoRoom, &mut || Ok(()))
        })?;
        Ok(())
    }

    /// A gap that came behind another one needs no entry, or there would be one for every step that was ever
    /// made.
    fn join_gaps(&self, door: &WriteGuard<'_>, install: &Install<'_>) -> Result<()> {
        let Some(first) = install.parts.first() else {
            return Ok(());
        };
        if first.image.is_some() || first.low.is_empty() {
            return Ok(());
        }
        let mut floor = Predecessor::default();
        let before =
            self.until_done(|| install.level.entry_at(Edge::Below(&first.low), &mut floor))?;
        if before.is_none() {
            self.drop_entry(door, install.level, &first.low)?;
            fault::reached(Point::Installing);
        }
        Ok(())
    }

    /// From the top those of these records go that are still what they were, bit for bit.
    ///
    /// One whose leaf has left memory since it was asked for stays: it says what the level says, and a later
    /// step takes it along again. A large value must not have two owners, so its leaf is waited for.
    fn leave_top(&self, state: &State, door: &WriteGuard<'_>, copied: &Window) -> Result<()> {
        let (mut next, mut which, mut value) = (0, Vec::new(), Vec::new());
        while next < copied.len() {
            let first = next;
            let mut end = first;
            self.until_done(|| {
                end = first;
                let visited = state.top.try_visit(door, copied.key(first), &mut |page| {
                    which.clear();
                    let mut near = 0;
                    while end < copied.len() {
                        // No other thread takes anything out of the top, so what is not here is further on.
                        let Some(i) = page.find_behind(copied.key(end), near)? else {
                            break;
                        };
                        let large = page.value(i, &mut value)?;
                        let was = copied.entry(end);
                        let is_same = page.flags(i)? == was.flags
                            && large == was.large
                            && value == copied.value(end);
                        if is_same || fault::planted(Fault::ErasedUnequal) {
                            which.push(i);
                        }
                        near = i;
                        end += 1;
                    }
                    page.erase_all(&mut which)
                });
                match visited {
                    Err(Retry::Miss(_)) if copied.entry(first).large.is_none() => Ok(()),
                    visited => visited,
                }
            })?;
            fault::reached(Point::Installing);
            if fault::planted(Fault::EmptiedLeavesKept) || fault::planted(Fault::TopUnpromised) {
                next = end.max(first + 1);
                continue;
            }
            // Thin leaves are joined with what lies before them; best effort.
            let _ = state.top.try_pack(door, copied.key(first), PACKED);
            // The first one is in its leaf, or nowhere.
            next = end.max(first + 1);
        }
        Ok(())
    }

    /// Joins the leaves of the top in a range in which no step finds anything with what lies before them; best
    /// effort. They were left when their records went: another thread held the leaf on their left.
    pub(crate) fn join_empty(&self, state: &State, job: &Job, space: Space) -> Result<()> {
        let range = (job.low.as_slice(), job.high.as_deref());
        let fences = settled(&self.store, || {
            state
                .top
                .descent()
                .leaf_fences(range.0, range.1, MOST_JOINED)
        })?;
        for fence in &fences {
            let door = self.store.enter_for(space)?;
            let _ = state.top.try_pack(&door, fence, PACKED);
        }
        Ok(())
    }

    /// Frees a page that no entry names.
    pub(crate) fn free_page(&self, door: &WriteGuard<'_>, page: PageId) -> Result<()> {
        self.until_done(|| self.store.free_unread(door, page))
    }

    /// Does something until it works, inside the gate.
    pub(crate) fn until_done<T>(&self, mut f: impl FnMut() -> Attempt<T>) -> Result<T> {
        super::level::settled(&self.store, || {
            let done = f();
            if matches!(done, Err(Retry::Miss(_) | Retry::NoFrame)) {
                self.counters.waits_inside.fetch_add(1, Atomic::Relaxed);
            }
            done
        })
    }

    /// One more level above all others, without pages.
    pub(crate) fn add_level(&self, state: &State, space: Space) -> Result<()> {
        loop {
            let door = self.store.enter_for(space)?;
            let made = self.store.exclusive(self.root, &door).and_then(|mut page| {
                let index = super::new_index(&self.store, &door)?;
                let mut root = state.root();
                root.levels.push((index, Default::default()));
                root.write(&mut page)?;
                Ok(index)
            });
            match made {
                Ok(index) => {
                    state.add((&self.store, &self.buffers), index, Default::default());
                    return Ok(());
                }
                Err(interrupt) => {
                    drop(door);
                    self.store.settle(interrupt)?;
                }
            }
        }
    }
}
