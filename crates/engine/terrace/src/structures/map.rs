//! What all structures of records by key have in common: looking up and writing. How one goes through all of
//! them stands beside what comes out: `range.rs`, `unordered.rs`.

use terrace_base::lease::Lease;
use terrace_base::{Error, Result};
use terrace_tier::{Change, Estimate};
use terrace_wal::Durability;

use crate::handle::database::Database;
use crate::handle::map::Map;
use crate::kinds::Kind;
use crate::kinds::spec::MapOptions;
use crate::latency::{Call, is_due};
use crate::merge::{Merge, Merged};
use crate::planted::{Fault, planted};
use crate::read::leased::{Sight, check_value, parts, with_stored};
use crate::write::one::{AsFound, check_lengths};

impl Map {
    /// The structure of this name, if it is what the options say.
    pub(crate) fn found(
        db: &Database,
        name: &str,
        kind: Option<Kind>,
        options: MapOptions,
    ) -> Result<Map> {
        let open = db.core().find(name)?;
        let open = open.ok_or_else(|| Error::NoSuchStructure { name: name.into() })?;
        options.check(name, kind, open.spec)?;
        if let Some(compression) = options.said_of_compression() {
            compression.check(open.spec.kind)?;
            db.core().compress(&open, compression)?;
        }
        Ok(Map::new(db.clone(), open))
    }

    // ---------------------------------------------------------------- reading

