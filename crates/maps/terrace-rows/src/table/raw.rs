//! A table of one partition: rows by key, with all indexes, each change whole.
//!
//! A change asks the functions of the indexes first, then looks for duplicates, then notes how to take it back, and
//! changes rows and indexes last: nothing can fail there, and no code of the program runs.
//!
//! Where a part of the table is on the disk ([`Cold`]): what is in memory overrules it, also that a row is gone
//! ([`RowId::GONE`]). A row has bits that say whether the disk has the same image, and whether it may have any.

use super::index::Index;
use super::key_map::KeyMap;
use super::slab::{DIRTY, MAX_ROW, RowId, STORED, Slab, USE};
use super::undo::{Before, Undo};
use crate::error::Error;
use crate::faults::{Fault, planted};
use crate::span::Span;
use crate::spill::cold::Cold;
use crate::spill::fetched::Fetched;
use crate::stats::TableStats;

/// Keys of indexes, one after the other.
#[derive(Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub(super) fn of(&self, index: usize) -> &[u8] {
        let from = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[from..self.ends[index]]
    }
}

/// Where the row of a key is.
pub enum Place {
    /// In memory.
    Row(RowId),
    /// Nowhere.
    Absent,
    /// Perhaps on the disk.
    Ask,
}

/// What a key is to have.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Absent,
    Gone,
    Row(&'a [u8], u8),
}

/// The table.
pub struct RawTable {
    /// Its name.
    pub name: String,
    /// Whether primary keys are numbers of 8 bytes.
    pub number: bool,
    /// What of it is on the disk.
    pub cold: Option<Cold>,
    pub(super) rows: Slab,
    pub(super) primary: KeyMap,
    pub(super) indexes: Vec<Index>,
    /// Keys of the row as it is and as it is to be: kept for their room.
    pub(super) old: Keys,
    pub(super) new: Keys,
    /// How far the chunks that are to be emptied have been, while there are some.
    pub(super) emptied_to: Option<Vec<u8>>,
}

impl RawTable {
    /// An empty one.
    pub fn new(
        name: String,
        number: bool,
        primary: KeyMap,
        indexes: Vec<Index>,
        cold: Option<Cold>,
    ) -> RawTable {
        RawTable {
            name,
            number,
            cold,
            rows: Slab::default(),
            primary,
            indexes,
            old: Keys::default(),
            new: Keys::default(),
            emptied_to: None,
        }
    }

    /// Where the row of a key is.
    #[inline]
    pub fn place(&self, key: &[u8]) -> Place {
        if self.number && key.len() != 8 {
            return Place::Absent;
        }
        match self.primary.get(key) {
            Some(RowId::GONE) => Place::Absent,
            Some(id) => Place::Row(id),
            None => match &self.cold {
                Some(cold) if cold.may_have(key) => Place::Ask,
                _ => Place::Absent,
            },
        }
    }

    /// The row there, which counts as used.
    #[inline]
    pub fn row(&mut self, id: RowId) -> &[u8] {
        if self.cold.is_some() {
            self.rows.touch(id);
        }
        self.rows.get(id)
    }

    /// Goes over rows by their keys, as long as `see` says so.
    ///
    /// # Errors
    /// [`Error::Cold`] when some of them have to be read first.
    pub fn range(
        &mut self,
        of: (usize, u32),
        span: Span<'_>,
        fetched: &mut Fetched,
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let asks = self
            .cold
            .as_ref()
            .is_some_and(|cold| cold.may_have_range(&span, self.number));
        self.each(of, None, span, fetched, asks, see)
    }

    /// Goes over rows by the keys of an index, as long as `see` says so.
    ///
    /// # Errors
    /// As [`RawTable::range`].
    pub fn by_index(
        &mut self,
        of: (usize, u32),
        index: usize,
        span: Span<'_>,
        fetched: &mut Fetched,
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let one = self.indexes[index].unique && span.one().is_some();
        let asks = self.cold.as_ref().is_some_and(|cold| match one {
            true => cold.may_have_entry(index, span.low),
            false => cold.moves > 0,
        });
        self.each(of, Some(index), span, fetched, asks, see)
    }

