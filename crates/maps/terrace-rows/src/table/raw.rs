//! A table of one partition: rows by key, with all indexes, each change whole.
//!
//! A change asks the functions of the indexes first, then looks for duplicates, then notes how to take it back, and
//! changes rows and indexes last: nothing can fail there, and no code of the program runs.

use super::index::Index;
use super::key_map::{KeyMap, Span};
use super::slab::{MAX_ROW, RowId, Slab};
use crate::error::Error;
use crate::faults::{Fault, planted};
use crate::stats::TableStats;
use crate::txn::undo::{Before, Undo};

/// Keys of indexes, one after the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn of(&self, index: usize) -> &[u8] {
        let from = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[from..self.ends[index]]
    }
}

/// The table.
pub struct RawTable {
    /// Its name.
    pub name: String,
    /// Whether primary keys are numbers of 8 bytes.
    pub number: bool,
    rows: Slab,
    primary: KeyMap,
    indexes: Vec<Index>,
    /// Keys of the row as it is and as it is to be: kept for their room.
    old: Keys,
    new: Keys,
}

impl RawTable {
    /// An empty one.
    pub fn new(name: String, number: bool, primary: KeyMap, indexes: Vec<Index>) -> RawTable {
        RawTable {
            name,
            number,
            rows: Slab::default(),
            primary,
            indexes,
            old: Keys::default(),
            new: Keys::default(),
        }
    }

    /// The row of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.primary.get(key).map(|id| self.rows.get(id))
    }

    /// Goes over rows by their keys, as long as `see` says so.
    pub fn range(&self, span: Span<'_>, mut see: impl FnMut(&[u8], &[u8]) -> bool) {
        self.primary
            .each(span, |key, id| see(key, self.rows.get(id)));
    }

    /// Goes over rows by the keys of an index, as long as `see` says so.
    pub fn by_index(
        &self,
        index: usize,
        span: Span<'_>,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) {
        self.indexes[index].each(span, |key, id| see(key, self.rows.get(id)));
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
        if key.len() > terrace_mem::MAX_KEY_LEN {
            return Err(Error::KeyTooLong {
                len: key.len(),
                limit: terrace_mem::MAX_KEY_LEN,
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
            if len > terrace_mem::MAX_KEY_LEN {
                return Err(Error::KeyTooLong {
                    len,
                    limit: terrace_mem::MAX_KEY_LEN,
                });
            }
            keys.ends.push(keys.bytes.len());
        }
        Ok(())
    }

    /// Extracts the keys of both, and hands the buffers out.
    fn both(&mut self, old: Option<RowId>, new: Option<&[u8]>) -> Result<(Keys, Keys), Error> {
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

    /// Lets a key have this row, or none. Only adds it where there is none if `only_new`.
    ///
    /// # Errors
    /// What is too long, a duplicate; nothing is changed then.
    pub fn write(
        &mut self,
        table: u32,
        key: &[u8],
        row: Option<&[u8]>,
        undo: &mut Undo,
    ) -> Result<(), Error> {
        self.check(key, row.unwrap_or_default())?;
        let old = self.primary.get(key);
        if old.is_none() && row.is_none() {
            return Ok(());
        }
        let (olds, news) = self.both(old, row)?;
        if row.is_some() && !planted(Fault::DuplicateSeenLate) {
            self.check_unique(old, &olds, &news)?;
        }
        let before = match old {
            None => Before::Absent,
            Some(id) => Before::Row(self.rows.get(id)),
        };
        undo.push(table, key, before);
        let done = self.apply(key, old, row, (&olds, &news));
        if row.is_some() && planted(Fault::DuplicateSeenLate) {
            self.check_unique(None, &olds, &news)?;
        }
        (self.old, self.new) = (olds, news);
        if done.is_err() {
            undo.drop_last();
        }
        done
    }

    fn check_unique(&self, old: Option<RowId>, olds: &Keys, news: &Keys) -> Result<(), Error> {
        for (i, index) in self
            .indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| index.unique)
        {
            let key = news.of(i);
            if old.is_some() && olds.of(i) == key {
                continue;
            }
            if index.unique_row(key).is_some() {
                return Err(Error::Duplicate {
                    table: self.name.clone(),
                    index: index.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        key: &[u8],
        old: Option<RowId>,
        row: Option<&[u8]>,
        (olds, news): (&Keys, &Keys),
    ) -> Result<(), Error> {
        let new = match (old, row) {
            (_, None) => None,
            (Some(id), Some(row)) if self.rows.replace(id, row, 0) => Some(id),
            (_, Some(row)) => {
                let id = self.rows.insert(row, 0);
                Some(id.ok_or_else(|| Error::Full {
                    table: self.name.clone(),
                })?)
            }
        };
        if new != old {
            match new {
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
        let row = match before {
            Before::Absent => None,
            Before::Row(row) => Some(row),
        };
        let old = self.primary.get(key);
        let (olds, news) = self.both(old, row)?;
        let indexes = match planted(Fault::UndoForgetsIndexes) {
            true => std::mem::take(&mut self.indexes),
            false => Vec::new(),
        };
        let done = self.apply(key, old, row, (&olds, &news));
        if !indexes.is_empty() {
            self.indexes = indexes;
        }
        (self.old, self.new) = (olds, news);
        done
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
            primary_bytes: self.primary.memory().total() as u64,
            index_bytes: self.indexes.iter().map(|index| index.memory() as u64).sum(),
            entries: self.primary.len() as u64
                + self
                    .indexes
                    .iter()
                    .map(|index| index.len() as u64)
                    .sum::<u64>(),
        }
    }
}
