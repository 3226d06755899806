//! Sorted input goes straight into segments.

use super::core::Core;
use super::hybrid::{HybridMap, check, stored};
use super::iter::IntoIter;
use crate::family::Family;
use crate::key::IndexKey;
use crate::options::Merging;
use crate::slots::Vals;
use crate::stage::KeyRun;
use crate::two_stage::{DynamicStage, StaticStage};
use alloc::vec::Vec;

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    /// Whether `key` lies behind all entries, so that a run that starts with it can be appended.
    fn is_behind_all(&self, key: F::Ref<'_>) -> bool {
        let mut all = self.range(None, None);
        all.next_back()
            .is_none_or(|(last, _)| F::cmp(last, key).is_lt())
    }

    /// Whether all keys of segment `i`, dead ones among them, are less than `key`.
    fn ends_before(&self, i: usize, key: F::Ref<'_>) -> bool {
        let mut last = F::Buf::default();
        self.segments.segs()[i].keys.last_key(&mut last);
        F::cmp(F::load(&last), key).is_lt()
    }

    /// Puts sorted entries behind all others, as one segment unless their keys are long.
    fn append(&mut self, keys: &F::Run, vals: Vec<V>) {
        // Dead keys may lie behind the last live one. The new bound is told from the last key of
        // the segment before, dead or not, so that one has to be less.
        while let Some(last) = self.segments.segs().len().checked_sub(1)
            && self.segments.segs()[last].vals.gone() > 0
            && !self.ends_before(last, keys.get(0))
        {
            self.sweep(last);
        }
        let at = self.segments.segs().len();
        let pieces = self.pieces(keys.len(), keys.key_bytes(0, keys.len()));
        let parts = self.segments.open(|| self.options.plan());
        parts
            .list
            .insert(at, keys, S::row(vals), pieces, &parts.plan);
        if self.options.symbols {
            parts.learn(at);
        }
        self.fit_shortcuts();
    }
}

/// Sorted entries behind all others that are on their way into segments. Where it is dropped, also
/// by a panic of who gives the entries or by a key that is too long, all of them are in the map.
pub struct Load<'a, F: Family, V, S: Vals<Own = V>> {
    core: &'a mut Core<F, V, S>,
    keys: F::Run,
    vals: Vec<V>,
    flushed: bool,
}

impl<'a, F: Family, V, S: Vals<Own = V>> Load<'a, F, V, S> {
    pub fn new(core: &'a mut Core<F, V, S>) -> Self {
        Load {
            core,
            keys: F::Run::default(),
            vals: Vec::new(),
            flushed: false,
        }
    }

    /// Whether an entry goes on with the run; a key that comes twice replaces.
    fn fits(&self, key: F::Ref<'_>) -> bool {
        match self.keys.len() {
            0 => self.core.is_behind_all(key),
            n => F::cmp(self.keys.get(n - 1), key).is_lt(),
        }
    }

    /// Adds an entry behind all others.
    pub fn push(&mut self, key: F::Ref<'_>, val: V) {
        self.keys.push(key);
        self.vals.push(val);
        // A full segment waits for one more entry, which may replace its last one; of long keys
        // several make as much as is kept.
        let n = self.vals.len() - 1;
        if n == self.core.options.segment_len()
            || self.keys.key_bytes(0, n) >= self.core.step_bytes()
        {
            self.flush(n);
            self.flushed = true;
        }
    }

    /// Appends the first `n` entries as a segment and leaves the others.
    fn flush(&mut self, n: usize) {
        let mut others = F::Run::default();
        others.append(&self.keys, n, self.keys.len());
        let late = self.vals.split_off(n);
        let vals = core::mem::replace(&mut self.vals, late);
        // Keys and values are together again before anything can panic.
        let mut keys = core::mem::replace(&mut self.keys, others);
        keys.truncate(n);
        self.core.append(&keys, vals);
    }
}

