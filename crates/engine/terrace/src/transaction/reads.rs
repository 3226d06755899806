//! What a transaction has read: records with the content of their locks, and watched ranges.
//!
//! Invariants: every entry was so at one instant, with the content that is noted. If all contents
//! noted are those of now, and no range was written, then everything that was read is so now. A lock
//! that has moved on is no conflict by itself, because locks are shared and records move: the record
//! is looked at again, and only another value is a conflict.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_tier::{Content, LockTable, Version, Watch};

use super::print::Print;
use super::time::Time;
use crate::catalog::opened::Open;
use crate::clock::Clock;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::read::leased::{Sight, parts};
use crate::write::batch::standing::Standing;

/// Records that are validated one by one. Beyond that the range of keys that they lie in is watched,
/// because all of them are looked at while nobody else can append to the log.
pub const MOST_ENTRIES: usize = 4096;
/// Rounds of looking again at what has moved on before it counts as a conflict.
const ROUNDS: u32 = 8;
/// Up to so many entries every operation of a transaction looks at all of them, later at one in so many
/// operations: so user code does not compute on two states.
const LOOKED_AT_ALWAYS: usize = 256;

/// A record that was read.
struct Entry {
    structure: u32,
    key: Box<[u8]>,
    slot: usize,
    content: Content,
    print: Print,
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

/// Why a transaction cannot go on: what it has read of this structure has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The structure.
    pub structure: String,
    /// The record, or where the range begins.
    pub key: Vec<u8>,
}

impl Changed {
    /// The name and the key.
    pub fn names(&self) -> (&str, &[u8]) {
        (&self.structure, &self.key)
    }
}

/// See the module's text.
pub struct Reads {
    locks: Arc<LockTable>,
    structures: Vec<Arc<Open>>,
    entries: Vec<Entry>,
    by_key: HashMap<(u32, Box<[u8]>), usize>,
    ranges: Vec<Watching>,
    /// Which of the structures nobody else changes for now: tables that are closed for this transaction.
    at_rest: Vec<bool>,
    /// What time it is for what is read.
    time: Time,
    /// Operations since the last look at all entries.
    unlooked: usize,
    /// Entries that were looked at again and found the same.
    pub refreshed: u64,
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
            at_rest: Vec::new(),
            time: Time::new(clock),
            unlooked: 0,
            refreshed: 0,
        }
    }

    /// Forgets everything; ends the watches.
    pub fn clear(&mut self) {
        for range in self.ranges.drain(..) {
            let open = &self.structures[range.structure as usize];
            open.structure.watches().remove(&range.watch);
        }
        self.entries.clear();
        self.by_key.clear();
        self.structures.clear();
        self.at_rest.clear();
        self.time.clear();
        self.unlooked = 0;
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

    /// From now on, until it is told otherwise, nobody else changes these. What was read of them counts once it
    /// was looked at again, whatever becomes of its locks, which others share.
    pub fn rest(&mut self, closed: &[Arc<Open>]) {
        let structures = self.structures.iter();
        self.at_rest = structures
            .map(|open| closed.iter().any(|closed| Arc::ptr_eq(open, closed)))
            .collect();
    }

    /// Whether ranges were read.
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn structure(&mut self, open: &Arc<Open>) -> u32 {
        let known = self.structures.iter().position(|o| Arc::ptr_eq(o, open));
        known.unwrap_or_else(|| {
            self.structures.push(open.clone());
            self.structures.len() - 1
        }) as u32
    }

    /// Notes a record as it was read.
    pub fn note(
        &mut self,
        core: &Core,
        open: &Arc<Open>,
        key: &[u8],
        value: Option<&[u8]>,
        version: Version,
    ) -> Result<std::result::Result<(), Changed>> {
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
        Ok(Ok(()))
    }

    /// The value of a record that was read, if it is short enough to be kept.
    pub fn known(&self, open: &Arc<Open>, key: &[u8]) -> bool {
        let structure = self.structures.iter().position(|o| Arc::ptr_eq(o, open));
        structure.is_some_and(|s| self.by_key.contains_key(&(s as u32, key.into())))
    }

    /// Watches a range, which is read after this.
    pub fn watch(&mut self, open: &Arc<Open>, low: Vec<u8>, high: Option<Vec<u8>>) {
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
        let watches = open.structure.watches();
        let (watch, marks) = watches.add(&low, high.as_deref());
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
    }

    /// Watches the ranges that the records read lie in instead of each of them.
    fn escalate(&mut self, core: &Core) -> Result<std::result::Result<(), Changed>> {
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
                (low.to_vec(), Some(crate::api::range::above(high)))
            };
            self.watch(&open, low, high);
        }
        // Watched now; what was read before has to be still so.
        if let Err(changed) = self.look_again(core, true)? {
            return Ok(Err(changed));
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

    /// The first range in which somebody else has written, or structure that was dropped.
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

    /// Whether the lock of an entry says that it is as it was read.
    fn is_still(&self, entry: &Entry, ours: &dyn Fn(usize) -> bool) -> bool {
        let (content, held) = self.locks.content(entry.slot);
        content == entry.content && (!held || ours(entry.slot) || planted(Fault::HeldIgnored))
    }

    /// What every operation of a transaction begins with: whether it still stands on one state.
    pub fn look(&mut self, core: &Core) -> Result<std::result::Result<(), Changed>> {
        if let Some(changed) = self.written_range() {
            return Ok(Err(changed));
        }
        self.unlooked += 1;
        if self.entries.len() > LOOKED_AT_ALWAYS && self.unlooked < LOOKED_AT_ALWAYS {
            return Ok(Ok(()));
        }
        self.unlooked = 0;
        self.refresh(core)
    }

    /// Looks at everything, and again at what has moved on.
    pub fn refresh(&mut self, core: &Core) -> Result<std::result::Result<(), Changed>> {
        if let Some(changed) = self.written_range() {
            return Ok(Err(changed));
        }
        if let Some((structure, key)) = self.time.expired() {
            return Ok(Err(self.changed(structure, key)));
        }
        if planted(Fault::UnvalidatedRead) {
            return Ok(Ok(()));
        }
        self.look_again(core, false)
    }

    /// Looks again at entries that have moved on, or at all of them.
    fn look_again(&mut self, core: &Core, all: bool) -> Result<std::result::Result<(), Changed>> {
        let mut value = Vec::new();
        for round in 0..ROUNDS {
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
                    return Ok(Err(self.changed(entry.structure, &entry.key)));
                }
                self.entries[i].content = looked.version.content();
                self.refreshed += 1;
            }
            if moved == 0 {
                return Ok(Ok(()));
            }
        }
        // Others are at work on locks that it shares all the time. Nothing is known to have changed; who
        // commits looks again.
        Ok(Ok(()))
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
        (planted(Fault::UnvalidatedRead)
            || entries.all(|entry| rests(entry) || self.is_still(entry, ours)))
            && self.written_range().is_none()
            && self.time.expired().is_none()
    }

    fn writes_in(&self, watch: &Arc<Watch>) {
        for range in &self.ranges {
            if Arc::ptr_eq(&range.watch, watch) {
                range.seen.set(range.seen.get() + 1);
            }
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.clear();
    }
}
