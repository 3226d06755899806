//! Reading a table by an index.
//!
//! Invariant: a row comes out only if its entry was in the index at the instant at which the row was
//! read. As rows and entries change together, under their locks, it had the key then. The version of
//! the entry's lock shows it, without user code.

use std::ops::{Bound, RangeBounds};

use terrace_base::{Error, Result};

use crate::catalog::opened::Open;
use crate::handle::map::Map;
use crate::index::entry::{bounds, decode, prefix};
use crate::planted::{Fault, planted};
use crate::read::leased::take_lease;
use crate::structures::range::{Range, past_prefix};

/// An index of a table; see [`crate::Table::index`]. It keeps the database open.
///
/// What it answers always agrees with the rows: a row comes out only if it had the key at the instant
/// at which it was read. A range is no snapshot: a row whose key does not change all the while comes
/// out once, one whose key changes may come out under its old key, under its new one, under both, or
/// not at all.
#[derive(Clone)]
pub struct IndexHandle {
    pub(crate) table: Map,
    /// The tree that holds its entries.
    pub(crate) entries: Map,
    pub(crate) unique: bool,
}

impl IndexHandle {
    pub(crate) fn new(table: Map, entries: Map, unique: bool) -> IndexHandle {
        IndexHandle {
            table,
            entries,
            unique,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.entries.name()
    }

    /// Whether two rows may not have the same key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    fn check(&self) -> Result<()> {
        self.table.open.check()?;
        self.entries.open.check()
    }

    /// The rows with this key, by primary key: each with its primary key. O(log n) and a lookup of
    /// each row.
    ///
    /// # Errors
    /// When table or index was dropped.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Rows> {
        let key = key.as_ref();
        if self.unique {
            self.check()?;
            // No row has a longer one.
            let longest = self.table.core().longest_key();
            let entry = (key.len() <= longest).then(|| key.to_vec());
            return Ok(Rows {
                index: self.clone(),
                entries: Entries::One(entry),
            });
        }
        self.range::<&[u8]>((Bound::Included(key), Bound::Included(key)))
    }

    /// The rows whose keys are in a range, by key, then by primary key: each with its primary key.
    /// From either end.
    ///
    /// # Errors
    /// As [`IndexHandle::get`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Rows> {
        Ok(Rows {
            index: self.clone(),
            entries: Entries::Range(Box::new(self.entries_in(range)?)),
        })
    }

    /// The rows whose keys begin with `prefix`, as [`IndexHandle::range`] gives them.
    ///
    /// # Errors
    /// As [`IndexHandle::get`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Rows> {
        Ok(Rows {
            index: self.clone(),
            entries: Entries::Range(Box::new(self.entries_with(prefix.as_ref())?)),
        })
    }

    /// All rows that are in the index, by key.
    ///
    /// # Errors
    /// As [`IndexHandle::get`].
    pub fn iter(&self) -> Result<Rows> {
        self.range::<&[u8]>(..)
    }

    /// The keys in a range, each with the primary key of a row that has it, without reading rows; unless these
    /// may expire: whether they have, they say themselves.
    ///
    /// # Errors
    /// As [`IndexHandle::get`].
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Keys> {
        Ok(Keys {
            entries: self.entries_in(range)?,
            index: self.clone(),
        })
    }

    /// The keys that begin with `prefix`, as [`IndexHandle::keys`] gives them.
    ///
    /// # Errors
    /// As [`IndexHandle::get`].
    pub fn keys_with_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Keys> {
        Ok(Keys {
            entries: self.entries_with(prefix.as_ref())?,
            index: self.clone(),
        })
    }

    fn entries_with(&self, prefix: &[u8]) -> Result<Range> {
        self.check()?;
        let low = self::prefix(self.unique, prefix);
        let high = past_prefix(&low);
        Ok(Range::new(self.entries.clone(), low, high))
    }

    fn entries_in<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        self.check()?;
        let low = range.start_bound().map(AsRef::as_ref);
        let (low, high) = bounds(self.unique, low, range.end_bound().map(AsRef::as_ref));
        Ok(Range::new(self.entries.clone(), low, high))
    }

    /// The row of an entry, with its primary key; `None` if the entry is not there any more.
    fn row(&self, entry: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let core = self.table.core();
        let (entries, rows) = (&self.entries.open, &self.table.open);
        let slot = core.tiers().locks.slot(entries.id(), entry);
        let (mut value, mut row) = (Vec::new(), Vec::new());
        // What had expired by then is known to be gone.
        let mut time = 0;
        loop {
            let _pass = core.enter(entries)?;
            rows.check()?;
            let (found, version) =
                core.heard(entries.structure.get_versioned(entry, &mut value))?;
            if !found {
                return Ok(None);
            }
            let (_, primary) =
                decode(self.unique, entry, &value).ok_or_else(|| damaged(entries, rows))?;
            // Versions are shared with other records, so over all of a long row that of the entry would hardly
            // ever stand; it has to when the row is found.
            let stands =
                || core.tiers().locks.validate(slot, version) || planted(Fault::StaleEntry);
            match core.heard(rows.structure.get_while(&primary, &mut row, &stands))? {
                Some((true, _)) if !rows.spec.expiring => return Ok(Some((primary, row))),
                Some((true, _)) => {
                    let now = core.clock().now();
                    let lease = take_lease(rows, &mut row)?;
                    if lease.is_over(time) {
                        return Ok(None);
                    }
                    if !lease.is_over(now) {
                        return Ok(Some((primary, row)));
                    }
                    // Another may have taken its place before the time was known.
                    time = now;
                }
                Some((false, _)) if planted(Fault::StaleEntry) => return Ok(None),
                Some((false, _)) => return Err(damaged(entries, rows)),
                None => {}
            }
        }
    }
}

