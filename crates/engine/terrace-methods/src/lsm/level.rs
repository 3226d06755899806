//! One level: the index of its pages, and what is in them about.

use std::sync::Arc;

use terrace_access::{Attempt, Edge, Found, LevelFigures, Retry, Window};
use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_base::{PageId, Result};
use terrace_pages::{Class, PageStore, Shared};

use super::entry::{self, Entry};
use super::filter;
use super::packed::Buffers;
use super::page::{self, Opened, wrong};
use crate::BTree;
use crate::btree::layout::{Node, Seen, Stored};
use crate::btree::{Predecessor, record_in};
use crate::fault::{self, Point};

const NO_ENTRY: &str = "its index says what no entry of a page says, or has none for a key";
const NOT_ITS_PAGE: &str =
    "the index names it as a page of this level, or for a key, which it is not:";
const DENIED: &str = "its filter denies a key that it has";

/// One level of the tree.
pub(crate) struct Level {
    /// The pages, by the first key of each; a leaf of it leads to many pages, as an inner node does.
    pub index: BTree,
    /// Counted from the last one.
    pub number: u8,
    pages: AtomicU64,
    bytes: AtomicU64,
    records: AtomicU64,
    tombstones: AtomicU64,
    /// Whether these are about right only.
    is_estimate: AtomicBool,
    absent: Absent,
    buffers: Arc<Buffers>,
}

/// How often pages of the last level are asked for keys that they do not have: of one lookup in some.
#[derive(Default)]
struct Absent {
    asked: AtomicU64,
    absent: AtomicU64,
    wants_filters: AtomicBool,
}

impl Absent {
    /// One lookup in this many is counted.
    const COUNTED: u64 = 16;
    /// From this many on the share says something.
    const FEWEST: u64 = 64;
    /// At this many both counts are halved, so that what was long ago fades.
    const MOST: u64 = 4096;
    /// Shares in hundredths at which filters begin to be worth their memory, and end to be.
    const BEGIN: u64 = 5;
    const END: u64 = 1;

    fn note(&self, found: bool) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let absent = match found {
            true => self.absent.load(Ordering::Relaxed),
            false => self.absent.fetch_add(1, Ordering::Relaxed) + 1,
        };
        if asked >= Self::FEWEST {
            let share = absent * 100 / asked;
            if share > Self::BEGIN {
                self.wants_filters.store(true, Ordering::Relaxed);
            } else if share < Self::END {
                self.wants_filters.store(false, Ordering::Relaxed);
            }
        }
        if asked >= Self::MOST {
            self.asked.store(asked / 2, Ordering::Relaxed);
            self.absent.store(absent / 2, Ordering::Relaxed);
        }
    }
}

/// The part of a level that one entry speaks of.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub low: Vec<u8>,
    pub high: Option<Vec<u8>>,
    pub entry: Option<Entry>,
}

impl Level {
    /// The level with this index; looks into compressed pages have one of the buffers.
    pub fn open(
        (store, buffers): (&Arc<PageStore>, &Arc<Buffers>),
        root: PageId,
        number: u8,
        figures: LevelFigures,
    ) -> Level {
        Level {
            index: BTree::open(store.clone(), root, Class::Cold).leading(),
            number,
            pages: AtomicU64::new(figures.pages),
            bytes: AtomicU64::new(figures.bytes),
            records: AtomicU64::new(figures.records),
            tombstones: AtomicU64::new(figures.tombstones),
            is_estimate: AtomicBool::new(false),
            absent: Absent::default(),
            buffers: buffers.clone(),
        }
    }

    /// What is in it about.
    pub fn figures(&self) -> LevelFigures {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        LevelFigures {
            pages: of(&self.pages),
            bytes: of(&self.bytes),
            records: of(&self.records),
            tombstones: of(&self.tombstones),
        }
    }

    /// Whether what is known of it is about right only: a range was taken out of it that was not counted.
    pub fn is_estimate(&self) -> bool {
        self.is_estimate.load(Ordering::Relaxed)
    }

    /// Sets that; only who is at work does.
    pub fn set_estimate(&self, is_estimate: bool) {
        self.is_estimate.store(is_estimate, Ordering::Relaxed);
    }

    /// What a value of its index says.
    pub fn decode(&self, value: &[u8]) -> Result<Option<Entry>> {
        let entry = entry::decode(value, self.number);
        let entry = entry.ok_or_else(|| wrong(self.index.root(), NO_ENTRY))?;
        Ok(entry.map(|(entry, _)| entry))
    }

    /// Whether pages of it, the last one, are to have filters: lookups of keys that are not there are many.
    pub fn wants_filters(&self) -> bool {
        self.absent.wants_filters.load(Ordering::Relaxed)
    }

