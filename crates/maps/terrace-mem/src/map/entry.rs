//! The entry of a key, there or not.

use super::hybrid::{HybridMap, check, stored};
use crate::key::IndexKey;

/// The entry of a key in a map; from [`HybridMap::entry`].
pub enum Entry<'a, K: IndexKey, V> {
    /// The key is there.
    Occupied(OccupiedEntry<'a, K, V>),
    /// The key is not there.
    Vacant(VacantEntry<'a, K, V>),
}

/// An entry that is there.
pub struct OccupiedEntry<'a, K: IndexKey, V> {
    map: &'a mut HybridMap<K, V>,
    key: K,
}

/// An entry that is not there.
pub struct VacantEntry<'a, K: IndexKey, V> {
    map: &'a mut HybridMap<K, V>,
    key: K,
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// The entry of `key`, there or not. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    ///
    /// ```
    /// let mut count = terrace_mem::HybridMap::<String, u32>::new();
    /// for word in "a rose is a rose".split(' ') {
    ///     *count.entry(word.to_string()).or_insert(0) += 1;
    /// }
    /// assert_eq!(count.get("rose"), Some(&2));
    /// ```
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let there = key.encode(|key| {
            stored(check::<K::Family>(key));
            self.core.get(key).is_some()
        });
        if there {
            Entry::Occupied(OccupiedEntry { map: self, key })
        } else {
            Entry::Vacant(VacantEntry { map: self, key })
        }
    }
}

impl<'a, K: IndexKey, V> Entry<'a, K, V> {
    /// The value, `val` where there was none.
    pub fn or_insert(self, val: V) -> &'a mut V {
        self.or_insert_with(|| val)
    }

    /// The value, that of `make` where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(make()),
        }
    }

    /// The value, what `make` makes of the key where there was none.
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let val = make(&entry.key);
                entry.insert(val)
            }
        }
    }

    /// Sets the value; the entry is there then.
    pub fn insert_entry(self, val: V) -> OccupiedEntry<'a, K, V> {
        match self {
            Entry::Occupied(mut entry) => {
                entry.insert(val);
                entry
            }
            Entry::Vacant(entry) => entry.insert_entry(val),
        }
    }

    /// The value, the default one where there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value where there is one.
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => &entry.key,
            Entry::Vacant(entry) => &entry.key,
        }
    }
}

/// An occupied entry was found under the same exclusive borrow, so it is still there.
const THERE: &str = "the entry was found before and the map has not changed since";

impl<'a, K: IndexKey, V> OccupiedEntry<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The value.
    pub fn get(&self) -> &V {
        self.map.get(&self.key).expect(THERE)
    }

    /// The value, to change.
    pub fn get_mut(&mut self) -> &mut V {
        self.map.get_mut(&self.key).expect(THERE)
    }

    /// The value, to change for as long as the map is borrowed.
    pub fn into_mut(self) -> &'a mut V {
        self.map.get_mut(&self.key).expect(THERE)
    }

    /// Sets the value and returns the old one.
    pub fn insert(&mut self, val: V) -> V {
        core::mem::replace(self.get_mut(), val)
    }

    /// Removes the entry and returns it.
    pub fn remove_entry(self) -> (K, V) {
        let val = self.map.remove(&self.key).expect(THERE);
        (self.key, val)
    }

    /// Removes the entry and returns its value.
    pub fn remove(self) -> V {
        self.map.remove(&self.key).expect(THERE)
    }
}

impl<'a, K: IndexKey, V> VacantEntry<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The key, owned.
    pub fn into_key(self) -> K {
        self.key
    }

    /// Sets the value; the entry is there then.
    pub fn insert_entry(self, val: V) -> OccupiedEntry<'a, K, V> {
        let VacantEntry { map, key } = self;
        key.encode(|key| {
            map.core.insert_new(key, val);
        });
        OccupiedEntry { map, key }
    }

    /// Sets the value.
    pub fn insert(self, val: V) -> &'a mut V {
        self.key.encode(|key| self.map.core.insert_new(key, val))
    }
}
