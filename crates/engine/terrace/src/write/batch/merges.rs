//! Merges in a batch: worked out, when it is written, from the values that are there.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_base::{Result, StructureId};
use terrace_tier::{Change, LockTable, Version};
use terrace_wal::MAX_RECORD_BYTES;

use super::changes::{Batch, Mark};
use super::staged::{Staged, What};
use crate::catalog::opened::Open;
use crate::core::Core;
use crate::handle::database::Database;
use crate::handle::map::Map;
use crate::merge::{Merge, Merged};
use crate::read::leased::{Deadline, Sight, parts};

/// A structure's number in the batch, and a key.
type Place = (u32, Vec<u8>);

/// The values that merges were worked out from, before the locks of their records were taken.
///
/// Under heavy writing not all of very many stay the same while the others are read. So those that have
/// changed are read again under the locks, and the merges are worked out anew there: a batch is not too late
/// then, however many it has. Only where that would take waiting it is.
#[derive(Default)]
pub struct Merging {
    /// Where the merges' changes begin in the batch.
    from: Option<Mark>,
    found: HashMap<(StructureId, Vec<u8>), (Option<Vec<u8>>, Version)>,
    /// The locks of the records.
    slots: Vec<usize>,
}

impl Merging {
    /// Merges that are worked out into changes behind `from`.
    pub fn new(from: Mark) -> Merging {
        Merging {
            from: Some(from),
            ..Merging::default()
        }
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        !self.found.is_empty()
    }

    /// Remembers what was read of a key.
    pub fn note(&mut self, open: &Open, key: &[u8], value: Option<Vec<u8>>, version: Version) {
        self.found
            .insert((open.id(), key.to_vec()), (value, version));
    }

    /// A record that a change rests on.
    pub fn rests_on(&mut self, slot: usize) {
        self.slots.push(slot);
    }

    /// The locks of what the changes rest on.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Bytes that the changes may take beyond what they take now, when they are worked out again.
    pub fn slack(&self, now: usize) -> usize {
        match self.is_any() {
            true => slack(now, self.found.len()),
            false => 0,
        }
    }

    /// Looks under the locks, `version` giving the one that a lock had before it was taken, whether what was
    /// read is still so, and works the merges out again if not. False if that would take waiting, or come to
    /// more changes or bytes than were prepared.
    pub fn again(
        &self,
        (core, before): (&Core, &Deadline),
        batch: &mut Batch,
        locks: &LockTable,
        version: impl Fn(usize) -> Option<Version>,
    ) -> Result<Again> {
        let Some(from) = self.from.filter(|_| self.is_any()) else {
            return Ok(Again::Same);
        };
        let is_same = |id: StructureId, key: &[u8], seen: Version| {
            version(locks.slot(id, key)).is_none_or(|now| now.content() == seen.content())
        };
        let mut all = self.found.iter();
        if all.all(|((id, key), (_, seen))| is_same(*id, key, *seen)) {
            return Ok(Again::Same);
        }
        let (changes, bytes) = (batch.operations.len(), batch.payload.len());
        let most = bytes + self.slack(bytes);
        batch.back_to(from);
        let mut waits = false;
        batch
            .work_out_merges(
                core,
                |open, key| {
                    let place = (open.id(), key.to_vec());
                    if let Some((value, seen)) = self.found.get(&place)
                        && is_same(open.id(), key, *seen)
                    {
                        return Ok((value.clone(), ()));
                    }
                    let mut value = Vec::new();
                    let mut read = |value: &mut Vec<u8>| {
                        let found = open.structure.get_locked(key, value)?;
                        waits |= found.is_none();
                        Ok((found.unwrap_or(false), ()))
                    };
                    let seen = core.seen((open, None), Sight::Now, &mut value, &mut read)?;
                    let lease = seen.lease;
                    lease.inspect(|lease| before.note(*lease));
                    Ok((lease.map(|_| value), ()))
                },
                |_, _, (), _| (),
            )
            // What was worked out from nothing is no mistake.
            .or_else(|e| if waits { Ok(()) } else { Err(e) })?;
        let fits = batch.operations.len() <= changes && batch.payload.len() <= most;
        Ok(if waits || !fits {
            Again::TooLate
        } else {
            Again::WorkedOut
        })
    }
}

/// What a second look at merges came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Everything is as it was.
    Same,
    /// The changes are others.
    WorkedOut,
    /// It would take waiting, or more than was prepared.
    TooLate,
}

impl Batch {
    /// Changes the value of a key by what is there: see [`Map::merge`]. It is worked out when the batch is
    /// written, in the order of the batch: earlier changes of the key count, later ones win.
    pub fn merge(&mut self, map: &Map, key: impl AsRef<[u8]>, merge: Merge) -> &mut Batch {
        self.merge_open(&map.open, Some(&map.db), key.as_ref(), merge, None);
        self
    }

    /// Whether there are merges.
    pub(crate) fn has_merges(&self) -> bool {
        !self.merges.is_empty()
    }

    /// Whether all of them are of tables.
    pub(crate) fn merges_are_in_tables(&self) -> bool {
        let mut merges = self.merges.iter();
        merges.all(|staged| {
            self.structures[staged.structure as usize]
                .open
                .table
                .is_some()
        })
    }

