//! The map itself, with what is done to one entry or read of all.

use super::batch;
use super::core::Core;
use super::iter::{self, Cursor, IntoIter, Iter, Keys, Values};
use crate::error::{KeyTooLong, OptionsError};
use crate::family::Family;
use crate::key::{IndexKey, MAX_KEY_LEN, Probe};
use crate::options::Options;
use crate::plan::Stage;
use crate::usage::MemoryUsage;
use ::core::marker::PhantomData;
use ::core::ops::RangeBounds;
use alloc::vec::Vec;

/// An ordered map in two stages: a small B+tree that takes all writes and a compact static stage
/// that holds most entries.
///
/// It is used like a `BTreeMap`. The differences: keys are stored encoded, so iterators yield
/// them as owned values; a step of merging is part of some inserts, updates and removes, and takes about as long as copying one segment of 4096 entries.
///
/// Lookups are O(log n). Inserts are O(log n) and, for the merge, O(ratio) amortised. Byte strings
/// are hashed in the same way in each program: keys that someone chose for it can make lookups
/// among them O(segment).
///
/// Values lie in place, 32 of them in a node of the dynamic stage, which passes the stack when it is
/// made: values of many kilobytes belong into a `Box`.
///
/// # Panics
/// Methods that store a key panic when its encoded form is longer than [`MAX_KEY_LEN`];
/// [`HybridMap::try_insert`] returns an error instead. Capacity overflow panics and allocation
/// failure aborts, as in `std`. A value whose `drop` panics leaves the map usable.
///
/// ```
/// use terrace_mem::HybridMap;
///
/// let mut map: HybridMap<u64, &str> = (0..1000).map(|i| (i * 2, "even")).collect();
/// map.insert(7, "odd");
/// assert_eq!(map.get(&7), Some(&"odd"));
/// assert_eq!(map.remove(&8), Some("even"));
/// let near: Vec<u64> = map.range(5..11).map(|(key, _)| key).collect();
/// assert_eq!(near, [6, 7, 10]);
/// assert_eq!(map.iter().next_back(), Some((1998, &"even")));
/// ```
pub struct HybridMap<K: IndexKey, V> {
    pub(crate) core: Core<K::Family, V>,
    pub(super) key: PhantomData<fn() -> K>,
}

