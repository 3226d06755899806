//! Reading a table by its index in a transaction.
//!
//! The range of entries is watched, and each row counts as read. Rows that the transaction has changed
//! are taken from its own changes, under the keys that they have now.

use std::collections::VecDeque;
use std::ops::RangeBounds;

use terrace_base::{Error, Result};

use super::open::Transaction;
use super::overlay::Staged;
use super::reads::Changed;
use crate::index::entry::{bounds, decode, encode, prefix};
use crate::read::leased::parts;
use crate::structures::index::IndexHandle;
use crate::structures::range::{Range, Record, past_prefix};
use crate::structures::table::Table;

/// An index of a table, in a transaction; see [`Transaction::index`].
#[derive(Debug)]
#[must_use = "it reads only when it is asked for rows"]
pub struct TransactionIndex<'t> {
    transaction: &'t mut Transaction,
    index: IndexHandle,
}

impl Transaction {
    /// An index of a table, whose rows can be read by its keys, with the transaction's own changes.
    ///
    /// # Errors
    /// As [`Table::index`].
    pub fn index<'t>(&'t mut self, table: &Table, name: &str) -> Result<TransactionIndex<'t>> {
        self.begin(table, &[], &[])?;
        TransactionIndex::new(self, table.index(name)?)
    }
}

impl<'t> TransactionIndex<'t> {
    pub(super) fn new(
        transaction: &'t mut Transaction,
        index: IndexHandle,
    ) -> Result<TransactionIndex<'t>> {
        Ok(TransactionIndex { transaction, index })
    }

    /// The rows with this key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get(self, key: impl AsRef<[u8]>) -> Result<TransactionRows<'t>> {
        let key = key.as_ref();
        self.range(key..=key)
    }

    /// The rows with keys in a range, in the order of the keys, from either end.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn range<K: AsRef<[u8]>>(self, range: impl RangeBounds<K>) -> Result<TransactionRows<'t>> {
        let low = range.start_bound().map(AsRef::as_ref);
        let high = range.end_bound().map(AsRef::as_ref);
        let (low, high) = bounds(self.index.unique, low, high);
        TransactionRows::new(self, low, high)
    }

    /// The rows whose keys begin with this.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn prefix(self, begin: impl AsRef<[u8]>) -> Result<TransactionRows<'t>> {
        let low = prefix(self.index.unique, begin.as_ref());
        let high = past_prefix(&low);
        TransactionRows::new(self, low, high)
    }

    /// All rows that are in the index.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn iter(self) -> Result<TransactionRows<'t>> {
        self.range::<&[u8]>(..)
    }
}

/// An entry of the index, the primary key of its row, and the row, if it is known.
type Entry = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);

/// Rows by an index, each with its primary key, from either end; see [`TransactionIndex::range`].
#[must_use = "it reads only when it is asked for rows"]
pub struct TransactionRows<'t> {
    transaction: &'t mut Transaction,
    index: IndexHandle,
    entries: Range,
    front: Option<Entry>,
    back: Option<Entry>,
    /// Entries of the rows that the transaction has changed, in order.
    own: VecDeque<Entry>,
    done: bool,
}

