//! The map with several values for each key, against a map of vectors.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use terrace_mem::{HybridMultiMap, Options, Trigger};

fn small() -> Options {
    Options {
        segment_len: 16,
        floor: 4,
        trigger: Trigger::Constant(8),
        ..Options::default()
    }
}

#[test]
fn behaves_like_a_map_of_vectors() {
    let mut map = HybridMultiMap::<String, u32>::with_options(small()).unwrap();
    let mut model: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut x = 99u64;
    let rounds = if cfg!(miri) { 400 } else { 30_000 };
    for round in 0..rounds {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let key = format!("key {}", (x >> 33) % 150);
        match x >> 20 & 15 {
            0..8 => {
                map.insert(key.clone(), round % 5);
                model.entry(key).or_default().push(round % 5);
            }
            8..12 => {
                let vals = model.entry(key.clone()).or_default();
                let at = vals.iter().position(|v| *v == round % 5);
                at.map(|i| vals.remove(i));
                assert_eq!(map.remove(&key, &(round % 5)), at.is_some());
                model.retain(|_, vals| !vals.is_empty());
            }
            12 => assert_eq!(map.remove_all(&key), model.remove(&key).unwrap_or_default()),
            13 => {
                map.get_mut(key.as_str()).iter_mut().for_each(|v| *v += 1);
                model
                    .get_mut(&key)
                    .into_iter()
                    .flatten()
                    .for_each(|v| *v += 1);
            }
            _ => {
                assert_eq!(
                    map.get(key.as_str()),
                    model.get(&key).map_or(&[][..], |v| v)
                );
                assert_eq!(map.contains_key(key.as_str()), model.contains_key(&key));
            }
        }
        assert_eq!(map.key_count(), model.len());
        if round.is_multiple_of(100) {
            let lists = model.iter().map(|(k, v)| (k.clone(), &v[..]));
            assert!(map.lists().eq(lists.clone()) && map.lists().rev().eq(lists.rev()));
            assert_eq!(map.len(), model.values().map(Vec::len).sum());
            let from = "key 5".to_string();
            let tail = model
                .range(from.clone()..)
                .map(|(k, v)| (k.clone(), &v[..]));
            assert!(map.range(from..).eq(tail));
        }
    }
    let copy = map.clone();
    map.merge_all();
    assert!(copy.lists().eq(map.lists()) && copy.len() == map.len());
    let shown = (map.first(), map.last());
    let list = |(k, v): (&String, &Vec<u32>)| (k.clone(), v.clone());
    let own = |(k, v): (String, &[u32])| (k, v.to_vec());
    assert_eq!(shown.0.map(own), model.first_key_value().map(list));
    assert_eq!(shown.1.map(own), model.last_key_value().map(list));
    drop(copy);
    let flat = model
        .iter()
        .flat_map(|(k, vals)| vals.iter().map(|v| (k.clone(), v)));
    assert!(map.iter().eq(flat));
    let mut copy = map.clone();
    copy.clear();
    assert_eq!((copy.len(), copy.key_count(), copy.first()), (0, 0, None));
    assert_eq!(copy.memory_usage().static_values, 0);
    // What is counted of a copy is what it has.
    let mut copy = map.clone();
    let keys: Vec<String> = copy.lists().map(|list| list.0).collect();
    keys.iter()
        .for_each(|key| assert_eq!(copy.remove_all(key), map.get(key)));
    copy.merge_all();
    assert_eq!((copy.len(), copy.memory_usage().static_values), (0, 0));
}

#[test]
fn a_key_with_many_values_is_stored_once() {
    let entries = (0..20_000u64).flat_map(|key| (0..10).map(move |i| (key, key * 10 + i)));
    let map: HybridMultiMap<u64, u64> = entries.collect();
    assert_eq!((map.len(), map.key_count()), (200_000, 20_000));
    // 80 bytes of values, at most half as much again for room, and a few for the key.
    assert!(map.memory_usage().total() / 20_000 < 190);
}

/// Its drop panics where it is 7.
#[derive(PartialEq)]
struct Fragile(u32);

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.0 != 7 || std::thread::panicking(), "asked to panic");
    }
}

#[test]
fn a_drop_that_panics_leaves_the_bytes_counted() {
    let mut map = HybridMultiMap::<u64, Fragile>::new();
    (5..9).for_each(|val| map.insert(1, Fragile(val)));
    let probe = Fragile(7);
    assert!(catch_unwind(AssertUnwindSafe(|| map.remove(&1, &probe))).is_err());
    std::mem::forget(probe);
    let mut other = HybridMultiMap::<u64, Fragile>::new();
    (5..9).for_each(|val| other.insert(1, Fragile(val)));
    assert!(other.remove(&1, &Fragile(8)));
    assert_eq!((map.len(), map.get(&1).len()), (3, 3));
    assert_eq!(map.memory_usage(), other.memory_usage());
    assert_eq!(map.remove_all(&1).len(), 3);
    std::mem::forget(other.remove_all(&1));
    assert_eq!(map.memory_usage(), other.memory_usage());
}
