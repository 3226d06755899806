//! Sorted entries that come into an empty map, straight into segments.

use super::ConcurrentHybridMap;
use super::merge::PART_BYTES;
use super::part::{Directory, Part};
use crate::dynamic::Any;
use crate::family::Family;
use crate::key::IndexKey;
use crate::map::{check, stored};
use crate::stage::KeyRun;
use crate::two_stage::StaticStage;
use std::sync::Arc;

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
    // No other thread can change the map meanwhile.
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