impl<F: Family, V, S: Vals<Own = V>> Drop for Load<'_, F, V, S> {
    fn drop(&mut self) {
        // Few entries become a segment only behind full ones of the same call: else many calls
        // with few entries each would leave as many short segments.
        let n = self.vals.len();
        if n >= self.core.options.segment_len() / 2 || (n > 0 && self.flushed) {
            self.flush(n);
        }
        for (i, val) in self.vals.drain(..).enumerate() {
            self.core.add(self.keys.get(i), val);
        }
    }
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// Keeps the entries for which `keep` is true, in order; it may change their values. O(n), also
    /// where most stay: all segments are built anew. Where `keep` panics, the entry that it had is
    /// gone and all behind that one stay.
    ///
    /// ```
    /// let mut map: terrace_mem::HybridMap<u64, u64> = (0..10_000).map(|i| (i, i)).collect();
    /// map.retain(|key, val| {
    ///     *val += 1;
    ///     key % 1000 == 0
    /// });
    /// assert_eq!((map.len(), map.get(&3000)), (10, Some(&3001)));
    /// ```
    pub fn retain(&mut self, keep: impl FnMut(&K, &mut V) -> bool) {
        retain(self, keep);
    }

    /// Moves all entries of `other`, which is empty then, into this map; where both have a key, the
    /// value of `other` stays. O(entries of `other`) where these lie behind all others, O(log n)
    /// for each of them elsewhere.
    ///
    /// ```
    /// use terrace_mem::HybridMap;
    ///
    /// let mut map = HybridMap::from([(1, "old"), (2, "two")]);
    /// let mut other = HybridMap::from([(1, "new"), (3, "three")]);
    /// map.append(&mut other);
    /// assert!(other.is_empty());
    /// assert_eq!(map, HybridMap::from([(1, "new"), (2, "two"), (3, "three")]));
    /// ```
    pub fn append(&mut self, other: &mut Self) {
        let straight = self.core.loads();
        self.extend_from(other.take(), straight);
    }

    /// Inserts many entries. Where they come in order and behind what is there, and are to go
    /// `straight`, whole segments are built, and only entries that are too few for one pass the
    /// dynamic stage.
    pub(super) fn extend_from(
        &mut self,
        entries: impl IntoIterator<Item = (K, V)>,
        straight: bool,
    ) {
        // Who has none left is not asked again.
        let mut rest = entries.into_iter().fuse();
        if !straight {
            for (key, val) in rest {
                self.insert(key, val);
            }
            return;
        }
        let mut load = Load::new(&mut self.core);
        let mut stray = None;
        for (key, val) in rest.by_ref() {
            let fits = key.encode(|key| {
                stored(check::<K::Family>(key));
                load.fits(key)
            });
            if !fits {
                stray = Some((key, val));
                break;
            }
            key.encode(|key| load.push(key, val));
        }
        drop(load);
        for (key, val) in stray.into_iter().chain(rest) {
            self.insert(key, val);
        }
    }
}

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    /// Whether sorted entries that are new to the map may go straight into segments: not where
    /// merging is left to whoever asks for it.
    pub fn loads(&self) -> bool {
        self.options.merging != Merging::Manual
    }

    /// Whether the entries of this map go straight into segments where they are put together
    /// again: where it merges only when asked they are left in the stage that most of them are in.
    pub fn reloads(&self) -> bool {
        self.loads() || self.segments.live() > self.dynamic.len()
    }
}

/// See [`HybridMap::retain`].
fn retain<K: IndexKey, V>(map: &mut HybridMap<K, V>, mut keep: impl FnMut(&K, &mut V) -> bool) {
    let straight = map.core.reloads();
    let all = map.take();
    let mut back = Back { map, all, straight };
    let Back { map, all, .. } = &mut back;
    let rest = all.by_ref().filter_map(|(key, mut val)| {
        let stays = keep(&key, &mut val);
        stays.then_some((key, val))
    });
    map.extend_from(rest, straight);
}

/// Entries that go back into their map, also by a panic of who looks at them.
struct Back<'a, K: IndexKey, V> {
    map: &'a mut HybridMap<K, V>,
    all: IntoIter<K, V>,
    straight: bool,
}

impl<K: IndexKey, V> Drop for Back<'_, K, V> {
    fn drop(&mut self) {
        self.map.extend_from(self.all.by_ref(), self.straight);
    }
}
