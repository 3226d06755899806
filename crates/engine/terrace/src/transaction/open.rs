//! A transaction that is open: what it has read and what it is to write.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::lease::Lease;
use terrace_base::{Error, Result};
use terrace_tier::{Change, WriteReservation};

use super::options::TransactionOptions;
use super::overlay::{Overlay, Staged};
use super::reads::{Changed, Reads, Validated};
use crate::catalog::opened::Open;
use crate::core::Core;
use crate::handle::database::Database;
use crate::handle::map::Map;
use crate::merge::{Merge, Merged};
use crate::planted::{Fault, planted};
use crate::read::leased::{check_value, parts, stored, take_lease};
use crate::state::fairness_lock::Taken;
use crate::state::heads::Head;
use crate::write::batch::staged::What;
use crate::write::batch::{Batch, Mark};
use crate::write::one::check_lengths;

/// A place in a transaction to go back to.
#[derive(Clone, Debug)]
pub struct Savepoint {
    batch: Mark,
    overlay: usize,
    serial: u64,
}

/// Reads and writes that happen at one instant, or not at all; see [`Database::transaction`].
///
/// It sees its own changes. What it has read is looked at again when it commits, and by each of its operations
/// before: as soon as something has changed, every one answers [`Error::Conflict`], so a closure
/// that passes errors on with `?` never computes on two states. Dropped without a commit it has done
/// nothing.
pub struct Transaction {
    pub(super) db: Database,
    pub(super) options: TransactionOptions,
    pub(super) batch: Batch,
    pub(super) overlay: Overlay,
    pub(super) reads: Reads,
    /// Why it cannot go on.
    pub(super) conflict: Option<Changed>,
    /// The savepoints that mean something, in their order.
    pub(super) savepoints: Vec<u64>,
    /// The fairness lock, while it has it.
    turn: Option<Taken>,
    /// Structures whose first or last record it has taken, and how many of them.
    pub(super) heads: Vec<(Head, Arc<WriteReservation>)>,
    pub(super) popped: usize,
}

