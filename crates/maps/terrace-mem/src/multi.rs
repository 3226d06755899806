//! `HybridMultiMap`: several values for each key, as secondary indexes have them.
//!
//! A key is stored once, in one of the stages, with a list of its values. Values are added,
//! changed and removed where the list is, also in the static stage (section 3), so no key is
//! ever in both stages and no lookup has to put a list together from two. In the static stage the
//! values of a segment lie in one array; a list there that grows or shrinks lies apart until many of
//! the segment do, or until it is merged.

use crate::error::{KeyTooLong, OptionsError};
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::map::{Core, Load, Merged, bounded, check};
use crate::options::{Options, Updates};
use crate::slots::{List, Packed, Vals};
use crate::two_stage::{DynamicCursor, DynamicStage};
use crate::usage::MemoryUsage;
use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::RangeBounds;

/// An ordered map with several values for each key, in the order they came.
///
/// ```
/// use terrace_mem::HybridMultiMap;
///
/// let mut by_city = HybridMultiMap::<String, u32>::new();
/// by_city.insert("Riga".to_string(), 1);
/// by_city.insert("Oslo".to_string(), 2);
/// by_city.insert("Riga".to_string(), 3);
/// assert_eq!(by_city.get("Riga"), [1, 3]);
/// assert_eq!((by_city.len(), by_city.key_count()), (3, 2));
/// assert!(by_city.remove("Riga", &1));
/// let all: Vec<(String, u32)> = by_city.iter().map(|(city, id)| (city, *id)).collect();
/// assert_eq!(all, [("Oslo".to_string(), 2), ("Riga".to_string(), 3)]);
/// ```
pub struct HybridMultiMap<K: IndexKey, V> {
    core: Core<K::Family, List<V>, Packed<V>>,
    len: usize,
    key: PhantomData<fn() -> K>,
}

/// Of this many lists of a segment one may lie apart before all are packed again.
const APART: usize = 8;

impl<K: IndexKey, V> HybridMultiMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self::with_options(Options::default()).expect("the default options go together")
    }

    /// An empty map with other options; `updates` is always in place.
    ///
    /// # Errors
    /// When the options do not go together; see [`OptionsError`].
    pub fn with_options(options: Options) -> Result<Self, OptionsError> {
        let options = Options {
            updates: Updates::InPlace,
            ..options
        };
        Ok(HybridMultiMap {
            core: Core::over(options, None)?,
            len: 0,
            key: PhantomData,
        })
    }

    /// Where the map lies; see [`HybridMap::placement`](crate::HybridMap::placement).
    #[cfg(feature = "place")]
    pub fn placement(&self) -> crate::place::MapPlacement {
        self.core.placement()
    }

    /// Does a bounded piece of placing; see [`HybridMap::place_step`](crate::HybridMap::place_step).
    #[cfg(feature = "place")]
    pub fn place_step(&mut self, steps: crate::place::Steps) -> bool {
        self.core.place_step(steps.count())
    }

    /// How many values there are. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys have values. O(1).
    pub fn key_count(&self) -> usize {
        self.core.len()
    }

    /// Adds a value to a key. O(log n + values of the key, amortised O(log n)).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn insert(&mut self, key: K, val: V) {
        if let Err(error) = self.try_insert(key, val) {
            panic!("{error}");
        }
    }

    /// Adds a value to a key.
    ///
    /// # Errors
    /// [`KeyTooLong`] when the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN);
    /// the map is unchanged.
    pub fn try_insert(&mut self, key: K, val: V) -> Result<(), KeyTooLong> {
        key.encode(|key| {
            check::<K::Family>(key)?;
            self.put(key, val);
            Ok(())
        })
    }

    fn put(&mut self, key: <K::Family as Family>::Ref<'_>, val: V) {
        if self.core.is_dynamic(key) {
            let list = self.core.dynamic.get_mut(key);
            list.expect("it was just seen there").push(val);
        } else if let Some(val) = self.put_static(key, val) {
            self.core.add(key, List::One(val));
        }
        self.len += 1;
    }

    /// Adds a value to a key of the static stage; gives it back where the key is not there.
    fn put_static(&mut self, key: <K::Family as Family>::Ref<'_>, val: V) -> Option<V> {
        let segments = &mut self.core.segments;
        let Some((i, rank)) = segments.find(key) else {
            return Some(val);
        };
        let back = segments.change(i, |vals| vals.push(rank, val));
        self.tidy(i);
        back
    }

    /// Packs segment `i` where many of its lists lie apart. O(values of the segment), so that it is
    /// O(values of a key) amortised.
    fn tidy(&mut self, i: usize) {
        let vals = &self.core.segments.segs()[i].vals;
        if vals.apart() * APART <= vals.live() {
            return;
        }
        match vals.gone() {
            0 => self.core.segments.change(i, Vals::pack),
            _ => self.core.sweep(i),
        }
    }

    /// The values of a key, none where it is not there. O(log n).
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> &[V] {
        key.probe(|key| self.core.get(key)).unwrap_or_default()
    }

    /// The values of a key, to change in place. O(log n).
    pub fn get_mut<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> &mut [V] {
        let found = key.probe(|key| match self.core.is_dynamic(key) {
            true => self.core.dynamic.get_mut(key).map(List::as_mut_slice),
            false => self.core.segments.get_all_mut(key),
        });
        found.unwrap_or_default()
    }

    /// Whether a key has values. O(log n).
    pub fn contains_key<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        key.probe(|key| self.core.get(key).is_some())
    }

    /// Removes the first value of a key that equals `val`; returns whether there was one.
    /// O(log n + values of the key).
    pub fn remove<Q: Probe<K> + ?Sized>(&mut self, key: &Q, val: &V) -> bool
    where
        V: PartialEq,
    {
        let vals = self.get(key);
        let Some(at) = vals.iter().position(|v| v == val) else {
            return false;
        };
        let last = vals.len() == 1;
        self.len -= 1;
        // Dropped at the end: where that panics, what is counted is right.
        let _gone = key.probe(|key| match last {
            true => (self.core.remove(key), None),
            false => (None, self.take_one(key, at)),
        });
        true
    }

    /// Takes value `at` of a key out, which has more than one.
    fn take_one(&mut self, key: <K::Family as Family>::Ref<'_>, at: usize) -> Option<V> {
        if self.core.is_dynamic(key) {
            return self.core.dynamic.get_mut(key)?.remove(at);
        }
        let (i, rank) = self.core.segments.find(key)?;
        let gone = self.core.segments.change(i, |vals| vals.remove(rank, at));
        self.tidy(i);
        gone
    }

    /// Removes a key and returns its values. O(log n + values of the key).
    pub fn remove_all<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Vec<V> {
        let list = key.probe(|key| self.core.remove(key));
        let vals = list.map_or_else(Vec::new, List::into_vec);
        self.len -= vals.len();
        vals
    }

    /// All keys with their values, in order of the keys.
    pub fn lists(&self) -> Lists<'_, K, V> {
        Lists {
            merged: self.core.range(None, None),
            key: PhantomData,
        }
    }

    /// The keys in a range with their values.
    pub fn range<Q, R>(&self, range: R) -> Lists<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        Lists {
            merged: bounded::<K, _, _, Q, R>(&self.core, &range),
            key: PhantomData,
        }
    }

    /// All values with their keys, in order of the keys; a key comes once for each value.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)>
    where
        K: Clone,
    {
        self.lists()
            .flat_map(|(key, vals)| vals.iter().map(move |val| (key.clone(), val)))
    }

    /// Removes all values; the options stay.
    pub fn clear(&mut self) {
        self.len = 0;
        self.core.clear();
    }

    /// The least key with its values. O(log n).
    ///
    /// ```
    /// let map: terrace_mem::HybridMultiMap<u64, char> =
    ///     [(2, 'b'), (1, 'a'), (2, 'c')].into_iter().collect();
    /// assert_eq!(map.first(), Some((1, &['a'][..])));
    /// assert_eq!(map.last(), Some((2, &['b', 'c'][..])));
    /// ```
    pub fn first(&self) -> Option<(K, &[V])> {
        self.lists().next()
    }

    /// The greatest key with its values. O(log n).
    pub fn last(&self) -> Option<(K, &[V])> {
        self.lists().next_back()
    }

    /// Moves all keys of the dynamic stage into the static one. O(keys), in one pause.
    pub fn merge_all(&mut self) {
        self.core.merge_all();
    }

    /// Where the bytes are. O(keys of the dynamic stage).
    pub fn memory_usage(&self) -> MemoryUsage {
        let mut usage = self.core.usage();
        let mut at = self.core.dynamic.seek(None, || {});
        while let Some(pos) = &mut at {
            usage.dynamic += pos.val().heap();
            if !pos.next() {
                at = None;
            }
        }
        usage
    }
}

