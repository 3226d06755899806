//! Every stable method of `BTreeMap` and of `BTreeSet`, called on both: the same program gives the same.
#![allow(
    clippy::incompatible_msrv,
    reason = "tests need a newer library than the maps do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use terrace_mem::{Entry, HybridMap, HybridSet, Options, Pair};

const KEYS: u64 = if cfg!(miri) { 60 } else { 3000 };

fn map(pair: Pair) -> (HybridMap<String, u64>, BTreeMap<String, u64>) {
    let options = Options {
        pair,
        segment_len: 64,
        floor: 100,
        ..Options::default()
    };
    let mut ours = HybridMap::with_options(options).expect("good options");
    let mut theirs = BTreeMap::new();
    for i in 0..KEYS {
        let key = format!("key{}", i * 7919 % KEYS);
        assert_eq!(ours.insert(key.clone(), i), theirs.insert(key, i));
    }
    (ours, theirs)
}

fn own<V>(entry: Option<(&String, V)>) -> Option<(String, V)> {
    entry.map(|(key, val)| (key.clone(), val))
}

#[test]
fn every_method_of_a_btree_map() {
    for &pair in Pair::ALL {
        let (mut ours, mut theirs) = map(pair);
        lookups(&ours, &theirs);
        let (low, high) = ("key2".to_string(), "key5".to_string());
        for val in ours.values_mut() {
            *val += 1;
        }
        theirs.values_mut().for_each(|val| *val += 1);
        for (key, val) in &mut ours {
            *val += key.len() as u64;
        }
        theirs
            .iter_mut()
            .for_each(|(key, val)| *val += key.len() as u64);
        ours.range_mut(low.clone()..high.clone())
            .rev()
            .for_each(|e| *e.1 *= 2);
        theirs
            .range_mut(low.clone()..high.clone())
            .for_each(|e| *e.1 *= 2);
        // From both ends until they meet.
        let (mut a, mut b) = (ours.iter_mut(), theirs.iter_mut());
        for i in 0..KEYS {
            let (x, y) = match i % 3 {
                0 => (a.next_back(), b.next_back()),
                _ => (a.next(), b.next()),
            };
            assert_eq!(x.map(|e| (e.0, *e.1)), y.map(|e| (e.0.clone(), *e.1)));
        }
        assert!(a.next().is_none() && a.next_back().is_none());
        assert!(ours.iter().eq(theirs.iter().map(|(k, v)| (k.clone(), v))));

        let taken = ours.extract_if(low.clone()..high, |_, val| *val % 3 == 0);
        let range = theirs.range("key2".to_string().."key5".to_string());
        let gone: Vec<(String, u64)> = range
            .filter(|e| e.1 % 3 == 0)
            .map(|(key, val)| (key.clone(), *val))
            .collect();
        assert_eq!(taken.collect::<Vec<_>>(), gone);
        theirs.retain(|key, _| !gone.iter().any(|e| e.0 == *key));
        assert_eq!(ours.len(), theirs.len());
        let (mut ours_behind, mut behind) = (ours.split_off(&low), theirs.split_off(&low));
        assert_eq!(
            (ours.len(), ours_behind.len()),
            (theirs.len(), behind.len())
        );
        assert!(ours_behind.keys().eq(behind.keys().cloned()));
        ours.append(&mut ours_behind);
        theirs.append(&mut behind);
        assert!(ours_behind.is_empty());
        ours.retain(|_, val| *val % 2 == 0);
        theirs.retain(|_, val| *val % 2 == 0);

        entries(&mut ours, &mut theirs);
        assert_eq!(ours.remove("key7"), theirs.remove("key7"));
        assert_eq!(ours.remove_entry("key8"), theirs.remove_entry("key8"));
        assert_eq!(ours.pop_first(), theirs.pop_first());
        assert_eq!(ours.pop_last(), theirs.pop_last());
        traits(&ours, &theirs);
        assert!(ours.clone().into_keys().eq(theirs.clone().into_keys()));
        assert!(ours.clone().into_values().eq(theirs.clone().into_values()));
        assert!(ours.clone().into_iter().eq(theirs.clone()));
        ours.clear();
        assert!(ours.is_empty() && ours.first_entry().is_none() && ours.last_entry().is_none());
    }
}