impl<'t> TransactionRows<'t> {
    fn new(
        of: TransactionIndex<'t>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Result<TransactionRows<'t>> {
        let TransactionIndex { transaction, index } = of;
        let (table, entries) = (&index.table, &index.entries);
        let id = table.open.id();
        let merged = transaction.overlay.merged(id, &[], None);
        for key in merged {
            transaction.get_stored(&table.open, &key)?;
        }
        let mut own: Vec<Entry> = Vec::new();
        let name = index.name();
        let snapshot = table.open.table.as_ref().map(|table| table.open_snapshot());
        let states = snapshot.as_ref().map(|s| s.iter().collect::<Vec<_>>());
        let state = states
            .unwrap_or_default()
            .into_iter()
            .find(|i| i.name == name);
        for (primary, staged) in transaction.overlay.range(id, &[], None) {
            let (Staged::Put(row), Some(state)) = (staged, state) else {
                continue;
            };
            let row = parts(&table.open, row)?.1.to_vec();
            for key in state.keys_of(&table.open, &row)? {
                let (entry, _) = encode(index.unique, &key, primary);
                if entry >= low && high.as_ref().is_none_or(|high| entry < *high) {
                    own.push((entry, primary.to_vec(), Some(row.clone())));
                }
            }
        }
        own.sort();
        let core = transaction.db.core().clone();
        transaction
            .reads
            .watch(&core, &entries.open, low.clone(), high.clone());
        Ok(TransactionRows {
            entries: Range::new(entries.clone(), low, high),
            transaction,
            index,
            front: None,
            back: None,
            own: own.into(),
            done: false,
        })
    }

    /// An entry of the database, unless its row is one that the transaction has changed.
    fn entry(&self, (entry, value): Record) -> Result<Option<Entry>> {
        let decoded = decode(self.index.unique, &entry, &value);
        let (_, primary) = decoded
            .ok_or_else(|| Error::corrupt("data", None, "an entry of an index makes no sense"))?;
        let id = self.index.table.open.id();
        let changed = self.transaction.overlay.get(id, &primary).is_some();
        Ok((!changed).then_some((entry, primary, None)))
    }

    fn read(&mut self, up: bool) -> Result<Option<Entry>> {
        loop {
            let next = if up {
                self.entries.next()
            } else {
                self.entries.next_back()
            };
            let Some(record) = next.transpose()? else {
                return Ok(None);
            };
            if let Some(entry) = self.entry(record)? {
                return Ok(Some(entry));
            }
        }
    }

    fn step(&mut self, up: bool) -> Result<Option<Record>> {
        loop {
            if let Some(row) = self.next_row(up)? {
                return Ok(row);
            }
        }
    }

    /// The next row, or that there is none; `None` for an entry whose row has expired.
    fn next_row(&mut self, up: bool) -> Result<Option<Option<Record>>> {
        let mut base = if up {
            self.front.take()
        } else {
            self.back.take()
        };
        if base.is_none() {
            base = self.read(up)?;
        }
        if base.is_none() {
            base = if up {
                self.back.take()
            } else {
                self.front.take()
            };
        }
        let own = if up {
            self.own.front()
        } else {
            self.own.back()
        };
        let own_first = match (&base, own) {
            (Some(base), Some(own)) if up => own.0 < base.0,
            (Some(base), Some(own)) => own.0 > base.0,
            (None, own) => own.is_some(),
            (Some(_), None) => false,
        };
        if own_first {
            let kept = if up { &mut self.front } else { &mut self.back };
            *kept = base;
            base = if up {
                self.own.pop_front()
            } else {
                self.own.pop_back()
            };
        }
        match base {
            None => Ok(Some(None)),
            Some((_, primary, Some(row))) => Ok(Some(Some((primary, row)))),
            Some((_, primary, None)) => {
                let open = self.index.table.open.clone();
                match self.transaction.get_open(&open, &primary)? {
                    Some(row) => Ok(Some(Some((primary, row)))),
                    // It has expired, and its entry goes with it some time.
                    None if open.spec.expiring => Ok(None),
                    // Its entry was there a moment ago: another writer has changed both.
                    None => {
                        let changed = Changed {
                            structure: self.index.table.name(),
                            key: primary,
                        };
                        self.transaction.met(Err(changed)).map(|()| Some(None))
                    }
                }
            }
        }
    }

    fn answer(&mut self, up: bool) -> Option<Result<Record>> {
        if self.done {
            return None;
        }
        let record = self.step(up).and_then(|record| {
            self.transaction.look()?;
            Ok(record)
        });
        let record = record.transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

impl Iterator for TransactionRows<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.answer(true)
    }
}

impl DoubleEndedIterator for TransactionRows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.answer(false)
    }
}

impl std::iter::FusedIterator for TransactionRows<'_> {}
