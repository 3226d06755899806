//! Each map gives the answers of a `BTreeMap`, for every kind of keys.

use super::{Maker, for_bytes, for_ints};
use crate::emails::Emails;
use crate::keys::{self, KeySet};
use std::collections::BTreeMap;

/// Enough for merges.
const N: usize = 12_000;

/// A set of `N` keys and some that are not loaded.
fn check<S: KeySet>(set: &S, makers: Vec<Maker<S::Key>>)
where
    S::Key: Ord,
{
    assert!(set.len() > N);
    for maker in makers {
        let name = maker.name;
        let mut map = (maker.make)();
        let mut model = BTreeMap::new();
        for i in 0..N {
            map.insert(set.get(i), i as u64);
            model.insert(set.get(i), i as u64);
        }
        // New values for some.
        for i in (0..N).step_by(3) {
            map.insert(set.get(i), i as u64 * 7);
            model.insert(set.get(i), i as u64 * 7);
        }
        for i in 0..set.len() {
            let key = set.get(i);
            assert_eq!(map.get(key), model.get(key).copied(), "{name} gets {i}");
        }
        for from in (0..set.len()).step_by(301) {
            let from = set.get(from);
            for n in [0, 1, 50, N] {
                let sum: u64 = model.range(from..).take(n).map(|e| e.1).sum();
                assert_eq!(map.scan(from, n), sum, "{name} scans {n}");
            }
        }
        let all: Vec<&S::Key> = (0..set.len()).map(|i| set.get(i)).collect();
        for keys in [&all[..], &all[..1], &all[N..], &[]] {
            let sum: u64 = keys.iter().filter_map(|key| model.get(key)).sum();
            assert_eq!(map.get_all(keys), sum, "{name} gets many");
        }
    }
}

#[test]
fn every_map_of_random_integers_answers_as_a_btree_map_does() {
    check(&keys::random(N + 100), for_ints());
}

#[test]
fn every_map_of_integers_in_order_answers_as_a_btree_map_does() {
    check(&keys::monotonic(N + 100), for_ints());
}

#[test]
fn every_map_of_clustered_integers_answers_as_a_btree_map_does() {
    check(&keys::clustered(N + 100), for_ints());
}

#[test]
fn every_map_of_addresses_answers_as_a_btree_map_does() {
    check(&Emails::generate(N + 100), for_bytes());
}

#[test]
fn names_of_maps_are_not_used_twice() {
    for names in [
        for_ints()
            .iter()
            .map(|maker| maker.name)
            .collect::<Vec<_>>(),
        for_bytes().iter().map(|maker| maker.name).collect(),
    ] {
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }
}
