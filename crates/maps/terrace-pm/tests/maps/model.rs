//! The map against `BTreeMap`: random programs, reopened, with tiny and ordinary shapes, in every mode.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use terrace_pm::pm::Sim;
use terrace_pm::{Buffers, Options, PmMap};

/// A stream of random numbers.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }
}

fn factor() -> u64 {
    std::env::var("TERRACE_TEST_FACTOR").map_or(1, |f| f.parse().unwrap_or(1))
}

fn modes(tiny: bool) -> Vec<Options> {
    let base = if tiny {
        Options::new().tiny()
    } else {
        Options::new()
    };
    [Buffers::Elastic, Buffers::Paper, Buffers::Literal]
        .into_iter()
        .map(|mode| base.clone().buffers(mode).memory(1 << 20))
        .collect()
}

fn check_all(map: &PmMap<u64, u64>, model: &BTreeMap<u64, u64>, random: &mut Random, keys: u64) {
    let report = map.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.keys, model.len() as u64);
    let all: Vec<(u64, u64)> = map.iter().map(Result::unwrap).collect();
    let expected: Vec<(u64, u64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(all, expected);
    let mut back: Vec<(u64, u64)> = map.iter().rev().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, expected);
    for _ in 0..10 {
        let (a, b) = (random.below(keys * 3), random.below(keys * 3));
        let bounds = (Bound::Excluded(a.min(b)), Bound::Included(a.max(b)));
        if a == b {
            continue;
        }
        // Both ends in turns meet in the middle.
        let mut range = map.range::<u64>(bounds).unwrap();
        let mut expected = model.range(bounds);
        loop {
            let (ours, theirs) = if random.below(2) == 0 {
                (range.next(), expected.next())
            } else {
                (range.next_back(), expected.next_back())
            };
            let ours = ours.map(Result::unwrap);
            assert_eq!(ours, theirs.map(|(k, v)| (*k, *v)));
            if ours.is_none() {
                break;
            }
        }
    }
    assert_eq!(
        map.first().unwrap(),
        model.first_key_value().map(|(k, v)| (*k, *v))
    );
    assert_eq!(
        map.last().unwrap(),
        model.last_key_value().map(|(k, v)| (*k, *v))
    );
}

fn program(seed: u64, options: &Options, capacity: u64, keys: u64, steps: u64) {
    let mut random = Random(seed | 1);
    let mut sim = Arc::new(Sim::new(capacity));
    let mut map = PmMap::<u64, u64>::open_on(sim.clone(), options.clone()).unwrap();
    let mut model = BTreeMap::new();
    let deletes = 10 + random.below(50);
    for step in 0..steps {
        let key = random.below(keys) * 3;
        let value = step << 8 | 1;
        match random.below(100) {
            n if n < deletes => {
                if random.below(2) == 0 {
                    map.delete(key).unwrap();
                    model.remove(&key);
                } else {
                    assert_eq!(map.remove(key).unwrap(), model.remove(&key).is_some());
                }
            }
            n if n < deletes + 5 => {
                let was = model.contains_key(&key);
                assert_eq!(map.insert(key, value).unwrap(), !was);
                model.entry(key).or_insert(value);
            }
            n if n < deletes + 10 => {
                let old = model.get(&key).copied();
                map.update(key, |seen: Option<u64>| {
                    assert_eq!(seen, old);
                    old.is_none_or(|old| !old.is_multiple_of(3))
                        .then_some(value)
                })
                .unwrap();
                if old.is_none_or(|old| !old.is_multiple_of(3)) {
                    model.insert(key, value);
                } else {
                    model.remove(&key);
                }
            }
            n if n < deletes + 13 => {
                let group: Vec<(u64, u64)> = (0..random.below(40))
                    .map(|i| (random.below(keys) * 3, value + i))
                    .collect();
                map.put_all(group.iter().copied()).unwrap();
                model.extend(group);
            }
            _ => {
                map.put(key, value).unwrap();
                model.insert(key, value);
            }
        }
        let probe = random.below(keys * 3);
        assert_eq!(map.get(probe).unwrap(), model.get(&probe).copied());
        assert_eq!(map.contains_key(probe).unwrap(), model.contains_key(&probe));
        if random.below(steps / 5 + 1) == 0 {
            check_all(&map, &model, &mut random, keys);
            if random.below(2) == 0 {
                map.close().unwrap();
                assert!(map.put(0, 0).is_err(), "a closed map is not written to");
            } else {
                map.crash();
            }
            sim = Arc::new(Sim::from_image(&sim.image(), capacity));
            map = PmMap::open_on(sim.clone(), options.clone()).unwrap();
        }
    }
    check_all(&map, &model, &mut random, keys);
}

