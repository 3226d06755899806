//! A transaction: alone in its partitions, seen whole or not at all.

pub mod hand;
pub mod partition;

use std::ops::RangeBounds;
use std::sync::MutexGuard;

use terrace_mem::IndexKey;

use crate::error::Error;
use crate::row::{KeyBytes, Row, with_bytes};
use crate::span::Span;
use crate::spill::fetched::Fetched;
use crate::table::handle::{Handle, Table, bounds, key_of};
use crate::table::raw::Place;
use partition::Partition;

struct Held<'s> {
    number: usize,
    partition: MutexGuard<'s, Partition>,
}

/// Reads and changes of one closure; see [`Store::transact`](crate::Store::transact). It sees its own changes. Dropped
/// without a commit, by an error or a panic, it takes them back.
pub struct Transaction<'s> {
    store: u64,
    first: Held<'s>,
    more: Vec<Held<'s>>,
    /// Which of them operations are about: 0 is the first one.
    at: usize,
    row: Vec<u8>,
    /// What was read from the disk for it, and what it asks for.
    pub(crate) fetched: Fetched,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(
        store: u64,
        first: (usize, MutexGuard<'s, Partition>),
        more: impl Iterator<Item = (usize, MutexGuard<'s, Partition>)>,
    ) -> Result<Transaction<'s>, Error> {
        let held = |(number, partition)| Held { number, partition };
        let mut transaction = Transaction {
            store,
            first: held(first),
            more: more.map(held).collect(),
            at: 0,
            row: Vec::new(),
            fetched: Fetched::default(),
        };
        transaction.usable()?;
        Ok(transaction)
    }

    /// Whether its partitions can be used.
    pub(crate) fn usable(&mut self) -> Result<(), Error> {
        for (_, partition) in self.partitions() {
            if partition.broken {
                return Err(Error::Broken);
            }
            if let Some(failure) = partition.failure.take() {
                return Err(failure);
            }
        }
        Ok(())
    }

    pub(crate) fn commit(mut self) {
        self.first.partition.undo.clear();
        self.more
            .iter_mut()
            .for_each(|held| held.partition.undo.clear());
    }

    /// The partition that operations are about, its number, and what was read from the disk.
    fn parts(&mut self) -> (usize, &mut Partition, &mut Fetched) {
        let held = match self.at {
            0 => &mut self.first,
            at => &mut self.more[at - 1],
        };
        (held.number, &mut held.partition, &mut self.fetched)
    }

    /// All partitions, with their numbers.
    pub(crate) fn partitions(&mut self) -> impl Iterator<Item = (usize, &mut Partition)> {
        let all = std::iter::once(&mut self.first).chain(&mut self.more);
        all.map(|held| (held.number, &mut *held.partition))
    }

    /// Takes back what it did so far.
    pub(crate) fn take_back(&mut self) {
        self.partitions()
            .for_each(|(_, partition)| partition.take_back());
    }

    fn check(&self, handle: Handle) -> Result<(), Error> {
        // A table is in all partitions before its handle is given out.
        if handle.store == self.store {
            Ok(())
        } else {
            Err(Error::OtherStore)
        }
    }

    /// From here on operations are about this partition, which the transaction has to have named.
    ///
    /// # Errors
    /// [`Error::NoSuchPartition`].
    pub fn on(&mut self, partition: usize) -> Result<(), Error> {
        let at = match self.first.number == partition {
            true => Some(0),
            false => self
                .more
                .iter()
                .position(|held| held.number == partition)
                .map(|at| at + 1),
        };
        self.at = at.ok_or(Error::NoSuchPartition(partition))?;
        Ok(())
    }

    // ---------------------------------------------------------------- bytes

    /// The bytes of a row. O(log n), and nothing is copied.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    #[inline]
    pub fn bytes(&mut self, table: Handle, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        self.check(table)?;
        let (number, partition, fetched) = self.parts();
        let of = &mut partition.tables[table.table as usize];
        match of.place(key) {
            Place::Row(id) => Ok(Some(of.row(id))),
            Place::Absent => Ok(None),
            Place::Ask => {
                let version = of.cold.as_ref().map_or(0, |cold| cold.version(key));
                if fetched.row(number, table.table, key, version).is_none() {
                    fetched.want_row(number, table.table, key);
                    return Err(Error::Cold);
                }
                Ok(fetched.row(number, table.table, key, version).flatten())
            }
        }
    }

    /// Asks for the rows of several keys at once, so that what is cold of them is read together.
    ///
    /// # Errors
    /// [`Error::Cold`] where some have to be read first.
    pub fn ask_bytes(&mut self, table: Handle, keys: &[&[u8]]) -> Result<(), Error> {
        let mut asked = Ok(());
        for key in keys {
            match self.bytes(table, key) {
                Ok(_) => {}
                Err(Error::Cold) => asked = Err(Error::Cold),
                Err(error) => return Err(error),
            }
        }
        asked
    }

    /// Stores a row, whether there was one or not. O(log n) for each index.
    ///
    /// # Errors
    /// [`Error::Duplicate`] in a unique index, and what is too long.
    pub fn put_bytes(&mut self, table: Handle, key: &[u8], row: &[u8]) -> Result<(), Error> {
        self.write(table, key, Some(row))
    }

    /// Keeps other bytes for a row, under all keys that `image` has in the indexes; not taken back. For rivals that put
    /// something in the place of rows.
    ///
    /// # Errors
    /// [`Error::Missing`].
    #[doc(hidden)]
    pub fn swap_bytes(
        &mut self,
        table: Handle,
        key: &[u8],
        bytes: &[u8],
        image: &[u8],
    ) -> Result<(), Error> {
        self.check(table)?;
        let (_, partition, _) = self.parts();
        partition.tables[table.table as usize].swap(key, bytes, image)
    }

    /// Removes a row, whether there is one or not.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn delete_bytes(&mut self, table: Handle, key: &[u8]) -> Result<(), Error> {
        self.write(table, key, None)
    }

    fn write(&mut self, handle: Handle, key: &[u8], row: Option<&[u8]>) -> Result<(), Error> {
        self.check(handle)?;
        let (number, partition, fetched) = self.parts();
        partition.changed += partition::weight(key, row.unwrap_or_default());
        let Partition { tables, undo, .. } = partition;
        tables[handle.table as usize].write((number, handle.table), key, row, undo, fetched)
    }

    /// Goes over rows by their keys, as long as `see` says so.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn each_bytes(
        &mut self,
        table: Handle,
        span: Span<'_>,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.check(table)?;
        let (number, partition, fetched) = self.parts();
        partition.tables[table.table as usize].range((number, table.table), span, fetched, &mut see)
    }

    /// Goes over rows by the keys of an index, as long as `see` says so. Those of one key come in no order.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`].
    pub fn each_by_index(
        &mut self,
        table: Handle,
        index: &str,
        span: Span<'_>,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.check(table)?;
        let (number, partition, fetched) = self.parts();
        let of = &mut partition.tables[table.table as usize];
        let index = of.index_number(index)?;
        of.by_index((number, table.table), index, span, fetched, &mut see)
    }

    // ---------------------------------------------------------------- rows

    /// The row of a key.
    ///
    /// # Errors
    /// [`Error::Undecodable`].
    pub fn get<R: Row>(&mut self, table: &Table<R>, key: &R::Key) -> Result<Option<R>, Error> {
        with_bytes(key, |key| match self.bytes(**table, key)? {
            None => Ok(None),
            Some(row) => decode(table, row).map(Some),
        })
    }

    /// The rows of several keys, in their order.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_many<R: Row>(
        &mut self,
        table: &Table<R>,
        keys: &[R::Key],
    ) -> Result<Vec<Option<R>>, Error> {
        let bytes: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| with_bytes(key, <[u8]>::to_vec))
            .collect();
        self.ask_bytes(
            **table,
            &bytes.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        )?;
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    /// Whether there is a row.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn contains<R: Row>(&mut self, table: &Table<R>, key: &R::Key) -> Result<bool, Error> {
        with_bytes(key, |key| Ok(self.bytes(**table, key)?.is_some()))
    }

    /// Stores a row, whether there was one with its key or not.
    ///
    /// # Errors
    /// As [`Transaction::put_bytes`].
    pub fn put<R: Row>(&mut self, table: &Table<R>, row: &R) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.row);
        bytes.clear();
        row.encode(&mut bytes);
        let mut done = Ok(());
        key_of(row, |key| done = self.write(**table, key, Some(&bytes)));
        self.row = bytes;
        done
    }

    /// Stores a row if there is none with its key.
    ///
    /// # Errors
    /// [`Error::Duplicate`], also of the primary key, whose index has no name.
    pub fn insert<R: Row>(&mut self, table: &Table<R>, row: &R) -> Result<(), Error> {
        if self.contains(table, &row.key())? {
            return Err(Error::Duplicate {
                table: table.name().into(),
                index: String::new(),
            });
        }
        self.put(table, row)
    }

    /// Removes a row; answers it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn remove<R: Row>(&mut self, table: &Table<R>, key: &R::Key) -> Result<Option<R>, Error> {
        let old = self.get(table, key)?;
        if old.is_some() {
            with_bytes(key, |key| self.write(**table, key, None))?;
        }
        Ok(old)
    }

    /// The rows of a range of keys, in their order.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn range<R: Row>(
        &mut self,
        table: &Table<R>,
        range: impl RangeBounds<R::Key>,
    ) -> Result<Vec<R>, Error> {
        let (low, high) = bounds(&range);
        let mut rows = Vec::new();
        let span = Span {
            low: &low,
            high: high.as_deref(),
            back: false,
        };
        self.each_bytes(**table, span, |_, row| push(&mut rows, table, row))?;
        rows.into_iter().collect()
    }

    /// The rows with a key of an index, in no particular order.
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::NoSuchIndex`].
    pub fn index<R: Row, K: IndexKey<Family: KeyBytes>>(
        &mut self,
        table: &Table<R>,
        index: &str,
        key: &K,
    ) -> Result<Vec<R>, Error> {
        let low = with_bytes(key, <[u8]>::to_vec);
        let high = [&low[..], &[0]].concat();
        self.index_span(
            table,
            index,
            Span {
                low: &low,
                high: Some(&high),
                back: false,
            },
        )
    }

    /// The rows with keys of an index in a range, in the order of these keys.
    ///
    /// # Errors
    /// As [`Transaction::index`].
    pub fn index_range<R: Row, K: IndexKey<Family: KeyBytes>>(
        &mut self,
        table: &Table<R>,
        index: &str,
        range: impl RangeBounds<K>,
    ) -> Result<Vec<R>, Error> {
        let (low, high) = bounds(&range);
        self.index_span(
            table,
            index,
            Span {
                low: &low,
                high: high.as_deref(),
                back: false,
            },
        )
    }

    fn index_span<R: Row>(
        &mut self,
        table: &Table<R>,
        index: &str,
        span: Span<'_>,
    ) -> Result<Vec<R>, Error> {
        let mut rows = Vec::new();
        self.each_by_index(**table, index, span, |_, row| push(&mut rows, table, row))?;
        rows.into_iter().collect()
    }
}

fn decode<R: Row>(table: &Table<R>, row: &[u8]) -> Result<R, Error> {
    R::decode(row).ok_or_else(|| Error::Undecodable {
        table: table.name().into(),
    })
}

fn push<R: Row>(rows: &mut Vec<Result<R, Error>>, table: &Table<R>, row: &[u8]) -> bool {
    rows.push(decode(table, row));
    true
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}