    /// Sets that; only the step at work does.
    pub fn set_figures(&self, figures: LevelFigures) {
        self.pages.store(figures.pages, Ordering::Relaxed);
        self.bytes.store(figures.bytes, Ordering::Relaxed);
        self.records.store(figures.records, Ordering::Relaxed);
        self.tombstones.store(figures.tombstones, Ordering::Relaxed);
    }

    /// The entry at this edge; its filter is behind the first bytes of `floor.value`.
    #[inline]
    pub fn entry_at(&self, edge: Edge<'_>, floor: &mut Predecessor) -> Attempt<Option<Entry>> {
        let there = self.index.floor(edge, floor)?;
        match entry::decode(&floor.value, self.number) {
            Some(entry) if there => Ok(entry.map(|(entry, _)| entry)),
            _ => Err(wrong(self.index.root(), NO_ENTRY).into()),
        }
    }

    /// Looks a key up; `None` where this level has nothing to say about it.
    #[inline]
    pub fn find(
        &self,
        store: &PageStore,
        (key, hash): (&[u8], u64),
        value: &mut Vec<u8>,
        floor: &mut Predecessor,
    ) -> Attempt<Option<Found>> {
        let Some(entry) = self.entry_at(Edge::From(key), floor)? else {
            return Ok(None);
        };
        let filter = floor.value.get(entry::ENTRY_BYTES..).unwrap_or_default();
        let is_denied = !filter::may_have(filter, hash);
        if is_denied && !Self::asks_anyway(store, &entry, hash) {
            self.note(hash, false);
            return Ok(None);
        }
        fault::reached(Point::Following);
        let page = match store.optimistic(entry.name.page) {
            Err(Retry::Miss(_)) if is_denied => return Ok(None),
            Err(Retry::Conflict) if !store.exists(entry.name.page) => {
                return Err(self.gone(&entry, key));
            }
            other => other?,
        };
        let seen = match page::open(page.view(), &entry.name) {
            Ok(Some(Opened::Leaf(node))) => find_in(&node, key, value),
            Ok(Some(Opened::Packed(packed))) => self.buffers.with(store, |buffer| {
                let leaf = packed.leaf_at(Edge::From(key))?;
                let node = packed.leaf(&entry.name, leaf, buffer)?;
                let found = find_in(&node, key, value)?;
                if page.validate().is_ok() {
                    buffer.keep(&entry.name, leaf);
                }
                Ok(found)
            }),
            Ok(None) => Ok(None),
            Err(torn) => Err(torn),
        };
        match seen {
            Ok(Some(found)) => {
                page.validate()?;
                if is_denied && found.is_some() {
                    return Err(wrong(entry.name.page, DENIED).into());
                }
                self.note(hash, found.is_some());
                Ok(found)
            }
            Ok(None) => {
                page.validate()?;
                Err(self.gone(&entry, key))
            }
            Err(_) => Err(page.torn(page::BAD)),
        }
    }

    /// Whether a page is asked although its filter denies the key. What a filter says of a key that its page does
    /// not cover says nothing, and to look costs the read that filters are for. So some lookups do where the page is
    /// in memory, and find an index that leads to the wrong page; in tests of this crate all do.
    #[inline]
    fn asks_anyway(store: &PageStore, entry: &Entry, hash: u64) -> bool {
        (cfg!(test) || hash.is_multiple_of(Absent::COUNTED)) && store.is_resident(entry.name.page)
    }

    /// A page of the last level, or its filter, has answered.
    #[inline]
    fn note(&self, hash: u64, found: bool) {
        if self.number == 0 && hash.is_multiple_of(Absent::COUNTED) {
            self.absent.note(found);
        }
    }

    /// The page is not the one that the entry meant: it was merged away, and then the entry says so, too,
    /// because pages are freed when no entry names them any more.
    #[cold]
    pub fn gone(&self, entry: &Entry, key: &[u8]) -> Retry {
        let mut floor = Predecessor::default();
        match self.entry_at(Edge::From(key), &mut floor) {
            Ok(Some(now)) if now.name == entry.name => {
                let what = format_args!("{NOT_ITS_PAGE} {}", entry.name.level);
                wrong(entry.name.page, what).into()
            }
            Ok(_) => Retry::Conflict,
            Err(other) => other,
        }
    }

