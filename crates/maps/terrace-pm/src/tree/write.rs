//! Puts and deletes: into the log, then into the buffer of the key's node.

use std::sync::atomic::Ordering::Relaxed;
use terrace_base::{Error, Result, max_key_bytes};

use super::core::Tree;
use super::drains::Full;
use crate::key::{Own, ValueIn, ValueOut, fingerprint};
use crate::last::{Body, Entry};
use crate::log::Op;

/// Longest key, in bytes: that of the smallest pages.
const LONGEST_KEY: usize = max_key_bytes(4096);

/// After this many writes the memory is shared out anew.
const SHARED_ANEW: u64 = 1024;

/// What becomes of a key.
pub enum Change<'a> {
    /// This value.
    Put(ValueIn<'a>),
    /// Nothing: it is gone.
    Delete,
}

/// Which value a key must have now for the change to be made.
pub enum Wanted<'a> {
    /// Any; no reader looks.
    Any,
    /// None: the key must not be there.
    Absent,
    /// Some.
    Present,
    /// What the closure says to the old value.
    Decide(&'a mut dyn FnMut(Option<ValueOut>) -> Option<Vec<u8>>),
}

/// Writes that are made durable together.
pub struct Group<O> {
    /// Partitions of the log that have records of them, a bit for each.
    partitions: u64,
    /// Nodes that have become too full.
    full: Vec<Full<O>>,
}

impl<O> Default for Group<O> {
    fn default() -> Self {
        Group {
            partitions: 0,
            full: Vec::new(),
        }
    }
}

impl<O: Own> Tree<O> {
    /// Changes a key: what it had before, where `wanted` looks, and whether the change was made. It is durable
    /// when it returns, as far as the map promises that; in a group when that is committed.
    pub fn write(
        &self,
        key: &O,
        change: &Change<'_>,
        wanted: &mut Wanted<'_>,
        mut group: Option<&mut Group<O>>,
    ) -> Result<(Option<ValueOut>, bool)> {
        self.check_poison()?;
        if key.bytes().len() > LONGEST_KEY {
            return Err(Error::KeyTooLong {
                len: key.bytes().len(),
                limit: LONGEST_KEY,
            });
        }
        let is_put = matches!(change, Change::Put(_));
        // Growth and cleaning come first, with nothing held (rule 15).
        self.arena.make_ahead();
        match self.clean() {
            // The log finds no room to be cleaned; whether there is room for this record is seen below.
            Err(error) if error.is_disk_full() => {}
            cleaned => self.guard(cleaned)?,
        }
        let blob = self.blob_bytes(key, change);
        if !self.arena.has_room(blob) {
            match self.find_room(blob) {
                // It has the reserve.
                Err(error) if error.is_disk_full() && !is_put => {}
                found => found?,
            }
        }
        let hash = key.hash();
        let is_alone = group.is_none();
        loop {
            let node = self.node(key)?;
            let mut body = node.body.write();
            if !body.covers(key) {
                continue;
            }
            let known = self.find_buffered(&body, key, hash)?;
            let mut is_due = false;
            if known.is_none() && self.is_full(&body) {
                if self.budget.is_exhausted() && is_put {
                    // Deletes may have made the index smaller since.
                    self.share_out();
                }
                if self.budget.is_exhausted() && is_put {
                    return Err(self.too_small());
                }
                if self.may_wait(&body) {
                    // Drained behind this record, or with others, with fewer fences.
                    match &mut group {
                        Some(group) => group.full.push(Full::new(&node, &body)),
                        None => is_due = true,
                    }
                } else {
                    match self.drain_fullest(&mut body) {
                        // A delete waits in the buffer until its leaf has room for the others, or it makes some.
                        Err(error) if error.is_disk_full() && !is_put => {}
                        drained => {
                            self.guard(drained)?;
                            continue;
                        }
                    }
                }
            }
            let old = match wanted {
                Wanted::Any => None,
                _ => self.look(&body, key)?,
            };
            let made;
            let change = match wanted {
                Wanted::Absent if old.is_some() => return Ok((old, false)),
                Wanted::Present if old.is_none() => return Ok((None, false)),
                Wanted::Decide(decide) => match decide(old.clone()) {
                    Some(bytes) => {
                        made = bytes;
                        &if self.settings.value_bytes {
                            Change::Put(ValueIn::Bytes(&made))
                        } else {
                            Change::Put(ValueIn::Int(int(&made)))
                        }
                    }
                    None if old.is_none() => return Ok((None, false)),
                    None => &Change::Delete,
                },
                _ => change,
            };
            if !is_put && matches!(change, Change::Put(_)) {
                // An update that turned out to be a put; deletes have the reserve.
                if !self.arena.has_room(self.blob_bytes(key, change)) {
                    return Err(self.full());
                }
                if known.is_none() && self.budget.is_exhausted() {
                    return Err(self.too_small());
                }
            }
            let waits = is_due || !is_alone;
            self.guard(self.record(&mut body, key, hash, change, known, waits))?;
            if is_due {
                let drained = self.drain_behind(&mut body, self.log.partition_of(hash));
                self.guard(drained)?;
            }
            drop(body);
            let writes = self.counters.writes.fetch_add(1, Relaxed);
            if writes.is_multiple_of(SHARED_ANEW) {
                // What log and arena take changes, too.
                self.share_out();
            }
            match group {
                Some(group) => group.partitions |= 1 << self.log.partition_of(hash),
                None if self.settings.is_sync && !is_due && self.arena.pm().is_slow() => {
                    let partition = self.log.partition_of(hash);
                    self.guard(self.log.commit_apart(partition))?;
                }
                None => {}
            }
            return Ok((old, true));
        }
    }

