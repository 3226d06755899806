//! `terrace-mem` with its default options and, on demand, with others; and its other two maps.
//!
//! What the background thread of the concurrent map does is in none of the rates: they are of the
//! thread that uses the map.

use super::rival::{Maker, Rival};
use std::ops::Bound;
use terrace_mem::{
    ConcurrentHybridMap, HybridMap, HybridMultiMap, IndexKey, Merging, Options, Pair, Probe, Stage,
    Trigger, Updates, What,
};

/// The value type is a number, the key a `u64` or a byte vector.
struct Map<K: IndexKey>(HybridMap<K, u64>);

impl<K, Q> Rival<Q> for Map<K>
where
    K: IndexKey,
    Q: Probe<K> + ?Sized,
{
    fn insert(&mut self, key: &Q, val: u64) {
        self.0.insert_ref(key, val);
    }
    fn get(&self, key: &Q) -> Option<u64> {
        self.0.get(key).copied()
    }
    fn scan(&self, from: &Q, n: usize) -> u64 {
        let mut cursor = self
            .0
            .cursor::<Q, _>((Bound::Included(from), Bound::Unbounded));
        let mut sum = 0u64;
        for _ in 0..n {
            let Some((_, val)) = cursor.next() else { break };
            sum = sum.wrapping_add(*val);
        }
        sum
    }
    fn get_all(&self, keys: &[&Q]) -> u64 {
        self.0
            .get_batch(keys)
            .into_iter()
            .flatten()
            .fold(0, |sum, val| sum.wrapping_add(*val))
    }
}

/// Used by one thread, beside that which merges.
struct Concurrent<K: IndexKey>(ConcurrentHybridMap<K, u64>);

impl<K, Q> Rival<Q> for Concurrent<K>
where
    K: IndexKey,
    Q: Probe<K> + ?Sized,
{
    fn insert(&mut self, key: &Q, val: u64) {
        self.0.insert(key, val);
    }
    fn get(&self, key: &Q) -> Option<u64> {
        self.0.get(key)
    }
    fn scan(&self, from: &Q, n: usize) -> u64 {
        let all = self
            .0
            .range::<Q, _>((Bound::Included(from), Bound::Unbounded));
        all.take(n).fold(0, |sum, (_, val)| sum.wrapping_add(val))
    }
    fn get_all(&self, keys: &[&Q]) -> u64 {
        self.0
            .get_batch(keys)
            .into_iter()
            .flatten()
            .fold(0, u64::wrapping_add)
    }
}

/// As a secondary index that is unique so far: a key has one value.
struct Multi<K: IndexKey>(HybridMultiMap<K, u64>);

impl<K, Q> Rival<Q> for Multi<K>
where
    K: IndexKey,
    Q: Probe<K> + ToOwned<Owned = K> + ?Sized,
{
    fn insert(&mut self, key: &Q, val: u64) {
        match self.0.get_mut(key) {
            [] => self.0.insert(key.to_owned(), val),
            vals => vals[0] = val,
        }
    }
    fn get(&self, key: &Q) -> Option<u64> {
        self.0.get(key).first().copied()
    }
    fn scan(&self, from: &Q, n: usize) -> u64 {
        let all = self
            .0
            .range::<Q, _>((Bound::Included(from), Bound::Unbounded));
        let vals = all.flat_map(|(_, vals)| vals).take(n);
        vals.fold(0, |sum, val| sum.wrapping_add(*val))
    }
}

fn make<K: IndexKey + 'static, Q: Probe<K> + ?Sized>(options: Options) -> Box<dyn Rival<Q>> {
    Box::new(Map(
        HybridMap::<K, u64>::with_options(options).expect("options that go together")
    ))
}

fn stage(stage: Stage) -> Options {
    Options {
        stage,
        ..Options::default()
    }
}

fn pair(pair: Pair) -> Options {
    Options {
        pair,
        ..Options::default()
    }
}

/// The dynamic structure of a pair alone, as the paper's original: nothing is merged.
fn original(pair: Pair) -> Options {
    Options {
        pair,
        ..Options::dynamic_only()
    }
}

fn shared<K, Q>() -> Vec<Maker<Q>>
where
    K: IndexKey + 'static,
    Q: Probe<K> + ToOwned<Owned = K> + ?Sized,
{
    vec![
        Maker::usual("hybrid", || make::<K, Q>(Options::default())),
        Maker::extra("hybrid-concurrent", || {
            Box::new(Concurrent::<K>(ConcurrentHybridMap::new()))
        }),
        Maker::extra("hybrid-multi", || {
            Box::new(Multi::<K>(HybridMultiMap::new()))
        }),
        Maker::extra("hybrid-blocking", || {
            make::<K, Q>(Options {
                merging: Merging::Blocking,
                ..Options::default()
            })
        }),
        Maker::extra("hybrid-ratio-5", || {
            make::<K, Q>(Options {
                trigger: Trigger::Ratio(5),
                ..Options::default()
            })
        }),
        Maker::extra("hybrid-cold", || {
            make::<K, Q>(Options {
                what: What::Cold,
                ..Options::default()
            })
        }),
        Maker::extra("hybrid-in-place", || {
            make::<K, Q>(Options {
                updates: Updates::InPlace,
                ..Options::default()
            })
        }),
        Maker::extra("hybrid-no-filter", || {
            make::<K, Q>(Options {
                filter: false,
                ..Options::default()
            })
        }),
        Maker::extra("hybrid-compact", || {
            make::<K, Q>(stage(Stage::CompactBTree))
        }),
        Maker::extra("btree-pair", || make::<K, Q>(pair(Pair::BTree))),
        Maker::extra("skip-list-pair", || make::<K, Q>(pair(Pair::SkipList))),
        Maker::extra("masstree-pair", || make::<K, Q>(pair(Pair::Masstree))),
        Maker::extra("art-pair", || make::<K, Q>(pair(Pair::Art))),
        Maker::extra("btree-alone", || make::<K, Q>(original(Pair::BTree))),
        Maker::extra("skip-list-alone", || make::<K, Q>(original(Pair::SkipList))),
        Maker::extra("masstree-alone", || make::<K, Q>(original(Pair::Masstree))),
        Maker::extra("art-alone", || make::<K, Q>(original(Pair::Art))),
        Maker::extra("hybrid-compressed", || {
            make::<K, Q>(stage(Stage::Compressed))
        }),
    ]
}

pub fn ints() -> Vec<Maker<u64>> {
    let mut all = shared::<u64, u64>();
    all.push(Maker::extra("hybrid-s-tree", || {
        make::<u64, u64>(stage(Stage::STree))
    }));
    all
}

pub fn bytes() -> Vec<Maker<[u8]>> {
    let mut all = shared::<Vec<u8>, [u8]>();
    all.push(Maker::extra("hybrid-no-shortcuts", || {
        make::<Vec<u8>, [u8]>(Options {
            shortcuts: 0,
            ..Options::default()
        })
    }));
    all.push(Maker::extra("hybrid-symbols", || {
        make::<Vec<u8>, [u8]>(Options {
            symbols: true,
            ..Options::default()
        })
    }));
    all
}
