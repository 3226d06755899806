//! The handle of who loads many records.

use std::time::{Duration, SystemTime};

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_base::process::of_another_process;
use terrace_tier::Change;
use terrace_wal::Durability;

use super::group::{GROUP_RECORDS, group_bytes};
use super::record::Record;
use super::sorter::Sorter;
use crate::expires::Expires;
use crate::gentle::Cancel;
use crate::handle::map::Map;
use crate::read::leased::{check_expiring, check_value, with_stored};
use crate::state::loads::Memory;
use crate::write::batch::Batch;
use crate::write::one::check_lengths;

/// One part in this many of the database's memory is for sorting.
const MEMORY_PART: u64 = 8;
/// Least and most memory for sorting: room for a few values of the longest kind, and more than which does not
/// make it faster.
const MEMORY: (u64, u64) = (64 << 10, 64 << 20);
/// Of that, this fraction is for the records that are sorted, and the rest for those that are on
/// their way from the files to the tiers.
const SORT_PART: (u64, u64) = (3, 4);
/// Longer values are not sorted: they lie in pages of their own anyway, and would fill the memory.
const LONG_VALUE: usize = 16 << 10;

/// Loads many records into one structure: give it all of them with [`Loader::put`], in any order, and then
/// say [`Loader::finish`]. Of records with the same key the last one counts, and it takes the place of one
/// that is there.
///
/// A tree or a table gets them sorted, so that it is written from the lowest key to the highest and each page
/// once: with data that is larger than the memory about twice as fast as [`Map::put`], and with full pages
/// afterwards. What does not fit an eighth of the database's memory meanwhile is kept in files in its folder,
/// as large as the records. In a hash table, which has no such order, and in a table with indexes, the records
/// go the way of a [`Batch`].
///
/// Of what is sorted nothing is written before [`Loader::finish`], and if that is not called, nothing at all.
/// Values of more than 16 KiB are written when they are put, and so are records of hash tables, a few at a
/// time. Where few records are loaded among very many that are there, so that nearly each would take a page
/// of its own, those with two tiers go into the hot one, as a put does. It is not one change, as a batch is:
/// others see records as they are written, and after a crash some may be there. Others may write meanwhile;
/// what is written last counts.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
/// let squares = db.tree("squares")?;
/// let mut loader = squares.loader()?;
/// for n in (0..1000u64).rev() {
///     loader.put(terrace::encode::u64(n), (n * n).to_string())?;
/// }
/// assert_eq!(loader.finish()?, 1000);
/// assert_eq!(squares.get(terrace::encode::u64(12))?.as_deref(), Some(&b"144"[..]));
/// # Ok::<(), terrace::Error>(())
/// ```
#[must_use = "records are written for certain only by `finish`"]
pub struct Loader {
    pub(super) map: Map,
    pub(super) sorting: Option<Sorting>,
    /// Where there is no order: what is to be written next.
    pub(super) batch: Batch,
    /// Records that were put, and that were written already.
    pub(super) put: u64,
    pub(super) written: u64,
    pub(super) cancel: Cancel,
}

/// A sorter, and its memory.
pub(super) struct Sorting {
    pub(super) sorter: Sorter,
    pub(super) memory: Memory,
}

impl Map {
    /// Begins to load many records; see [`Loader`].
    ///
    /// # Errors
    /// When the structure was dropped; when so many loaders of the database are open that there is no memory
    /// for one more: each has half of what others have left.
    pub fn loader(&self) -> Result<Loader> {
        let core = self.db.core();
        drop(core.enter(&self.open)?);
        // Without an order of keys nothing is won by sorting.
        let sorting = match self.open.structure.position_prefix() {
            1.. => None,
            0 => {
                let usual = (core.options().memory / MEMORY_PART).clamp(MEMORY.0, MEMORY.1);
                let memory = Memory::take(core.loads(), core.store(), MEMORY.0 / 2, usual);
                let memory = core.heard(memory)?;
                let for_sorting = memory.bytes() / SORT_PART.1 * SORT_PART.0;
                let threads = !core.options().foreground;
                let sorter = Sorter::new(core.loads().clone(), for_sorting as usize, threads);
                Some(Sorting { sorter, memory })
            }
        };
        Ok(Loader {
            map: self.clone(),
            sorting,
            batch: Batch::default(),
            put: 0,
            written: 0,
            cancel: Cancel::new(),
        })
    }
}

