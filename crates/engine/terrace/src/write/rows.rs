//! Changing rows so that all indexes agree with them at every instant.
//!
//! A round of a write: snapshots of the indexes; the rows as they are, with the versions of their
//! locks; what changes in the indexes; then one batch over rows and entries, which is made only if
//! the snapshots are the newest and every version is still the one read. Otherwise nothing was done
//! and the next round begins. User code runs in the middle, where nothing is held.
//!
//! Invariants: an entry changes only in a batch that holds the lock of its row. So as long as the
//! version of a row stands, its entries are those that its value gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{Error, Result, StructureId};
use terrace_tier::{Change, Expect, WriteReservation, Written};
use terrace_wal::Durability;

use crate::catalog::opened::{IndexState, Open, TableState};
use crate::core::Core;
use crate::index::entry::encode;
use crate::index::state::Closed;
use crate::planted::{Fault, planted};
use crate::read::leased::parts;
use crate::write::batch::merges::Merging;
use crate::write::batch::standing::Standing;
use crate::write::batch::{Batch, Wrote};
use crate::write::expected::{Expected, Outcome, Round};
use crate::write::one::{AsFound, check_lengths};

/// Rounds that may fail because others were faster, before they have to wait.
const ROUNDS: u32 = 16;
/// The same for a batch of more changes than the second number: locks are shared, and what the sweep moves
/// between the tiers meanwhile is likely to share one with some of them.
const ROUNDS_IF_LARGE: (u32, usize) = (1, 64);

/// The same for a batch with merges that are not all in tables, which never goes alone: then it is refused. Where
/// no index is changed the first round is nearly always the last one (see [`Merging`]).
const ROUNDS_OF_MERGES: u32 = 10_000;

/// What was found of the keys of unique indexes.
enum Unique {
    /// No key has two rows.
    Is,
    /// What was read does not stand any more, so that nothing can be said.
    Changed,
    /// This row has one that another is to have, and has expired.
    Expired(Arc<Open>, Vec<u8>),
}

/// What changes in one index because of one row: a key goes, one comes, or both.
struct Difference<'b> {
    index: IndexState,
    table: Arc<Open>,
    primary: &'b [u8],
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

/// What a look at the rows of a batch has come to.
enum Differences<'b> {
    Found(Vec<Difference<'b>>),
    /// The round ends so.
    Ended(Round),
}

/// An entry of an index, which comes, or goes if it has no value.
struct Entry {
    index: Arc<Open>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The holder of a key of a unique index.
type Keys<'a> = BTreeMap<(StructureId, &'a [u8]), &'a [u8]>;

impl Core {
    /// Changes one row of a table with indexes. With `expect`, answers `false` and does nothing when
    /// the row is not as it was found.
    pub fn write_row(
        &self,
        open: &Arc<Open>,
        key: &[u8],
        change: Change<'_>,
        expect: Option<&AsFound<'_>>,
        durability: Option<Durability>,
    ) -> Result<bool> {
        let in_force = self.durability(open.spec.logged, durability)?;
        let mut batch = Batch::default();
        batch.change(open, None, key, change);
        if let Some(mistake) = batch.mistake_within(self.longest_key()) {
            return Err(mistake);
        }
        let Outcome::Written(appended) = self.write_rounds(&mut batch, expect)? else {
            return Ok(false);
        };
        self.make_durable(appended, in_force)?;
        Ok(true)
    }

    /// Writes a batch, and what it changes in indexes, in as many rounds as it takes; the caller holds
    /// no operation. With `expect`, what the only row was, it looks whether it has changed.
    pub fn write_rounds(&self, batch: &mut Batch, expect: Option<&AsFound<'_>>) -> Result<Outcome> {
        let (few, large) = ROUNDS_IF_LARGE;
        let rounds = if batch.len() > large { few } else { ROUNDS };
        // What was found of a merged record comes to rest by closing tables only if it is in one.
        let restless = batch.has_merges() && !batch.merges_are_in_tables();
        let rounds = if restless { ROUNDS_OF_MERGES } else { rounds };
        for _ in 0..rounds {
            match self.round(batch, expect, false, None)? {
                Round::Written(appended) => return Ok(Outcome::Written(appended)),
                Round::NotAsFound => return Ok(Outcome::NotAsFound),
                Round::Changed => std::thread::yield_now(),
                Round::Claimed(claim) => return self.write_rounds_after(&claim, batch, expect),
            }
        }
        // A large batch may meet another writer in every round, or bring in what pushes out what it has
        // read before. So it goes alone. No other thread changes rows of closed tables, and nothing is expected of
        // locks, but what it rests on may still expire.
        let tables = batch.tables();
        let alone = if restless { 0 } else { ROUNDS };
        for _ in 0..alone {
            match self.alone(&tables, || self.round(batch, expect, true, None))? {
                Round::Written(appended) => return Ok(Outcome::Written(appended)),
                Round::NotAsFound => return Ok(Outcome::NotAsFound),
                Round::Claimed(claim) => return self.write_rounds_after(&claim, batch, expect),
                Round::Changed => {}
            }
        }
        let (structure, key) = batch.first().unwrap_or_default();
        Err(Error::Conflict {
            structure,
            key,
            attempts: rounds + alone,
        })
    }

