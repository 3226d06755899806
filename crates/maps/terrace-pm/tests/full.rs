//! Full maps, full disks, and memory that is used up.
#![cfg(not(feature = "shuttle"))]

mod hooked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use hooked::Hooked;
use terrace_pm::pm::{Count, Pm, Sim};
use terrace_pm::{Error, Options, PmMap};

type Ints = PmMap<u64, u64>;
type Strings = PmMap<[u8], [u8]>;

fn tiny() -> Options {
    Options::new().tiny().memory(1 << 20)
}

fn bytes(n: u64) -> Vec<u8> {
    format!("the key {n}").into_bytes()
}

fn until_full(map: &Strings, seed: u64, longest: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for i in 0..40_000u64 {
        let n = i.wrapping_mul(977 + seed) % 35_003;
        let value = vec![i as u8; (n * 7 % longest) as usize];
        match map.put(bytes(n), value.clone()) {
            Ok(()) => model.insert(bytes(n), value),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                return model;
            }
        };
    }
    panic!("it is never full");
}

#[test]
fn a_full_map_of_byte_strings_opens_again_with_less_memory_and_loses_nothing() {
    for seed in 0..12u64 {
        let capacity = (160 << 10) + seed * 4096 * 5;
        let sim = Arc::new(Sim::new(capacity));
        let map = Strings::open_on(sim.clone(), tiny()).unwrap();
        let model = until_full(&map, seed * 2, 90);
        for (key, value) in &model {
            assert_eq!(map.get(key.as_slice()).unwrap().as_ref(), Some(value));
        }
        map.crash();
        for memory in [1 << 20, 100_000, 40_000] {
            let again = Arc::new(Sim::from_image(&sim.image(), capacity));
            let map = Strings::open_on(again, tiny().memory(memory))
                .unwrap_or_else(|e| panic!("seed {seed}, {memory} bytes: {e}"));
            let all: Vec<_> = map.iter().map(Result::unwrap).collect();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            map.crash();
        }
    }
}

#[test]
fn a_full_map_of_byte_strings_is_emptied_and_filled_again() {
    let capacity = 40 << 20;
    let sim = Arc::new(Sim::new(capacity));
    let options = |memory| Options::new().memory(memory).capacity(capacity);
    let map = Strings::open_on(sim.clone(), options(2 << 20)).unwrap();
    let model = until_full(&map, 0, 900);
    map.crash();
    let again = Arc::new(Sim::from_image(&sim.image(), capacity));
    let map = Strings::open_on(again, options(1 << 20)).unwrap();
    for (number, key) in model.keys().enumerate() {
        map.delete(key.as_slice())
            .unwrap_or_else(|e| panic!("delete {number} of {}: {e}", model.len()));
    }
    assert_eq!(map.iter().count(), 0);
    assert!(map.verify().unwrap().is_clean());
    for (number, (key, value)) in model.iter().take(model.len() / 2).enumerate() {
        map.put(key.as_slice(), value.as_slice())
            .unwrap_or_else(|e| panic!("put {number} of {}: {e}", model.len()));
    }
}

#[test]
fn a_full_map_of_numbers_opens_again_with_less_memory() {
    for seed in 0..12u64 {
        let capacity = (80 << 10) + seed * 4096;
        let sim = Arc::new(Sim::new(capacity));
        let map = Ints::open_on(sim.clone(), tiny()).unwrap();
        let mut model = BTreeMap::new();
        for i in 0..5000u64 {
            let key = i.wrapping_mul(977 + 2 * seed) % 5003;
            match map.put(key, i) {
                Ok(()) => model.insert(key, i),
                Err(_) => break,
            };
        }
        map.crash();
        for memory in [1 << 20, 20_000] {
            let again = Arc::new(Sim::from_image(&sim.image(), capacity));
            let map = Ints::open_on(again, tiny().memory(memory))
                .unwrap_or_else(|e| panic!("seed {seed}, {memory} bytes: {e}"));
            let all: Vec<_> = map.iter().map(Result::unwrap).collect();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            map.crash();
        }
    }
}

#[test]
fn updates_leave_the_last_room_to_deletes() {
    let map = Ints::open_on(Arc::new(Sim::new(128 << 10)), tiny()).unwrap();
    let mut keys = Vec::new();
    loop {
        let key = keys.len() as u64 * 977 % 5003;
        match map.update(key, |_| Some(7)) {
            Ok(()) => keys.push(key),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                break;
            }
        }
        assert!(keys.len() < 5000, "it is never full");
    }
    for key in &keys {
        map.update(*key, |_| None::<u64>).unwrap();
    }
    assert_eq!(map.iter().count(), 0);
}

#[test]
fn a_put_that_finds_the_map_full_costs_no_more_than_others() {
    let counted = Arc::new(Count::new(Sim::new(128 << 10)));
    let map = Ints::open_on(counted.clone(), tiny()).unwrap();
    let mut key = 0;
    while map.put(key * 977 % 5003, key).is_ok() {
        key += 1;
    }
    counted.reset();
    for _ in 0..50 {
        key += 1;
        assert!(map.put(key + 10_000, 1).unwrap_err().is_disk_full());
    }
    let fences = counted.counts().fences;
    assert!(fences <= 50 * 8, "{fences} fences for 50 puts that failed");
}

#[test]
fn on_a_full_disk_deletes_go_on_and_puts_do_when_there_is_room_again() {
    // The map may have more, and the disk has not.
    let room = Arc::new(AtomicU64::new(96 << 10));
    let has = room.clone();
    let pm = Hooked::new(Sim::new(8 << 20)).growing(move |sim, bytes| {
        if bytes > has.load(SeqCst) {
            return Err(Error::DiskFull {
                what: "no space left on the device".to_owned(),
            });
        }
        sim.grow(bytes)
    });
    let map = Ints::open_on(Arc::new(pm), tiny()).unwrap();
    let mut model = BTreeMap::new();
    for key in 0..5000u64 {
        match map.put(key * 977 % 5003, key) {
            Ok(()) => model.insert(key * 977 % 5003, key),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                break;
            }
        };
    }
    assert!(model.len() > 50 && model.len() < 4000, "{}", model.len());
    for (number, key) in model.clone().keys().enumerate() {
        map.delete(*key)
            .unwrap_or_else(|e| panic!("delete {number}: {e}"));
        model.remove(key);
        if number > 300 {
            break;
        }
    }
    assert_eq!(map.iter().count(), model.len());
    room.store(8 << 20, SeqCst);
    for key in 0..2000u64 {
        map.put(key * 977 % 5003, key).unwrap();
    }
    assert!(map.verify().unwrap().is_clean());
}

#[test]
fn memory_that_was_used_up_is_found_again_when_the_index_shrinks() {
    let sim = Arc::new(Sim::new(64 << 20));
    let options = Options::new().memory(420_000).capacity(64 << 20);
    let map = Ints::open_on(sim, options).unwrap();
    let mut key = 0u64;
    let error = loop {
        key += 1;
        if let Err(error) = map.put(key, key) {
            break error;
        }
        assert!(key < 2_000_000, "it is never used up");
    };
    assert!(matches!(error, Error::MemoryTooSmall { .. }), "{error}");
    for gone in 1..key {
        if !gone.is_multiple_of(20) {
            map.delete(gone).unwrap();
        }
    }
    for new in 0..2000u64 {
        map.put(1 << 40 | new, new)
            .unwrap_or_else(|e| panic!("{new} after {key}: {e}"));
    }
    assert!(map.verify().unwrap().is_clean());
}