impl Loader {
    /// Adds a record. O(1), now and then a file of sorted records.
    ///
    /// # Errors
    /// Keys and values that are too long: nothing has happened then. Those of the disk, after which the
    /// records put so far are lost; for hash tables, and long values, those of [`Map::put`], and then what was
    /// put to a hash table may still be written by what is called next. When the database was closed or the
    /// structure dropped: now and then it is looked whether it is so.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.map.open.spec.expiring {
            return self.put_leased(key, value, Lease::ENDLESS);
        }
        self.put_stored(key, value)
    }

    /// [`Loader::put`] of a record that is there up to an instant, or for ever; see [`Map::put_for`]. One that has
    /// expired takes the place of one that is there all the same.
    ///
    /// # Errors
    /// As [`Loader::put`]; [`terrace_base::Error::Invalid`] where records do not expire.
    pub fn put_expiring(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: Expires,
    ) -> Result<()> {
        check_expiring(&self.map.open)?;
        self.put_leased(key.as_ref(), value.as_ref(), expires.lease())
    }

    /// [`Loader::put_expiring`] for so long from now on.
    ///
    /// # Errors
    /// As [`Loader::put_expiring`].
    pub fn put_for(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        duration: Duration,
    ) -> Result<()> {
        check_expiring(&self.map.open)?;
        let lease = self.map.core().clock().lease_for(duration);
        self.put_leased(key.as_ref(), value.as_ref(), lease)
    }

    /// [`Loader::put_expiring`] up to an instant.
    ///
    /// # Errors
    /// As [`Loader::put_expiring`].
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        self.put_expiring(key, value, Expires::At(time))
    }

    fn put_leased(&mut self, key: &[u8], value: &[u8], lease: Lease) -> Result<()> {
        check_value(&self.map.open, value)?;
        with_stored(lease, value, |stored| self.put_stored(key, stored))
    }

    fn put_stored(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_lengths(self.map.core().longest_key(), key, value)?;
        self.check_owner()?;
        let Some(sorting) = &mut self.sorting else {
            let (open, db) = (&self.map.open, &self.map.db);
            self.batch.change(open, Some(db), key, Change::Put(value));
            self.put += 1;
            let core = self.map.core();
            let most = group_bytes(core.budget(), core.options().memory / MEMORY_PART);
            if self.batch.len() >= GROUP_RECORDS || self.batch.bytes() >= most {
                self.write_batch()?;
            }
            return Ok(());
        };
        let is_long = value.len() > LONG_VALUE;
        if is_long {
            let durability = Some(Durability::Buffered);
            self.map
                .change_stored(key, Change::Put(value), durability)?;
        }
        let value = (!is_long).then_some(value);
        let (record, core) = (Record { key, value }, self.map.core());
        if sorting.sorter.is_full_for(record) {
            // Before a file is written for a structure that is no more, or a database that was closed.
            drop(core.enter(&self.map.open)?);
        }
        core.heard(sorting.sorter.push(record))?;
        self.put += 1;
        Ok(())
    }

    pub(super) fn check_owner(&self) -> Result<()> {
        match self.map.core().loads().is_mine() {
            true => Ok(()),
            false => Err(of_another_process()),
        }
    }

    /// What ends the writing early, with [`terrace_base::Error::Cancelled`]: some of the records are written then,
    /// as after any other error of [`Loader::finish`].
    pub fn cancel(&mut self, cancel: &Cancel) {
        self.cancel = cancel.clone();
    }

    /// How many records were put.
    pub fn len(&self) -> u64 {
        self.put
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.put == 0
    }

    /// How many of them are written already, long values of what is sorted not counted: of a hash table those
    /// that came first, of what is sorted none.
    pub fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn write_batch(&mut self) -> Result<()> {
        let core = self.map.core();
        let batch = &mut self.batch;
        core.with_room(|| core.write_batch(batch, Some(Durability::Buffered)))?;
        self.written += self.batch.len() as u64;
        self.batch.clear();
        Ok(())
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("map", &self.map)
            .field("put", &self.put)
            .finish_non_exhaustive()
    }
}
