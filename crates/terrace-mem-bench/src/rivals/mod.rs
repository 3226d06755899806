//! The maps that are compared, one file each behind one trait.

mod art;
mod blart;
mod brie;
mod hybrid;
mod indexset;
mod masstree;
mod skiplist;
mod std_btree;
#[cfg(test)]
mod tests;

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
    fn usual(name: &'static str, make: fn() -> Box<dyn Rival<K>>) -> Self {
        Maker {
            name,
            usual: true,
            make,
        }
    }
    fn extra(name: &'static str, make: fn() -> Box<dyn Rival<K>>) -> Self {
        Maker {
            name,
            usual: false,
            make,
        }
    }
}

/// Those that take integers. The first is what the others are measured by.
pub fn for_ints() -> Vec<Maker<u64>> {
    let mut all = vec![Maker::usual("BTreeMap", || {
        Box::new(std_btree::Ints::default())
    })];
    all.extend(hybrid::ints());
    all.push(Maker::usual("crossbeam-skiplist", || {
        Box::new(skiplist::Ints::default())
    }));
    all.push(Maker::usual("indexset", || {
        Box::new(indexset::Ints::default())
    }));
    all.push(Maker::usual(
        "brie-tree",
        || Box::new(brie::Ints::default()),
    ));
    all.push(Maker::usual("rart", || Box::new(art::Ints::default())));
    all.push(Maker::usual("blart", || Box::new(blart::Ints::default())));
    all.push(Maker::usual("masstree", || {
        Box::new(masstree::Ints::default())
    }));
    all
}

/// Those that take byte strings. The first is what the others are measured by.
pub fn for_bytes() -> Vec<Maker<[u8]>> {
    let mut all = vec![Maker::usual("BTreeMap", || {
        Box::new(std_btree::Bytes::default())
    })];
    all.extend(hybrid::bytes());
    all.push(Maker::usual("crossbeam-skiplist", || {
        Box::new(skiplist::Bytes::default())
    }));
    all.push(Maker::usual("indexset", || {
        Box::new(indexset::Bytes::default())
    }));
    all.push(Maker::usual("rart", || Box::new(art::Bytes::default())));
    all.push(Maker::usual("blart", || Box::new(blart::Bytes::default())));
    all
}
