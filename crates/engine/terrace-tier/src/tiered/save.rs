//! What is dirty in a hot tier that lies in memory alone, saved in the file.
//!
//! The *saved* tree is a tree of the same method and order as the hot tier, of pages like all others: what is dirty
//! above, tombstones too, as it was when its range was looked at last. A range is saved as a whole: what is not dirty any
//! more goes, or it would hide what the cold tier has by now. So at every instant the saved tree over the cold tier says
//! what the two tiers said when the range was saved, once all changes since then are made again. An image of it is a
//! hot tier like any other, which is how snapshots and read-only openings read it; an opening for more puts its
//! records into a new hot tier, and the log over them.
//!
//! One thread at a time saves, and holds no latch of a hot page while it changes the saved tree.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, Neighbours, Ordered, Plan, Retry, Rising, Rooted, Tier,
    Touch, Value, Window, WriteGuard,
};
use terrace_base::sync::Mutex;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, PageStore, Space};

use super::entry::{Entry, until, until_settled};
use super::loading::{Loading, Loads};
use super::tiers::{Pair, Tiers};
use crate::estimate::leaves_about;
use crate::fault::{Fault, planted};
use crate::method::bytes_of;
use crate::structure::Saving;

/// Records that are saved under one write guard: so few that a cut need not wait for long.
const AT_ONCE: usize = 64;
/// The same where free slots on the disk are few: each may make a page dirty and split it, and who saves finds 24 at
/// least.
const SCARCE_AT_ONCE: usize = 8;
/// Pages of a saved tree above those of records are no more than one in this many of them.
const INNER_PART: f64 = 16.0;
/// What a record takes in a page beside its bytes, at most: its slot, and what some methods put in front of its key.
pub(super) const SLOT_BYTES: usize = 16;

/// The flags that a saved record keeps: not how often it was used, which changes all the time.
fn kept(flags: Flags) -> Flags {
    flags.with_use_count(0)
}

/// What is saved of a hot tier, once something is.
pub(super) struct Saved<P: Pair> {
    tree: Mutex<Option<Arc<P::Hot>>>,
    /// Which of it is in the hot tier again after an opening.
    loading: Option<Box<Loading>>,
    /// It is made aside: the catalog does not name it yet.
    is_aside: bool,
}

impl<P: Pair> Saved<P> {
    /// What begins at this root, or nothing yet. Reads nothing.
    pub fn open(store: &Arc<PageStore>, root: Option<PageId>) -> Saved<P> {
        let tree = root.map(|root| Arc::new(P::Hot::open(store, root, Class::Cold)));
        Saved {
            loading: tree.is_some().then(|| Box::new(Loading::begin())),
            tree: Mutex::new(tree),
            is_aside: false,
        }
    }

    /// What loads it, as long as some of it may not be loaded yet.
    #[inline]
    pub fn loads<'l>(&'l self, tiers: &'l Tiers<P>) -> Option<Loads<'l, P>> {
        let loading = self.loading.as_deref().filter(|all| all.is_left())?;
        Some(Loads {
            tiers,
            tree: self.tree(),
            loading,
        })
    }

    /// Has the range of this key in the hot tier, if anything of it was saved. Blocking.
    #[inline]
    pub fn load_key(&self, tiers: &Tiers<P>, key: &[u8]) -> Result<()> {
        match self.loads(tiers) {
            Some(loads) if !planted(Fault::HotBeforeLoaded) => loads.load_key(key),
            _ => Ok(()),
        }
    }

    /// Loads the next leaf from this position on; see [`crate::Structure::load_saved`].
    pub fn load_next(&self, tiers: &Tiers<P>, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _at_work = tiers.context().background.read();
        match self.loads(tiers).filter(|_| !tiers.is_retired()) {
            Some(loads) => loads.load_next(from),
            None => Ok(None),
        }
    }

    /// About how many slots it takes. Reads some inner pages.
    pub fn slots(&self, tiers: &Tiers<P>) -> Result<u64> {
        match self.tree().filter(|_| tiers.is_in_memory()) {
            Some(tree) => {
                let leaves = leaves_about(tiers.context(), &*tree)?;
                Ok((leaves * (1.0 + 1.0 / INNER_PART)).ceil() as u64)
            }
            None => Ok(0),
        }
    }

