//! The traits of `std` that the concurrent map has.

use super::{ConcurrentHybridMap, ConcurrentIter, bulk};
use crate::key::IndexKey;
use std::fmt;

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Default for ConcurrentHybridMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for ConcurrentHybridMap<K, V>
where
    K: IndexKey + fmt::Debug,
    V: fmt::Debug + Clone + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Clone for ConcurrentHybridMap<K, V> {
    /// A map with the same options and what an iterator shows, all of it in the static stage. O(n).
    fn clone(&self) -> Self {
        let mut copy = Self::with_options(self.shared.options.clone())
            .expect("the options were good for this map");
        copy.extend(self.iter());
        copy
    }
}

impl<K, V> PartialEq for ConcurrentHybridMap<K, V>
where
    K: IndexKey + PartialEq,
    V: PartialEq + Clone + Send + Sync + 'static,
{
    /// Whether iterators over both maps show the same. O(n).
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K, V> Eq for ConcurrentHybridMap<K, V>
where
    K: IndexKey + Eq,
    V: Eq + Clone + Send + Sync + 'static,
{
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Extend<(K, V)> for ConcurrentHybridMap<K, V> {
    /// Inserts one entry after the other. Into an empty map, entries in order are built into
    /// segments directly, and are in the map when all of them are there.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        bulk::extend(self, entries);
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Extend<(K, V)> for &ConcurrentHybridMap<K, V> {
    /// Inserts one entry after the other; what other threads do comes between.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, val) in entries {
            self.insert(&key, val);
        }
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> FromIterator<(K, V)>
    for ConcurrentHybridMap<K, V>
{
    /// Sorted input is built into segments directly: O(n). Other input is inserted.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static, const N: usize> From<[(K, V); N]>
    for ConcurrentHybridMap<K, V>
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, K: IndexKey, V: Clone + Send + Sync + 'static> IntoIterator
    for &'a ConcurrentHybridMap<K, V>
{
    type Item = (K, V);
    type IntoIter = ConcurrentIter<'a, K, V>;
    fn into_iter(self) -> ConcurrentIter<'a, K, V> {
        self.iter()
    }
}
