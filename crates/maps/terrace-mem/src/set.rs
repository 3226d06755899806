//! `HybridSet`: the ordered set in two stages.

use crate::error::{KeyTooLong, OptionsError};
use crate::key::{IndexKey, Probe};
use crate::map::{HybridMap, IntoKeys, Keys};
use crate::options::Options;
use crate::usage::MemoryUsage;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::{FusedIterator, Peekable};
use core::ops::RangeBounds;

/// An ordered set in two stages, used as a `BTreeSet` is: a [`HybridMap`] without values. Keys are
/// stored encoded, so they are lent by none of the methods but given as owned ones.
///
/// ```
/// use terrace_mem::HybridSet;
///
/// let mut set: HybridSet<u64> = (0..1000).collect();
/// assert!(!set.insert(7) && set.insert(2000) && set.remove(&8));
/// assert_eq!(set.range(6..=9).collect::<Vec<_>>(), [6, 7, 9]);
/// assert_eq!((set.first(), set.last(), set.len()), (Some(0), Some(2000), 1000));
/// ```
pub struct HybridSet<K: IndexKey> {
    map: HybridMap<K, ()>,
}

impl<K: IndexKey> HybridSet<K> {
    /// An empty set.
    pub fn new() -> Self {
        HybridSet {
            map: HybridMap::new(),
        }
    }

    /// An empty set with other options.
    ///
    /// # Errors
    /// When the options do not go together; see [`OptionsError`].
    pub fn with_options(options: Options) -> Result<Self, OptionsError> {
        #[cfg(feature = "place")]
        let map = HybridMap::with_copies(options)?;
        #[cfg(not(feature = "place"))]
        let map = HybridMap::with_options(options)?;
        Ok(HybridSet { map })
    }

    /// Where the set lies; see [`HybridMap::placement`].
    #[cfg(feature = "place")]
    pub fn placement(&self) -> crate::place::MapPlacement {
        self.map.placement()
    }

    /// Does a bounded piece of placing; see [`HybridMap::place_step`].
    #[cfg(feature = "place")]
    pub fn place_step(&mut self, steps: crate::place::Steps) -> bool {
        self.map.place_step(steps)
    }

    /// How many keys there are. O(1).
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Removes all keys; the options stay.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Whether `key` is there. O(log n).
    pub fn contains<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        self.map.contains_key(key)
    }

    /// The key, if it is there. O(log n).
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<K> {
        self.map.get_key_value(key).map(|entry| entry.0)
    }

    /// Adds a key; returns whether it is new. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn insert(&mut self, key: K) -> bool {
        self.map.insert(key, ()).is_none()
    }

    /// Adds a key; returns whether it is new. O(log n).
    ///
    /// # Errors
    /// [`KeyTooLong`] when the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn try_insert(&mut self, key: K) -> Result<bool, KeyTooLong> {
        Ok(self.map.try_insert(key, ())?.is_none())
    }

    /// Adds a key and returns the one that is equal to it, if it was there. O(log n).
    ///
    /// # Panics
    /// As [`HybridSet::insert`].
    pub fn replace(&mut self, key: K) -> Option<K> {
        let old = self.get(&key);
        self.insert(key);
        old
    }

    /// Removes a key; returns whether it was there. O(log n).
    pub fn remove<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> bool {
        self.map.remove(key).is_some()
    }

    /// Removes a key and returns it. O(log n).
    pub fn take<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Option<K> {
        self.map.remove_entry(key).map(|entry| entry.0)
    }

    /// The least key. O(log n).
    pub fn first(&self) -> Option<K> {
        self.map.first().map(|entry| entry.0)
    }

    /// The greatest key. O(log n).
    pub fn last(&self) -> Option<K> {
        self.map.last().map(|entry| entry.0)
    }

    /// Removes the least key and returns it. O(log n).
    pub fn pop_first(&mut self) -> Option<K> {
        self.map.pop_first().map(|entry| entry.0)
    }

    /// Removes the greatest key and returns it. O(log n).
    pub fn pop_last(&mut self) -> Option<K> {
        self.map.pop_last().map(|entry| entry.0)
    }

    /// Keeps the keys for which `keep` is true, in order. O(n).
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.map.retain(|key, ()| keep(key));
    }

    /// Moves all keys of `other`, which is empty then, into this set.
    pub fn append(&mut self, other: &mut Self) {
        self.map.append(&mut other.map);
    }

    /// Moves the keys from `key` on into a set of their own. O(n).
    pub fn split_off<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Self {
        HybridSet {
            map: self.map.split_off(key),
        }
    }

    /// Takes out the keys in `range` for which `take` is true, as they are asked for. O(log n) for each
    /// that is shown to it.
    pub fn extract_if<R: RangeBounds<K>>(
        &mut self,
        range: R,
        mut take: impl FnMut(&K) -> bool,
    ) -> impl Iterator<Item = K> {
        let all = self.map.extract_if(range, move |key, ()| take(key));
        all.map(|entry| entry.0)
    }

    /// All keys in order. O(log n) to begin, O(1) amortised for each.
    pub fn iter(&self) -> Keys<'_, K, ()> {
        self.map.keys()
    }

    /// The keys in `range`, in order. Empty where the start is behind the end.
    pub fn range<Q, R>(&self, range: R) -> Keys<'_, K, ()>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        self.map.range_keys(range)
    }

    /// Moves all keys of the dynamic stage into the static one. O(n), in one pause.
    pub fn merge_all(&mut self) {
        self.map.merge_all();
    }

    /// Where the bytes are.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }
}