fn damaged(index: &Open, table: &Open) -> Error {
    let what = format!(
        "the index \"{}\" of the table \"{}\" has an entry without a row",
        index.name(),
        table.name()
    );
    Error::corrupt("data", None, what)
}

impl std::fmt::Debug for IndexHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexHandle")
            .field("table", &self.table.name())
            .field("name", &self.name())
            .field("unique", &self.unique)
            .finish()
    }
}

/// Rows by an index, each with its primary key; see [`IndexHandle::range`].
#[derive(Debug)]
#[must_use = "it reads only when it is asked for records"]
pub struct Rows {
    index: IndexHandle,
    entries: Entries,
}

/// Which entries are still to come.
#[derive(Debug)]
enum Entries {
    /// That of a key of a unique index.
    One(Option<Vec<u8>>),
    /// Those in order.
    Range(Box<Range>),
}

impl Rows {
    fn step(
        &mut self,
        next: impl Fn(&mut Range) -> Option<<Range as Iterator>::Item>,
    ) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            let entry = match &mut self.entries {
                Entries::One(entry) => Ok(entry.take()?),
                Entries::Range(range) => next(range)?.map(|(entry, _)| entry),
            };
            let row = entry.and_then(|entry| self.index.row(&entry));
            if row.is_err() {
                self.entries = Entries::One(None);
            }
            if let Some(row) = row.transpose() {
                return Some(row);
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Range::next)
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Range::next_back)
    }
}

impl std::iter::FusedIterator for Rows {}

/// Keys of an index, each with a primary key; see [`IndexHandle::keys`].
#[derive(Debug)]
#[must_use = "it reads only when it is asked for records"]
pub struct Keys {
    entries: Range,
    index: IndexHandle,
}

impl Keys {
    fn step(
        &mut self,
        next: impl Fn(&mut Range) -> Option<<Range as Iterator>::Item>,
    ) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            let decoded = next(&mut self.entries)?.and_then(|entry| self.decoded(entry));
            if let Some(decoded) = decoded.transpose() {
                return Some(decoded);
            }
        }
    }

    /// What an entry says; `None` if its row has expired.
    fn decoded(&self, (entry, value): (Vec<u8>, Vec<u8>)) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        // Another row may have taken the key of one that has expired.
        let current = match self.index.table.open.spec.expiring {
            true => match self.index.row(&entry)? {
                Some((primary, _)) => Some(primary),
                None => return Ok(None),
            },
            false => None,
        };
        let decoded = decode(self.index.unique, &entry, &value);
        let (key, primary) = decoded
            .ok_or_else(|| Error::corrupt("data", None, "an entry of an index makes no sense"))?;
        Ok(Some((key, current.unwrap_or(primary))))
    }
}

impl Iterator for Keys {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Range::next)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Range::next_back)
    }
}

impl std::iter::FusedIterator for Keys {}

#[cfg(test)]
mod tests {
    use crate::index::entry::encode;
    use crate::{Database, Index, KeySource, Options, TableOptions, Tiers};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock};
    use terrace_sim::{Call, HookedDisk, SimDisk};
    use terrace_tier::LockTable;

    /// Reads after which there is peace, so that a test that would go on for ever fails instead.
    const MOST_READS: usize = 20_000;

    /// A row of more pages than there is memory for, the lock of whose entry others share that change
    /// whenever a page is read.
    #[test]
    fn a_long_row_is_found_by_its_index_whatever_happens_to_others() {
        for tiers in [Tiers::One, Tiers::Two] {
            let lock: Arc<OnceLock<(Arc<LockTable>, usize)>> = Arc::default();
            let reads = Arc::new(AtomicUsize::new(0));
            let (taken, counted) = (lock.clone(), reads.clone());
            let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
                if let (Call::Read("data"), Some((locks, slot))) = (call, taken.get())
                    && counted.fetch_add(1, Ordering::Relaxed) < MOST_READS
                {
                    locks.lock(*slot).release_changed();
                }
            });
            let options = Options::new().memory(2 << 20).page_size(4096);
            let db = Database::open_on(Arc::new(disk), options).unwrap();
            let options = TableOptions::new()
                .tiers(tiers)
                .index(Index::on("first", KeySource::bytes(0..1)));
            let table = db.create_table("rows", options).unwrap();
            let long: Vec<u8> = (0..6_000_000u32).map(|i| (i ^ i >> 8) as u8).collect();
            table.put("long", &long).unwrap();
            table.put("short", "s").unwrap();
            db.checkpoint().unwrap();
            let index = table.index("first").unwrap();
            let (entry, _) = encode(false, &long[..1], b"long");
            let locks = &db.core().tiers().locks;
            let slot = locks.slot(index.entries.open.id(), &entry);
            assert!(lock.set((locks.clone(), slot)).is_ok());
            let found: Vec<_> = index.get(&long[..1]).unwrap().map(Result::unwrap).collect();
            assert!(found == [(b"long".to_vec(), long.clone())]);
            let (reads, pages) = (reads.load(Ordering::Relaxed), long.len() / 4000);
            assert!(
                pages / 2 < reads && reads < 3 * pages,
                "{reads} reads of {pages} pages, {tiers:?}"
            );
        }
    }
}