    /// The saved tree, if there is one.
    pub fn tree(&self) -> Option<Arc<P::Hot>> {
        self.tree.lock().clone()
    }

    /// The saved tree, made now if need be.
    fn tree_or_made(&self, tiers: &Tiers<P>, door: &WriteGuard<'_>) -> Attempt<Arc<P::Hot>> {
        if let Some(tree) = self.tree() {
            return Ok(tree);
        }
        let order = tiers.cold().try_order()?;
        let tree = P::Hot::create(tiers.store(), door, Class::Cold, order)?;
        if !self.is_aside {
            tiers.name_root(door, &tree)?;
        }
        let tree = Arc::new(tree);
        *self.tree.lock() = Some(tree.clone());
        Ok(tree)
    }

    /// Saves all that is dirty in a new tree, which takes the place of the one that there is: a page of that one cannot
    /// be read. No checkpoint is cut meanwhile, so none has half of it. Blocking.
    pub fn save_anew(&self, tiers: &Tiers<P>) -> Result<()> {
        {
            let _at_work = tiers.context().background.read();
            if let Some(loads) = self.loads(tiers).filter(|_| !tiers.is_retired()) {
                loads.load_all()?;
            }
        }
        if self.loads(tiers).is_some() {
            let what = "of what was saved of a hot tier more than one page cannot be read";
            return Err(Error::corrupt("data", None, what));
        }
        let aside = Saved::<P> {
            tree: Mutex::new(None),
            loading: None,
            is_aside: true,
        };
        let made = aside
            .fill(tiers)
            .and_then(|()| self.replace_by(&aside, tiers));
        match made {
            Ok(gone) => give_up(tiers, gone),
            Err(e) => {
                // Fails only where nothing is written any more, and no checkpoint is made.
                let _ = give_up(tiers, aside.tree());
                Err(e)
            }
        }
    }

    fn fill(&self, tiers: &Tiers<P>) -> Result<()> {
        let mut from = Vec::new();
        while let Some(next) = self.save_leaf(tiers, &from, Saving::All)? {
            from = next;
        }
        Ok(())
    }

    /// The other one's tree is this one's from now on; which one is not any more.
    fn replace_by(&self, other: &Saved<P>, tiers: &Tiers<P>) -> Result<Option<Arc<P::Hot>>> {
        let _at_work = tiers.context().background.read();
        if tiers.is_retired() {
            // What there is goes with the structure.
            return Ok(other.tree());
        }
        let mut tries = 0;
        loop {
            let door = tiers.store().enter_for(Space::Saving)?;
            let named = other.tree_or_made(tiers, &door).and_then(|tree| {
                tiers.try_name_root(&door, &tree)?;
                Ok(self.tree.lock().replace(tree))
            });
            drop(door);
            match named {
                Ok(gone) => return Ok(gone),
                Err(interrupt) => tiers.store().settle_many(interrupt, &mut tries)?,
            }
        }
    }

