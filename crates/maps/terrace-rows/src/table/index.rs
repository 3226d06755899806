//! An index beside the primary one: unique, or with a list of rows for each key.
//!
//! The rows of one key come in no particular order. Lists that grow long are kept apart, as sets, so that removing
//! one row of very many with the same key does not look at all of them.

use std::cell::Cell;
use std::collections::BTreeMap;

use terrace_mem::{HybridMultiMap, HybridSet, Options, OptionsError};

use super::key_map::{KeyMap, no_number};
use super::slab::RowId;
use crate::faults::{Fault, planted};
use crate::row::Extract;
use crate::span::{Span, number};

/// Rows of a list before it becomes a set.
const LONG: usize = 1024;

/// An index.
pub struct Index {
    /// Its name.
    pub name: String,
    /// Whether a key has one row at most.
    pub unique: bool,
    /// Whether keys are numbers of 8 bytes.
    pub number: bool,
    /// Where keys come from.
    pub extract: Extract,
    entries: Entries,
}

enum Entries {
    Unique(KeyMap),
    Lists(Lists),
}

struct Lists {
    short: Short,
    /// Few, and each has more than a thousand rows.
    long: BTreeMap<Vec<u8>, HybridSet<u32>>,
    /// Changes since its bytes were counted, and these bytes.
    changes: Cell<usize>,
    counted: Cell<usize>,
}

/// Of the keys of lists one in this many changes before bytes are counted again.
const COUNTED: usize = 64;

enum Short {
    Numbers(HybridMultiMap<u64, u32>),
    Bytes(HybridMultiMap<Vec<u8>, u32>),
}

impl Short {
    fn get(&self, key: &[u8]) -> &[u32] {
        match self {
            Short::Numbers(map) => map.get(&number(key).0),
            Short::Bytes(map) => map.get(key),
        }
    }

    fn remove_all(&mut self, key: &[u8]) -> Vec<u32> {
        match self {
            Short::Numbers(map) => map.remove_all(&number(key).0),
            Short::Bytes(map) => map.remove_all(key),
        }
    }
}

impl Index {
    /// An empty one.
    pub fn new(
        name: String,
        unique: bool,
        number: bool,
        extract: Extract,
        options: &Options,
    ) -> Result<Index, OptionsError> {
        let entries = match (unique, number) {
            (true, _) => Entries::Unique(KeyMap::new(number, options)?),
            (false, true) => {
                let short = Short::Numbers(HybridMultiMap::with_options(options.clone())?);
                Entries::Lists(Lists::new(short))
            }
            (false, false) => {
                let short = Short::Bytes(HybridMultiMap::with_options(options.clone())?);
                Entries::Lists(Lists::new(short))
            }
        };
        Ok(Index {
            name,
            unique,
            number,
            extract,
            entries,
        })
    }

