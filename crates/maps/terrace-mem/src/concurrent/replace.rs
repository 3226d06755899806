//! All entries replaced by others, in one step.

use super::cell;
use super::part::Directory;
use super::shared::Shared;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crossbeam_epoch as epoch;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// Replaces all entries by those of a directory, `n` of them, at one moment. O(parts).
    pub fn replace(&self, new: Directory<F, V>, n: usize) {
        let (guard, mut new) = (epoch::pin(), Some(new));
        while new.is_some() {
            self.replace_in(self.directory.load(&guard), &mut new, n, &guard);
        }
        // Values of users: freed where nothing is held.
        guard.flush();
        drop(guard);
        cell::free();
    }

    /// [`Shared::replace`] of a directory; leaves the new one where it is out of date.
    fn replace_in(
        &self,
        old: &Directory<F, V>,
        new: &mut Option<Directory<F, V>>,
        n: usize,
        guard: &epoch::Guard,
    ) {
        // Merges end first, so that none has to give up what it made, and then no change comes
        // between. Both locks of all parts in the order of the keys, as always.
        let merging = old.parts.iter().map(|part| &part.merging);
        let merging: Vec<_> = merging
            .map(|one| one.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let mut latches = Vec::with_capacity(merging.len());
        for part in &old.parts {
            let dynamic = part.write();
            if dynamic.retired {
                return;
            }
            latches.push(dynamic);
        }
        // Where no part is retired the directory is that of this moment, and stays it.
        let _turn = self.turn();
        let gone = latches.iter().map(|dynamic| dynamic.live).sum();
        self.len.fetch_add(n, Ordering::Relaxed);
        self.len.fetch_sub(gone, Ordering::Relaxed);
        if let Some(new) = new.take() {
            self.place.cleared(guard);
            self.directory.store(new, guard);
        }
        for dynamic in &mut latches {
            dynamic.retired = !planted(Fault::UnmarkedClear);
        }
    }
}
