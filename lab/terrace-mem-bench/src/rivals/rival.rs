//! What every map that is compared can do, and how it is made.

/// An ordered map from keys to numbers.
pub trait Rival<K: ?Sized> {
    /// Sets the value of a key.
    fn insert(&mut self, key: &K, val: u64);
    /// The value of a key.
    fn get(&self, key: &K) -> Option<u64>;
    /// The sum of the values of `n` entries from a key on.
    fn scan(&self, from: &K, n: usize) -> u64;
    /// The sum of the values of many keys.
    fn get_all(&self, keys: &[&K]) -> u64 {
        keys.iter()
            .filter_map(|key| self.get(key))
            .fold(0, u64::wrapping_add)
    }
}

/// A map and how to make it.
pub struct Maker<K: ?Sized> {
    /// What it is called.
    pub name: &'static str,
    /// Whether it runs when nothing else is said.
    pub usual: bool,
    /// Makes an empty one.
    pub make: fn() -> Box<dyn Rival<K>>,
}

impl<K: ?Sized> Maker<K> {
    /// One that runs when nothing else is said.
    pub fn usual(name: &'static str, make: fn() -> Box<dyn Rival<K>>) -> Self {
        Maker {
            name,
            usual: true,
            make,
        }
    }
    /// One that runs when it is named.
    pub fn extra(name: &'static str, make: fn() -> Box<dyn Rival<K>>) -> Self {
        Maker {
            name,
            usual: false,
            make,
        }
    }
}
