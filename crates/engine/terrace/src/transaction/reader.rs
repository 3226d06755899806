//! Reading several things of one instant.

use std::ops::RangeBounds;

use terrace_base::Result;

use super::index::TransactionIndex;
use super::open::Transaction;
use super::range::TransactionRange;
use crate::handle::map::Map;
use crate::structures::table::Table;

/// Reads of one instant; see [`crate::Database::read`].
#[derive(Debug)]
pub struct Reader<'t> {
    pub(crate) transaction: &'t mut Transaction,
}

impl Reader<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.transaction.get(map, key)
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<bool> {
        self.transaction.contains_key(map, key)
    }

    /// The values of keys, in their order.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_many<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.transaction.get_many(map, keys)
    }

    /// The records with keys in a range.
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn range<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionRange<'_>> {
        self.transaction.range(map, range)
    }

    /// The records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn prefix(&mut self, map: &Map, prefix: impl AsRef<[u8]>) -> Result<TransactionRange<'_>> {
        self.transaction.prefix(map, prefix)
    }

    /// All records.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn iter(&mut self, map: &Map) -> Result<TransactionRange<'_>> {
        self.transaction.iter(map)
    }

    /// An index of a table.
    ///
    /// # Errors
    /// As [`Transaction::index`].
    pub fn index<'t>(&'t mut self, table: &Table, name: &str) -> Result<TransactionIndex<'t>> {
        self.transaction.index(table, name)
    }
}