    fn each(
        &mut self,
        (partition, table): (usize, u32),
        index: Option<usize>,
        span: Span<'_>,
        fetched: &mut Fetched,
        asks: bool,
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let RawTable {
            rows,
            primary,
            indexes,
            cold,
            ..
        } = self;
        let moves = cold.as_ref().map_or(0, |cold| cold.moves);
        let spilled = cold.is_some();
        let (below, complete) = match asks {
            false => (None, true),
            true => match fetched.range(partition, table, index, &span, moves) {
                Some(range) => (Some(&range.found), range.complete),
                None => {
                    fetched.want_range(partition, table, index, &span);
                    return Err(Error::Cold);
                }
            },
        };
        let empty = Vec::new();
        // What is in memory overrules what is below.
        let mut below = below
            .unwrap_or(&empty)
            .iter()
            .filter(|(_, key, _)| primary.get(key).is_none())
            .peekable();
        let (mut goes_on, mut short) = (true, false);
        let mut hot = |key: &[u8], id: RowId| {
            if id == RowId::GONE {
                return true;
            }
            while let Some((cold_key, primary_key, row)) = below.next_if(|(cold, _, _)| {
                if span.back {
                    &cold[..] > key
                } else {
                    &cold[..] < key
                }
            }) {
                goes_on = see(
                    if index.is_some() {
                        cold_key
                    } else {
                        primary_key
                    },
                    row,
                );
                if !goes_on {
                    return false;
                }
            }
            if !complete && below.peek().is_none() {
                // It is not known what comes before this one.
                short = true;
                return false;
            }
            if spilled {
                rows.touch(id);
            }
            goes_on = see(key, rows.get(id));
            goes_on
        };
        match index {
            None => primary.each(span, &mut hot),
            Some(index) => indexes[index].each(span, &mut hot),
        }
        if goes_on && !short {
            for (key, _, row) in below {
                goes_on = see(key, row);
                if !goes_on {
                    return Ok(());
                }
            }
            short = !complete;
        }
        if short {
            fetched.want_range(partition, table, index, &span);
            return Err(Error::Cold);
        }
        Ok(())
    }

    /// The number of an index.
    pub fn index_number(&self, name: &str) -> Result<usize, Error> {
        let found = self.indexes.iter().position(|index| index.name == name);
        found.ok_or_else(|| Error::NoSuchIndex {
            table: self.name.clone(),
            index: name.into(),
        })
    }

    fn check(&self, key: &[u8], row: &[u8]) -> Result<(), Error> {
        if self.number && key.len() != 8 {
            return Err(Error::Options(format!(
                "keys of \"{}\" are numbers of 8 bytes",
                self.name
            )));
        }
        let limit = if self.cold.is_some() {
            MAX_COLD_KEY
        } else {
            terrace_mem::MAX_KEY_LEN
        };
        if key.len() > limit {
            return Err(Error::KeyTooLong {
                len: key.len(),
                limit,
            });
        }
        if row.len() > MAX_ROW {
            return Err(Error::RowTooLong {
                len: row.len(),
                limit: MAX_ROW,
            });
        }
        Ok(())
    }

    fn extract(&self, row: &[u8], keys: &mut Keys) -> Result<(), Error> {
        keys.bytes.clear();
        keys.ends.clear();
        let limit = if self.cold.is_some() {
            MAX_COLD_KEY
        } else {
            terrace_mem::MAX_KEY_LEN
        };
        for index in &self.indexes {
            let from = keys.bytes.len();
            if !(index.extract)(row, &mut keys.bytes) {
                return Err(Error::Undecodable {
                    table: self.name.clone(),
                });
            }
            let len = keys.bytes.len().saturating_sub(from);
            if index.number && len != 8 {
                return Err(Error::Options(format!(
                    "keys of index \"{}\" are numbers of 8 bytes",
                    index.name
                )));
            }
            if len > limit {
                return Err(Error::KeyTooLong { len, limit });
            }
            keys.ends.push(keys.bytes.len());
        }
        Ok(())
    }

