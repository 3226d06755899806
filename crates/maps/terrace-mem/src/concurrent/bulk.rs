//! All entries at once: the map emptied in one step, and sorted entries that go straight into
//! segments.

use super::merge::PART_BYTES;
use super::part::{Directory, Part};
use super::shared::Shared;
use super::{ConcurrentHybridMap, cell};
use crate::dynamic::Any;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::key::IndexKey;
use crate::map::{check, stored};
use crate::stage::KeyRun;
use crate::two_stage::StaticStage;
use crossbeam_epoch as epoch;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

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

/// Entries in order on their way into an empty map. Where it is dropped, also by a panic of who
/// gives the entries or by a key that is too long, all of them are in the map.
struct Load<'a, K: IndexKey, V: Clone + Send + Sync + 'static> {
    map: &'a ConcurrentHybridMap<K, V>,
    parts: Vec<Arc<Part<K::Family, V>>>,
    /// How many entries the parts have.
    len: usize,
    /// The last key of the last part.
    last: <K::Family as Family>::Buf,
    keys: <K::Family as Family>::Run,
    vals: Vec<V>,
}

impl<'a, K: IndexKey, V: Clone + Send + Sync + 'static> Load<'a, K, V> {
    fn new(map: &'a ConcurrentHybridMap<K, V>) -> Self {
        Load {
            map,
            parts: Vec::new(),
            len: 0,
            last: Default::default(),
            keys: Default::default(),
            vals: Vec::new(),
        }
    }

    /// Whether an entry goes on with the run.
    fn fits(&self, key: &K) -> bool {
        key.encode(|key| {
            stored(check::<K::Family>(key));
            let last = match self.keys.len() {
                0 if self.parts.is_empty() => return true,
                0 => <K::Family as Family>::load(&self.last),
                n => self.keys.get(n - 1),
            };
            <K::Family as Family>::cmp(last, key).is_lt()
        })
    }

    fn push(&mut self, key: K, val: V) {
        key.encode(|key| self.keys.push(key));
        self.vals.push(val);
        let n = self.vals.len();
        if n == self.map.shared.options.segment_len || self.keys.key_bytes(0, n) >= PART_BYTES {
            self.flush();
        }
    }

    /// Makes a part of what there is.
    fn flush(&mut self) {
        let n = self.vals.len();
        if n == 0 {
            return;
        }
        let mut low = <K::Family as Family>::Buf::default();
        if !self.parts.is_empty() {
            <K::Family as Family>::store(self.keys.get(0), &mut low);
            <K::Family as Family>::shorten(<K::Family as Family>::load(&self.last), &mut low);
        }
        let vals = std::mem::take(&mut self.vals);
        let shared = &self.map.shared;
        let keys = <K::Family as Family>::Stage::build(&self.keys, 0, n, &shared.plan);
        let fixed = shared.place.fix(Some(keys), vals, None);
        let tree = Any::new(self.map.shared.options.pair);
        self.parts.push(Arc::new(Part::new(low, tree, 0, fixed)));
        self.len += n;
        <K::Family as Family>::store(self.keys.get(n - 1), &mut self.last);
        self.keys.truncate(0);
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Drop for Load<'_, K, V> {
    fn drop(&mut self) {
        self.flush();
        if self.len > 0 {
            let parts = std::mem::take(&mut self.parts);
            self.map.shared.replace(Directory::of(parts), self.len);
        }
    }
}

/// Inserts many entries. Where the map is empty and they come in order, whole segments are built.
pub fn extend<K: IndexKey, V: Clone + Send + Sync + 'static>(
    map: &mut ConcurrentHybridMap<K, V>,
    entries: impl IntoIterator<Item = (K, V)>,
) {
    // Who has none left is not asked again.
    let mut rest = entries.into_iter().fuse();
    // Nobody else can change the map meanwhile.
    if map.is_empty() {
        let mut load = Load::new(map);
        let mut stray = None;
        for (key, val) in rest.by_ref() {
            if !load.fits(&key) {
                stray = Some((key, val));
                break;
            }
            load.push(key, val);
        }
        drop(load);
        if let Some((key, val)) = stray {
            map.insert(&key, val);
        }
    }
    for (key, val) in rest {
        map.insert(&key, val);
    }
}
