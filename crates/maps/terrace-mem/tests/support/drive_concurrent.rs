//! Drives a concurrent map, by one thread, and a `BTreeMap` from a string of bytes and compares
//! them all along.

use super::drive::{Source, TestKey, ranges_agree};
use std::collections::BTreeMap;
use std::ops::Bound;
use terrace_mem::{ConcurrentHybridMap, Merging, Options, Pair, Stage, Trigger};

/// Values own heap memory, so that a wrong copy or a missing drop is seen.
type Val = Box<u32>;
type Map<K> = ConcurrentHybridMap<K, Val>;
type Model<K> = BTreeMap<K, Val>;

/// Parts are small and merged all the time. Without a background thread a run is the same each time.
fn options<K: TestKey>(from: &mut Source<'_>, background: bool) -> Options {
    let (b, c) = (usize::from(from.byte()), usize::from(from.byte()));
    let ways = [Merging::Blocking, Merging::Manual, Merging::Incremental];
    let stage = match b / 128 {
        0 => K::STAGES[b % K::STAGES.len()],
        _ => Stage::Auto,
    };
    Options {
        pair: Pair::ALL[(b / 2 + c) % Pair::ALL.len()],
        stage,
        trigger: [
            Trigger::Ratio(4),
            Trigger::Constant(1),
            Trigger::Constant(6),
        ][c % 3],
        merging: ways[c / 3 % (2 + usize::from(background))],
        segment_len: [16, 20, 50][b / 8 % 3],
        #[cfg(feature = "compressed")]
        cache_nodes: [0, 2][b / 32 % 2],
        ..Options::default()
    }
}

/// Runs the operations that `bytes` says.
pub fn drive<K: TestKey>(bytes: &[u8], background: bool) {
    let from = &mut Source(bytes);
    let options = options::<K>(from, background);
    let mut map = Map::<K>::with_options(options).expect("good options");
    let mut model = Model::<K>::new();
    let mut round = 0;
    while !from.is_empty() {
        round += 1;
        let (op, key) = (from.byte(), K::make(from));
        match op {
            0..130 => on_a_key(&map, &mut model, op, key, round),
            130..175 => at_an_end(&map, &mut model, op, from),
            175..200 => range(&map, &model, from, key),
            _ => on_all(&mut map, &mut model, op, from, round),
        }
        assert_eq!(map.len(), model.len());
        assert_eq!(map.is_empty(), model.is_empty());
    }
    compare(&map, &model);
}

fn on_a_key<K: TestKey>(map: &Map<K>, model: &mut Model<K>, op: u8, key: K, round: u32) {
    let val = Box::new(round);
    match op {
        0..60 => assert_eq!(map.insert(&key, val.clone()), model.insert(key, val)),
        60..80 => assert_eq!(map.remove(&key), model.remove(&key)),
        80..90 => {
            assert_eq!(map.get(&key), model.get(&key).cloned());
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
        }
        90..100 => {
            let new = map.update(&key, |old| {
                assert_eq!(old, model.get(&key));
                old.map(|old| Box::new(**old + 1)).filter(|n| **n % 5 > 0)
            });
            match new {
                Some(val) => drop(model.insert(key, val)),
                None => drop(model.remove(&key)),
            }
        }
        100..115 => {
            let there = map.get_or_insert_with(&key, || val.clone());
            assert_eq!(there, *model.entry(key).or_insert(val));
        }
        _ => {
            let even = |val: &Val| val.is_multiple_of(2);
            let gone = model.get(&key).filter(|val| even(val)).cloned();
            assert_eq!(map.remove_if(&key, even), gone);
            if gone.is_some() {
                model.remove(&key);
            }
        }
    }
}

fn at_an_end<K: TestKey>(map: &Map<K>, model: &mut Model<K>, op: u8, from: &mut Source<'_>) {
    let cloned = |(key, val): (&K, &Val)| (key.clone(), val.clone());
    assert_eq!(map.first(), model.first_key_value().map(cloned));
    assert_eq!(map.last(), model.last_key_value().map(cloned));
    assert_eq!(map.first_key_value(), map.first());
    assert_eq!(map.last_key_value(), map.last());
    match op {
        130..150 => assert_eq!(map.pop_first(), model.pop_first()),
        150..170 => assert_eq!(map.pop_last(), model.pop_last()),
        // Whole parts run empty at one end.
        _ => {
            for _ in 0..from.byte() % 80 {
                if op.is_multiple_of(2) {
                    assert_eq!(map.pop_first(), model.pop_first());
                } else {
                    assert_eq!(map.pop_last(), model.pop_last());
                }
            }
        }
    }
}

fn on_all<K: TestKey>(
    map: &mut Map<K>,
    model: &mut Model<K>,
    op: u8,
    from: &mut Source<'_>,
    round: u32,
) {
    match op {
        200..208 => {
            let keys: Vec<K> = (0..40).map(|_| K::make(from)).collect();
            let found = map.get_batch(&keys.iter().collect::<Vec<_>>());
            assert!(
                found
                    .iter()
                    .map(Option::as_ref)
                    .eq(keys.iter().map(|key| model.get(key)))
            );
        }
        208..218 => map.merge_all(),
        218..232 => {
            let mut more: Vec<(K, Val)> =
                (0..70).map(|_| (K::make(from), Box::new(round))).collect();
            // Mostly in order; keys may come twice, or the last one be out of place.
            more.sort();
            if op.is_multiple_of(3) {
                more.push((K::make(from), Box::new(0)));
            }
            model.extend(more.iter().cloned());
            if op.is_multiple_of(2) {
                map.extend(more);
            } else {
                (&*map).extend(more);
            }
        }
        232..240 => compare(map, model),
        240..244 => {
            let keep = |_: &K, val: &Val| !val.is_multiple_of(3);
            map.retain(keep);
            model.retain(|key, val| keep(key, val));
        }
        244..249 => {
            let copy = map.clone();
            assert_eq!(copy, *map);
            *map = copy;
        }
        249..252 => {
            map.clear();
            model.clear();
        }
        _ => {}
    }
}

fn compare<K: TestKey>(map: &Map<K>, model: &Model<K>) {
    let all = || model.iter().map(|(k, v)| (k.clone(), v.clone()));
    assert!(map.iter().eq(all()));
    assert!(map.iter().rev().eq(all().rev()));
    assert!(map.keys().eq(model.keys().cloned()));
    assert!(map.values().rev().eq(model.values().rev().cloned()));
    map.merge_all();
    assert_eq!(map.stage_lens(), (0, model.len()));
    assert_eq!(map.stages().iter().map(|s| s.1).sum::<usize>(), model.len());
    assert!(map.memory_usage().total() >= model.len() * size_of::<Val>());
    assert!(map.into_iter().eq(all()));
}

fn range<K: TestKey>(map: &Map<K>, model: &Model<K>, from: &mut Source<'_>, key: K) {
    let theirs = |bounds| {
        let range = model.range::<K, (Bound<K>, Bound<K>)>(bounds);
        range.map(|(k, v)| (k.clone(), v.clone()))
    };
    ranges_agree(from, key, |bounds| map.range(bounds), theirs);
}
