//! What a transaction has read: records with the content of their locks, and watched ranges.
//!
//! Invariants: every entry was so at one instant, with the content that is noted. If all contents
//! noted are those of now, and no range was written, then everything that was read is so now. A lock
//! that has moved on is no conflict by itself, because locks are shared and records move: the record
//! is looked at again, and only another value is a conflict.
//!
//! User code never computes on two states: before it gets anything that was read, everything read before is
//! looked at. Of few records that is the locks of all of them. Many are watched by their keys, and looked at
//! only when one of these was written: a writer says so before any reader can see its change.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_tier::{Content, LockTable, Version, Watch, WriteReservation};

use super::print::Print;
use super::time::Time;
use crate::catalog::opened::Open;
use crate::clock::Clock;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::read::leased::{Sight, parts};
use crate::write::batch::standing::Standing;

/// Records that are validated one by one. Beyond that the range of keys that they lie in is watched,
/// because all of them are looked at while no other thread can append to the log.
pub const MOST_ENTRIES: usize = 4096;
/// Rounds of looking again at what has moved on before it counts as a conflict.
const ROUNDS: u32 = 64;
/// The same before a commit, which looks again.
const ROUNDS_OF_A_COMMIT: u32 = 8;
/// Up to this many entries every operation of a transaction looks at all of them; more are watched.
const LOOKED_AT_ALWAYS: usize = 256;

/// Ranges of a structure that a transaction claims at most while it has the fairness lock; the next one is all of it.
const MOST_CLAIMED: usize = 16;

/// A record that was read.
struct Entry {
    structure: u32,
    key: Box<[u8]>,
    slot: usize,
    content: Content,
    print: Print,
}

/// What a look at everything has found.
enum Found {
    /// All of it is as it was, at one instant.
    Same,
    Changed(Changed),
    /// Others are at work on locks that it shares all the time. Nothing is known to have changed.
    Restless,
}

/// A range that was read.
struct Watching {
    structure: u32,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    watch: Arc<Watch>,
    /// Marks that the watch may have: those from before, and those that this transaction has made.
    seen: Cell<u64>,
}

/// The watched keys of a structure.
struct Keys {
    structure: u32,
    watch: Arc<Watch>,
    /// Marks that it had when all entries were looked at, and those that this transaction has made since.
    seen: Cell<u64>,
}

/// Why a transaction cannot go on: what it has read of this structure has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The structure.
    pub structure: String,
    /// The record, or where the range begins.
    pub key: Vec<u8>,
}

/// Whether all that was read is still so.
pub type Validated = std::result::Result<(), Changed>;

impl Changed {
    /// The name and the key.
    pub fn names(&self) -> (&str, &[u8]) {
        (&self.structure, &self.key)
    }
}

/// What a transaction has read.
pub struct Reads {
    locks: Arc<LockTable>,
    structures: Vec<Arc<Open>>,
    entries: Vec<Entry>,
    by_key: HashMap<(u32, Box<[u8]>), usize>,
    ranges: Vec<Watching>,
    /// Of each structure with entries, once these are many.
    keys: Vec<Keys>,
    watches_keys: bool,
    /// Which of the structures no other thread changes for now: tables that are closed for this transaction.
    at_rest: Vec<bool>,
    /// What time it is for what is read.
    time: Time,
    /// Entries that were looked at again and found the same.
    pub refreshed: u64,
    /// Holds up who is to write what is read, while the transaction has the fairness lock.
    pub claim: Option<Arc<WriteReservation>>,
}

impl Reads {
    /// Nothing yet.
    pub fn new(locks: Arc<LockTable>, clock: Arc<Clock>) -> Reads {
        Reads {
            locks,
            structures: Vec::new(),
            entries: Vec::new(),
            by_key: HashMap::new(),
            ranges: Vec::new(),
            keys: Vec::new(),
            watches_keys: false,
            at_rest: Vec::new(),
            time: Time::new(clock),
            refreshed: 0,
            claim: None,
        }
    }

    /// Forgets everything; ends the watches.
    pub fn clear(&mut self) {
        let ranges = self.ranges.drain(..).map(|r| (r.structure, r.watch));
        let keys = self.keys.drain(..).map(|k| (k.structure, k.watch));
        for (structure, watch) in ranges.chain(keys) {
            let open = &self.structures[structure as usize];
            open.structure.watches().remove(&watch);
        }
        self.watches_keys = false;
        self.claim = None;
        self.entries.clear();
        self.by_key.clear();
        self.structures.clear();
        self.at_rest.clear();
        self.time.clear();
    }

