//! Maps and sets for serde: a map of keys to values, a sequence of keys, in order. What is read in order
//! goes straight into segments.

use crate::key::IndexKey;
use crate::map::HybridMap;
use crate::set::HybridSet;
use core::fmt;
use core::marker::PhantomData;
use serde_core::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_core::ser::{Serialize, Serializer};

impl<K: IndexKey + Serialize, V: Serialize> Serialize for HybridMap<K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<K: IndexKey + Serialize> Serialize for HybridSet<K> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

/// Reads items until there are no more, or one is broken; says which.
struct Items<F, E>(F, Option<E>);

impl<T, E, F: FnMut() -> Result<Option<T>, E>> Iterator for Items<F, E> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        match (self.0)() {
            Ok(item) => item,
            Err(error) => {
                self.1 = Some(error);
                None
            }
        }
    }
}

/// A key that cannot be stored is an error of what was read, not a panic.
fn fits<K: IndexKey, E: serde_core::de::Error>(key: &K) -> Result<(), E> {
    key.encode(crate::map::check::<K::Family>)
        .map_err(E::custom)
}

struct Map<K, V>(PhantomData<fn() -> (K, V)>);

impl<'de, K: IndexKey + Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Map<K, V> {
    type Value = HybridMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut map = HybridMap::new();
        let mut items = Items(
            || {
                let entry = from.next_entry::<K, V>()?;
                entry.as_ref().map_or(Ok(()), |entry| fits(&entry.0))?;
                Ok(entry)
            },
            None,
        );
        map.extend(items.by_ref());
        items.1.map_or(Ok(map), Err)
    }
}

impl<'de, K: IndexKey + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de>
    for HybridMap<K, V>
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Map(PhantomData))
    }
}

struct Set<K>(PhantomData<fn() -> K>);

impl<'de, K: IndexKey + Deserialize<'de>> Visitor<'de> for Set<K> {
    type Value = HybridSet<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut set = HybridSet::new();
        let mut items = Items(
            || {
                let key = from.next_element::<K>()?;
                key.as_ref().map_or(Ok(()), fits)?;
                Ok(key)
            },
            None,
        );
        set.extend(items.by_ref());
        items.1.map_or(Ok(set), Err)
    }
}

impl<'de, K: IndexKey + Deserialize<'de>> Deserialize<'de> for HybridSet<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Set(PhantomData))
    }
}