fn lookups(ours: &HybridMap<String, u64>, theirs: &BTreeMap<String, u64>) {
    for key in ["key0", "key17", "key2999", "none", ""] {
        assert_eq!(ours.get(key), theirs.get(key));
        assert_eq!(ours.contains_key(key), theirs.contains_key(key));
        assert_eq!(ours.get_key_value(key), own(theirs.get_key_value(key)));
    }
    assert_eq!(ours.first_key_value(), own(theirs.first_key_value()));
    assert_eq!(ours.last_key_value(), own(theirs.last_key_value()));
    assert!(ours.keys().eq(theirs.keys().cloned()));
    assert!(ours.values().eq(theirs.values()));
    let range = "key1".to_string().."key3".to_string();
    let same = theirs.range(range.clone()).map(|(k, v)| (k.clone(), v));
    assert!(ours.range(range).eq(same));
    assert_eq!(ours["key17"], theirs["key17"]);
}

fn entries(ours: &mut HybridMap<String, u64>, theirs: &mut BTreeMap<String, u64>) {
    let change = |val: &mut u64| *val += 100;
    for i in 0..40 {
        let key = format!("key{}", i * 3);
        let (a, b) = (ours.entry(key.clone()), theirs.entry(key.clone()));
        assert_eq!(a.key(), b.key());
        match i % 6 {
            0 => assert_eq!(a.or_insert(i), b.or_insert(i)),
            1 => assert_eq!(a.or_insert_with(|| i), b.or_insert_with(|| i)),
            2 => {
                let make = |key: &String| key.len() as u64;
                assert_eq!(a.or_insert_with_key(make), b.or_insert_with_key(make));
            }
            3 => assert_eq!(
                a.and_modify(change).or_default(),
                b.and_modify(change).or_default()
            ),
            4 => assert_eq!(a.insert_entry(i).get(), b.insert_entry(i).get()),
            _ => match a {
                Entry::Vacant(entry) => assert_eq!(entry.into_key(), key),
                Entry::Occupied(mut entry) => {
                    change(entry.get_mut());
                    let old = theirs[&key] + 100;
                    assert_eq!(
                        (entry.insert(5), entry.remove_entry()),
                        (old, (key.clone(), 5))
                    );
                    theirs.remove(&key);
                }
            },
        }
    }
    let (a, b) = (ours.first_entry().unwrap(), theirs.first_entry().unwrap());
    assert_eq!(a.key(), b.key());
    assert_eq!(a.remove(), b.remove());
    let (a, b) = (ours.last_entry().unwrap(), theirs.last_entry().unwrap());
    assert_eq!(a.into_mut(), b.into_mut());
}

fn traits(ours: &HybridMap<String, u64>, theirs: &BTreeMap<String, u64>) {
    let mut less = ours.clone();
    assert_eq!(less, *ours);
    let hasher = RandomState::new();
    assert_eq!(hasher.hash_one(&less), hasher.hash_one(ours));
    less.pop_last();
    assert!(less < *ours && less.cmp(ours) == std::cmp::Ordering::Less);
    assert_ne!(hasher.hash_one(&less), hasher.hash_one(ours));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    let mut copy = HybridMap::new();
    copy.extend(theirs.iter().map(|(key, val)| (key.clone(), *val)));
    assert_eq!(copy, *ours);
}

