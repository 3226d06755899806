//! The map with several values for each key, against a map of vectors.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use terrace_mem::{HybridMultiMap, Merging, Options, Pair, Trigger};

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
    for &pair in Pair::ALL {
        drive(Options { pair, ..small() }, 99, 1);
        let merging = Merging::Manual;
        drive(
            Options {
                pair,
                merging,
                ..small()
            },
            98,
            3,
        );
    }
    // Lists that are longer than those that are packed, and short again.
    drive(small(), 97, 50);
}

/// Values come `most` at a time at most.
fn drive(options: Options, seed: u64, most: u32) {
    let mut map = HybridMultiMap::<String, u32>::with_options(options).unwrap();
    let mut model: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut x = seed;
    let rounds = if cfg!(miri) { 400 } else { 20_000 };
    for round in 0..rounds {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let key = format!("key {}", (x >> 33) % 150);
        match x >> 20 & 15 {
            0..8 => {
                let vals = (round..).take(1 + round as usize % most as usize);
                vals.for_each(|val| map.insert(key.clone(), val % 5));
                let vals = (round..).take(1 + round as usize % most as usize);
                model
                    .entry(key)
                    .or_default()
                    .extend(vals.map(|val| val % 5));
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
        if round.is_multiple_of(1000) {
            map.merge_all();
        }
        if round.is_multiple_of(100) {
            let lists = model.iter().map(|(k, v)| (k.clone(), &v[..]));
            assert!(map.lists().eq(lists.clone()) && map.lists().rev().eq(lists.rev()));
            assert_eq!(map.len(), model.values().map(Vec::len).sum::<usize>());
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

/// Counts how many of it there are, and panics where it is 7.
#[derive(Clone)]
struct Counted(
    u32,
    #[allow(dead_code, reason = "it is counted")] std::rc::Rc<()>,
);

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.0 != 7 || std::thread::panicking(), "asked to panic");
    }
}

#[test]
fn each_value_is_dropped_once_wherever_it_lies() {
    let token = std::rc::Rc::new(());
    let there = || std::rc::Rc::strong_count(&token) - 1;
    for merge in [false, true] {
        let mut map = HybridMultiMap::<u64, Counted>::with_options(small()).unwrap();
        for i in 0..if cfg!(miri) { 200 } else { 4000u32 } {
            map.insert(u64::from(i % 50), Counted(i * 10, token.clone()));
        }
        assert_eq!(there(), map.len());
        if merge {
            map.merge_all();
        }
        let copy = map.clone();
        assert_eq!(there(), map.len() * 2);
        drop(copy);
        // Some lists lie apart.
        (0..50)
            .step_by(3)
            .for_each(|key| map.insert(key, Counted(0, token.clone())));
        let (n, gone) = (map.len(), map.remove_all(&6).len());
        assert_eq!((there(), map.len()), (n - gone, n - gone));
        if merge {
            map.merge_all();
            assert_eq!(there(), map.len());
        }
        drop(map);
        assert_eq!(there(), 0);
    }
}

#[test]
fn a_drop_that_panics_in_the_static_stage_leaves_the_others_there() {
    let mut map = HybridMultiMap::<u64, Fragile>::new();
    (0..100u32).for_each(|i| map.insert(u64::from(i / 5), Fragile(i)));
    map.merge_all();
    let probe = Fragile(7);
    assert!(catch_unwind(AssertUnwindSafe(|| map.remove(&1, &probe))).is_err());
    std::mem::forget(probe);
    let vals: Vec<u32> = map.get(&1).iter().map(|val| val.0).collect();
    assert_eq!((map.len(), vals), (99, vec![5, 6, 8, 9]));
    map.merge_all();
    assert_eq!(map.lists().map(|(_, vals)| vals.len()).sum::<usize>(), 99);
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