    /// The time of this attempt.
    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// What is there for it of this structure.
    pub fn sight(&self, open: &Open) -> Sight {
        match open.spec.expiring {
            true => Sight::At(self.time.now()),
            false => Sight::Now,
        }
    }

    /// A record with this lease was read as being there.
    pub fn note_lease(&mut self, open: &Arc<Open>, key: &[u8], lease: Lease) {
        if lease != Lease::ENDLESS {
            let structure = self.structure(open);
            self.time.note(lease, structure, key);
        }
    }

    /// From now on, until it is told otherwise, no other thread changes these. What was read of them counts once it
    /// was looked at again, whatever becomes of its locks, which others share.
    pub fn rest(&mut self, closed: &[Arc<Open>]) {
        let structures = self.structures.iter();
        self.at_rest = structures
            .map(|open| closed.iter().any(|closed| Arc::ptr_eq(open, closed)))
            .collect();
    }

    fn structure(&mut self, open: &Arc<Open>) -> u32 {
        let known = self.structures.iter().position(|o| Arc::ptr_eq(o, open));
        known.unwrap_or_else(|| {
            self.structures.push(open.clone());
            self.structures.len() - 1
        }) as u32
    }

    /// What comes before a record is read.
    pub fn begin_read(&mut self, core: &Core, open: &Arc<Open>, key: &[u8]) {
        self.watches_keys |= self.claim.is_some();
        if self.watches_keys && !planted(Fault::KeyUnwatched) {
            let structure = self.structure(open);
            self.watch_keys(core, structure).add_key(key);
        }
    }

    /// The watched keys of a structure.
    fn watch_keys(&mut self, core: &Core, structure: u32) -> &Watch {
        let mut known = self.keys.iter();
        let at = known.position(|keys| keys.structure == structure);
        let at = at.unwrap_or_else(|| {
            let open = &self.structures[structure as usize];
            let (watch, seen) = open.structure.watches().add_keys(self.claim.as_ref());
            core.store().grace();
            self.keys.push(Keys {
                structure,
                watch,
                seen: Cell::new(seen),
            });
            self.keys.len() - 1
        });
        &self.keys[at].watch
    }

    /// Watches the keys of all entries instead of looking at each of them. Looks at them once more.
    fn watch_entries(&mut self, core: &Core) -> Result<Validated> {
        self.watches_keys = true;
        for i in 0..self.entries.len() {
            let structure = self.entries[i].structure;
            self.watch_keys(core, structure);
        }
        for keys in &self.keys {
            // Not before they were looked at.
            keys.seen.set(u64::MAX);
            let entries = self.entries.iter();
            let its = entries.filter(|entry| entry.structure == keys.structure);
            its.for_each(|entry| keys.watch.add_key(&entry.key));
        }
        self.refresh(core)
    }

    /// Watches the keys of all entries from now on. A commit that begins with waiting until no thread is at work would
    /// find that locks which it shares with others have moved on, each time.
    pub fn watch_all(&mut self, core: &Core) -> Result<Validated> {
        match self.watches_keys || self.entries.is_empty() {
            true => Ok(Ok(())),
            false => self.watch_entries(core),
        }
    }

    /// Whether no watched key was written since all entries were looked at.
    fn keys_stand(&self) -> bool {
        let mut keys = self.keys.iter();
        keys.all(|keys| keys.watch.marks() == keys.seen.get())
    }

    /// Notes a record as it was read.
    pub fn note(
        &mut self,
        core: &Core,
        open: &Arc<Open>,
        key: &[u8],
        value: Option<&[u8]>,
        version: Version,
    ) -> Result<Validated> {
        let structure = self.structure(open);
        if let Some(value) = value {
            self.time.note(parts(open, value)?.0, structure, key);
        }
        let print = Print::of(value);
        if let Some(&i) = self.by_key.get(&(structure, key.into())) {
            let entry = &mut self.entries[i];
            if entry.print != print {
                return Ok(Err(self.changed(structure, key)));
            }
            entry.content = version.content();
            return Ok(Ok(()));
        }
        self.by_key
            .insert((structure, key.into()), self.entries.len());
        self.entries.push(Entry {
            structure,
            key: key.into(),
            slot: self.locks.slot(open.id(), key),
            content: version.content(),
            print,
        });
        if self.entries.len() > MOST_ENTRIES {
            return self.escalate(core);
        }
        if self.entries.len() > LOOKED_AT_ALWAYS && !self.watches_keys {
            return self.watch_entries(core);
        }
        Ok(Ok(()))
    }