impl<K: IndexKey, V> Default for HybridMultiMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: IndexKey, V: Clone> Clone for HybridMultiMap<K, V> {
    /// O(n).
    fn clone(&self) -> Self {
        let mut copy = HybridMultiMap {
            core: self.core.again(),
            len: 0,
            key: PhantomData,
        };
        let mut lists = self.core.range(None, None);
        if self.core.reloads() {
            let mut load = Load::new(&mut copy.core);
            while let Some((key, vals)) = lists.next() {
                load.push(key, vals.to_vec().into());
            }
        } else {
            while let Some((key, vals)) = lists.next() {
                copy.core.add(key, vals.to_vec().into());
            }
        }
        copy.len = self.len;
        copy
    }
}

impl<K: IndexKey + fmt::Debug, V: fmt::Debug> fmt::Debug for HybridMultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.lists()).finish()
    }
}

impl<K: IndexKey, V> Extend<(K, V)> for HybridMultiMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries
            .into_iter()
            .for_each(|(key, val)| self.insert(key, val));
    }
}

impl<K: IndexKey, V> FromIterator<(K, V)> for HybridMultiMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

/// Keys with their values, in order of the keys.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct Lists<'a, K: IndexKey, V> {
    merged: Merged<'a, K::Family, List<V>, Packed<V>>,
    key: PhantomData<fn() -> K>,
}

impl<'a, K: IndexKey, V> Iterator for Lists<'a, K, V> {
    type Item = (K, &'a [V]);
    fn next(&mut self) -> Option<Self::Item> {
        self.merged.next().map(|(key, vals)| (K::decode(key), vals))
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for Lists<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.merged
            .next_back()
            .map(|(key, vals)| (K::decode(key), vals))
    }
}

impl<K: IndexKey, V> FusedIterator for Lists<'_, K, V> {}

impl<K: IndexKey, V> fmt::Debug for Lists<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lists").finish_non_exhaustive()
    }
}
