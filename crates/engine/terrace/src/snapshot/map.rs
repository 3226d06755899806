//! A structure of a snapshot: what reads of a [`Map`], and nothing that writes.

use std::ops::RangeBounds;

use terrace_base::{Error, Result};

use crate::expires::Expires;
use crate::handle::map::Map;
use crate::index::definition::IndexInfo;
use crate::kinds::Kind;
use crate::structures::index::IndexHandle;
use crate::structures::ordered;
use crate::structures::range::Range;
use crate::structures::table::Table;
use crate::structures::unordered::Unordered;

/// A structure as it was when the snapshot was taken; see [`crate::Snapshot`], which it keeps. What it
/// answers never changes, so a range of it is a whole, and so is what an index answers.
#[derive(Clone, Debug)]
pub struct SnapshotMap {
    map: Map,
}

impl SnapshotMap {
    pub(super) fn new(map: Map) -> SnapshotMap {
        SnapshotMap { map }
    }

    /// What it was called.
    pub fn name(&self) -> String {
        self.map.name()
    }

    /// What kind of structure it is.
    pub fn kind(&self) -> Kind {
        self.map.kind()
    }

    /// The value that a key had.
    ///
    /// # Errors
    /// [`crate::Error::SnapshotGone`], a failure of the disk, damage.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.map.get(key)
    }

    /// Until when a record was there; `None` if it was not. What had expired when the snapshot was taken was not.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn expires(&self, key: impl AsRef<[u8]>) -> Result<Option<Expires>> {
        self.map.expires(key)
    }

    /// Replaces `value` by the value that a key had and returns whether there was one; without, what
    /// `value` holds means nothing.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.map.get_into(key, value)
    }

    /// The values that these keys had, in their order; pages that are not in memory are read together.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.map.get_many(keys)
    }

    /// Whether a key had a value.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.map.contains_key(key)
    }

    /// The records with keys in a range, in order, from either end. For everything use
    /// [`SnapshotMap::iter`].
    ///
    /// # Errors
    /// For a hash table, which has no order of keys. What is read later may fail as
    /// [`SnapshotMap::get`] does.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        self.check_order()?;
        ordered::range(&self.map, range)
    }

    /// The records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`SnapshotMap::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        self.check_order()?;
        ordered::prefix(&self.map, prefix.as_ref())
    }

    fn check_order(&self) -> Result<()> {
        match self.map.open.structure.position_prefix() {
            0 => Ok(()),
            _ => Err(no_order(self.kind(), &self.name())),
        }
    }

    /// All records, in the order of the structure.
    ///
    /// # Errors
    /// What is read later may fail as [`SnapshotMap::get`] does.
    pub fn iter(&self) -> Result<Range> {
        self.map.iter()
    }

    /// All records, in whatever order takes the fewest reads.
    ///
    /// # Errors
    /// As [`SnapshotMap::iter`].
    pub fn iter_unordered(&self) -> Result<Unordered> {
        self.map.iter_unordered()
    }

    /// Whether there were no records.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// About how many records there were, from a sample.
    ///
    /// # Errors
    /// As [`SnapshotMap::get`].
    pub fn estimated_len(&self) -> Result<u64> {
        self.map.estimated_len()
    }

    /// The indexes that it had, if it is a table.
    pub fn indexes(&self) -> Vec<IndexInfo> {
        let table = self.map.as_table();
        table.map_or_else(Vec::new, |table| table.indexes())
    }

    /// One of its indexes.
    ///
    /// # Errors
    /// When it is no table, or had no index of this name.
    pub fn index(&self, name: &str) -> Result<IndexHandle> {
        Table::new(self.map.clone()).index(name)
    }
}

/// It has no order of keys in which there could be a range.
fn no_order(kind: Kind, name: &str) -> Error {
    Error::invalid(format!(
        "\"{name}\" is a {kind}, which has no order of keys; go through all of it with SnapshotMap::iter"
    ))
}
