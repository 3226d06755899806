//! `HybridMultiMap`: several values for each key, as secondary indexes have them.
//!
//! A key is stored once, in one of the stages, with a list of its values. Values are added,
//! changed and removed where the list is, also in the static stage (section 3), so no key is
//! ever in both stages and no lookup has to put a list together from two.

use crate::error::{KeyTooLong, OptionsError};
use crate::key::{IndexKey, Probe};
use crate::map::{HybridMap, Iter};
use crate::options::{Options, Updates};
use crate::usage::MemoryUsage;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::RangeBounds;

/// The values of a key: one in place, more in an array that grows by half.
#[allow(
    clippy::box_collection,
    reason = "a thin pointer keeps entries with one value small"
)]
#[derive(Clone)]
enum List<V> {
    One(V),
    Many(Box<Vec<V>>),
}

impl<V> List<V> {
    fn as_slice(&self) -> &[V] {
        match self {
            List::One(val) => std::slice::from_ref(val),
            List::Many(vals) => vals,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [V] {
        match self {
            List::One(val) => std::slice::from_mut(val),
            List::Many(vals) => vals,
        }
    }

    fn heap(&self) -> usize {
        match self {
            List::One(_) => 0,
            List::Many(vals) => size_of::<Vec<V>>() + vals.capacity() * size_of::<V>(),
        }
    }

    /// The list with one value more.
    fn with(self, val: V) -> Self {
        match self {
            List::One(first) => List::Many(Box::new(vec![first, val])),
            List::Many(mut vals) => {
                if vals.len() == vals.capacity() {
                    vals.reserve_exact(vals.len().div_ceil(2));
                }
                vals.push(val);
                List::Many(vals)
            }
        }
    }
}

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
    /// A list is `None` only inside of a change: its value then moves into the new list.
    map: HybridMap<K, Option<List<V>>>,
    len: usize,
    heap: usize,
}

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
            map: HybridMap::with_options(options)?,
            len: 0,
            heap: 0,
        })
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
        self.map.len()
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
        if let Some(slot) = self.map.get_mut(&key) {
            if let Some(list) = slot.take() {
                self.heap -= list.heap();
                let list = list.with(val);
                self.heap += list.heap();
                *slot = Some(list);
            }
        } else {
            self.map.try_insert(key, Some(List::One(val)))?;
        }
        self.len += 1;
        Ok(())
    }

    /// The values of a key, none where it is not there. O(log n).
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> &[V] {
        self.map
            .get(key)
            .and_then(Option::as_ref)
            .map_or(&[], List::as_slice)
    }

    /// The values of a key, to change in place. O(log n).
    pub fn get_mut<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> &mut [V] {
        self.map
            .get_mut(key)
            .and_then(Option::as_mut)
            .map_or(&mut [], List::as_mut_slice)
    }

    /// Whether a key has values. O(log n).
    pub fn contains_key<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        self.map.contains_key(key)
    }

    /// Removes the first value of a key that equals `val`; returns whether there was one.
    /// O(log n + values of the key).
    pub fn remove<Q: Probe<K> + ?Sized>(&mut self, key: &Q, val: &V) -> bool
    where
        V: PartialEq,
    {
        let Some(slot) = self.map.get_mut(key) else {
            return false;
        };
        let Some(list) = slot else { return false };
        let Some(i) = list.as_slice().iter().position(|v| v == val) else {
            return false;
        };
        self.heap -= list.heap();
        self.len -= 1;
        if let List::Many(vals) = list {
            // Dropped last: where that panics, what is counted is right.
            let _gone = vals.remove(i);
            if vals.len() > 1 {
                vals.shrink_to(vals.len() * 2);
            } else if let Some(last) = vals.pop() {
                *list = List::One(last);
            }
            self.heap += list.heap();
        } else {
            self.map.remove(key);
        }
        true
    }

    /// Removes a key and returns its values. O(log n + values of the key).
    pub fn remove_all<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Vec<V> {
        let Some(list) = self.map.remove(key).flatten() else {
            return Vec::new();
        };
        self.heap -= list.heap();
        let vals = match list {
            List::One(val) => vec![val],
            List::Many(vals) => *vals,
        };
        self.len -= vals.len();
        vals
    }

    /// All keys with their values, in order of the keys.
    pub fn lists(&self) -> Lists<'_, K, V> {
        Lists(self.map.iter())
    }

    /// The keys in a range with their values.
    pub fn range<Q, R>(&self, range: R) -> Lists<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        Lists(self.map.range(range))
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
        (self.len, self.heap) = (0, 0);
        self.map.clear();
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
        self.map.merge_all();
    }

    /// Where the bytes are; the lists of several values count as static values.
    pub fn memory_usage(&self) -> MemoryUsage {
        let mut usage = self.map.memory_usage();
        usage.static_values += self.heap;
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
        let map = self.map.clone();
        let lists = map.values().flatten();
        HybridMultiMap {
            len: self.len,
            // Copied lists have no room to grow.
            heap: lists.map(List::heap).sum(),
            map,
        }
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
pub struct Lists<'a, K: IndexKey, V>(Iter<'a, K, Option<List<V>>>);

impl<'a, K: IndexKey, V> Iterator for Lists<'a, K, V> {
    type Item = (K, &'a [V]);
    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .next()
            .map(|(key, list)| (key, list.as_ref().map_or(&[][..], List::as_slice)))
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for Lists<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0
            .next_back()
            .map(|(key, list)| (key, list.as_ref().map_or(&[][..], List::as_slice)))
    }
}

impl<K: IndexKey, V> FusedIterator for Lists<'_, K, V> {}

impl<K: IndexKey, V> fmt::Debug for Lists<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lists").finish_non_exhaustive()
    }
}
