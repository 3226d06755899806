//! Several changes, over any structures of a database, as one.
//!
//! A batch keeps its changes as the payload of the log record that it becomes, so that writing it
//! copies nothing.

use std::sync::Arc;

use terrace_access::overflow;
use terrace_base::lease::Lease;
use terrace_base::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};
use terrace_pages::SpaceQuota;
use terrace_tier::{Change, WriteReservation};
use terrace_wal::{Appended, MAX_RECORD_BYTES, RECORD_OVERHEAD_BYTES};

use super::bounds::Range;
use super::staged::Staged;
use super::standing::Standing;
use crate::catalog::opened::Open;
use crate::core::Core;
use crate::effects::{delete_prefix, put_prefixes};
use crate::gentle::Cancel;
use crate::handle::database::Database;
use crate::handle::map::Map;
use crate::kinds::spec::Tiers;
use crate::planted::{Fault, planted};
use crate::read::leased::{check_value, with_stored};
use crate::write::one::check_lengths;

/// Most changes in a batch: their locks and places take memory beyond the limit while the batch is
/// written. Beyond 10,000 changes or 4 MiB a batch holds up checkpoints while it is applied.
pub const MAX_BATCH_OPERATIONS: usize = 1 << 24;

/// The changes of a batch may take one part in this many of the memory: all of them are made under one
/// write guard, and from two thirds on they push each other out of it again.
const MEMORY_PART: u64 = 2;
/// Bytes for the first changes of a batch, so that a few small ones take memory once.
const FIRST_BYTES: usize = 512;
/// What a change takes beside its key and value: a slot, lengths, and that pages are not full.
const CHANGE_BYTES: usize = 16;

/// Changes to be made together by [`crate::Database::write`]. Not yet written it is in your memory,
/// not in the database's.
///
/// Its changes may take half of the database's memory at most, values that have pages of their own (longer
/// than about a quarter of a page) not counted.
///
/// No reader sees a part of it, so others wait while it is applied: all who write to a record whose lock it holds,
/// and all who read such a record of a structure with two tiers. There is a lock for every few records that are
/// in memory at once (8,192 of them up to 16 MiB of memory, a million at most), so a batch of some thousands
/// holds so many that nearly every write waits for it: some milliseconds for a thousand changes, in proportion
/// for more. Who cannot have others wait so long writes several, or [`crate::Map::loader`] if it need not be one
/// change.
///
/// Later changes of a key win over earlier ones. Mistakes (a key that is too long, a structure of
/// another database) are told when the batch is written.
#[derive(Default)]
#[must_use = "its changes are made by `Database::write`"]
pub struct Batch {
    /// The effects, encoded.
    pub(super) payload: Vec<u8>,
    pub(super) operations: Vec<Operation>,
    pub(super) structures: Vec<Target>,
    /// What is worked out only when it is written.
    pub(super) merges: Vec<Staged>,
    /// Bytes of their keys and of what they bring along.
    pub(super) merge_bytes: usize,
    pub(super) deletes: usize,
    /// What goes by pages.
    pub(super) range: Option<Range>,
    pub(super) mistake: Option<Error>,
    /// Bytes from which on it is to be asked again whether it fits; see [`Batch::fits_so_far`].
    look_from: usize,
    /// What ends it before it is written.
    cancel: Option<Cancel>,
}

/// A structure that is changed.
pub(super) struct Target {
    pub(super) open: Arc<Open>,
    /// The handle's, which keeps the database open; none for an index, which its table brings along.
    pub(super) db: Option<Database>,
}

/// Where a batch stood, to go back there.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    payload: usize,
    operations: usize,
    structures: usize,
    merges: usize,
    merge_bytes: usize,
    deletes: usize,
    has_range: bool,
    mistaken: bool,
}

/// Where a change is in the payload.
pub(super) struct Operation {
    pub(super) structure: u32,
    pub(super) key: (usize, u32),
    /// `None` for a delete.
    pub(super) value: Option<(usize, u32)>,
}