/// The panic of the map-like methods for a key that is too long.
#[track_caller]
pub(crate) fn stored<T>(result: Result<T, KeyTooLong>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn check<F: Family>(key: F::Ref<'_>) -> Result<(), KeyTooLong> {
    let len = F::size(key);
    if len > MAX_KEY_LEN {
        Err(KeyTooLong { len })
    } else {
        Ok(())
    }
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// An empty map. Allocates nothing.
    pub fn new() -> Self {
        Self::with_options(Options::default()).expect("the default options go together")
    }

    /// An empty map with other options.
    ///
    /// # Errors
    /// When the options do not go together; see [`OptionsError`].
    pub fn with_options(options: Options) -> Result<Self, OptionsError> {
        Ok(HybridMap {
            core: Core::over(options, None)?,
            key: PhantomData,
        })
    }

    /// How many entries there are. O(1).
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries; the options stay.
    pub fn clear(&mut self) {
        self.core.clear();
    }

    /// The value of `key`. O(log n).
    #[inline]
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<&V> {
        key.probe(|key| self.core.get(key))
    }

    /// Whether `key` is there. O(log n).
    #[inline]
    pub fn contains_key<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        self.get(key).is_some()
    }

    /// The value of `key`, to change. O(log n).
    ///
    /// With [`Updates::Promote`](crate::Updates::Promote) an entry of the static stage moves to
    /// the dynamic one first, as it does when it is inserted anew, with a step of merging where
    /// one is due.
    pub fn get_mut<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        key.probe(|key| self.core.get_mut(key))
    }

    /// Changes the value of `key` with `change`; returns whether it is there. O(log n).
    pub fn update<Q: Probe<K> + ?Sized>(&mut self, key: &Q, change: impl FnOnce(&mut V)) -> bool {
        self.get_mut(key).map(change).is_some()
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`].
    #[inline]
    pub fn insert(&mut self, key: K, val: V) -> Option<V> {
        stored(self.try_insert(key, val))
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Errors
    /// [`KeyTooLong`] when the encoded key is longer than [`MAX_KEY_LEN`]; the map is unchanged.
    #[inline]
    pub fn try_insert(&mut self, key: K, val: V) -> Result<Option<V>, KeyTooLong> {
        key.encode(|key| {
            check::<K::Family>(key)?;
            Ok(self.core.insert(key, val))
        })
    }

    /// Sets the value of a borrowed key and returns the one it had: a key is stored encoded, so
    /// an owned one is not needed. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`].
    #[inline]
    pub fn insert_ref<Q: Probe<K> + ?Sized>(&mut self, key: &Q, val: V) -> Option<V> {
        key.probe(|key| {
            stored(check::<K::Family>(key));
            self.core.insert(key, val)
        })
    }

    /// Removes the entry of `key` and returns its value. O(log n).
    pub fn remove<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        key.probe(|key| self.core.remove(key))
    }

    /// The entry with the least key. O(log n).
    pub fn first(&self) -> Option<(K, &V)> {
        self.iter().next()
    }

    /// The entry with the greatest key. O(log n).
    pub fn last(&self) -> Option<(K, &V)> {
        self.iter().next_back()
    }

    /// [`first`](Self::first), as a `BTreeMap` calls it.
    pub fn first_key_value(&self) -> Option<(K, &V)> {
        self.first()
    }

    /// [`last`](Self::last), as a `BTreeMap` calls it.
    pub fn last_key_value(&self) -> Option<(K, &V)> {
        self.last()
    }

    /// Removes the entry with the least key and returns it. O(log n).
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let key = self.first()?.0;
        let val = self.remove(&key)?;
        Some((key, val))
    }

    /// Removes the entry with the greatest key and returns it. O(log n).
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let key = self.last()?.0;
        let val = self.remove(&key)?;
        Some((key, val))
    }

    /// An empty map with the same options.
    pub(super) fn again(&self) -> Self {
        HybridMap {
            core: self.core.again(),
            key: PhantomData,
        }
    }

    /// All entries, out of the map; the options stay.
    pub(super) fn take(&mut self) -> IntoIter<K, V> {
        let empty = self.again();
        ::core::mem::replace(self, empty).into_iter()
    }

    /// All entries in order of their keys. O(log n) to begin, O(1) amortised for each.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(self.core.range(None, None))
    }

    /// All keys in order.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.iter())
    }

    /// All values in the order of their keys.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// The entries whose keys lie in `range`, in order. O(log n) to begin, O(1) amortised for
    /// each. Empty where the start is behind the end.
    pub fn range<Q, R>(&self, range: R) -> Iter<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        Iter::new(iter::bounded(&self.core, &range))
    }

    /// The keys that lie in `range`, in order; as [`HybridMap::range`].
    pub(crate) fn range_keys<Q, R>(&self, range: R) -> Keys<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        Keys(self.range(range))
    }

    /// A cursor over the entries whose keys lie in `range`: it lends encoded keys and decodes
    /// none, which spares the allocation of byte-string keys.
    ///
    /// ```
    /// use std::ops::Bound;
    ///
    /// let map: terrace_mem::HybridMap<String, u32> =
    ///     ["ape", "bee", "cat"].iter().map(|&name| (name.to_string(), 3)).collect();
    /// let mut cursor = map.cursor::<str, _>((Bound::Included("b"), Bound::Unbounded));
    /// assert_eq!(cursor.next(), Some((&b"bee"[..], &3)));
    /// assert_eq!(cursor.next_back(), Some((&b"cat"[..], &3)));
    /// assert_eq!(cursor.next(), None);
    /// ```
    pub fn cursor<Q, R>(&self, range: R) -> Cursor<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        Cursor::new(iter::bounded(&self.core, &range))
    }

    /// The values of many keys, in the order asked for: the lookups overlap, so that one waits
    /// for memory while others do too. O(keys log n).
    pub fn get_batch<'a, Q: Probe<K> + ?Sized>(&'a self, keys: &[&Q]) -> Vec<Option<&'a V>> {
        batch::get(&self.core, keys)
    }

    /// Moves all entries of the dynamic stage into the static one. O(n), in one pause.
    pub fn merge_all(&mut self) {
        self.core.merge_all();
    }

    /// Moves one bounded run of entries into the segments it belongs to, whatever the trigger
    /// says; returns whether there was one. For [`Merging::Manual`](crate::Merging::Manual).
    pub fn merge_step(&mut self) -> bool {
        self.core.merge_step()
    }

    /// Where the bytes are. O(1) among integers, O(segments / 64) among byte strings, and O(nodes)
    /// of the cache where leaves are compressed.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.core.usage()
    }

    /// How many entries each stage has: the dynamic one, the static one.
    pub fn stage_lens(&self) -> (usize, usize) {
        self.core.stage_lens()
    }

    /// Which static stages the segments have, with the number of entries in each. O(segments).
    pub fn stages(&self) -> Vec<(Stage, usize)> {
        self.core.stages()
    }
}
