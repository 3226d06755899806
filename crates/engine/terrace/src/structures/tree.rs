//! A tree, or an LSM-tree: an ordered map of byte strings.

use std::ops::{Deref, RangeBounds};

use terrace_base::Result;

use crate::handle::map::Map;
use crate::kinds::View;
use crate::structures::ordered;
use crate::structures::range::Range;

/// A handle of an ordered structure, a tree or an LSM-tree: a [`Map`] whose records are in the order of their keys, which
/// compare as byte strings; [`crate::encode`] has numbers whose bytes compare as they do.
#[derive(Clone, Debug)]
pub struct Tree {
    map: Map,
}

impl Deref for Tree {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl Tree {
    pub(crate) fn new(map: Map) -> Tree {
        Tree { map }
    }

    /// The records with keys in a range, in order, from either end. Each key that is there all the
    /// while comes out once, as it was at some instant between this call and the one that returns it:
    /// many are read at once. What changes meanwhile may or may not be seen. A range whose start is
    /// behind its end is empty. For everything use [`Map::iter`].
    ///
    /// Bounds are of one type, so arrays of different lengths have to be slices:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let tree = db.tree("words")?;
    /// tree.put("apple", "1")?;
    /// tree.put("banana", "2")?;
    /// assert_eq!(tree.range("b".."c")?.count(), 1);
    /// assert_eq!(tree.range(&b"a"[..]..=b"banana")?.rev().count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the tree was dropped.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        ordered::range(&self.map, range)
    }

    /// The records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Tree::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        ordered::prefix(&self.map, prefix.as_ref())
    }

    /// The record with the lowest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::first(&self.map)
    }

    /// The record with the highest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::last(&self.map)
    }

    /// Takes the record with the lowest key out, and returns it as it was then: a queue. Of several
    /// threads each gets another one. What is put in front meanwhile may be left for the next call.
    /// O(log n) over many calls: what was taken before is not walked over again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let jobs = db.tree("jobs")?;
    /// jobs.put(terrace::encode::u64(1), "wash")?;
    /// jobs.put(terrace::encode::u64(2), "dry")?;
    /// assert_eq!(jobs.pop_first()?.unwrap().1, b"wash");
    /// assert_eq!(jobs.pop_last()?.unwrap().1, b"dry");
    /// assert_eq!(jobs.pop_first()?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::pop_first(&self.map)
    }

    /// As [`Tree::pop_first`], the record with the highest key: a stack.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::pop_last(&self.map)
    }
}

impl Map {
    /// The same as a tree, if it is one, or an LSM-tree.
    pub fn as_tree(&self) -> Option<Tree> {
        self.is(View::Tree).then(|| Tree::new(self.clone()))
    }
}
