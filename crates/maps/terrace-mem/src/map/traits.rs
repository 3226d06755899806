//! The traits of `std` that a map has.

use super::{Cursor, Entry, HybridMap, IntoIter, Iter, Keys, OccupiedEntry, VacantEntry, Values};
use crate::key::{IndexKey, Probe};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::iter::FusedIterator;
use core::ops::Index;

impl<K: IndexKey, V> Default for HybridMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: IndexKey + fmt::Debug, V: fmt::Debug> fmt::Debug for HybridMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: IndexKey, V: Clone> Clone for HybridMap<K, V> {
    /// The entries of the copy are in its static stage, unless they are less than half a segment.
    /// With [`Merging::Manual`](crate::Merging::Manual) they are in the stage that most are in here.
    /// O(n).
    fn clone(&self) -> Self {
        let mut copy = self.again();
        let entries = self.iter().map(|(key, val)| (key, val.clone()));
        copy.extend_from(entries, self.core.reloads());
        copy
    }
}

impl<K: IndexKey + PartialEq, V: PartialEq> PartialEq for HybridMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: IndexKey + Eq, V: Eq> Eq for HybridMap<K, V> {}

impl<K: IndexKey + PartialOrd, V: PartialOrd> PartialOrd for HybridMap<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<K: IndexKey + Ord, V: Ord> Ord for HybridMap<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<K: IndexKey + Hash, V: Hash> Hash for HybridMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl<K: IndexKey, V> FromIterator<(K, V)> for HybridMap<K, V> {
    /// Sorted input is built into segments directly: O(n). Other input is inserted.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: IndexKey, V, const N: usize> From<[(K, V); N]> for HybridMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: IndexKey, V> Extend<(K, V)> for HybridMap<K, V> {
    /// Sorted entries behind all others are built into segments directly, O(1) for each, but for
    /// [`Merging::Manual`](crate::Merging::Manual). Others are inserted.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let straight = self.core.loads();
        self.extend_from(entries, straight);
    }
}

impl<'a, K: IndexKey, V> IntoIterator for &'a HybridMap<K, V> {
    type Item = (K, &'a V);
    type IntoIter = Iter<'a, K, V>;
    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: IndexKey, V> IntoIterator for HybridMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;
    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter::new(self.core)
    }
}

impl<K: IndexKey, V, Q: Probe<K> + ?Sized> Index<&Q> for HybridMap<K, V> {
    type Output = V;
    /// # Panics
    /// When the key is not there.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry found for key")
    }
}

impl<K: IndexKey, V> FusedIterator for Iter<'_, K, V> {}
impl<K: IndexKey, V> FusedIterator for Keys<'_, K, V> {}
impl<K: IndexKey, V> FusedIterator for Values<'_, K, V> {}
impl<K: IndexKey, V> FusedIterator for IntoIter<K, V> {}

/// An iterator cannot look ahead without moving, so that only its name is shown.
macro_rules! opaque {
    ($($name:ident $(<$life:lifetime>)?),*) => {$(
        impl<K: IndexKey, V> fmt::Debug for $name<$($life,)? K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque!(Iter<'_>, Keys<'_>, Values<'_>, Cursor<'_>, IntoIter);

impl<K: IndexKey + fmt::Debug, V: fmt::Debug> fmt::Debug for Entry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(entry) => f.debug_tuple("Entry").field(entry).finish(),
            Entry::Vacant(entry) => f.debug_tuple("Entry").field(entry).finish(),
        }
    }
}

impl<K: IndexKey + fmt::Debug, V: fmt::Debug> fmt::Debug for OccupiedEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry")
            .field("key", self.key())
            .field("value", self.get())
            .finish()
    }
}

impl<K: IndexKey + fmt::Debug, V> fmt::Debug for VacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(self.key()).finish()
    }
}
