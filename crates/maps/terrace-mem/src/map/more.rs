//! What else a `BTreeMap` has: parts of a map taken out, entries at both ends, owned keys.

use super::iter::half_open;
use super::{Entry, HybridMap, IntoIter, OccupiedEntry};
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::RangeBounds;

type BufOf<K> = <<K as IndexKey>::Family as Family>::Buf;

impl<K: IndexKey, V> HybridMap<K, V> {
    /// The key and the value of `key`. O(log n).
    pub fn get_key_value<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<(K, &V)> {
        let val = self.get(key)?;
        Some((key.probe(K::decode), val))
    }

    /// Removes the entry of `key` and returns it. O(log n).
    pub fn remove_entry<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Option<(K, V)> {
        let val = self.remove(key)?;
        Some((key.probe(K::decode), val))
    }

    /// The entry with the least key, to change or to remove. O(log n).
    pub fn first_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        let key = self.first()?.0;
        self.occupied(key)
    }

    /// The entry with the greatest key, to change or to remove. O(log n).
    ///
    /// ```
    /// let mut map = terrace_mem::HybridMap::from([(1, "one"), (2, "two")]);
    /// assert_eq!(map.last_entry().map(|entry| entry.remove_entry()), Some((2, "two")));
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn last_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        let key = self.last()?.0;
        self.occupied(key)
    }

    fn occupied(&mut self, key: K) -> Option<OccupiedEntry<'_, K, V>> {
        match self.entry(key) {
            Entry::Occupied(entry) => Some(entry),
            Entry::Vacant(_) => None,
        }
    }

    /// Moves the entries from `key` on into a map of their own, with the same options. O(n): the
    /// segments of both are built anew.
    pub fn split_off<Q: Probe<K> + ?Sized>(&mut self, key: &Q) -> Self {
        let mut behind = self.again();
        let at = key.probe(|key| <K::Family as Family>::owned(key));
        let at = <K::Family as Family>::load(&at);
        let straight = self.core.reloads();
        let mut all = self.take();
        let less = |key: &K| key.encode(|key| <K::Family as Family>::cmp(key, at).is_lt());
        let mut first = None;
        let before = core::iter::from_fn(|| {
            let entry = all.next()?;
            if less(&entry.0) {
                return Some(entry);
            }
            first = Some(entry);
            None
        });
        self.extend_from(before, straight);
        behind.extend_from(first.into_iter().chain(all), straight);
        behind
    }

    /// All keys, owned, in order.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.into_iter())
    }

    /// All values, owned, in the order of their keys.
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.into_iter())
    }

    /// Takes out the entries in `range` for which `take` is true, in order, as they are asked for; it
    /// may change the values of those that stay. O(log n) for each entry that is shown to it.
    ///
    /// ```
    /// let mut map: terrace_mem::HybridMap<u64, u64> = (0..100).map(|i| (i, i)).collect();
    /// let odd: Vec<u64> = map.extract_if(..10, |key, _| key % 2 == 1).map(|(key, _)| key).collect();
    /// assert_eq!((odd, map.len()), (vec![1, 3, 5, 7, 9], 95));
    /// ```
    pub fn extract_if<R, P>(&mut self, range: R, take: P) -> ExtractIf<'_, K, V, P>
    where
        R: RangeBounds<K>,
        P: FnMut(&K, &mut V) -> bool,
    {
        let (from, to, empty) = half_open::<K, K, R>(&range);
        ExtractIf {
            map: self,
            from: from.unwrap_or_default(),
            to,
            done: empty,
            take,
        }
    }
}

/// Takes entries out of a map; from [`HybridMap::extract_if`].
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct ExtractIf<'a, K: IndexKey, V, P> {
    map: &'a mut HybridMap<K, V>,
    from: BufOf<K>,
    to: Option<BufOf<K>>,
    done: bool,
    take: P,
}

impl<K: IndexKey, V, P: FnMut(&K, &mut V) -> bool> Iterator for ExtractIf<'_, K, V, P> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let load = <K::Family as Family>::load;
        while !self.done {
            let core = &mut self.map.core;
            let to = self.to.as_ref().map(load);
            let mut next = BufOf::<K>::default();
            match core.range(Some(load(&self.from)), to).next() {
                Some((key, _)) => <K::Family as Family>::store(key, &mut next),
                None => {
                    self.done = true;
                    return None;
                }
            }
            // Behind it whatever the function does: one that panics is not shown it again.
            let mut behind = BufOf::<K>::default();
            <K::Family as Family>::store(load(&next), &mut behind);
            self.done = !<K::Family as Family>::successor(&mut behind);
            self.from = behind;
            let key = K::decode(load(&next));
            let takes = core
                .get_in_place(load(&next))
                .is_some_and(|val| (self.take)(&key, val));
            let taken = takes.then(|| core.remove(load(&next))).flatten();
            if let Some(val) = taken {
                return Some((key, val));
            }
        }
        None
    }
}