    /// Saves what the hot leaf at `from` has dirty; where to go on, `None` behind the last. Blocking.
    pub fn save_leaf(
        &self,
        tiers: &Tiers<P>,
        from: &[u8],
        saving: Saving,
    ) -> Result<Option<Vec<u8>>> {
        let _at_work = tiers.context().background.read();
        if !tiers.is_in_memory() || tiers.is_retired() {
            return Ok(None);
        }
        let loading = self.loading.as_deref();
        let end = match loading.map_or(Ok(None), |loading| loading.loaded_up_to(from)) {
            Ok(end) => end,
            // There it is as it was saved.
            Err(end) if !planted(Fault::UnloadedSaved) => return Ok(end),
            Err(_) => None,
        };
        tiers.context().with_windows(|dirty, saved| {
            match tiers.hot() {
                Some(hot) => {
                    let mut select = |flags: Flags| {
                        flags.is_dirty()
                            && !planted(Fault::SaverSkipsDirty)
                            && !(flags.is_deleted() && planted(Fault::SaverSkipsTombstones))
                    };
                    until_settled(tiers.store(), || {
                        hot.try_window_if(Edge::From(from), &mut select, dirty)
                    })?;
                }
                None => dirty.clear(),
            }
            dirty.restrict(from, end.as_deref());
            let high = dirty.high.clone();
            if saving == Saving::All {
                let bytes = bytes_of(dirty) + dirty.len() * SLOT_BYTES;
                let sum = &tiers.context().saved_bytes;
                sum.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            self.replace(tiers, (from, high.as_deref()), saving, dirty, saved)?;
            Ok(high)
        })
    }

    /// Saves one record as it is now, whatever was saved of it before. Blocking.
    pub fn save_one(&self, tiers: &Tiers<P>, key: &[u8]) -> Result<()> {
        let _at_work = tiers.context().background.read();
        if !tiers.is_in_memory() || tiers.is_retired() {
            return Ok(());
        }
        let mut value = Vec::new();
        let found = match tiers.hot() {
            Some(hot) => until_settled(tiers.store(), || hot.try_get(key, Touch::No, &mut value))?,
            None => None,
        };
        let found = found.filter(|found| found.flags.is_dirty());
        if found.is_none() && self.tree().is_none() {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            let door = tiers.store().enter_for(Space::Saving)?;
            let done = self.tree_or_made(tiers, &door).and_then(|saved| {
                let put = found.map(|found| (kept(found.flags), Value::Inline(&value)));
                edit(&*saved, &door, key, put)
            });
            drop(door);
            match done {
                Ok(()) => return Ok(()),
                Err(interrupt) => tiers.store().settle_many(interrupt, &mut tries)?,
            }
        }
    }

    /// Makes the saved tree say of `from..high` what `dirty` says.
    fn replace(
        &self,
        tiers: &Tiers<P>,
        (from, high): (&[u8], Option<&[u8]>),
        saving: Saving,
        dirty: &Window,
        saved: &mut Window,
    ) -> Result<()> {
        if dirty.is_empty() && self.tree().is_none() {
            return Ok(());
        }
        let mut cursor = from.to_vec();
        let mut next = 0;
        let mut changes: Vec<Change> = Vec::new();
        let mut erases = false;
        loop {
            match self.tree() {
                Some(tree) => {
                    until_settled(tiers.store(), || {
                        tree.try_window(Edge::From(&cursor), saved)
                    })?;
                    saved.restrict(&cursor, high);
                }
                None => {
                    saved.clear();
                    saved.high = high.map(<[u8]>::to_vec);
                }
            }
            let end = saved
                .high
                .as_deref()
                .map_or(dirty.len(), |high| dirty.lower_bound(high));
            compare(dirty, next..end, saved, &mut changes);
            if saving == Saving::WhatGoes {
                changes.retain(|change| matches!(change, Change::Erase(_)));
            }
            next = end;
            self.change(tiers, dirty, saved, &changes)?;
            erases |= changes
                .iter()
                .any(|change| matches!(change, Change::Erase(_)));
            changes.clear();
            match saved.high.take() {
                Some(at) if high.is_none_or(|high| at.as_slice() < high) => cursor = at,
                _ => break,
            }
        }
        match erases {
            true => self.close_up(tiers, from, high),
            false => Ok(()),
        }
    }

    /// What went has left room in this range: the rest goes together. Whatever is in the way stays as it is.
    fn close_up(&self, tiers: &Tiers<P>, from: &[u8], high: Option<&[u8]>) -> Result<()> {
        let Some(tree) = self.tree() else {
            return Ok(());
        };
        let mut next = Some(from.to_vec());
        while let Some(from) = next {
            let closed = Entry::Wait(Space::Saving)
                .attempt(tiers.store(), |door| tree.try_close_up(door, &from, high))?;
            next = closed.flatten();
        }
        Ok(())
    }

    fn change(
        &self,
        tiers: &Tiers<P>,
        dirty: &Window,
        saved: &Window,
        changes: &[Change],
    ) -> Result<()> {
        let mut left = changes;
        while !left.is_empty() {
            let most = match tiers.store().has_slack_for(2 * AT_ONCE as u64) {
                true => AT_ONCE,
                false => SCARCE_AT_ONCE,
            };
            let (some, rest) = left.split_at(most.min(left.len()));
            left = rest;
            let (mut done, mut tries) = (0, 0);
            while done < some.len() {
                let door = tiers.store().enter_for(Space::Saving)?;
                let changed = self.tree_or_made(tiers, &door).and_then(|tree| {
                    while let Some(change) = some.get(done) {
                        let (position, put) = match *change {
                            Change::Put(i) => {
                                let flags = kept(dirty.entry(i).flags);
                                (dirty.key(i), Some((flags, Value::Inline(dirty.value(i)))))
                            }
                            Change::Erase(_) if planted(Fault::StaleSavedStays) => {
                                done += 1;
                                continue;
                            }
                            Change::Erase(i) => (saved.key(i), None),
                        };
                        edit(&*tree, &door, P::Hot::key_at(position), put)?;
                        done += 1;
                    }
                    Ok(())
                });
                drop(door);
                if let Err(interrupt) = changed {
                    tiers.store().settle_many(interrupt, &mut tries)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the saved records from `from` on; see [`crate::Structure::saved_up`].
    pub fn saved_window(
        &self,
        tiers: &Tiers<P>,
        (from, clean): (&[u8], bool),
        window: &mut Window,
    ) -> Result<bool> {
        let Some(tree) = self.tree().filter(|_| tiers.is_in_memory()) else {
            return Ok(false);
        };
        let mut select = |flags: Flags| flags.is_dirty() != clean;
        // All of it is gone through.
        until(tiers.store(), PageStore::settle_in_order, || {
            tree.try_reach(Edge::From(from))
        })?;
        until_settled(tiers.store(), || {
            tree.try_window_if(Edge::From(from), &mut select, window)
        })?;
        window.restrict(from, None);
        Ok(true)
    }
}

/// One change of the saved tree, which has no large values, as hot tiers in memory have none.
fn edit<H: Tier>(
    tree: &H,
    door: &WriteGuard<'_>,
    key: &[u8],
    put: Option<(Flags, Value<'_>)>,
) -> Attempt<()> {
    let mut plan = |_: Option<(Flags, Value<'_>)>| {
        Ok(put.map_or(Plan::Erase, |(flags, value)| Plan::Put(value, flags)))
    };
    tree.try_edit(door, key, &mut plan, &mut Rising, &mut || Ok(()))?;
    Ok(())
}

/// Frees the pages of a tree that nothing names any more. Those that only an unreadable page names are lost.
fn give_up<P: Pair>(tiers: &Tiers<P>, tree: Option<Arc<P::Hot>>) -> Result<()> {
    let Some(tree) = tree else {
        return Ok(());
    };
    let mut pages = Vec::new();
    tree.each_page(&mut |pid| pages.push(pid));
    // Once freed a page may be another's.
    pages.sort_unstable();
    pages.dedup();
    let store = tiers.store();
    for pid in pages {
        while store.exists(pid) {
            let door = store.enter_to_free()?;
            let freed = store.free_unread(&door, pid);
            drop(door);
            match freed {
                Ok(()) => break,
                Err(Retry::Conflict) => store.back_off()?,
                Err(interrupt) => store.settle(interrupt)?,
            }
        }
    }
    Ok(())
}

/// A record that the saved tree lacks or has otherwise, by its number among those that are dirty; or one that it is to
/// give up, by its number among those saved.
#[derive(Clone, Copy)]
enum Change {
    Put(usize),
    Erase(usize),
}

/// What makes the saved records say what these dirty ones say.
fn compare(
    dirty: &Window,
    range: std::ops::Range<usize>,
    saved: &Window,
    changes: &mut Vec<Change>,
) {
    let (mut d, mut s) = (range.start, 0);
    while d < range.end || s < saved.len() {
        let order = match (d < range.end, s < saved.len()) {
            (true, true) => dirty.key(d).cmp(saved.key(s)),
            (true, false) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Less => {
                changes.push(Change::Put(d));
                d += 1;
            }
            std::cmp::Ordering::Greater => {
                changes.push(Change::Erase(s));
                s += 1;
            }
            std::cmp::Ordering::Equal => {
                let (new, old) = (dirty.entry(d), saved.entry(s));
                let same = kept(new.flags) == kept(old.flags) && dirty.value(d) == saved.value(s);
                if !same {
                    changes.push(Change::Put(d));
                }
                d += 1;
                s += 1;
            }
        }
    }
}