#[test]
fn tiny_maps_hold_what_a_btreemap_holds() {
    for seed in 1..=6 * factor() {
        for options in modes(true) {
            let keys = [5, 30, 200][(seed % 3) as usize];
            program(seed, &options, 1 << 20, keys, 600);
        }
    }
}

#[test]
fn ordinary_maps_hold_what_a_btreemap_holds() {
    for seed in 1..=factor() {
        for options in modes(false) {
            program(seed, &options, 64 << 20, 5000, 20_000);
        }
    }
}

#[test]
fn byte_strings_of_all_lengths_hold_what_a_btreemap_holds() {
    for seed in 1..=3 * factor() {
        let mut random = Random(seed * 77 + 1);
        let tiny = !seed.is_multiple_of(3);
        let options = if tiny {
            // Blobs need chunks of every class.
            Options::new().tiny().memory(8 << 20)
        } else {
            Options::new().memory(8 << 20)
        };
        let capacity = if tiny { 4 << 20 } else { 128 << 20 };
        let mut sim = Arc::new(Sim::new(capacity));
        let mut map = PmMap::<[u8], [u8]>::open_on(sim.clone(), options.clone()).unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let key = |random: &mut Random| {
            // Many share their first eight bytes.
            let mut key = b"prefix--".to_vec();
            key.truncate(random.below(9) as usize);
            key.extend((0..random.below(4)).map(|_| b'a' + random.below(3) as u8));
            key
        };
        for step in 0..1500u64 {
            let k = key(&mut random);
            match random.below(10) {
                0..3 => {
                    assert_eq!(
                        map.remove(k.as_slice()).unwrap(),
                        model.remove(&k).is_some()
                    );
                }
                _ => {
                    let long = if random.below(20) == 0 { 2000 } else { 40 };
                    let value = vec![step as u8; random.below(long) as usize];
                    map.put(k.as_slice(), value.as_slice()).unwrap();
                    model.insert(k, value);
                }
            }
            let probe = key(&mut random);
            assert_eq!(
                map.get(probe.as_slice()).unwrap(),
                model.get(&probe).cloned()
            );
            if random.below(300) == 0 {
                let report = map.verify().unwrap();
                assert!(report.is_clean(), "{:?}", report.problems);
                if random.below(2) == 0 {
                    map.close().unwrap();
                } else {
                    map.crash();
                }
                sim = Arc::new(Sim::from_image(&sim.image(), capacity));
                map = PmMap::open_on(sim.clone(), options.clone()).unwrap();
            }
        }
        let all: Vec<(Vec<u8>, Vec<u8>)> = map.iter().map(Result::unwrap).collect();
        let expected: Vec<(Vec<u8>, Vec<u8>)> = model.clone().into_iter().collect();
        assert_eq!(all, expected);
        let mut back: Vec<_> = map.iter().rev().map(Result::unwrap).collect();
        back.reverse();
        assert_eq!(back, expected);
        let from = b"prefix--".as_slice();
        let some = map.range::<&[u8]>(from..).unwrap().map(Result::unwrap);
        let expected = model.range(from.to_vec()..);
        assert!(some.eq(expected.map(|(k, v)| (k.clone(), v.clone()))));
    }
}

#[test]
fn text_and_signed_numbers_come_back_in_order() {
    let sim = Arc::new(Sim::new(64 << 20));
    let map = PmMap::<i64, str>::open_on(sim, Options::new()).unwrap();
    for i in -500..500i64 {
        map.put(i, format!("number {i}")).unwrap();
    }
    let keys: Vec<i64> = map.iter().map(|pair| pair.unwrap().0).collect();
    assert!(keys.iter().copied().eq(-500..500));
    assert_eq!(map.get(-3).unwrap().as_deref(), Some("number -3"));
    let sim = Arc::new(Sim::new(64 << 20));
    let map = PmMap::<str, i32>::open_on(sim, Options::new()).unwrap();
    map.put("a key that is long", -7).unwrap();
    assert_eq!(map.get("a key that is long").unwrap(), Some(-7));
}

#[test]
fn all_leaves_of_a_drain_may_split_at_once() {
    for drained in [3, 5, 8] {
        let sim = Arc::new(Sim::new(64 << 20));
        let options = Options::new().memory(1 << 20).drained_leaves(drained);
        let map = PmMap::<u64, u64>::open_on(sim, options).unwrap();
        // In this order all leaves are equally full at all times.
        for i in 0..12_000u64 {
            map.put(i.reverse_bits(), i).unwrap();
        }
        let report = map.verify().unwrap();
        assert!(report.is_clean(), "{drained}: {:?}", report.problems);
        assert_eq!(map.iter().count(), 12_000);
    }
}