    /// Extracts the keys of both, and hands the buffers out.
    pub(super) fn both(
        &mut self,
        old: Option<RowId>,
        new: Option<&[u8]>,
    ) -> Result<(Keys, Keys), Error> {
        let (mut olds, mut news) = (std::mem::take(&mut self.old), std::mem::take(&mut self.new));
        if !self.indexes.is_empty() {
            if let Some(id) = old {
                self.extract(self.rows.get(id), &mut olds)?;
            }
            if let Some(row) = new {
                self.extract(row, &mut news)?;
            }
        }
        Ok((olds, news))
    }

    /// Lets a key have this row, or none.
    ///
    /// # Errors
    /// What is too long, a duplicate; [`Error::Cold`] when a unique key has to be looked for on the disk. Nothing is
    /// changed then.
    pub fn write(
        &mut self,
        of: (usize, u32),
        key: &[u8],
        row: Option<&[u8]>,
        undo: &mut Undo,
        fetched: &mut Fetched,
    ) -> Result<(), Error> {
        self.check(key, row.unwrap_or_default())?;
        let entry = self.primary.get(key);
        let old = entry.filter(|id| *id != RowId::GONE);
        let state = old.map_or(0, |id| self.rows.state(id));
        let stored = state & STORED != 0
            || entry == Some(RowId::GONE)
            || entry.is_none() && self.cold.as_ref().is_some_and(|cold| cold.may_have(key));
        let target = match row {
            Some(row) => Target::Row(
                row,
                (state & USE).max(1) | DIRTY | if stored { STORED } else { 0 },
            ),
            None if old.is_none() && (entry.is_some() || !stored) => return Ok(()),
            None if stored && !planted(Fault::DeletedAndForgotten) => Target::Gone,
            None => Target::Absent,
        };
        let (olds, news) = self.both(old, row)?;
        if row.is_some() && !planted(Fault::DuplicateSeenLate) {
            self.check_unique(of, key, old, (&olds, &news), fetched)?;
        }
        let before = match (entry, old) {
            (None, _) => Before::Absent,
            (_, None) => Before::Gone,
            (_, Some(id)) => Before::Row(self.rows.get(id), state),
        };
        undo.push(of.1, key, before);
        let done = self.apply(key, entry, target, (&olds, &news));
        if row.is_some() && planted(Fault::DuplicateSeenLate) {
            self.check_unique(of, key, None, (&olds, &news), fetched)?;
        }
        (self.old, self.new) = (olds, news);
        if done.is_err() {
            undo.drop_last();
        }
        done
    }