    /// Makes what was written together durable.
    pub fn commit_together(&self, group: &mut Group<O>) -> Result<()> {
        let Group { partitions, full } = std::mem::take(group);
        if !full.is_empty() {
            return match self.drain_together(full, partitions) {
                // The log has all of it; a full file is an error of who needs room.
                Err(error) if error.is_disk_full() => Ok(()),
                drained => self.guard(drained),
            };
        }
        if !self.settings.is_sync {
            return Ok(());
        }
        let numbers = (0..self.log.count()).filter(|p| partitions >> p & 1 == 1);
        self.guard(self.log.commit_many(numbers))
    }

    /// Bytes of the blob that a put needs, if it needs one.
    fn blob_bytes(&self, key: &O, change: &Change<'_>) -> Option<usize> {
        match change {
            Change::Put(ValueIn::Bytes(value)) => Some(key.bytes().len() + value.len()),
            Change::Put(ValueIn::Int(_)) if self.settings.blobs => Some(key.bytes().len() + 8),
            _ => None,
        }
    }

    /// Frees what the log may hold of what a leaf or a record needs. That takes long, and is not tried again
    /// before something has become free.
    fn find_room(&self, blob: Option<usize>) -> Result<()> {
        if self.found_full.load(Relaxed) == self.arena.released() {
            return Err(self.full());
        }
        match self.clean_hard(blob) {
            Err(error) if error.is_disk_full() => {}
            cleaned => self.guard(cleaned)?,
        }
        if self.arena.has_room(blob) {
            return Ok(());
        }
        self.found_full.store(self.arena.released(), Relaxed);
        Err(self.full())
    }

    fn record(
        &self,
        body: &mut Body<O>,
        key: &O,
        hash: u64,
        change: &Change<'_>,
        known: Option<usize>,
        is_grouped: bool,
    ) -> Result<()> {
        let apart = self.arena.pm().is_slow() && !is_grouped;
        let mut partition = self.log.lock(self.log.partition_of(hash));
        // A blob knows the record by which it comes (rule 12), so that is numbered first.
        let sequence = partition.next_sequence()?;
        let (op, value) = match change {
            Change::Put(value) => (Op::Put, self.store_value(key, hash, sequence, *value)?),
            Change::Delete if O::BYTES => {
                let blob = self
                    .arena
                    .write_blob(hash, sequence, key.bytes(), &[], true)?;
                (Op::Delete, blob.0)
            }
            Change::Delete => (Op::Delete, 0),
        };
        let place = partition.append(op, false, key.word(), value)?;
        let superseded = known.map(|i| body.buffer.get(i));
        if let Some(old) = superseded
            && self.settings.blobs
            && old.value != 0
            && !old.is_replayed
        {
            // Freed when what replaces it is durable (rule 11).
            partition.drop_blob(old.value);
        }
        if self.settings.is_sync && !is_grouped && !apart {
            partition.commit()?;
        } else if !self.settings.is_sync {
            // What outlives the process is stored; nothing is to be waited for.
            partition.commit()?;
        }
        drop(partition);
        let entry = Entry {
            key: key.word(),
            value,
            print: fingerprint(hash),
            place,
            leaf: body.leaf_of(key) as u8,
            is_delete: op == Op::Delete,
            is_copied: false,
            is_replayed: false,
        };
        match (known, superseded) {
            (Some(i), Some(old)) => {
                self.log.bury(old.place);
                body.buffer.set(i, entry);
            }
            _ => {
                let before = body.buffer.bytes();
                let most = if body.buffer.is_at_end() {
                    self.cap(body)
                } else {
                    0
                };
                body.buffer.push(entry, most);
                self.buffered.fetch_add(1, Relaxed);
                self.count_buffer(before, body.buffer.bytes());
            }
        }
        Ok(())
    }

    fn store_value(&self, key: &O, hash: u64, sequence: u64, value: ValueIn<'_>) -> Result<u64> {
        match value {
            ValueIn::Int(int) if !self.settings.blobs => Ok(int),
            ValueIn::Int(int) => {
                let bytes = int.to_le_bytes();
                let blob = self
                    .arena
                    .write_blob(hash, sequence, key.bytes(), &bytes, false)?;
                Ok(blob.0)
            }
            ValueIn::Bytes(bytes) => {
                let blob = self
                    .arena
                    .write_blob(hash, sequence, key.bytes(), bytes, false)?;
                Ok(blob.0)
            }
        }
    }

    fn too_small(&self) -> Error {
        Error::MemoryTooSmall {
            what: format!("the index of {}", self.arena.pm().name()),
            given: self.budget.memory(),
            needed: self.budget.needed_for_more(),
        }
    }

    fn full(&self) -> Error {
        Error::DiskFull {
            what: format!(
                "{} has used all of its capacity (Options::capacity when it was made), or of its disk",
                self.arena.pm().name()
            ),
        }
    }
}

fn int(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}
