//! A tree, or an LSM-tree: an ordered map of byte strings.

use std::ops::{Deref, RangeBounds};

use terrace_base::Result;

use crate::api::database::Database;
use crate::api::map::Map;
use crate::api::ordered;
use crate::api::range::Range;
use crate::kinds::spec::{LsmOptions, TreeOptions};
use crate::kinds::{Kind, View};

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

impl Database {
    /// The tree of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.tree_with(name, TreeOptions::new())
    }

    /// The tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::tree`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn tree_with(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Tree, options).map(Tree::new)
    }

    /// A new tree.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::tree`].
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.create_map(name, Kind::Tree, options).map(Tree::new)
    }

    /// A tree that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.found(name, Some(Kind::Tree), options).map(Tree::new)
    }

    /// The LSM-tree of this name, made with two tiers if there is none. It does what a tree does, so its
    /// handle is a [`Tree`]. What is written is gathered, and merged into what is there in steps, so that much
    /// less is written to the disk than by a tree that is much larger than the memory; scans read a little
    /// more while much is written. From 40 % of the data in memory on a tree does as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let events = db.lsm("events")?;
    /// events.put("2026-03-01 12:00", "began")?;
    /// events.put("2026-03-01 12:05", "ended")?;
    /// assert_eq!(events.prefix("2026-03-01")?.count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn lsm(&self, name: &str) -> Result<Tree> {
        self.lsm_with(name, LsmOptions::new())
    }

    /// The LSM-tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::lsm`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn lsm_with(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Lsm, options).map(Tree::new)
    }

    /// A new LSM-tree.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::lsm`].
    pub fn create_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.create_map(name, Kind::Lsm, options).map(Tree::new)
    }

    /// An LSM-tree that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.found(name, Some(Kind::Lsm), options).map(Tree::new)
    }
}