/// Each savepoint has a number of its own, so that one that was gone back past is known, and one of another
/// transaction or attempt.
static SERIALS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Transaction {
    pub(crate) fn new(db: &Database, options: TransactionOptions) -> Transaction {
        Transaction {
            db: db.clone(),
            options,
            batch: Batch::new(),
            overlay: Overlay::default(),
            reads: {
                let core = db.core();
                Reads::new(core.tiers().locks.clone(), core.clock().clone())
            },
            conflict: None,
            savepoints: Vec::new(),
            turn: None,
            heads: Vec::new(),
            popped: 0,
        }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        self.batch.clear();
        self.overlay = Overlay::default();
        self.conflict = None;
        self.savepoints.clear();
        self.let_go();
    }

    /// Takes the fairness lock, for the time `most` at most.
    pub(super) fn take_turn(&mut self, core: &Arc<Core>, most: Duration) {
        if planted(Fault::TurnIgnored) {
            return;
        }
        self.turn = core.turn().take(most);
        self.reads.claim = self.turn.as_ref().map(|turn| turn.claim.clone());
    }

    /// Lets go of everything that others wait for or look at.
    pub(super) fn let_go(&mut self) {
        self.reads.clear();
        self.turn = None;
        self.leave_heads();
    }

    /// Lets others take first and last records.
    fn leave_heads(&mut self) {
        self.popped = 0;
        for (head, claim) in self.heads.drain(..) {
            self.db.core().heads().leave(head, &claim);
        }
    }

    /// The conflict as an error.
    pub(super) fn conflict_error(&self, attempts: u32) -> Error {
        let changed = self.conflict.clone().unwrap_or_else(|| self.some());
        Error::Conflict {
            structure: changed.structure,
            key: changed.key,
            attempts,
        }
    }

    /// Something to name when it was not to be had in peace: something that was read, or else that is written.
    pub(super) fn some(&self) -> Changed {
        self.reads.some().unwrap_or_else(|| {
            let (structure, key) = self.batch.first().unwrap_or_default();
            Changed { structure, key }
        })
    }

    pub(super) fn met(&mut self, changed: Validated) -> Result<()> {
        match changed {
            Ok(()) => Ok(()),
            Err(changed) => {
                self.conflict = Some(changed);
                Err(self.conflict_error(1))
            }
        }
    }

    /// What every operation begins with.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.conflict.is_some() {
            return Err(self.conflict_error(1));
        }
        let looked = self.reads.look(self.db.core())?;
        self.met(looked)
    }

    /// What every operation on a structure begins with.
    pub(super) fn begin(&mut self, map: &Map, key: &[u8], value: &[u8]) -> Result<()> {
        if !Arc::ptr_eq(&map.db.handle, &self.db.handle) {
            return Err(Error::invalid(format!(
                "\"{}\" belongs to another database than the transaction",
                map.name()
            )));
        }
        check_lengths(self.db.core().longest_key(), key, &[])?;
        check_value(&map.open, value)?;
        self.look()
    }

    /// The record as it is stored in the database, if it is there for the transaction, noted as read.
    pub(super) fn read(&mut self, open: &Arc<Open>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let core = self.db.core().clone();
        self.reads.begin_read(&core, open, key);
        let mut value = Vec::new();
        let sight = self.reads.sight(open);
        let (lease, version) = {
            let _pass = core.enter(open)?;
            if planted(Fault::UnlockedRead) {
                let slot = core.tiers().locks.slot(open.id(), key);
                let read = |value: &mut Vec<u8>| Ok((open.structure.get(key, value)?, ()));
                let seen = core.seen((open, Some(key)), sight, &mut value, read)?;
                (seen.lease, core.tiers().locks.read_waiting(slot))
            } else {
                let looked = core.look_at(open, sight, key, &mut value)?;
                (looked.lease, looked.version)
            }
        };
        let value = lease.map(|_| value);
        let noted = self
            .reads
            .note(&core, open, key, value.as_deref(), version)?;
        self.met(noted)?;
        // It may have waited for the disk: what was read before has to be of the same state.
        self.look()?;
        Ok(value)
    }

    /// The value of a key for the transaction, with its own changes.
    pub(super) fn get_open(&mut self, open: &Arc<Open>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = self.get_stored(open, key)?;
        if let Some(value) = &mut value {
            take_lease(open, value)?;
        }
        Ok(value)
    }

    /// The same as it is stored.
    pub(super) fn get_stored(&mut self, open: &Arc<Open>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.overlay.get(open.id(), key) {
            Some(Staged::Put(value)) => return Ok(Some(value.clone())),
            Some(Staged::Delete) => return Ok(None),
            Some(Staged::Merged(_)) => {}
            None if self.overlay.hides(open.id(), key) => return Ok(None),
            None => return self.read(open, key),
        }
        // Merges of a value that is asked for now: from here on it is one that was read.
        let value = self.read(open, key)?;
        let value = self.merged(open, key, value)?;
        self.stage(
            open,
            key,
            value.as_deref().map_or(Change::Delete, Change::Put),
        )?;
        Ok(value)
    }

    /// What the transaction's own merges of a key make of a value, as both are stored.
    pub(super) fn merged(
        &self,
        open: &Arc<Open>,
        key: &[u8],
        mut value: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(Staged::Merged(last)) = self.overlay.get(open.id(), key) {
            for what in self.batch.merges_until(*last) {
                let now = self.reads.now();
                if let Merged::Set(new) = what.apply(open, value.as_deref(), now)? {
                    value = new;
                }
            }
        }
        Ok(value)
    }

    /// Makes a change its own, of a value as it is stored.
    pub(super) fn stage(&mut self, open: &Arc<Open>, key: &[u8], change: Change<'_>) -> Result<()> {
        self.batch.change(open, Some(&self.db), key, change);
        if let Some(mistake) = self.batch.mistake() {
            return Err(mistake);
        }
        self.batch.fits_so_far(self.db.core())?;
        let staged = match change {
            Change::Put(value) => Staged::Put(value.to_vec()),
            Change::Delete => Staged::Delete,
        };
        self.overlay.set(open.id(), key, staged);
        Ok(())
    }

    // ---------------------------------------------------------------- reading

    /// The value of a key, with the transaction's own changes.
    ///
    /// # Errors
    /// As [`Map::get`]; [`Error::Conflict`] when something that was read has changed.
    pub fn get(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        self.get_open(&map.open, key)
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(map, key)?.is_some())
    }

    /// The values of keys, in their order. All of them are of one instant, that of the commit.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_many<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.begin(map, &[], &[])?;
        let mut values = Vec::with_capacity(keys.len());
        let longest = self.db.core().longest_key();
        // So many at a time that they are still there when they are read.
        for keys in keys.chunks(self.db.core().store().most_together()) {
            let unread = |key: &&[u8]| self.overlay.get(map.open.id(), key).is_none();
            let unread: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).filter(unread).collect();
            if unread.iter().all(|key| key.len() <= longest) {
                self.db.core().bring_in(&map.open, &unread)?;
            }
            for key in keys {
                values.push(self.get(map, key)?);
            }
        }
        Ok(values)
    }

    /// The value of a key as it is now, with the transaction's own changes, and without looking when it
    /// commits whether it is still so: for hints and statistics.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_unchecked(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        let mut value = match self.overlay.get(map.open.id(), key) {
            Some(Staged::Put(value)) => Some(value.clone()),
            Some(Staged::Delete) => None,
            None if self.overlay.hides(map.open.id(), key) => None,
            None => return map.get(key),
            Some(Staged::Merged(_)) => self.merged(&map.open, key, map.get_stored(key)?)?,
        };
        if let Some(value) = &mut value {
            take_lease(&map.open, value)?;
        }
        Ok(value)
    }

    // ---------------------------------------------------------------- writing

    /// Stores a value, whether the key was there or not. Does not count as reading the key.
    ///
    /// # Errors
    /// Keys and values that are too long; more than a batch may hold. Duplicates in a unique index are
    /// told by the commit.
    pub fn put(&mut self, map: &Map, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.begin(map, key, value)?;
        let stored = stored(&map.open, Lease::ENDLESS, value);
        self.stage(&map.open, key, Change::Put(&stored))
    }

    /// Removes a key, whether it was there or not. Does not count as reading it.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        self.stage(&map.open, key, Change::Delete)
    }

    /// Stores a value if the key is not there, and returns whether it did.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::put`].
    pub fn insert(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.begin(map, key, value)?;
        if self.get_stored(&map.open, key)?.is_some() {
            return Ok(false);
        }
        let stored = stored(&map.open, Lease::ENDLESS, value);
        self.stage(&map.open, key, Change::Put(&stored))?;
        Ok(true)
    }

    /// Replaces the value of a key by what `f` makes of it, or removes it; returns whether it was there.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn update(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        let old = self.get_stored(&map.open, key)?;
        let parts = old.as_deref().map(|old| parts(&map.open, old));
        let parts = parts.transpose()?;
        match f(parts.map(|(_, value)| value)) {
            Some(new) => {
                check_value(&map.open, &new)?;
                let kept = parts.map_or(Lease::ENDLESS, |(lease, _)| lease);
                let stored = stored(&map.open, kept, &new);
                self.stage(&map.open, key, Change::Put(&stored))?;
            }
            None if old.is_some() => self.stage(&map.open, key, Change::Delete)?,
            None => {}
        }
        Ok(old.is_some())
    }

    /// Removes a key; returns the value that it had.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn remove(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        let old = self.get_open(&map.open, key)?;
        if old.is_some() {
            self.stage(&map.open, key, Change::Delete)?;
        }
        Ok(old)
    }

    /// Changes the value of a key by what is there when it commits ([`Map::merge`]). Does not count as reading
    /// the key, so counters that many transactions add to are no conflicts.
    ///
    /// # Errors
    /// As [`Transaction::put`]; what does not fit the value is told by the commit, or here if the value is
    /// known already.
    pub fn merge(&mut self, map: &Map, key: impl AsRef<[u8]>, merge: Merge) -> Result<()> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        let (unknown, before) = match self.overlay.get(map.open.id(), key) {
            Some(Staged::Merged(last)) => (true, Some(*last)),
            Some(_) => (false, None),
            None if self.overlay.hides(map.open.id(), key) => (false, None),
            None => (!self.reads.known(&map.open, key), None),
        };
        if unknown {
            let db = Some(&self.db);
            let added = self.batch.merge_open(&map.open, db, key, merge, before);
            if let Some(mistake) = self.batch.mistake() {
                return Err(mistake);
            }
            if let Some(last) = added {
                self.overlay.set(map.open.id(), key, Staged::Merged(last));
            }
            return Ok(());
        }
        let old = self.get_stored(&map.open, key)?;
        let what = What::Merge(merge);
        let now = self.reads.now();
        if let Merged::Set(new) = what.apply(&map.open, old.as_deref(), now)? {
            let change = new.as_deref().map_or(Change::Delete, Change::Put);
            self.stage(&map.open, key, change)?;
        }
        Ok(())
    }

    // ---------------------------------------------------------------- savepoints

    /// Where the transaction stands, to go back there.
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = SERIALS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.savepoints.push(serial);
        Savepoint {
            batch: self.batch.mark(),
            overlay: self.overlay.mark(),
            serial,
        }
    }

    /// Takes back the changes made since. What was read since stays read. Savepoints made since mean nothing
    /// any more. O(what is taken back).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a savepoint of another transaction or attempt, or one that was gone back past.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let mut savepoints = self.savepoints.iter();
        let Some(at) = savepoints.position(|serial| *serial == savepoint.serial) else {
            return Err(Error::invalid(
                "the savepoint is none of this transaction as it stands: it belongs to another or to an earlier attempt, or was gone back past",
            ));
        };
        self.savepoints.truncate(at + 1);
        if !planted(Fault::SavepointIgnored) {
            self.batch.back_to(savepoint.batch);
        }
        self.overlay.back_to(savepoint.overlay);
        Ok(())
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("changes", &self.batch.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.leave_heads();
    }
}
