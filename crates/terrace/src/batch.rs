//! Several changes, over any structures of a database, as one.
//!
//! A batch keeps its changes as the payload of the log record that it becomes, so that writing it
//! copies nothing. Order of a write (see `write.rs`): everything is brought into memory first,
//! holding nothing; then the gate, then the record locks in ascending order, then the append, then
//! the changes.

use std::sync::Arc;

use terrace_base::{Error, Result};
use terrace_pages::Space;
use terrace_tier::Change;
use terrace_wal::{Appended, Durability, MAX_RECORD_BYTES, RECORD_OVERHEAD_BYTES};

use crate::core::Core;
use crate::effects::{delete_prefix, put_prefixes};
use crate::fault::{Fault, planted};
use crate::map::Map;
use crate::registry::Open;
use crate::write::check_lengths;

/// Most changes in a batch: their locks and places take memory beyond the limit while the batch is
/// written. Beyond 10,000 changes or 4 MiB a batch holds up checkpoints while it is applied.
pub const MAX_BATCH_OPERATIONS: usize = 1 << 24;

/// Changes to be made together by [`crate::Database::write`]. Not yet written it is in your memory,
/// not in the database's.
///
/// Later changes of a key win over earlier ones. Mistakes (a key that is too long, a structure of
/// another database) are told when the batch is written.
#[derive(Default)]
pub struct Batch {
    /// The effects, encoded.
    payload: Vec<u8>,
    operations: Vec<Operation>,
    structures: Vec<Map>,
    deletes: usize,
    mistake: Option<Error>,
}

/// Where a change is in the payload.
struct Operation {
    structure: u32,
    key: (usize, u32),
    /// `None` for a delete.
    value: Option<(usize, u32)>,
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch::default()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes that it will take in the log.
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Forgets all changes, keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.operations.clear();
        self.structures.clear();
        self.deletes = 0;
        self.mistake = None;
    }

    /// Stores a value in a structure: a [`crate::Tree`], a [`crate::Hash`], whatever is a [`Map`].
    pub fn put(&mut self, map: &Map, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if !self.accepts(key, value) {
            return self;
        }
        let structure = self.structure(map);
        let (before_key, before_value) = put_prefixes(map.open.id(), key, value);
        self.payload.extend_from_slice(before_key.as_ref());
        let key = self.append(key);
        self.payload.extend_from_slice(before_value.as_ref());
        let value = Some(self.append(value));
        self.operations.push(Operation {
            structure,
            key,
            value,
        });
        self
    }

    /// Removes a key.
    pub fn delete(&mut self, map: &Map, key: impl AsRef<[u8]>) -> &mut Batch {
        let key = key.as_ref();
        if !self.accepts(key, &[]) {
            return self;
        }
        let structure = self.structure(map);
        self.payload
            .extend_from_slice(delete_prefix(map.open.id(), key).as_ref());
        let key = self.append(key);
        self.operations.push(Operation {
            structure,
            key,
            value: None,
        });
        self.deletes += 1;
        self
    }

    fn accepts(&mut self, key: &[u8], value: &[u8]) -> bool {
        let too_much = || {
            Error::invalid(format!(
                "a batch is limited to {MAX_BATCH_OPERATIONS} changes and {MAX_RECORD_BYTES} bytes; write it in several"
            ))
        };
        // A few bytes for the prefixes; the log checks the sum again.
        let bytes = self
            .payload
            .len()
            .saturating_add(key.len())
            .saturating_add(value.len());
        let mistake = check_lengths(key, value).err().or_else(|| {
            let full = self.operations.len() >= MAX_BATCH_OPERATIONS
                || bytes.saturating_add(32) > MAX_RECORD_BYTES;
            full.then(too_much)
        });
        if self.mistake.is_none() {
            self.mistake = mistake;
        }
        self.mistake.is_none()
    }

    fn append(&mut self, bytes: &[u8]) -> (usize, u32) {
        let at = self.payload.len();
        self.payload.extend_from_slice(bytes);
        (at, bytes.len() as u32)
    }

    fn structure(&mut self, map: &Map) -> u32 {
        // Batches are about a few structures, mostly the last one.
        let known = self
            .structures
            .iter()
            .rposition(|t| Arc::ptr_eq(&t.open, &map.open));
        known.unwrap_or_else(|| {
            self.structures.push(map.clone());
            self.structures.len() - 1
        }) as u32
    }

    /// Bytes to reserve in the log.
    fn reservation(&self) -> usize {
        let torn = if planted(Fault::TornBatch) {
            RECORD_OVERHEAD_BYTES
        } else {
            0
        };
        self.payload.len() + torn
    }

    /// The planted fault: two records.
    fn append_torn(
        &self,
        middle: &Operation,
        mut append: impl FnMut(&[u8]) -> Appended,
    ) -> Appended {
        let tree = &self.structures[middle.structure as usize];
        let key = self.bytes_at(middle.key);
        let prefix = match middle.value {
            Some(value) => put_prefixes(tree.open.id(), key, self.bytes_at(value)).0,
            None => delete_prefix(tree.open.id(), key),
        };
        let (first, second) = self.payload.split_at(middle.key.0 - prefix.as_ref().len());
        let _ = append(first);
        append(second)
    }

    fn bytes_at(&self, (at, len): (usize, u32)) -> &[u8] {
        &self.payload[at..at + len as usize]
    }

    /// The changes: which structure, key, change.
    fn changes(&self) -> impl Iterator<Item = (&Open, &[u8], Change<'_>)> {
        self.operations.iter().map(|operation| {
            let value = operation.value.map(|value| self.bytes_at(value));
            (
                &*self.structures[operation.structure as usize].open,
                self.bytes_at(operation.key),
                value.map_or(Change::Delete, Change::Put),
            )
        })
    }

    /// The slots of the record locks, ascending and each once; and which changes a later one of the
    /// same key overrules, so that nobody gets to see them.
    fn slots(&self, slot_of: impl Fn(&Open, &[u8]) -> usize) -> (Vec<usize>, Vec<bool>) {
        let mut slots: Vec<(usize, u32)> = self
            .changes()
            .zip(0..)
            .map(|((open, key, _), i)| (slot_of(open, key), i))
            .collect();
        let target = |i: u32| {
            let operation = &self.operations[i as usize];
            (operation.structure, self.bytes_at(operation.key))
        };
        slots.sort_unstable_by(|(a, i), (b, j)| {
            a.cmp(b)
                .then_with(|| target(*i).cmp(&target(*j)))
                .then(i.cmp(j))
        });
        let mut overruled = vec![false; slots.len()];
        for pair in slots.windows(2) {
            let (i, j) = (pair[0].1, pair[1].1);
            overruled[i as usize] = pair[0].0 == pair[1].0 && target(i) == target(j);
        }
        let mut slots: Vec<usize> = slots.into_iter().map(|(slot, _)| slot).collect();
        slots.dedup();
        (slots, overruled)
    }

    /// Whether the log keeps it; an error if it cannot be written as one.
    fn logged(&self, core: &Core) -> Result<bool> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        let mut logged = None;
        for tree in &self.structures {
            if !std::ptr::eq(core, &*tree.db.handle.core) {
                return Err(Error::invalid(format!(
                    "the batch has changes of \"{}\", which belongs to another database",
                    tree.name()
                )));
            }
            tree.open.check()?;
            if *logged.get_or_insert(tree.open.spec.logged) != tree.open.spec.logged {
                return Err(Error::invalid(
                    "a batch cannot change structures with and without log together, because a crash would tear it; write two batches",
                ));
            }
        }
        Ok(logged.unwrap_or(true))
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}

