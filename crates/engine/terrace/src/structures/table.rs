//! A table: a map of rows by their primary keys, with indexes over them.

use std::ops::{Deref, RangeBounds};

use terrace_base::Result;

use crate::catalog::opened::TableState;
use crate::handle::map::Map;
use crate::index::definition::{Index, IndexInfo};
use crate::kinds::View;
use crate::read::leased::Sight;
use crate::structures::index::IndexHandle;
use crate::structures::ordered;
use crate::structures::range::Range;
use crate::structures::unordered::Unordered;
use crate::table::change::{no_index, table_of};

/// A handle of a table: a [`Map`] of rows by their primary keys, with any number of indexes over
/// them. Whatever changes a row, through this handle, through a plain [`Map`] or in a
/// [`crate::Batch`], changes the indexes with it, all or nothing, also over a crash.
///
/// In a table with indexes every write reads the row as it was, also `put` and `delete`: with two
/// tiers that may be a page from the disk, which a write of a plain table or of another structure
/// never needs. A write whose row has the same keys as before touches the row only.
///
/// ```
/// use terrace::{Index, KeySource, TableOptions};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
/// let people = db.table_with(
///     "people",
///     TableOptions::new()
///         .index(Index::on("city", KeySource::csv_column(2, b',')))
///         .index(Index::by("initial", |row| Ok(row.first().map(|first| vec![*first])))),
/// )?;
/// people.put("1", "Ada,London")?;
/// people.put("2", "Grace,New York")?;
/// people.put("3", "Alan,London")?;
/// let mut in_london = people.index("city")?.get("London")?;
/// assert_eq!(in_london.next().unwrap()?, (b"1".to_vec(), b"Ada,London".to_vec()));
/// assert_eq!(in_london.count(), 1);
/// assert_eq!(people.index("initial")?.prefix("A")?.count(), 2);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    map: Map,
}

impl Deref for Table {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl Table {
    pub(crate) fn new(map: Map) -> Table {
        Table { map }
    }

    /// The rows with primary keys in a range, in order, from either end. With one tier each row that
    /// is not on the page of its neighbour is a read of its own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let parts = db.table("parts")?;
    /// parts.put("bolt", "120")?;
    /// parts.put("nut", "80")?;
    /// let (key, row) = parts.range("c"..)?.next().unwrap()?;
    /// assert_eq!((&key[..], &row[..]), (&b"nut"[..], &b"80"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the table was dropped.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        ordered::range(&self.map, range)
    }

    /// The rows whose primary keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        ordered::prefix(&self.map, prefix.as_ref())
    }

    /// The row with the lowest primary key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::first(&self.map)
    }

    /// The row with the highest primary key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::last(&self.map)
    }

    /// Takes the row with the lowest primary key out, and returns it as it was then: a queue. Of several
    /// threads each gets another one. What is put in front meanwhile may be left for the next call.
    /// O(log n) over many calls: what was taken before is not walked over again.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::pop_first(&self.map)
    }

    /// As [`Table::pop_first`], the row with the highest primary key: a stack.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        ordered::pop_last(&self.map)
    }

    /// Its indexes, in the order in which they were made.
    pub fn indexes(&self) -> Vec<IndexInfo> {
        let table = &self.map.open.table;
        table.as_ref().map_or_else(Vec::new, TableState::infos)
    }

    /// One of its indexes, for reading.
    ///
    /// # Errors
    /// When there is no index of this name, or the table was dropped.
    pub fn index(&self, name: &str) -> Result<IndexHandle> {
        let table = &self.map.open;
        table.check()?;
        let indexes = table_of(table)?.snapshot();
        let index = indexes.iter().find(|index| index.name == name);
        let index = index.ok_or_else(|| no_index(table, name))?;
        let entries = Map::new(self.map.db.clone(), index.open.clone());
        Ok(IndexHandle::new(
            self.map.clone(),
            entries,
            index.entry.unique,
        ))
    }

    /// Makes an index over the rows that are there. Until it is done, whoever changes the table
    /// waits; and whoever makes or drops an index of any table, opens a table that has some, or writes
    /// a large batch (more than 64 changes, or one that others get in the way of) to one; who reads does
    /// not. So neither the index's function nor `progress` may do any of that. O(rows), in steps of
    /// bounded memory; a crash leaves nothing of it.
    ///
    /// ```
    /// use terrace::{Error, Index, KeySource};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let parts = db.table("parts")?;
    /// parts.put("bolt", "steel;120")?;
    /// parts.put("nut", "steel;80")?;
    /// parts.create_index(Index::on("material", KeySource::csv_column(1, b';')))?;
    /// assert_eq!(parts.index("material")?.get("steel")?.count(), 2);
    /// // The same from its text, which the command line takes too.
    /// let unique: Index = "price=unique:csv:2:;".parse()?;
    /// parts.create_index(unique)?;
    /// assert!(matches!(parts.put("rivet", "copper;80"), Err(Error::Duplicate { .. })));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Duplicate`] when two rows have the same key in a unique index; when there is
    /// an index of this name; a row that has no key though it should; those of a write. Then there
    /// is no index.
    pub fn create_index(&self, index: Index) -> Result<()> {
        self.create_index_with(index, |_| ())
    }

    /// [`Table::create_index`], telling now and then how many rows were looked at.
    ///
    /// # Errors
    /// As [`Table::create_index`].
    pub fn create_index_with(&self, index: Index, mut progress: impl FnMut(u64)) -> Result<()> {
        let core = self.map.core();
        let rows = || Unordered::seen(&self.map, Sight::Stored);
        core.create_index(&self.map.open, index, rows, &mut progress)
    }

    /// Drops an index. Its handles answer with an error from then on; its space is given back in the
    /// background.
    ///
    /// # Errors
    /// When there is no index of this name, and those of a write.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.map.core().drop_index(&self.map.open, name)
    }
}

impl Map {
    /// The same as a table, if it is one.
    pub fn as_table(&self) -> Option<Table> {
        self.is(View::Table).then(|| Table::new(self.clone()))
    }
}