    fn check_unique(
        &self,
        (partition, table): (usize, u32),
        key: &[u8],
        old: Option<RowId>,
        (olds, news): (&Keys, &Keys),
        fetched: &mut Fetched,
    ) -> Result<(), Error> {
        for (i, index) in self
            .indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| index.unique)
        {
            let new = news.of(i);
            if old.is_some() && olds.of(i) == new {
                continue;
            }
            let mut taken = index.unique_row(new).is_some();
            if let Some(cold) = &self.cold
                && !taken
                && cold.may_have_entry(i, new)
            {
                let high = [new, &[0]].concat();
                let span = Span {
                    low: new,
                    high: Some(&high),
                    back: false,
                };
                let Some(range) = fetched.range(partition, table, Some(i), &span, cold.moves)
                else {
                    fetched.want_range(partition, table, Some(i), &span);
                    return Err(Error::Cold);
                };
                // One that is in memory, with another key now, is overruled.
                taken = range
                    .found
                    .iter()
                    .any(|(_, owner, _)| owner != key && self.primary.get(owner).is_none());
                if !taken && !range.complete {
                    fetched.want_range(partition, table, Some(i), &span);
                    return Err(Error::Cold);
                }
            }
            if taken {
                return Err(Error::Duplicate {
                    table: self.name.clone(),
                    index: index.name.clone(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn apply(
        &mut self,
        key: &[u8],
        entry: Option<RowId>,
        target: Target<'_>,
        (olds, news): (&Keys, &Keys),
    ) -> Result<(), Error> {
        let old = entry.filter(|id| *id != RowId::GONE);
        let new = match (old, target) {
            (_, Target::Absent | Target::Gone) => None,
            (Some(id), Target::Row(row, state)) if self.rows.replace(id, row, state) => Some(id),
            (_, Target::Row(row, state)) => {
                let id = self.rows.insert(row, state);
                Some(id.ok_or_else(|| Error::Full {
                    table: self.name.clone(),
                })?)
            }
        };
        let new_entry = match target {
            Target::Gone => Some(RowId::GONE),
            _ => new,
        };
        if new_entry != entry {
            match new_entry {
                Some(id) => self.primary.set(key, id),
                None => self.primary.remove(key),
            }
        }
        for (i, index) in self.indexes.iter_mut().enumerate() {
            if old.is_some() && old == new && olds.of(i) == news.of(i) {
                continue;
            }
            if let Some(old) = old
                && !(new.is_some() && planted(Fault::IndexKeepsOldPlace))
            {
                index.remove(olds.of(i), old);
            }
            if let Some(new) = new {
                index.insert(news.of(i), new);
            }
        }
        if let Some(old) = old
            && new != Some(old)
        {
            self.rows.remove(old);
        }
        Ok(())
    }

    /// Lets a key have what it had before. It cannot fail: what was there fits.
    pub fn take_back(&mut self, key: &[u8], before: Before<'_>) -> Result<(), Error> {
        let (target, row) = match before {
            Before::Absent => (Target::Absent, None),
            Before::Gone => (Target::Gone, None),
            Before::Row(row, state) => (Target::Row(row, state), Some(row)),
        };
        let entry = self.primary.get(key);
        let (olds, news) = self.both(entry.filter(|id| *id != RowId::GONE), row)?;
        let indexes = match planted(Fault::UndoForgetsIndexes) {
            true => std::mem::take(&mut self.indexes),
            false => Vec::new(),
        };
        let done = self.apply(key, entry, target, (&olds, &news));
        if !indexes.is_empty() {
            self.indexes = indexes;
        }
        (self.old, self.new) = (olds, news);
        done
    }

    /// Keeps other bytes for a row, under all keys of the row that `image` is.
    pub fn swap(&mut self, key: &[u8], bytes: &[u8], image: &[u8]) -> Result<(), Error> {
        let entry = self.primary.get(key);
        let Some(id) = entry.filter(|id| *id != RowId::GONE) else {
            return Err(Error::Missing);
        };
        let (_, news) = self.both(None, Some(image))?;
        let state = self.rows.state(id);
        self.apply(key, entry, Target::Row(bytes, state), (&news, &news))
    }

    /// Bytes that are in use, of lists of late. O(segments / 64).
    pub fn used(&self) -> usize {
        let indexes: usize = self.indexes.iter().map(Index::memory_of_late).sum();
        let rows = match planted(Fault::FreeSlotsUncounted) {
            true => self.rows.live(),
            false => self.rows.memory(),
        };
        rows + self.primary.memory().total() + indexes + self.cold.as_ref().map_or(0, Cold::memory)
    }

    /// Moves all entries of all indexes to their static stages.
    pub fn merge_all(&mut self) {
        self.primary.merge_all();
        self.indexes.iter_mut().for_each(Index::merge_all);
    }

    /// Where its bytes are.
    pub fn stats(&self) -> TableStats {
        TableStats {
            name: self.name.clone(),
            rows: self.rows.len() as u64,
            row_bytes: self.rows.memory() as u64,
            used_row_bytes: self.rows.live() as u64,
            primary_bytes: self.primary.memory().total() as u64,
            index_bytes: self.indexes.iter().map(|index| index.memory() as u64).sum(),
            entries: self.primary.len() as u64
                + self
                    .indexes
                    .iter()
                    .map(|index| index.len() as u64)
                    .sum::<u64>(),
            cold_bytes: self.cold.as_ref().map_or(0, |cold| cold.memory() as u64),
        }
    }
}

/// The longest key of a table that may leave memory, primary and of indexes: an entry on the disk names both.
pub const MAX_COLD_KEY: usize = 256;