    /// The value of a record that was read, if it is short enough to be kept.
    pub fn known(&self, open: &Arc<Open>, key: &[u8]) -> bool {
        let structure = self.structures.iter().position(|o| Arc::ptr_eq(o, open));
        structure.is_some_and(|s| self.by_key.contains_key(&(s as u32, key.into())))
    }

    /// Watches a range, which is read after this. Waits until all threads that may not know of it, and are inside the
    /// gate, have left it.
    pub fn watch(&mut self, core: &Core, open: &Arc<Open>, low: Vec<u8>, high: Option<Vec<u8>>) {
        let structure = self.structure(open);
        if high.as_ref().is_some_and(|high| *high <= low) {
            return;
        }
        let covered = |range: &Watching| {
            range.structure == structure
                && range.low <= low
                && match (&range.high, &high) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(have), Some(want)) => have >= want,
                }
        };
        if self.ranges.iter().any(covered) {
            return;
        }
        let claim = self.claim.as_ref();
        let ranges = self.ranges.iter();
        let many = ranges.filter(|range| range.structure == structure).count() >= MOST_CLAIMED;
        let (low, high) = match claim {
            Some(_) if many => (Vec::new(), None),
            _ => (low, high),
        };
        let watches = open.structure.watches();
        let (watch, marks) = watches.add(&low, high.as_deref(), claim);
        if self.ranges.iter().any(|r| Arc::ptr_eq(&r.watch, &watch)) {
            // The one over everything, which is held already.
            watches.remove(&watch);
            return;
        }
        // It may cover more than was asked for.
        let (low, high) = watch.bounds();
        self.ranges.push(Watching {
            structure,
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            watch,
            seen: Cell::new(marks),
        });
        core.store().grace();
    }

    /// Watches the ranges that the records read lie in instead of each of them.
    fn escalate(&mut self, core: &Core) -> Result<Validated> {
        for structure in 0..self.structures.len() as u32 {
            let open = self.structures[structure as usize].clone();
            let keys = self.entries.iter().filter(|e| e.structure == structure);
            let (Some(low), Some(high)) = (
                keys.clone().map(|e| &e.key).min(),
                keys.map(|e| &e.key).max(),
            ) else {
                continue;
            };
            let (low, high) = if open.structure.position_prefix() > 0 {
                (Vec::new(), None)
            } else {
                (low.to_vec(), Some(crate::structures::range::above(high)))
            };
            self.watch(core, &open, low, high);
        }
        // Watched now; what was read before has to be still so.
        match self.look_again(core, true, ROUNDS)? {
            Found::Changed(changed) => return Ok(Err(changed)),
            Found::Restless => return Ok(self.some().map_or(Ok(()), Err)),
            Found::Same => {}
        }
        self.entries.clear();
        self.by_key.clear();
        Ok(Ok(()))
    }

    fn changed(&self, structure: u32, key: &[u8]) -> Changed {
        Changed {
            structure: self.structures[structure as usize].name(),
            key: key.to_vec(),
        }
    }

    /// The first range in which another writer has written, or structure that was dropped.
    fn written_range(&self) -> Option<Changed> {
        if let Some(dropped) = self.structures.iter().position(|open| open.is_dropped()) {
            return Some(self.changed(dropped as u32, &[]));
        }
        if planted(Fault::UnvalidatedRange) {
            return None;
        }
        let written = |range: &&Watching| range.watch.marks() != range.seen.get();
        let range = self.ranges.iter().find(written)?;
        Some(self.changed(range.structure, &range.low))
    }

    /// The same, or the first record that was read as being there and has expired.
    fn disturbed(&self) -> Option<Changed> {
        self.written_range().or_else(|| {
            let (structure, key) = self.time.expired()?;
            Some(self.changed(structure, key))
        })
    }

    /// Whether the lock of an entry says that it is as it was read.
    fn is_still(&self, entry: &Entry, ours: &dyn Fn(usize) -> bool) -> bool {
        let (content, held) = self.locks.content(entry.slot);
        content == entry.content && (!held || ours(entry.slot) || planted(Fault::HeldIgnored))
    }

    /// What every operation of a transaction begins and ends with: whether it still stands on one state.
    pub fn look(&mut self, core: &Core) -> Result<Validated> {
        if self.watches_keys && self.keys_stand() {
            return Ok(self.disturbed().map_or(Ok(()), Err));
        }
        self.refresh(core)
    }

    /// Looks at everything, and again at what has moved on.
    pub fn refresh(&mut self, core: &Core) -> Result<Validated> {
        Ok(match self.refresh_in(core, ROUNDS)? {
            Found::Same => Ok(()),
            Found::Changed(changed) => Err(changed),
            Found::Restless => self.some().map_or(Ok(()), Err),
        })
    }

    /// The same before a commit, which is no conflict if others are at work on locks that it shares all the time:
    /// who commits looks again.
    pub fn refresh_to_commit(&mut self, core: &Core) -> Result<Validated> {
        Ok(match self.refresh_in(core, ROUNDS_OF_A_COMMIT)? {
            Found::Same | Found::Restless => Ok(()),
            Found::Changed(changed) => Err(changed),
        })
    }

    fn refresh_in(&mut self, core: &Core, rounds: u32) -> Result<Found> {
        if let Some(changed) = self.disturbed() {
            return Ok(Found::Changed(changed));
        }
        if planted(Fault::UnvalidatedRead) {
            return Ok(Found::Same);
        }
        let found = self.look_again(core, false, rounds)?;
        // Of the instant at which the records were so.
        let disturbed = self.disturbed().map(Found::Changed);
        Ok(disturbed.unwrap_or(found))
    }

    /// Looks again at entries that have moved on, or at all of them.
    fn look_again(&mut self, core: &Core, all: bool, rounds: u32) -> Result<Found> {
        let mut value = Vec::new();
        for round in 0..rounds {
            let marks: Vec<u64> = self.keys.iter().map(|keys| keys.watch.marks()).collect();
            let mut moved = 0;
            for i in 0..self.entries.len() {
                let entry = &self.entries[i];
                if !(all && round == 0) && self.is_still(entry, &|_| false) {
                    continue;
                }
                moved += 1;
                let open = self.structures[entry.structure as usize].clone();
                let looked = {
                    let _pass = core.enter(&open)?;
                    core.look_at(&open, self.sight(&open), &entry.key, &mut value)?
                };
                if !planted(Fault::RefreshedBlindly)
                    && Print::of(looked.lease.map(|_| &value[..])) != entry.print
                {
                    let entry = &self.entries[i];
                    return Ok(Found::Changed(self.changed(entry.structure, &entry.key)));
                }
                self.entries[i].content = looked.version.content();
                self.refreshed += 1;
            }
            let seen = self.keys.iter().zip(marks);
            seen.for_each(|(keys, marks)| keys.seen.set(marks));
            // Whoever has written a watched key meanwhile has said so; locks may move for others.
            if moved == 0 || (self.watches_keys && self.keys_stand()) {
                return Ok(Found::Same);
            }
        }
        Ok(Found::Restless)
    }

    /// Something to name when it was not to be had in peace, if anything was read.
    pub fn some(&self) -> Option<Changed> {
        let entry = self.entries.iter().find(|e| !self.is_still(e, &|_| false));
        if let Some(entry) = entry.or(self.entries.first()) {
            return Some(self.changed(entry.structure, &entry.key));
        }
        let range = self.ranges.first()?;
        Some(self.changed(range.structure, &range.low))
    }
}

impl Standing for Reads {
    fn stands(&self, ours: &dyn Fn(usize) -> bool) -> bool {
        let rests = |entry: &Entry| self.at_rest.get(entry.structure as usize) == Some(&true);
        let mut entries = self.entries.iter();
        let stand = if self.watches_keys {
            self.keys_stand()
        } else {
            entries.all(|entry| rests(entry) || self.is_still(entry, ours))
        };
        (stand || planted(Fault::UnvalidatedRead)) && self.disturbed().is_none()
    }

    fn claims(&self, claim: &Arc<WriteReservation>) -> bool {
        self.claim
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, claim))
    }

    fn writes_in(&self, watch: &Arc<Watch>) {
        let ranges = self.ranges.iter().map(|r| (&r.watch, &r.seen));
        let keys = self.keys.iter().map(|k| (&k.watch, &k.seen));
        for (_, seen) in ranges.chain(keys).filter(|(w, _)| Arc::ptr_eq(w, watch)) {
            seen.set(seen.get() + 1);
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.clear();
    }
}