/// A value may be a chain of pages if it is longer than one part in this many of a page; all access methods
/// keep shorter ones in their records.
const LONG_PART: usize = 8;

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch::default()
    }

    /// Number of changes, merges included; a range that goes at once is one.
    pub fn len(&self) -> usize {
        self.operations.len() + self.merges.len() + usize::from(self.range.is_some())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it will take in the log; of merges, whose values are not known yet, what they bring along.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.merge_bytes
    }

    /// Forgets all changes, keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.operations.clear();
        self.structures.clear();
        self.merges.clear();
        self.merge_bytes = 0;
        self.deletes = 0;
        self.range = None;
        self.mistake = None;
        self.look_from = 0;
        self.cancel = None;
    }

    /// What ends the writing of this batch, with [`Error::Cancelled`], while what it needs is brought into memory:
    /// nothing of it was written then. From its place in the log on it goes to its end.
    pub fn cancel(&mut self, cancel: &Cancel) -> &mut Batch {
        self.cancel = Some(cancel.clone());
        self
    }

    /// An error once it was ended.
    pub(super) fn go_on(&self) -> Result<()> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err(Error::Cancelled {
                what: "the batch; nothing of it was written".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Stores a value in a structure: a [`crate::Tree`], a [`crate::Hash`], whatever is a [`Map`].
    pub fn put(&mut self, map: &Map, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if map.open.spec.expiring {
            return self.put_leased(map, key, value, Lease::ENDLESS);
        }
        let change = Change::Put(value);
        self.change(&map.open, Some(&map.db), key, change);
        self
    }

    /// Removes a key.
    pub fn delete(&mut self, map: &Map, key: impl AsRef<[u8]>) -> &mut Batch {
        self.change(&map.open, Some(&map.db), key.as_ref(), Change::Delete);
        self
    }

    /// Adds a put with a lease, in a structure whose records may expire.
    pub(super) fn put_leased(
        &mut self,
        map: &Map,
        key: &[u8],
        value: &[u8],
        lease: Lease,
    ) -> &mut Batch {
        match check_value(&map.open, value) {
            Ok(()) => with_stored(lease, value, |stored| {
                self.change(&map.open, Some(&map.db), key, Change::Put(stored));
            }),
            Err(e) => self.refuse(e),
        }
        self
    }

    /// It cannot be written.
    pub(super) fn refuse(&mut self, mistake: Error) {
        self.mistake.get_or_insert(mistake);
    }

    /// Adds a change; a value is as it is stored.
    pub(crate) fn change(
        &mut self,
        open: &Arc<Open>,
        db: Option<&Database>,
        key: &[u8],
        change: Change<'_>,
    ) {
        let value = match change {
            Change::Put(value) => Some(value),
            Change::Delete => None,
        };
        let len = value.map_or(0, <[u8]>::len);
        if !self.accepts(key, len, len) {
            return;
        }
        let structure = self.structure(open, db);
        if self.payload.capacity() == 0 {
            self.payload.reserve(FIRST_BYTES);
        }
        let (key, value) = match value {
            Some(value) => {
                let (before_key, before_value) = put_prefixes(open.id(), key, value);
                self.payload.extend_from_slice(before_key.as_ref());
                let key = self.append(key);
                self.payload.extend_from_slice(before_value.as_ref());
                (key, Some(self.append(value)))
            }
            None => {
                let before_key = delete_prefix(open.id(), key);
                self.payload.extend_from_slice(before_key.as_ref());
                self.deletes += 1;
                (self.append(key), None)
            }
        };
        self.operations.push(Operation {
            structure,
            key,
            value,
        });
    }

    /// Where it stands.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            payload: self.payload.len(),
            operations: self.operations.len(),
            structures: self.structures.len(),
            merges: self.merges.len(),
            merge_bytes: self.merge_bytes,
            deletes: self.deletes,
            has_range: self.range.is_some(),
            mistaken: self.mistake.is_some(),
        }
    }

    /// Forgets what was added since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.payload.truncate(mark.payload);
        self.operations.truncate(mark.operations);
        self.structures.truncate(mark.structures);
        self.merges.truncate(mark.merges);
        self.merge_bytes = mark.merge_bytes;
        self.deletes = mark.deletes;
        if !mark.has_range {
            self.range = None;
        }
        self.look_from = 0;
        if !mark.mistaken {
            self.mistake = None;
        }
    }

    /// A record that it changes, by its structure's name and its key: something to name.
    pub(crate) fn first(&self) -> Option<(String, Vec<u8>)> {
        let change = self.operations.first();
        let change = change.map(|o| (o.structure, self.bytes_at(o.key)));
        let merge = self.merges.first().map(Staged::place);
        let range = self.range.as_ref().map(Range::place);
        let (structure, key) = change.or(merge).or(range)?;
        Some((
            self.structures[structure as usize].open.name(),
            key.to_vec(),
        ))
    }

    /// Whether it changes nothing, once its merges are worked out.
    pub(crate) fn has_no_changes(&self) -> bool {
        self.operations.is_empty() && self.range.is_none()
    }

    /// Whether there is nothing but a range that goes, if there is one.
    pub(super) fn has_no_operations(&self) -> bool {
        self.operations.is_empty()
    }

    /// What is wrong with it, if anything; of keys, whether they are longer than with any pages.
    pub(crate) fn mistake(&self) -> Option<Error> {
        self.mistake.clone()
    }

    /// The same where keys may be as long as `limit`. O(changes).
    pub(crate) fn mistake_within(&self, limit: usize) -> Option<Error> {
        let merged = self.merges.iter().map(Staged::key_len);
        let keys = self.operations.iter().map(|operation| operation.key.1);
        let keys = keys.chain(merged);
        let len = keys.max().unwrap_or(0) as usize;
        let too_long = (len > limit).then_some(Error::KeyTooLong { len, limit });
        self.mistake.clone().or(too_long)
    }

    /// The tables that it changes.
    pub(crate) fn tables(&self) -> Vec<Arc<Open>> {
        let opens = self.structures.iter().map(|target| &target.open);
        opens.filter(|open| open.table.is_some()).cloned().collect()
    }

    /// Whether it changes tables that have indexes, or are about to.
    pub(crate) fn changes_indexes(&self) -> bool {
        let mut tables = self.structures.iter().filter_map(|t| t.open.table.as_ref());
        tables.any(|table| !table.is_plain())
    }

    /// The structure that it changes first.
    pub(crate) fn first_structure(&self) -> Option<Arc<Open>> {
        let first = self.structures.first();
        first.map(|target| target.open.clone())
    }

    /// The only change, if it is one.
    pub(crate) fn only_change(&self) -> Option<(&Open, &[u8], Change<'_>)> {
        let (1, change) = (self.operations.len(), self.changes().next()?) else {
            return None;
        };
        Some(change)
    }

    /// The last change of each key in tables, by structure and key.
    pub(crate) fn last_changes(&self) -> Vec<(&Arc<Open>, &[u8], Change<'_>)> {
        let target = |operation: &Operation| {
            let open = &self.structures[operation.structure as usize].open;
            (open, self.bytes_at(operation.key))
        };
        let mut all: Vec<&Operation> = self.operations.iter().collect();
        all.retain(|operation| target(operation).0.table.is_some());
        // Stable, so the last of a key stays the last.
        all.sort_by_key(|operation| (operation.structure, target(operation).1));
        let mut last = Vec::new();
        for (i, operation) in all.iter().enumerate() {
            let (open, key) = target(operation);
            let overruled = all
                .get(i + 1)
                .is_some_and(|next| next.structure == operation.structure && target(next).1 == key);
            if !overruled {
                let value = operation.value.map(|value| self.bytes_at(value));
                last.push((open, key, value.map_or(Change::Delete, Change::Put)));
            }
        }
        last
    }

    /// Whether a change with this key, a value of `value` bytes and `bytes` bytes in all beside the key can be
    /// added; otherwise it is a mistake.
    pub(super) fn accepts(&mut self, key: &[u8], value: usize, bytes: usize) -> bool {
        let too_much = || {
            Error::invalid(format!(
                "a batch is limited to {MAX_BATCH_OPERATIONS} changes and {MAX_RECORD_BYTES} bytes; write it in several"
            ))
        };
        // A few bytes for the prefixes; the log checks the sum again.
        let bytes = self.bytes().saturating_add(key.len()).saturating_add(bytes);
        let limit = MAX_VALUE_BYTES;
        let mistake = check_lengths(MAX_KEY_BYTES, key, &[])
            .err()
            .or_else(|| (value > limit).then_some(Error::ValueTooLong { len: value, limit }))
            .or_else(|| {
                let full = self.len() >= MAX_BATCH_OPERATIONS
                    || bytes.saturating_add(32) > MAX_RECORD_BYTES;
                full.then(too_much)
            });
        if self.mistake.is_none() {
            self.mistake = mistake;
        }
        self.mistake.is_none()
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> (usize, u32) {
        let at = self.payload.len();
        self.payload.extend_from_slice(bytes);
        (at, bytes.len() as u32)
    }

    pub(super) fn structure(&mut self, open: &Arc<Open>, db: Option<&Database>) -> u32 {
        // Batches are about a few structures, mostly the last one.
        let known = self
            .structures
            .iter()
            .rposition(|t| Arc::ptr_eq(&t.open, open));
        known.unwrap_or_else(|| {
            self.structures.push(Target {
                open: open.clone(),
                db: db.cloned(),
            });
            self.structures.len() - 1
        }) as u32
    }

    /// What it may change at most, in a store with pages of this size of which `live` are in use, if a change
    /// makes `dirty_each` pages dirty. O(changes).
    pub(super) fn promise(&self, page_bytes: usize, live: u64, dirty_each: u64) -> SpaceQuota {
        // Longer values than this may be chains of pages of their own.
        let inline = page_bytes / LONG_PART;
        let per_page = overflow::bytes_per_page(page_bytes);
        let (mut chains, mut rest, mut stores) = (0, 0, false);
        for (open, key, change) in self.changes() {
            match change {
                Change::Put(value) if value.len() > inline => {
                    chains += value.len().div_ceil(per_page);
                    stores = true;
                }
                Change::Put(value) => {
                    rest += key.len() + value.len();
                    stores = true;
                }
                // With two tiers the key comes to the hot one, to say that there is no such record.
                Change::Delete if open.spec.tiers == Tiers::Two => {
                    rest += key.len();
                    stores = true;
                }
                Change::Delete => {}
            }
        }
        let changes = self.operations.len() as u64;
        // A change may split its leaf if that is full, but no leaf that was there more than once, and others
        // only as what is stored fills them.
        let splits = if stores {
            changes.min(live + (4 * rest / page_bytes) as u64)
        } else {
            0
        };
        SpaceQuota {
            dirty: dirty_each * changes,
            new: splits + chains as u64,
        }
    }

    /// Bytes to reserve in the log.
    pub(super) fn reservation(&self) -> usize {
        let torn = if planted(Fault::TornBatch) {
            RECORD_OVERHEAD_BYTES
        } else {
            0
        };
        self.payload.len() + torn
    }

    /// The planted fault: two records.
    pub(super) fn append_torn(
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

    pub(super) fn bytes_at(&self, (at, len): (usize, u32)) -> &[u8] {
        &self.payload[at..at + len as usize]
    }

    /// The changes: which structure, key, change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Open, &[u8], Change<'_>)> {
        self.operations.iter().map(|operation| {
            let value = operation.value.map(|value| self.bytes_at(value));
            (
                &*self.structures[operation.structure as usize].open,
                self.bytes_at(operation.key),
                value.map_or(Change::Delete, Change::Put),
            )
        })
    }

    /// The look of a writer at who watches its keys (see [`terrace_tier::Watches`]): inside the gate, under all
    /// locks, before the append. With a claim no watcher was told, and the batch is to wait for that.
    pub(super) fn tell_watchers(
        &self,
        standing: Option<&dyn Standing>,
    ) -> Option<Arc<WriteReservation>> {
        let mut structures = self.structures.iter();
        if structures.any(|target| target.open.structure.watches().is_watched()) {
            return self.mark_watches(standing);
        }
        None
    }

    #[cold]
    fn mark_watches(&self, standing: Option<&dyn Standing>) -> Option<Arc<WriteReservation>> {
        let mut claims = self
            .changes()
            .filter_map(|(open, key, _)| open.structure.watches().claim_on(key));
        let foreign = claims.find(|claim| standing.is_none_or(|standing| !standing.claims(claim)));
        if foreign.is_some() {
            return foreign;
        }
        for (open, key, _) in self.changes() {
            open.structure.watches().mark(key, |watch| {
                if let Some(standing) = standing {
                    standing.writes_in(watch);
                }
            });
        }
        None
    }

    /// The slots of the record locks, ascending and each once; and which changes a later one of the
    /// same key overrules, so that no reader gets to see them.
    pub(super) fn slots(&self, slot_of: impl Fn(&Open, &[u8]) -> usize) -> (Vec<usize>, Vec<bool>) {
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
        if planted(Fault::LocksInAnyOrder) {
            slots.sort_unstable_by_key(|(_, i)| *i);
        }
        let mut slots: Vec<usize> = slots.into_iter().map(|(slot, _)| slot).collect();
        slots.dedup();
        (slots, overruled)
    }

    /// Refuses what would push its own first changes out of memory while its last ones are made.
    pub(super) fn fits(&self, core: &Core) -> Result<()> {
        let limit = core.options().memory / MEMORY_PART;
        let each = |sum: usize| (sum + self.operations.len() * CHANGE_BYTES) as u64;
        // Most are far from it.
        if each(self.payload.len()) <= limit {
            return Ok(());
        }
        // A value that has pages of its own is no part of what is changed in memory.
        let inline = core.store().page_bytes() / 4;
        let beside = |bytes: usize| if bytes > inline { 0 } else { bytes };
        let sizes = self.operations.iter().map(|o| {
            let value = o.value.map_or(0, |(_, len)| len as usize);
            o.key.1 as usize + beside(value)
        });
        let bytes = each(sizes.sum());
        if bytes <= limit {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a batch of {} changes is {bytes} bytes in memory, and half of the memory, {limit} bytes, is the most; write it in several, load it with Map::loader, or raise Options::memory",
            self.operations.len()
        )))
    }

    /// [`Batch::fits`] for who adds to it: looked at now and then, a tenth of the limit too late at most. O(1) for each
    /// change of many.
    pub(crate) fn fits_so_far(&mut self, core: &Core) -> Result<()> {
        if self.payload.len() < self.look_from {
            return Ok(());
        }
        self.fits(core)?;
        let limit = (core.options().memory / MEMORY_PART) as usize;
        self.look_from = self.payload.len() + limit / 32;
        Ok(())
    }

    /// Whether the log keeps it; an error if it cannot be written as one.
    pub(crate) fn logged(&self, core: &Core) -> Result<bool> {
        if let Some(mistake) = self.mistake_within(core.longest_key()) {
            return Err(mistake);
        }
        self.fits(core)?;
        let mut logged = None;
        for tree in &self.structures {
            let db = tree.db.as_ref();
            if db.is_some_and(|db| !std::ptr::eq(core, &**db.core())) {
                return Err(Error::invalid(format!(
                    "the batch has changes of \"{}\", which belongs to another database",
                    tree.open.name()
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

    /// Whether it goes into the log now, `logged` or not; see [`Core::logs`].
    pub(super) fn is_logged_now(&self, core: &Core, logged: bool) -> bool {
        // Each of them is noted as changed.
        let of_each = self.structures.iter().map(|target| core.logs(&target.open));
        logged || of_each.fold(false, |any, logs| any | logs)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Merge, Options};

    #[test]
    fn what_is_taken_back_takes_its_mistake_along() {
        let disk = terrace_sim::SimDisk::new(1);
        let db = Database::open_on(disk.shared(), Options::new().memory(4 << 20)).unwrap();
        let tree = db.tree("t").unwrap();
        let mut batch = db.batch();
        batch.put(&tree, "a", "1");
        let before = batch.mark();
        batch.merge(&tree, "a", Merge::Max(vec![7; 100])).put(
            &tree,
            vec![7; MAX_KEY_BYTES + 1],
            "1",
        );
        assert!(batch.bytes() > 100 && batch.mistake().is_some());
        // One that was there before stays.
        let wrong = batch.mark();
        batch.back_to(wrong);
        assert!(batch.mistake().is_some());
        batch.back_to(before);
        assert!(batch.bytes() < 100 && batch.mistake().is_none());
        batch.put(&tree, "b", "1");
        assert_eq!(batch.first(), Some(("t".into(), b"a".to_vec())));
        db.write(batch, None).unwrap();
        assert!(tree.contains_key("b").unwrap());
    }

    /// What a batch cannot hold is refused as it comes, whether it is a value or brought along by a merge.
    #[test]
    fn what_merges_bring_along_counts() {
        let disk = terrace_sim::SimDisk::new(1);
        let db = Database::open_on(disk.shared(), Options::new().memory(4 << 20)).unwrap();
        let tree = db.tree("t").unwrap();
        let mut batch = db.batch();
        batch.merge_bytes = MAX_RECORD_BYTES - 100;
        batch.merge(&tree, "a", Merge::Max(vec![7; 200]));
        assert!(batch.mistake().is_some() && batch.is_empty());
        // The memory of what is only measured is not touched.
        let mut batch = db.batch();
        batch.merge(&tree, "a", Merge::SetIfAbsent(vec![0; MAX_VALUE_BYTES + 1]));
        assert!(matches!(batch.mistake(), Some(Error::ValueTooLong { .. })));
    }
}
