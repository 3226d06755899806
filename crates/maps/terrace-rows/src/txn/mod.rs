//! A transaction: alone in its partitions, seen whole or not at all.

pub mod partition;
pub mod undo;

use std::ops::RangeBounds;
use std::sync::MutexGuard;

use terrace_mem::IndexKey;

use crate::error::Error;
use crate::row::{KeyBytes, Row, with_bytes};
use crate::table::handle::{Handle, Table, bounds, key_of};
use crate::table::key_map::Span;
use crate::table::raw::RawTable;
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
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(
        store: u64,
        first: (usize, MutexGuard<'s, Partition>),
        more: impl Iterator<Item = (usize, MutexGuard<'s, Partition>)>,
    ) -> Result<Transaction<'s>, Error> {
        let held = |(number, partition)| Held { number, partition };
        let transaction = Transaction {
            store,
            first: held(first),
            more: more.map(held).collect(),
            at: 0,
            row: Vec::new(),
        };
        if transaction.first.partition.broken
            || transaction.more.iter().any(|held| held.partition.broken)
        {
            return Err(Error::Broken);
        }
        Ok(transaction)
    }

    pub(crate) fn commit(mut self) {
        self.first.partition.undo.clear();
        self.more
            .iter_mut()
            .for_each(|held| held.partition.undo.clear());
    }

    fn partition(&mut self) -> &mut Partition {
        match self.at {
            0 => &mut self.first.partition,
            at => &mut self.more[at - 1].partition,
        }
    }

    #[inline]
    fn table(&mut self, handle: Handle) -> Result<&mut RawTable, Error> {
        if handle.store != self.store {
            return Err(Error::OtherStore);
        }
        // A table is in all partitions before its handle is given out.
        Ok(&mut self.partition().tables[handle.table as usize])
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
        Ok(self.table(table)?.get(key))
    }

    /// Stores a row, whether there was one or not. O(log n) for each index.
    ///
    /// # Errors
    /// [`Error::Duplicate`] in a unique index, and what is too long.
    pub fn put_bytes(&mut self, table: Handle, key: &[u8], row: &[u8]) -> Result<(), Error> {
        self.write(table, key, Some(row))
    }

    /// Removes a row, whether there is one or not.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn delete_bytes(&mut self, table: Handle, key: &[u8]) -> Result<(), Error> {
        self.write(table, key, None)
    }

    fn write(&mut self, handle: Handle, key: &[u8], row: Option<&[u8]>) -> Result<(), Error> {
        if handle.store != self.store {
            return Err(Error::OtherStore);
        }
        let Partition { tables, undo, .. } = self.partition();
        tables[handle.table as usize].write(handle.table, key, row, undo)
    }

    /// Goes over rows by their keys, as long as `see` says so.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn each_bytes(
        &mut self,
        table: Handle,
        span: Span<'_>,
        see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.table(table)?.range(span, see);
        Ok(())
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
        see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let table = self.table(table)?;
        let index = table.index_number(index)?;
        table.by_index(index, span, see);
        Ok(())
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
        self.first.partition.take_back();
        self.more
            .iter_mut()
            .for_each(|held| held.partition.take_back());
    }
}
