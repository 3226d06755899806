//! Changes of one key, and the merge that one may begin.

use super::part::{Part, Weight};
use super::shared::{MergeNeed, Shared};
use crate::family::Family;
use crate::options::Merging;
use crate::two_stage::DynamicStage;
use crossbeam_epoch as epoch;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What becomes of an entry.
pub enum Then<V> {
    /// It stays as it is, there or not.
    Keep,
    /// It has this value.
    Set(V),
    /// It is not there.
    Remove,
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// Does with the entry of `key` the first of what `change` returns; returns the second.
    pub fn change<R>(&self, key: F::Ref<'_>, change: impl FnOnce(Option<&V>) -> (Then<V>, R)) -> R {
        let guard = epoch::pin();
        loop {
            let part = self.directory.load(&guard).find(key);
            let mut dynamic = part.write();
            if dynamic.retired {
                continue;
            }
            let (before, then, result) = {
                let old = match dynamic.tree.get(key, false) {
                    Some(slot) => slot.val.as_ref(),
                    None => {
                        let fixed = part.segment.load(&guard);
                        self.place.touched(fixed);
                        fixed.get(key)
                    }
                };
                let (then, result) = change(old);
                (old.is_some(), then, result)
            };
            let new = match then {
                Then::Keep => return result,
                Then::Remove if !before => return result,
                Then::Remove => None,
                Then::Set(val) => Some(val),
            };
            let after = new.is_some();
            let replaced = dynamic.put(key, new);
            match (before, after) {
                (false, true) => {
                    dynamic.live += 1;
                    self.len.fetch_add(1, Ordering::Relaxed);
                }
                (true, false) => {
                    dynamic.live -= 1;
                    self.len.fetch_sub(1, Ordering::Relaxed);
                }
                _ => {}
            }
            let weight = dynamic.weight();
            self.place.wrote(part.segment.load(&guard), &dynamic);
            drop(dynamic);
            // The drop of a user's value runs without the latch.
            drop(replaced);
            self.weigh(part, weight, &guard);
            return result;
        }
    }

    /// Has a part merged that is due.
    pub fn weigh(&self, part: &Arc<Part<F, V>>, weight: Weight, guard: &epoch::Guard) {
        let due = self.due(part, weight, guard);
        match self.options.merging {
            _ if due == MergeNeed::Not => {}
            Merging::Manual => {}
            Merging::Incremental if due != MergeNeed::Long => {
                // A part without entries may see no other change that tells of it again.
                if !self.signal.send(part) && due == MergeNeed::Drained {
                    self.merge_part(part, true);
                }
            }
            _ => {
                self.merge_part(part, true);
            }
        }
    }
}