impl Core {
    /// Writes a batch.
    pub fn write_batch(&self, batch: &Batch, durability: Option<Durability>) -> Result<()> {
        let appended = {
            let _pass = self.passes.enter()?;
            let logged = batch.logged(self)?;
            self.durability(logged, durability)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.write_batch_inside(batch, logged)?
        };
        match (appended, durability) {
            (Some(appended), durability) => {
                self.commit(appended, durability.unwrap_or(self.options.durability))
            }
            (None, _) => Ok(()),
        }
    }

    fn write_batch_inside(&self, batch: &Batch, logged: bool) -> Result<Option<Appended>> {
        for (open, key, _) in batch.changes() {
            open.structure.prefault(key).map_err(|e| self.failed(e))?;
        }
        let only_deletes = batch.deletes == batch.len();
        let space = if only_deletes {
            Space::Reserve
        } else {
            Space::Ordinary
        };
        let mut reservation = match (logged, only_deletes) {
            (false, _) => None,
            (true, false) => Some(self.log.reserve(batch.reservation())),
            (true, true) => Some(self.log.reserve_urgent(batch.reservation())),
        }
        .transpose()
        .map_err(|e| self.failed(e))?;
        let locks = &self.tiers.locks;
        let slot_of = |open: &Open, key: &[u8]| locks.slot(open.id(), key);
        let (slots, overruled) = batch.slots(slot_of);
        let door = self.store.enter_for(space).map_err(|e| self.failed(e))?;
        let held: Vec<_> = slots.into_iter().map(|slot| locks.lock(slot)).collect();
        let appended =
            reservation
                .as_mut()
                .map(|reservation| match batch.operations.get(batch.len() / 2) {
                    Some(middle) if planted(Fault::TornBatch) && batch.len() > 1 => batch
                        .append_torn(middle, |part| {
                            let appended = self.log.append(reservation, &[part]);
                            let _ = self.log.flush();
                            appended
                        }),
                    _ => self.log.append(reservation, &[&batch.payload]),
                });
        let applied = batch
            .changes()
            .zip(&overruled)
            .filter(|(_, overruled)| !**overruled || planted(Fault::OverruledShown))
            .try_for_each(|((open, key, change), _)| {
                open.structure.apply_locked(&door, key, change)
            });
        drop(held);
        drop(door);
        // Without log a batch that was applied in part cannot be completed either.
        applied.map_err(|e| self.kill(e))?;
        Ok(appended)
    }
}
