//! Merges in a batch: worked out, when it is written, from the values that are there.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_base::Result;
use terrace_tier::Change;

use super::Batch;
use crate::database::Database;
use crate::merge::{Merge, Merged};
use crate::registry::Open;

/// A merge that is not worked out yet.
pub(super) struct Staged {
    structure: u32,
    key: Vec<u8>,
    merge: Merge,
    /// Changes of the batch that come before it.
    after: usize,
}

impl Staged {
    /// Length of its key.
    pub(super) fn key_len(&self) -> u32 {
        self.key.len() as u32
    }
}

/// A structure's number in the batch, and a key.
type Place = (u32, Vec<u8>);

impl Batch {
    /// Whether there are merges.
    pub(crate) fn has_merges(&self) -> bool {
        !self.merges.is_empty()
    }

    /// Adds a merge.
    pub(crate) fn merge_open(
        &mut self,
        open: &Arc<Open>,
        db: Option<&Database>,
        key: &[u8],
        merge: Merge,
    ) {
        if !self.accepts(key, &[]) {
            return;
        }
        let structure = self.structure(open, db);
        self.merges.push(Staged {
            structure,
            key: key.to_vec(),
            merge,
            after: self.operations.len(),
        });
    }

    /// The merges of a key that no later change of it overrules, in order. O(changes + merges).
    pub(crate) fn merges_of(&self, open: &Arc<Open>, key: &[u8]) -> Vec<Merge> {
        let is_it = |structure: u32, its: &[u8]| {
            its == key && Arc::ptr_eq(&self.structures[structure as usize].open, open)
        };
        let mut operations = self.operations.iter();
        let last = operations.rposition(|o| is_it(o.structure, self.bytes_at(o.key)));
        let merges = self.merges.iter().filter(|staged| {
            is_it(staged.structure, &staged.key) && last.is_none_or(|last| staged.after > last)
        });
        merges.map(|staged| staged.merge.clone()).collect()
    }

    /// Adds what the merges come to as changes, `read` giving the value of a key as it is, and `rests`
    /// being told of those on which a change rests. Merges that a later change of their key overrules
    /// come to nothing. O(changes + merges).
    pub(crate) fn work_out_merges<V>(
        &mut self,
        mut read: impl FnMut(&Arc<Open>, &[u8]) -> Result<(Option<Vec<u8>>, V)>,
        mut rests: impl FnMut(&Arc<Open>, &[u8], V, bool),
    ) -> Result<()> {
        if self.merges.is_empty() {
            return Ok(());
        }
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
                    (value.map(|at| self.bytes_at(at).to_vec()), None)
                }
                None => {
                    let (value, beside) = read(&open, &place.1)?;
                    (value, Some(beside))
                }
            };
            let mut changed = false;
            for i in which {
                if let Merged::Set(new) = self.merges[i].merge.apply(value.as_deref())? {
                    value = new;
                    changed = true;
                }
            }
            if changed {
                let change = value.as_deref().map_or(Change::Delete, Change::Put);
                self.change(&open, None, &place.1, change);
            }
            if let Some(beside) = beside {
                rests(&open, &place.1, beside, changed);
            }
        }
        Ok(())
    }
}