/// Which keys of two sets an operation gives: those of the first alone, of both, of the second alone.
#[derive(Clone, Copy)]
struct Wants(bool, bool, bool);

/// Keys of two sets in one order; from [`HybridSet::union`] and the like.
#[must_use = "an iterator does nothing until it is asked for keys"]
pub struct Combined<'a, K: IndexKey + Ord> {
    a: Peekable<Keys<'a, K, ()>>,
    b: Peekable<Keys<'a, K, ()>>,
    wants: Wants,
}

impl<K: IndexKey + Ord> Iterator for Combined<'_, K> {
    type Item = K;
    fn next(&mut self) -> Option<K> {
        loop {
            let order = match (self.a.peek(), self.b.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            let (key, wanted) = match order {
                Ordering::Less => (self.a.next(), self.wants.0),
                Ordering::Greater => (self.b.next(), self.wants.2),
                Ordering::Equal => {
                    self.b.next();
                    (self.a.next(), self.wants.1)
                }
            };
            if wanted {
                return key;
            }
        }
    }
}

impl<K: IndexKey + Ord> FusedIterator for Combined<'_, K> {}

impl<K: IndexKey + Ord> fmt::Debug for Combined<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combined").finish_non_exhaustive()
    }
}

impl<K: IndexKey + Ord> HybridSet<K> {
    fn combine<'a>(&'a self, other: &'a Self, wants: Wants) -> Combined<'a, K> {
        Combined {
            a: self.iter().peekable(),
            b: other.iter().peekable(),
            wants,
        }
    }

    /// The keys of either set, each once, in order.
    pub fn union<'a>(&'a self, other: &'a Self) -> Combined<'a, K> {
        self.combine(other, Wants(true, true, true))
    }

    /// The keys of both sets, in order.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> Combined<'a, K> {
        self.combine(other, Wants(false, true, false))
    }

    /// The keys of this set that the other has not, in order.
    pub fn difference<'a>(&'a self, other: &'a Self) -> Combined<'a, K> {
        self.combine(other, Wants(true, false, false))
    }

    /// The keys that one set has and the other has not, in order.
    pub fn symmetric_difference<'a>(&'a self, other: &'a Self) -> Combined<'a, K> {
        self.combine(other, Wants(true, false, true))
    }

    /// Whether no key is in both. O(n).
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).next().is_none()
    }

    /// Whether the other set has all keys of this one. O(n).
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).next().is_none()
    }

    /// Whether this set has all keys of the other one. O(n).
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }
}

impl<K: IndexKey> Default for HybridSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: IndexKey> Clone for HybridSet<K> {
    fn clone(&self) -> Self {
        HybridSet {
            map: self.map.clone(),
        }
    }
}

impl<K: IndexKey + fmt::Debug> fmt::Debug for HybridSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<K: IndexKey + PartialEq> PartialEq for HybridSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: IndexKey + Eq> Eq for HybridSet<K> {}

impl<K: IndexKey + PartialOrd> PartialOrd for HybridSet<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<K: IndexKey + Ord> Ord for HybridSet<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<K: IndexKey + Hash> Hash for HybridSet<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.map.hash(state);
    }
}

impl<K: IndexKey> Extend<K> for HybridSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        self.map.extend(keys.into_iter().map(|key| (key, ())));
    }
}

impl<K: IndexKey> FromIterator<K> for HybridSet<K> {
    /// Sorted input is built into segments directly: O(n). Other input is inserted.
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<K: IndexKey, const N: usize> From<[K; N]> for HybridSet<K> {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: IndexKey> IntoIterator for HybridSet<K> {
    type Item = K;
    type IntoIter = IntoKeys<K, ()>;
    fn into_iter(self) -> IntoKeys<K, ()> {
        self.map.into_keys()
    }
}

impl<'a, K: IndexKey> IntoIterator for &'a HybridSet<K> {
    type Item = K;
    type IntoIter = Keys<'a, K, ()>;
    fn into_iter(self) -> Keys<'a, K, ()> {
        self.iter()
    }
}