    /// [`Core::write_rounds`] once who claims what is to be written has ended.
    #[cold]
    fn write_rounds_after(
        &self,
        claim: &WriteReservation,
        batch: &mut Batch,
        expect: Option<&AsFound<'_>>,
    ) -> Result<Outcome> {
        let _owed = self.turn().wait_for(claim);
        self.write_rounds(batch, expect)
    }

    /// Closes a table to whoever changes rows. The caller holds the tables and nothing else.
    pub fn close_table<'a>(&self, table: &'a TableState) -> Closed<'a, IndexState> {
        let closed = table.close();
        self.passes().quiesce();
        closed
    }

    /// Does something while no other thread changes rows of these tables. The caller holds nothing.
    pub fn alone<T>(&self, tables: &[Arc<Open>], f: impl FnOnce() -> T) -> T {
        let _closing = self.definitions().hold_tables();
        let _closed: Vec<_> = tables
            .iter()
            .filter_map(|open| open.table.as_ref())
            .map(|table| self.close_table(table))
            .collect();
        f()
    }

    /// One round, if `standing` stands, too; the batch is afterwards as it was. `alone` if the tables are closed to
    /// all others. The caller holds no operation.
    pub fn round(
        &self,
        batch: &mut Batch,
        expect: Option<&AsFound<'_>>,
        alone: bool,
        standing: Option<&dyn Standing>,
    ) -> Result<Round> {
        let mark = batch.mark();
        let round = self.round_once(batch, expect, alone, standing);
        batch.back_to(mark);
        round
    }

    fn round_once(
        &self,
        batch: &mut Batch,
        expect: Option<&AsFound<'_>>,
        alone: bool,
        standing: Option<&dyn Standing>,
    ) -> Result<Round> {
        if expect.is_some_and(|expect| !expect.is_in_time(self.clock())) {
            return Ok(Round::NotAsFound);
        }
        let mut expected = Expected {
            standing,
            ..Expected::default()
        };
        if let Some(lease) = expect.and_then(|expect| expect.before) {
            expected.before.note(lease);
        }
        self.work_out(batch, &mut expected)?;
        for open in batch.tables() {
            if let Some(table) = &open.table {
                let snapshot = if alone {
                    table.snapshot()
                } else {
                    table.open_snapshot()
                };
                expected.tables.push((open, snapshot));
            }
        }
        // Rows that go with the batch, for they have expired and hold keys that are wanted.
        let mut expired = Vec::new();
        let versions = expected.versions.len();
        let differences = loop {
            let differences = match self.differences(batch, expect, &expired, &mut expected)? {
                Differences::Found(differences) => differences,
                Differences::Ended(round) => return Ok(round),
            };
            match self.check_unique(batch, &differences, &mut expected, alone)? {
                Unique::Is => break differences,
                Unique::Changed => return Ok(Round::Changed),
                Unique::Expired(table, primary) => {
                    drop(differences);
                    batch.change(&table, None, &primary, Change::Delete);
                    expired.push((table, primary));
                    expected.versions.truncate(versions);
                }
            }
        };
        if alone {
            expected.tables.clear();
            expected.versions.clear();
            expected.kept.clear();
        }
        let entries = self.entries(&differences)?;
        if !entries.is_empty() && expected.merging.is_any() {
            // An index was made meanwhile.
            return Ok(Round::Changed);
        }
        for Entry { index, key, value } in &entries {
            let change = value.as_deref().map_or(Change::Delete, Change::Put);
            batch.change(index, None, key, change);
        }
        if let Some(mistake) = batch.mistake_within(self.longest_key()) {
            return Err(mistake);
        }
        self.write_expecting(batch, &expected)
    }

    /// Works out the merges of a batch, and what its changes rest on then.
    fn work_out(&self, batch: &mut Batch, expected: &mut Expected<'_>) -> Result<()> {
        // With indexes a change of a value changes more, which is worked out by user code: outside.
        let again = !batch.changes_indexes();
        let mut merging = Merging::new(batch.mark());
        let (mut versions, mut kept) = (Vec::new(), Vec::new());
        let before = &expected.before;
        batch.work_out_merges(
            self,
            |open, key| {
                let mut value = Vec::new();
                let _pass = self.enter(open)?;
                let looked = self.look(open, key, &mut value)?;
                let version = looked.version;
                looked.lease.inspect(|lease| before.note(*lease));
                let value = looked.lease.map(|_| value);
                if again {
                    merging.note(open, key, value.clone(), version);
                }
                Ok((value, version))
            },
            |open, key, version, changed| {
                let slot = self.tiers().locks.slot(open.id(), key);
                match changed {
                    true => versions.push((slot, version)),
                    false if planted(Fault::KeptUnvalidated) => {}
                    false => kept.push((slot, version)),
                }
            },
        )?;
        if again && !batch.has_no_changes() {
            let rested = versions.iter().chain(&kept);
            rested.for_each(|(slot, _)| merging.rests_on(*slot));
            expected.merging = merging;
        } else {
            expected.versions.extend(versions);
            expected.kept.extend(kept);
        }
        Ok(())
    }

    /// The entries that change, those that go first: a key that one row gives up another may take in the same batch.
    fn entries(&self, differences: &[Difference<'_>]) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for d in differences {
            if let Some(old) = &d.old
                && !planted(Fault::EntryLeft)
            {
                entries.push((d, encode(d.index.entry.unique, old, d.primary), false));
            }
        }
        for d in differences {
            if let Some(new) = &d.new {
                let entry = encode(d.index.entry.unique, new, d.primary);
                check_lengths(self.longest_key(), &entry.0, &[]).map_err(|e| {
                    Error::invalid(format!(
                        "a key of the index \"{}\" of the table \"{}\" is too long, together with the row's primary key \
                         where the index is not unique: {e}. Nothing was changed",
                        d.index.name,
                        d.table.name()
                    ))
                })?;
                entries.push((d, entry, true));
            }
        }
        Ok(entries
            .into_iter()
            .map(|(d, (key, value), put)| Entry {
                index: d.index.open.clone(),
                key,
                value: put.then(|| value.to_vec()),
            })
            .collect())
    }

    /// Reads the rows that a batch changes, and says what changes in the indexes; or how the round ends if one is
    /// not as `expect` has it, or one of those that had expired has not.
    fn differences<'b>(
        &self,
        batch: &'b Batch,
        expect: Option<&AsFound<'_>>,
        expired: &[(Arc<Open>, Vec<u8>)],
        expected: &mut Expected<'_>,
    ) -> Result<Differences<'b>> {
        let (mut differences, mut row) = (Vec::new(), Vec::new());
        for (open, key, change) in batch.last_changes() {
            let tables = &mut expected.tables.iter();
            let Some((open, snapshot)) = tables.find(|(o, _)| Arc::ptr_eq(o, open)) else {
                continue;
            };
            if snapshot.is_empty() && expect.is_none() {
                continue;
            }
            let (found, version) = {
                let _pass = self.enter(open)?;
                self.heard(open.structure.get_versioned(key, &mut row))?
            };
            let mut expired = expired.iter();
            if expired.any(|(table, primary)| Arc::ptr_eq(table, open) && primary == key) {
                if found && !parts(open, &row)?.0.is_over(self.clock().now()) {
                    return Ok(Differences::Ended(Round::Changed));
                }
            } else if expect.is_some_and(|expect| !expect.is(found, &row)) {
                return Ok(Differences::Ended(Round::NotAsFound));
            }
            if !planted(Fault::UncheckedRow) || expect.is_some() {
                let slot = self.tiers().locks.slot(open.id(), key);
                expected.versions.push((slot, version));
            }
            for index in snapshot.iter() {
                let keys_of = |row: &[u8]| index.keys_of(open, parts(open, row)?.1);
                let old = if found { keys_of(&row)? } else { Vec::new() };
                let new = match change {
                    Change::Put(row) => keys_of(row)?,
                    Change::Delete => Vec::new(),
                };
                let not_in = |keys: &[Vec<u8>], key: &[u8]| {
                    keys.binary_search_by(|other| other[..].cmp(key)).is_err()
                };
                let mut goes = old.iter().filter(|key| not_in(&new, key));
                let mut comes = new.iter().filter(|key| not_in(&old, key));
                loop {
                    let (old, new) = (goes.next().cloned(), comes.next().cloned());
                    if old.is_none() && new.is_none() {
                        break;
                    }
                    differences.push(Difference {
                        index: index.clone(),
                        table: open.clone(),
                        primary: key,
                        old,
                        new,
                    });
                }
            }
        }
        Ok(Differences::Found(differences))
    }

    /// Refuses a key that two rows would have after the batch.
    fn check_unique(
        &self,
        batch: &Batch,
        differences: &[Difference<'_>],
        expected: &mut Expected<'_>,
        alone: bool,
    ) -> Result<Unique> {
        if planted(Fault::UncheckedUnique) {
            return Ok(Unique::Is);
        }
        let (mut leaves, mut comes) = (Keys::new(), Keys::new());
        let unique = || differences.iter().filter(|d| d.index.entry.unique);
        for d in unique() {
            if let Some(old) = &d.old {
                leaves.insert((d.index.open.id(), old), d.primary);
            }
        }
        let mut holder = Vec::new();
        for d in unique() {
            let Some(new) = &d.new else { continue };
            let place = (d.index.open.id(), &new[..]);
            // Longer ones are in no index, and are refused with its name when they are written.
            if check_lengths(self.longest_key(), new, &[]).is_err() {
                continue;
            }
            let in_batch = comes.insert(place, d.primary);
            let (found, version) = {
                let _pass = match self.enter(&d.index.open) {
                    // It was dropped since it was looked up: nothing is unique by it any more.
                    Err(_) if !alone && !expected.admitted() => return Ok(Unique::Changed),
                    pass => pass?,
                };
                self.heard(d.index.open.structure.get_versioned(new, &mut holder))?
            };
            let slot = self.tiers().locks.slot(d.index.open.id(), new);
            expected.versions.push((slot, version));
            let in_index =
                (found && leaves.get(&place).is_none_or(|l| *l != holder)).then_some(&holder[..]);
            if let Some(other) = in_batch.or(in_index).filter(|other| *other != d.primary) {
                // Only if all of this was so at one instant.
                if !alone && !expected.holds(|slot| self.tiers().locks.read(slot)) {
                    return Ok(Unique::Changed);
                }
                if in_batch.is_none() && self.has_expired(batch, &d.table, other)? {
                    return Ok(Unique::Expired(d.table.clone(), other.to_vec()));
                }
                return Err(duplicate(&d.table, &d.index, new, other, d.primary));
            }
        }
        Ok(Unique::Is)
    }

    /// Whether a row that a batch does not change has expired.
    fn has_expired(&self, batch: &Batch, table: &Arc<Open>, primary: &[u8]) -> Result<bool> {
        let changes = batch.last_changes();
        let mut changes = changes.iter();
        if !table.spec.expiring
            || planted(Fault::ExpiredHoldsUnique)
            || changes.any(|(open, key, _)| Arc::ptr_eq(open, table) && *key == primary)
        {
            return Ok(false);
        }
        let _pass = self.enter(table)?;
        let looked = self.look(table, primary, &mut Vec::new())?;
        Ok(looked.found && looked.lease.is_none())
    }

    /// Writes rows with entries if what they rest on still stands.
    fn write_expecting(&self, batch: &mut Batch, expected: &Expected<'_>) -> Result<Round> {
        if batch.has_range() {
            return self.write_with_range(batch, expected);
        }
        let pass = self.passes().enter()?;
        if !expected.admitted() {
            return Ok(Round::Changed);
        }
        let logged = batch.logged(self)?;
        if batch.has_no_changes() {
            let stands = expected.stands(&self.tiers().locks, self.clock(), &|_| false);
            return Ok(if stands {
                Round::Written(None)
            } else {
                Round::Changed
            });
        }
        // With one change its record can be waited for outside the gate.
        let single = match (batch.only_change(), &expected.versions[..]) {
            _ if expected.standing.is_some() || !expected.kept.is_empty() => None,
            _ if expected.merging.is_any() || expected.before.is_any() => None,
            (Some(change), []) => Some((change, None)),
            (Some(change), [(_, version)]) => Some((change, Some(*version))),
            _ => None,
        };
        let Some(((open, key, change), expect)) = single else {
            return Ok(match self.write_batch_inside(batch, logged, expected)? {
                Wrote::Done(appended) => Round::Written(appended),
                Wrote::Changed | Wrote::Interrupted(_) => Round::Changed,
                Wrote::Claimed(claim) => Round::Claimed(claim),
            });
        };
        let mut appended = None;
        let expect = expect.map(Expect::version);
        let done = self.write_inside(pass, open, key, change, expect, &mut appended);
        match (done, appended) {
            (Ok(Written::Done), appended) => Ok(Round::Written(appended)),
            (Ok(Written::NotAsExpected), _) => Ok(Round::Changed),
            (Ok(Written::Claimed(claim)), _) => Ok(Round::Claimed(claim)),
            (Err(e), Some(_)) => Err(self.kill(e)),
            (Err(e), None) => Err(self.failed(e)),
        }
    }
}

/// Two rows with one key in a unique index.
pub fn duplicate(
    table: &Open,
    index: &IndexState,
    key: &[u8],
    has_it: &[u8],
    wants_it: &[u8],
) -> Error {
    Error::Duplicate {
        table: table.name(),
        index: index.name.clone(),
        key: key.into(),
        has_it: has_it.into(),
        wants_it: wants_it.into(),
    }
}