    /// The row of a key of a unique index.
    pub fn unique_row(&self, key: &[u8]) -> Option<RowId> {
        match &self.entries {
            Entries::Unique(map) => map.get(key),
            Entries::Lists(_) => None,
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, key: &[u8], id: RowId) {
        match &mut self.entries {
            Entries::Unique(map) => map.set(key, id),
            Entries::Lists(lists) => lists.insert(key, id.0),
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &[u8], id: RowId) {
        match &mut self.entries {
            Entries::Unique(map) => map.remove(key),
            Entries::Lists(lists) => lists.remove(key, id.0),
        }
    }

    /// Goes over the entries of a range, as long as `see` says so.
    pub fn each(&self, span: Span<'_>, mut see: impl FnMut(&[u8], RowId) -> bool) {
        // One key is looked up, which is faster than a range of it.
        if let Some(key) = span.one() {
            if self.number && key.len() != 8 {
                return;
            }
            match &self.entries {
                Entries::Unique(map) => {
                    if let Some(id) = map.get(key) {
                        see(key, id);
                    }
                }
                Entries::Lists(lists) => lists.each_of(key, |id| see(key, RowId(id))),
            }
            return;
        }
        match &self.entries {
            Entries::Unique(map) => map.each(span, see),
            Entries::Lists(lists) => lists.each(span, see),
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::Unique(map) => map.len(),
            Entries::Lists(lists) => {
                let long: usize = lists.long.values().map(HybridSet::len).sum();
                long + match &lists.short {
                    Short::Numbers(map) => map.len(),
                    Short::Bytes(map) => map.len(),
                }
            }
        }
    }

    /// Its bytes. O(keys of the dynamic stage) for lists.
    pub fn memory(&self) -> usize {
        match &self.entries {
            Entries::Unique(map) => map.memory().total(),
            Entries::Lists(lists) => lists.memory(),
        }
    }

    /// Its bytes, of lists as they were a few changes ago. O(1) for each of these, and O(segments / 64).
    pub fn memory_of_late(&self) -> usize {
        match &self.entries {
            Entries::Unique(map) => map.memory().total(),
            Entries::Lists(lists) => {
                if lists.changes.get() * COUNTED >= self.len() {
                    lists.changes.set(0);
                    lists.counted.set(lists.memory());
                }
                lists.counted.get()
            }
        }
    }

    /// Moves all entries to the static stage.
    pub fn merge_all(&mut self) {
        match &mut self.entries {
            Entries::Unique(map) => map.merge_all(),
            Entries::Lists(lists) => match &mut lists.short {
                Short::Numbers(map) => map.merge_all(),
                Short::Bytes(map) => map.merge_all(),
            },
        }
    }
}

impl Lists {
    fn new(short: Short) -> Lists {
        Lists {
            short,
            long: BTreeMap::new(),
            changes: Cell::new(0),
            counted: Cell::new(0),
        }
    }

    fn memory(&self) -> usize {
        let short = match &self.short {
            Short::Numbers(map) => map.memory_usage(),
            Short::Bytes(map) => map.memory_usage(),
        };
        let long = self
            .long
            .iter()
            .map(|(key, set)| key.capacity() + set.memory_usage().total());
        short.total() + long.sum::<usize>()
    }

    fn insert(&mut self, key: &[u8], id: u32) {
        self.changes.set(self.changes.get() + 1);
        if !self.long.is_empty()
            && let Some(set) = self.long.get_mut(key)
        {
            set.insert(id);
            return;
        }
        if self.short.get(key).len() >= LONG {
            let mut set: HybridSet<u32> = self.short.remove_all(key).into_iter().collect();
            set.insert(id);
            self.long.insert(key.to_vec(), set);
            return;
        }
        match &mut self.short {
            Short::Numbers(map) => map.insert(number(key).0, id),
            Short::Bytes(map) => map.insert(key.to_vec(), id),
        }
    }

    fn remove(&mut self, key: &[u8], id: u32) {
        self.changes.set(self.changes.get() + 1);
        if !self.long.is_empty()
            && let Some(set) = self.long.get_mut(key)
        {
            set.remove(&id);
            if set.is_empty() {
                self.long.remove(key);
            }
            return;
        }
        match &mut self.short {
            Short::Numbers(map) => map.remove(&number(key).0, &id),
            Short::Bytes(map) => map.remove(key, &id),
        };
    }

    /// The rows of a key, as long as `see` says so.
    fn each_of(&self, key: &[u8], mut see: impl FnMut(u32) -> bool) {
        let long = match self.long.is_empty() || planted(Fault::LongListForgotten) {
            true => None,
            false => self.long.get(key),
        };
        match long {
            Some(set) => set.iter().all(&mut see),
            None => self.short.get(key).iter().all(|&id| see(id)),
        };
    }

    fn each(&self, span: Span<'_>, mut see: impl FnMut(&[u8], RowId) -> bool) {
        if span.is_empty() {
            return;
        }
        let mut long = self.long.range::<[u8], _>(span.bytes());
        let mut next_long = || {
            if span.back {
                long.next_back()
            } else {
                long.next()
            }
        };
        let mut waiting = match planted(Fault::LongListForgotten) {
            true => None,
            false => next_long(),
        };
        // Shows a list, and before it the long ones that come first; `None` for all that are left.
        let mut show = |key: Option<(&[u8], &[u32])>| -> bool {
            while let Some((long_key, set)) = waiting {
                let first = key.is_none_or(|(key, _)| {
                    if span.back {
                        long_key.as_slice() > key
                    } else {
                        long_key.as_slice() < key
                    }
                });
                if !first {
                    break;
                }
                if !set.iter().all(|id| see(long_key, RowId(id))) {
                    return false;
                }
                waiting = next_long();
            }
            key.is_none_or(|(key, ids)| ids.iter().all(|&id| see(key, RowId(id))))
        };
        match &self.short {
            Short::Numbers(map) => {
                let (low, high) = span.numbers();
                if no_number(low, high) {
                    return;
                }
                let mut lists = map.range::<u64, _>((low, high));
                while let Some((key, ids)) = if span.back {
                    lists.next_back()
                } else {
                    lists.next()
                } {
                    if !show(Some((&key.to_be_bytes(), ids))) {
                        return;
                    }
                }
            }
            Short::Bytes(map) => {
                let mut lists = map.range::<[u8], _>(span.bytes());
                while let Some((key, ids)) = if span.back {
                    lists.next_back()
                } else {
                    lists.next()
                } {
                    if !show(Some((&key, ids))) {
                        return;
                    }
                }
            }
        }
        show(None);
    }
}