    /// The page of an entry under its shared latch, which is let go of after `f`; the entry covers `key`.
    pub fn with_page<T>(
        &self,
        store: &PageStore,
        (entry, key): (&Entry, &[u8]),
        f: impl FnOnce(&Shared<'_>) -> Attempt<T>,
    ) -> Attempt<T> {
        let page = match store.shared(entry.name.page) {
            Err(Retry::Conflict) if !store.exists(entry.name.page) => {
                return Err(self.gone(entry, key));
            }
            other => other?,
        };
        let is_it = page::open(page.view(), &entry.name).map_err(|_| page.torn(page::BAD))?;
        if is_it.is_none() {
            drop(page);
            return Err(self.gone(entry, key));
        }
        f(&page)
    }

    /// The page before a slot, and the gap between them if there is one; nothing if there are more gaps. As
    /// [`Level::slots`].
    pub fn before(&self, store: &PageStore, slot: &Slot) -> Result<Vec<Slot>> {
        let mut found = Vec::new();
        let mut high = slot.low.clone();
        while !high.is_empty() && found.len() < 2 {
            let mut floor = Predecessor::default();
            let entry = settled(store, || self.entry_at(Edge::Below(&high), &mut floor))?;
            let low = floor.key;
            let high_of_it = std::mem::replace(&mut high, low.clone());
            found.insert(
                0,
                Slot {
                    low,
                    high: Some(high_of_it),
                    entry,
                },
            );
            if entry.is_some() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// The page behind a slot, and the gap between them if there is one; nothing if there is none.
    pub fn behind(&self, store: &PageStore, slot: &Slot) -> Result<Vec<Slot>> {
        let Some(high) = &slot.high else {
            return Ok(Vec::new());
        };
        let found = self.slots(store, (high, None), 1)?;
        let is_page = found.last().is_some_and(|last| last.entry.is_some());
        Ok(if is_page { found } else { Vec::new() })
    }

    /// What the level has between two keys, slot by slot, at most `most` with a page; a compressed one counts
    /// as many as its records would take. Only the step at work may call this: no other thread changes the index.
    /// Blocking.
    pub fn slots(
        &self,
        store: &PageStore,
        (low, high): (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Result<Vec<Slot>> {
        let mut floor = Predecessor::default();
        let entry = settled(store, || self.entry_at(Edge::From(low), &mut floor))?;
        let mut slots = vec![Slot {
            low: floor.key.clone(),
            high: None,
            entry,
        }];
        let page_bytes = store.page_bytes();
        let pages_of = |entry: &Option<Entry>| entry.map_or(0, |entry| entry.pages(page_bytes));
        let mut pages = pages_of(&entry);
        let mut at = [floor.key.as_slice(), &[0]].concat();
        let mut window = Window::new();
        window.set_limit(most.saturating_add(2));
        // What is behind it is the filter, which is not looked at.
        window.set_most_of_values(entry::ENTRY_BYTES);
        loop {
            settled(store, || {
                terrace_access::Ordered::try_window(&self.index, Edge::From(&at), &mut window)
            })?;
            for i in window.lower_bound(&at)..window.len() {
                let key = window.key(i);
                let last = slots.len() - 1;
                slots[last].high = Some(key.to_vec());
                if high.is_some_and(|high| key >= high) || pages >= most {
                    return Ok(slots);
                }
                let entry = self.decode(window.value(i))?;
                pages += pages_of(&entry);
                slots.push(Slot {
                    low: key.to_vec(),
                    high: None,
                    entry,
                });
            }
            match window.high.take() {
                Some(next) => at = next,
                None => return Ok(slots),
            }
        }
    }
}

/// Looks a key up in a leaf; `None` where the leaf does not cover it.
#[inline]
fn find_in(node: &Node<'_>, key: &[u8], value: &mut Vec<u8>) -> Seen<Option<Option<Found>>> {
    if !node.covers(key)? {
        return Ok(None);
    }
    let found = record_in(node, key)?;
    if let Some((_, _, Stored::Inline { at, len })) = found {
        value.clear();
        node.view.append_to(at, len, value)?;
    }
    Ok(Some(found.map(|(found, ..)| found)))
}

/// Does something until it works, waiting where it has to.
pub(crate) fn settled<T>(store: &PageStore, mut f: impl FnMut() -> Attempt<T>) -> Result<T> {
    loop {
        match f() {
            Ok(done) => return Ok(done),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_the_last_level_come_with_lookups_of_absent_keys_and_go_with_them() {
        let absent = Absent::default();
        let wants = |absent: &Absent| absent.wants_filters.load(Ordering::Relaxed);
        (0..10_000).for_each(|_| absent.note(true));
        assert!(!wants(&absent));
        (0..10_000).for_each(|n| absent.note(n % 10 > 0));
        assert!(wants(&absent));
        (0..10_000).for_each(|n| absent.note(n % 40 > 0));
        assert!(wants(&absent), "between the two shares it stays as it is");
        (0..40_000).for_each(|_| absent.note(true));
        assert!(!wants(&absent));
    }
}