    /// The value of a key.
    ///
    /// # Errors
    /// A failure of the disk, damage.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces `value` by the value of a key and returns whether there is one; without, what
    /// `value` holds means nothing. Spares the allocation of [`Map::get`].
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        if is_due() {
            let latencies = self.core().latencies();
            return latencies.timed(Call::Get, || self.look_up(key, value));
        }
        self.look_up(key, value)
    }

    #[inline(always)]
    fn look_up(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.core().check_key(key)?;
        let _pass = self.core().enter(&self.open)?;
        if self.open.spec.expiring {
            let core = self.core();
            let lease = core.get_at(&self.open, Sight::Now, key, value)?;
            return Ok(lease.is_some());
        }
        self.open
            .structure
            .get(key, value)
            .map_err(|e| self.failed(e))
    }

    /// The values of keys, in their order; a key that comes twice is answered twice. Each is of an instant of
    /// its own: for all of one instant see [`Database::read`]. Records in memory are taken first, and the pages
    /// of the others are read together, as many as the device takes at a time, so that many cold keys take
    /// much less time than one after the other.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let longest = self.core().longest_key();
        keys.iter()
            .try_for_each(|key| check_lengths(longest, key, &[]))?;
        self.core().get_many(&self.open, &keys)
    }

    /// Whether there is a value. Reads it, however large it is.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.get_into(key, &mut Vec::new())
    }

    // ---------------------------------------------------------------- writing blindly

    /// Stores a value, whether the key was there or not.
    ///
    /// # Errors
    /// Keys and values that are too long, [`Error::DiskFull`],
    /// [`Error::Poisoned`]. In a table with indexes also
    /// [`Error::Duplicate`], a row in which an index finds no proper key, and damage of
    /// the row that was there.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(key.as_ref(), Change::Put(value.as_ref()), None)
    }

    /// [`Map::put`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.change(key.as_ref(), Change::Put(value.as_ref()), Some(durability))
    }

    /// Removes a key, whether it was there or not.
    ///
    /// # Errors
    /// As [`Map::put`]; works on a full disk too.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(key.as_ref(), Change::Delete, None)
    }

    /// [`Map::delete`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.change(key.as_ref(), Change::Delete, Some(durability))
    }

    fn change(&self, key: &[u8], change: Change<'_>, durability: Option<Durability>) -> Result<()> {
        if let Change::Put(value) = change
            && self.open.spec.expiring
        {
            return self.put_leased(key, value, Lease::ENDLESS, durability);
        }
        self.change_stored(key, change, durability)
    }

    /// Stores a value with a lease, where records may expire.
    pub fn put_leased(
        &self,
        key: &[u8],
        value: &[u8],
        lease: Lease,
        durability: Option<Durability>,
    ) -> Result<()> {
        check_value(&self.open, value)?;
        with_stored(lease, value, |stored| {
            self.change_stored(key, Change::Put(stored), durability)
        })
    }

    #[inline]
    pub(crate) fn change_stored(
        &self,
        key: &[u8],
        change: Change<'_>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let core = self.core();
        let write = || core.write_one(&self.open, key, change, None, durability);
        let wrote = match is_due() {
            true => core.latencies().timed(Call::Put, write),
            false => write(),
        };
        wrote.map(|_| ())
    }

    // ---------------------------------------------------------------- writing what was looked at

    /// Stores a value **if the key is not there**, and returns whether it did: what is there stays.
    /// To store it in any case use [`Map::put`].
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.insert_impl(key.as_ref(), value.as_ref(), None)
    }

    /// [`Map::insert`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn insert_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<bool> {
        self.insert_impl(key.as_ref(), value.as_ref(), Some(durability))
    }

    fn insert_impl(
        &self,
        key: &[u8],
        value: &[u8],
        durability: Option<Durability>,
    ) -> Result<bool> {
        check_lengths(self.core().longest_key(), key, value)?;
        let mut was_there = false;
        self.edit(key, durability, |old| {
            was_there = old.is_some();
            if was_there {
                Edit::Keep
            } else {
                Edit::Put(value)
            }
        })?;
        Ok(!was_there)
    }

    /// Removes a key; returns the value that it had.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.remove_impl(key.as_ref(), None)
    }

    /// [`Map::remove`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn remove_with(
        &self,
        key: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<Option<Vec<u8>>> {
        self.remove_impl(key.as_ref(), Some(durability))
    }

    fn remove_impl(&self, key: &[u8], durability: Option<Durability>) -> Result<Option<Vec<u8>>> {
        let mut removed = None;
        self.edit::<&[u8]>(key, durability, |old| {
            removed = old.map(<[u8]>::to_vec);
            if old.is_some() {
                Edit::Delete
            } else {
                Edit::Keep
            }
        })?;
        Ok(removed)
    }

    /// Replaces the value of a key by what `f` makes of it: `f` gets the value, if there is one,
    /// and answers the new one, or `None` for none. Atomic. Returns whether the key was there.
    ///
    /// `f` holds nothing while it runs, so it may take its time and use the database; when another
    /// thread has changed the value meanwhile it is called again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// # let counts = db.tree("counts")?;
    /// counts.update("word", |old| {
    ///     let count = old.and_then(terrace::encode::to_u64).unwrap_or(0);
    ///     Some(terrace::encode::u64(count + 1).to_vec())
    /// })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        self.update_impl(key.as_ref(), f, None)
    }

    /// [`Map::update`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        durability: Durability,
        f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        self.update_impl(key.as_ref(), f, Some(durability))
    }

    fn update_impl(
        &self,
        key: &[u8],
        mut f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
        durability: Option<Durability>,
    ) -> Result<bool> {
        let mut was_there = false;
        self.edit(key, durability, |old| {
            was_there = old.is_some();
            match f(old) {
                Some(new) => Edit::Put(new),
                None if was_there => Edit::Delete,
                None => Edit::Keep,
            }
        })?;
        Ok(was_there)
    }

    /// Changes the value of a key by what is there, atomically, and returns whether it was changed: adds to a
    /// number, keeps the lower or the higher of two values, appends, compares and sets. Worked out
    /// from the value that it replaces, and logged as the put that it becomes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use terrace::{Merge, encode};
    /// let counts = db.hash("counts")?;
    /// counts.merge("visits", Merge::Add(1))?;
    /// counts.merge("visits", Merge::Add(2))?;
    /// assert_eq!(counts.get("visits")?, Some(encode::i64(3).to_vec()));
    /// assert!(!counts.merge("visits", Merge::SetIfAbsent(b"0".to_vec()))?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::put`]; [`Error::Invalid`], and nothing changed, where it does not fit the value: a
    /// number of another length, a sum out of range, more bytes than the limit.
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge) -> Result<bool> {
        self.merge_impl(key.as_ref(), &merge, None)
    }

    /// [`Map::merge`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        merge: Merge,
        durability: Durability,
    ) -> Result<bool> {
        self.merge_impl(key.as_ref(), &merge, Some(durability))
    }

    fn merge_impl(
        &self,
        key: &[u8],
        merge: &Merge,
        durability: Option<Durability>,
    ) -> Result<bool> {
        let mut answer = Ok(false);
        self.edit(key, durability, |old| {
            let merged = merge.apply(old);
            answer = merged.as_ref().map(|_| true).map_err(Clone::clone);
            match merged {
                Ok(Merged::Set(Some(new))) if planted(Fault::LeaseLostByMerge) => {
                    Edit::PutUntil(new, Lease::ENDLESS)
                }
                Ok(Merged::Set(Some(new))) => Edit::Put(new),
                Ok(Merged::Set(None)) => Edit::Delete,
                Ok(Merged::Keep) => {
                    answer = Ok(false);
                    Edit::Keep
                }
                Err(_) => Edit::Keep,
            }
        })?;
        answer
    }

    /// Looks, asks, and writes if the record is still as it was found; starts over if it is not.
    fn edit<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        durability: Option<Durability>,
        mut ask: impl FnMut(Option<&[u8]>) -> Edit<V>,
    ) -> Result<()> {
        self.edit_leased(key, durability, |old| ask(old.map(|(_, value)| value)))
    }

    /// The same for who asks for the lease, too.
    pub fn edit_leased<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        durability: Option<Durability>,
        ask: impl FnMut(Option<(Lease, &[u8])>) -> Edit<V>,
    ) -> Result<()> {
        let latencies = self.core().latencies();
        let began = latencies.begin();
        let edited = self.edit_found(key, durability, ask);
        latencies.end(Call::Update, began);
        edited
    }

    // Always: what is asked would be called through memory.
    #[inline(always)]
    fn edit_found<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        durability: Option<Durability>,
        mut ask: impl FnMut(Option<(Lease, &[u8])>) -> Edit<V>,
    ) -> Result<()> {
        check_lengths(self.core().longest_key(), key, &[])?;
        let core = self.core();
        let mut value = Vec::new();
        loop {
            let looked = {
                let _pass = core.enter(&self.open)?;
                core.look(&self.open, key, &mut value)?
            };
            let old = match looked.lease {
                Some(_) => Some(parts(&self.open, &value)?),
                None => None,
            };
            let answer = ask(old);
            // What is changed keeps its lease, and what is new stays.
            let kept = looked.lease.unwrap_or(Lease::ENDLESS);
            let (new, lease) = match &answer {
                Edit::Keep => return core.confirm_kept(&self.open, durability),
                Edit::Put(new) => (Some(new.as_ref()), kept),
                Edit::PutUntil(new, lease) => (Some(new.as_ref()), *lease),
                Edit::Until(lease) => (old.map(|(_, value)| value), *lease),
                Edit::Delete => (None, kept),
            };
            let as_found = AsFound {
                found: looked.found,
                value: &value,
                version: looked.version,
                // Others may have seen that it is gone.
                before: (lease > kept).then_some(kept),
            };
            let expect = (!planted(Fault::BlindUpdate)).then_some(&as_found);
            let write =
                |change: Change<'_>| core.write_one(&self.open, key, change, expect, durability);
            let done = match new {
                None => write(Change::Delete),
                Some(new) if !self.open.spec.expiring => write(Change::Put(new)),
                // It goes at once.
                Some(_) if lease != kept && lease.is_over(core.clock().now()) => {
                    write(Change::Delete)
                }
                Some(new) => {
                    check_value(&self.open, new)?;
                    with_stored(lease, new, |stored| write(Change::Put(stored)))
                }
            };
            if done? {
                return Ok(());
            }
        }
    }

    // ---------------------------------------------------------------- everything

    /// About how many records there are, from a sample: there is no exact number, because blind
    /// writes do not look whether a key was there. Usually within a twentieth, of an LSM-tree within a
    /// quarter; exact while everything lies on a page. Reads some dozen pages, some hundred where they differ
    /// much.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn estimated_len(&self) -> Result<u64> {
        self.estimate().map(|estimate| estimate.records)
    }

    /// About how many records there are and in which tier (there also those that have expired), as
    /// [`Map::estimated_len`] finds out. A
    /// record may be in both tiers: a hot one whose change has not been written below yet, or one of
    /// a structure that is [`inclusive`](crate::MapOptions::inclusive).
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn estimate(&self) -> Result<Estimate> {
        let core = self.core();
        let mut estimate = {
            let _pass = core.enter(&self.open)?;
            let estimate = self.open.structure.estimate();
            estimate.map_err(|e| self.failed(e))?
        };
        if self.open.spec.expiring {
            estimate.records = match core.few_records(&self.open)? {
                Some(records) => records,
                None => {
                    let living = 1.0 - core.expired_share(&self.open)?;
                    (estimate.records as f64 * living).round() as u64
                }
            };
        }
        Ok(estimate)
    }
}

/// What becomes of a record that was looked at.
pub enum Edit<V> {
    Keep,
    /// Another value, with the lease that it had.
    Put(V),
    /// Another value, with this lease.
    PutUntil(V, Lease),
    /// The same value, with this lease.
    Until(Lease),
    Delete,
}