#[test]
fn every_method_of_a_btree_set() {
    let keys = |step: u64| (0..KEYS).map(move |i| i * step % KEYS * 2 / step);
    let (mut a, mut b) = (HybridSet::from_iter(keys(7)), HybridSet::from_iter(keys(4)));
    let (mut c, mut d) = (BTreeSet::from_iter(keys(7)), BTreeSet::from_iter(keys(4)));
    assert!(a.union(&b).eq(c.union(&d).copied()));
    assert!(a.intersection(&b).eq(c.intersection(&d).copied()));
    assert!(a.difference(&b).eq(c.difference(&d).copied()));
    assert!(
        a.symmetric_difference(&b)
            .eq(c.symmetric_difference(&d).copied())
    );
    assert_eq!(a.is_subset(&b), c.is_subset(&d));
    assert_eq!(a.is_superset(&b), c.is_superset(&d));
    assert_eq!(a.is_disjoint(&b), c.is_disjoint(&d));
    assert_eq!(a.cmp(&b), c.cmp(&d));
    for key in [0, 3, 9, 100_000] {
        assert_eq!(a.contains(&key), c.contains(&key));
        assert_eq!(a.get(&key), c.get(&key).copied());
        assert_eq!(a.insert(key), c.insert(key));
        assert_eq!(a.replace(key), c.replace(key));
        assert_eq!(a.take(&key), c.take(&key));
        assert_eq!(a.remove(&(key + 1)), c.remove(&(key + 1)));
    }
    assert_eq!(
        (a.first(), a.last()),
        (c.first().copied(), c.last().copied())
    );
    assert_eq!((a.pop_first(), a.pop_last()), (c.pop_first(), c.pop_last()));
    assert!(a.range(10..50).eq(c.range(10..50).copied()));
    let odd = a.extract_if(..100, |key| key % 2 == 1).collect::<Vec<_>>();
    let (gone, rest): (BTreeSet<u64>, _) = c.into_iter().partition(|k| *k < 100 && k % 2 == 1);
    c = rest;
    assert!(odd.into_iter().eq(gone));
    let (behind, others) = (a.split_off(&200), c.split_off(&200));
    assert!(behind.into_iter().eq(others));
    a.append(&mut b);
    c.append(&mut d);
    a.retain(|key| key % 3 > 0);
    c.retain(|key| key % 3 > 0);
    assert!(a.iter().eq(c.iter().copied()) && a.len() == c.len() && b.is_empty());
    assert_eq!(format!("{a:?}"), format!("{c:?}"));
    a.clear();
    assert!(a.is_empty() && a == HybridSet::new());
}

#[test]
fn prefixes_are_found_and_removed_under_every_pair() {
    for &pair in Pair::ALL {
        let options = Options {
            pair,
            segment_len: 16,
            floor: 8,
            ..Options::default()
        };
        let mut map = HybridMap::<Vec<u8>, usize>::with_options(options).expect("good options");
        let mut model = BTreeMap::new();
        for i in 0..600usize {
            let mut key = vec![[0, 1, 254, 255][i % 4]; i / 4 % 5];
            key.extend_from_slice(&(i / 20).to_le_bytes()[..i % 3]);
            map.insert(key.clone(), i);
            model.insert(key, i);
        }
        for prefix in [
            &[][..],
            &[0],
            &[255],
            &[255, 255],
            &[254, 255],
            &[1, 1, 1],
            &[7],
        ] {
            let theirs = model.iter().filter(|e| e.0.starts_with(prefix));
            assert!(map.prefix(prefix).eq(theirs.map(|(k, v)| (k.clone(), v))));
        }
        for key in [&[0, 0, 0, 0, 0, 0][..], &[255, 255, 3], &[1], &[], &[9, 9]] {
            let mut theirs = model.iter().filter(|e| key.starts_with(e.0));
            let longest = theirs.next_back().map(|(k, v)| (k.clone(), v));
            assert_eq!(map.longest_prefix(key), longest);
        }
        for prefix in [&[255, 255][..], &[0], &[]] {
            let before = model.len();
            model.retain(|key, _| !key.starts_with(prefix));
            assert_eq!(map.remove_prefix(prefix), before - model.len());
            assert!(map.keys().eq(model.keys().cloned()));
        }
    }
}

#[test]
fn a_map_allocates_nothing_before_its_first_entry() {
    let map = HybridMap::<u64, u64>::new();
    assert_eq!(map.memory_usage().total(), 0);
    let map = HybridMap::<String, u64>::new();
    assert_eq!(map.memory_usage().total(), 0);
    let few: HybridMap<u64, u64> = (0..50).map(|i| (i * 31 % 50, i)).collect();
    assert_eq!(few.memory_usage().filter, 0);
}