    /// Adds a merge, `before` being the one of its key before it, for who asks for the [`Batch::merges_until`].
    /// Its number; none if it is a mistake.
    pub(crate) fn merge_open(
        &mut self,
        open: &Arc<Open>,
        db: Option<&Database>,
        key: &[u8],
        merge: Merge,
        before: Option<usize>,
    ) -> Option<usize> {
        self.stage_open(open, db, key, What::Merge(merge), before)
    }

    /// The same with anything that depends on what is there.
    pub(crate) fn stage_open(
        &mut self,
        open: &Arc<Open>,
        db: Option<&Database>,
        key: &[u8],
        what: What,
        before: Option<usize>,
    ) -> Option<usize> {
        let (longest, bytes) = what.lengths();
        if !self.accepts(key, longest, bytes) {
            return None;
        }
        let structure = self.structure(open, db);
        self.merge_bytes += key.len() + bytes;
        self.merges.push(Staged {
            structure,
            key: key.to_vec(),
            what,
            after: self.operations.len(),
            before,
        });
        Some(self.merges.len() - 1)
    }

    /// The merges of a key up to the one of this number, in order. O(what it answers).
    pub(crate) fn merges_until(&self, last: usize) -> Vec<&What> {
        let mut merges = Vec::new();
        let mut next = Some(last);
        while let Some(staged) = next.and_then(|at| self.merges.get(at)) {
            merges.push(&staged.what);
            next = staged.before;
        }
        merges.reverse();
        merges
    }

    /// Adds what the merges come to as changes, `read` giving the value of a key as it is, and `rests`
    /// being told of those on which a change rests. Merges that a later change of their key overrules
    /// come to nothing. O(changes + merges).
    ///
    /// # Errors
    /// Those of merges; when the changes are too many or too large for a batch.
    pub(crate) fn work_out_merges<V>(
        &mut self,
        core: &Core,
        mut read: impl FnMut(&Arc<Open>, &[u8]) -> Result<(Option<Vec<u8>>, V)>,
        mut rests: impl FnMut(&Arc<Open>, &[u8], V, bool),
    ) -> Result<()> {
        if self.merges.is_empty() {
            return Ok(());
        }
        let now = core.clock().now();
        // From here on they count as the changes that they become.
        self.merge_bytes = 0;
        let mut merged: HashMap<Place, Vec<usize>> = HashMap::new();
        let mut order: Vec<Place> = Vec::new();
        for (i, staged) in self.merges.iter().enumerate() {
            let place = (staged.structure, staged.key.clone());
            let of = merged.entry(place.clone()).or_default();
            if of.is_empty() {
                order.push(place);
            }
            of.push(i);
        }
        // The last change of each of these keys.
        let mut last: HashMap<Place, usize> = HashMap::new();
        for (i, operation) in self.operations.iter().enumerate() {
            let place = (operation.structure, self.bytes_at(operation.key).to_vec());
            if merged.contains_key(&place) {
                last.insert(place, i);
            }
        }
        for place in order {
            let open = self.structures[place.0 as usize].open.clone();
            let own = last.get(&place).copied();
            let which: Vec<usize> = merged[&place]
                .iter()
                .copied()
                .filter(|i| own.is_none_or(|own| self.merges[*i].after > own))
                .collect();
            if which.is_empty() {
                continue;
            }
            let (mut value, beside) = match own {
                Some(own) => {
                    let value = self.operations[own].value;
                    let value = value.map(|at| self.bytes_at(at));
                    // What had expired by now is not there.
                    let is_over = match value {
                        Some(stored) => parts(&open, stored)?.0.is_over(now),
                        None => false,
                    };
                    (value.filter(|_| !is_over).map(<[u8]>::to_vec), None)
                }
                None => {
                    let (value, beside) = read(&open, &place.1)?;
                    (value, Some(beside))
                }
            };
            let mut changed = false;
            for i in which {
                let staged = &self.merges[i];
                if let Merged::Set(new) = staged.what.apply(&open, value.as_deref(), now)? {
                    value = new;
                    changed = true;
                }
            }
            if changed {
                let change = value.as_deref().map_or(Change::Delete, Change::Put);
                self.change(&open, None, &place.1, change);
                // Before the values of all others are read, too.
                if let Some(mistake) = &self.mistake {
                    return Err(mistake.clone());
                }
                self.fits_so_far(core)?;
            }
            if let Some(beside) = beside {
                rests(&open, &place.1, beside, changed);
            }
        }
        Ok(())
    }
}

/// Bytes for what merges may come to; what fits into a record now is not refused for what it might become.
fn slack(now: usize, merges: usize) -> usize {
    (now / 4 + 64 * merges).min(MAX_RECORD_BYTES.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_into_a_record_is_not_refused_for_what_it_might_become() {
        assert_eq!(slack(1000, 1), 250 + 64);
        for now in [
            MAX_RECORD_BYTES / 5 * 4,
            MAX_RECORD_BYTES - 7,
            MAX_RECORD_BYTES,
        ] {
            assert!(now + slack(now, 3) <= MAX_RECORD_BYTES);
        }
    }
}