impl<K: IndexKey, V, P: FnMut(&K, &mut V) -> bool> FusedIterator for ExtractIf<'_, K, V, P> {}

/// Owned keys in order.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct IntoKeys<K: IndexKey, V>(IntoIter<K, V>);

impl<K: IndexKey, V> Iterator for IntoKeys<K, V> {
    type Item = K;
    fn next(&mut self) -> Option<K> {
        self.0.next().map(|entry| entry.0)
    }
}

impl<K: IndexKey, V> FusedIterator for IntoKeys<K, V> {}

/// Owned values in the order of their keys.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct IntoValues<K: IndexKey, V>(IntoIter<K, V>);

impl<K: IndexKey, V> Iterator for IntoValues<K, V> {
    type Item = V;
    fn next(&mut self) -> Option<V> {
        self.0.next().map(|entry| entry.1)
    }
}

impl<K: IndexKey, V> FusedIterator for IntoValues<K, V> {}

impl<K: IndexKey, V, P> fmt::Debug for ExtractIf<'_, K, V, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtractIf").finish_non_exhaustive()
    }
}

impl<K: IndexKey, V> fmt::Debug for IntoKeys<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoKeys").finish_non_exhaustive()
    }
}

impl<K: IndexKey, V> fmt::Debug for IntoValues<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoValues").finish_non_exhaustive()
    }
}

/// The range of the byte strings that a probe is the beginning of, as half-open bounds.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    match end.last_mut() {
        Some(last) => *last += 1,
        None => return (prefix.to_vec(), None),
    }
    (prefix.to_vec(), Some(end))
}

impl<K: IndexKey<Family = crate::ByteFamily>, V> HybridMap<K, V> {
    /// The entries whose encoded keys begin with that of `prefix`, in order: of strings and byte vectors
    /// those that begin with it. O(log n) to begin, O(1) amortised for each.
    ///
    /// ```
    /// let map = terrace_mem::HybridMap::from([("ann", 1), ("anna", 2), ("bob", 3)].map(|(k, v)| (k.to_string(), v)));
    /// assert_eq!(map.prefix("ann").map(|(_, val)| *val).collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn prefix<Q: Probe<K> + ?Sized>(&self, prefix: &Q) -> super::Iter<'_, K, V> {
        let (from, to) = prefix.probe(prefix_bounds);
        super::Iter::new(self.core.range(Some(&from), to.as_deref()))
    }

    /// Removes the entries whose encoded keys begin with that of `prefix`; returns how many there were.
    /// O(log n) for each.
    pub fn remove_prefix<Q: Probe<K> + ?Sized>(&mut self, prefix: &Q) -> usize {
        let (mut from, to) = prefix.probe(prefix_bounds);
        let mut n = 0;
        loop {
            match self.core.range(Some(&from), to.as_deref()).next() {
                Some((key, _)) => {
                    from.clear();
                    from.extend_from_slice(key);
                }
                None => return n,
            }
            n += usize::from(self.core.remove(&from).is_some());
        }
    }

    /// The entry with the longest encoded key that `key` begins with, as a router looks for one.
    /// O(log n) for each length at which keys part from it, most often once or twice.
    ///
    /// ```
    /// let map = terrace_mem::HybridMap::from([("/", 1), ("/api", 2)].map(|(k, v)| (k.to_string(), v)));
    /// assert_eq!(map.longest_prefix("/api/user"), Some(("/api".to_string(), &2)));
    /// assert_eq!(map.longest_prefix("/about"), Some(("/".to_string(), &1)));
    /// ```
    pub fn longest_prefix<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<(K, &V)> {
        key.probe(|key| {
            let mut end = key.to_vec();
            loop {
                // The last key that is not greater than what is left.
                end.push(0);
                let mut below = self.core.range(None, Some(&end));
                end.pop();
                let (found, val) = below.next_back()?;
                let shared = crate::prefix::common_prefix(found, &end);
                if shared == found.len() {
                    return Some((K::decode(found), val));
                }
                end.truncate(shared);
            }
        })
    }
}
