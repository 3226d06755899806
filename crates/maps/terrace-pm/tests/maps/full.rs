//! Full maps, full disks, and memory that is used up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::hooked::Hooked;
use terrace_pm::pm::{Count, Heap, Pm, Sim};
use terrace_pm::{Buffers, Error, Options, PmMap};

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

/// A key of this many bytes, in no order.
fn long_key(n: u64, len: usize) -> Vec<u8> {
    let mut key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
    key.extend(format!("user {n:012}").into_bytes());
    key.resize(len.max(key.len()), b'x');
    key
}

/// Puts until the memory is used up, or a share of what was put then; how many keys there are.
fn fill(map: &Strings, len: usize, most: u64) -> u64 {
    for n in 0..most {
        match map.put(long_key(n, len), n.to_le_bytes().to_vec()) {
            Ok(()) => {}
            Err(Error::MemoryTooSmall { given, needed, .. }) => {
                assert!(needed > given, "{needed} of {given}");
                return n;
            }
            Err(error) => panic!("{error}"),
        }
    }
    most
}

/// Opens a map again that was closed or not, and looks at all of it.
fn opens_again(pm: &Arc<Heap>, options: &Options, (keys, len): (u64, usize)) {
    let map = Strings::open_on(pm.clone(), options.clone())
        .unwrap_or_else(|e| panic!("{keys} keys of {len}: {e}"));
    assert_eq!(map.iter().count() as u64, keys);
    for n in (0..keys).step_by(7) {
        let value = map.get(long_key(n, len)).unwrap();
        assert_eq!(value.as_deref(), Some(&n.to_le_bytes()[..]));
    }
    // Deletes go on, and so it can be made smaller.
    map.delete(long_key(0, len)).unwrap();
    map.put(long_key(1, len), 1u64.to_le_bytes().to_vec())
        .unwrap_or(());
    map.crash();
}

#[test]
fn what_was_put_with_some_memory_is_opened_with_the_same() {
    let cases = [
        (80_000, 30, Buffers::Elastic),
        (150_000, 30, Buffers::Elastic),
        (150_000, 300, Buffers::Elastic),
        (300_000, 30, Buffers::Paper),
        (500_000, 300, Buffers::Elastic),
        (500_000, 900, Buffers::Literal),
    ];
    for (case, (memory, len, buffers)) in cases.into_iter().enumerate() {
        let options = Options::new()
            .memory(memory)
            .capacity(256 << 20)
            .buffers(buffers)
            .partitions(4);
        let made = || {
            let pm = Arc::new(Heap::new(256 << 20).unwrap());
            let map = Strings::open_on(pm.clone(), options.clone()).unwrap();
            (pm, map)
        };
        let fit = fill(&made().1, len, 400_000);
        assert!(fit > 50 && fit < 400_000, "case {case}: {fit} keys fit");
        for (i, share) in [1000, 980].into_iter().enumerate() {
            let (pm, map) = made();
            let keys = fill(&map, len, (fit * share / 1000).max(1));
            match (case + i) % 2 {
                0 => map.close().unwrap(),
                _ => map.crash(),
            }
            opens_again(&pm, &options, (keys, len));
        }
    }
}

#[test]
fn as_much_memory_as_an_error_names_is_enough_to_open() {
    for (len, buffers) in [
        (30, Buffers::Elastic),
        (300, Buffers::Elastic),
        (300, Buffers::Paper),
    ] {
        let options = Options::new()
            .capacity(256 << 20)
            .buffers(buffers)
            .partitions(4);
        let pm = Arc::new(Heap::new(256 << 20).unwrap());
        let map = Strings::open_on(pm.clone(), options.clone().memory(4 << 20)).unwrap();
        fill(&map, len, 30_000);
        map.crash();
        let refused = Strings::open_on(pm.clone(), options.clone().memory(60_000));
        let Err(Error::MemoryTooSmall { given, needed, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            given == 60_000 && needed > given && needed < 4 << 20,
            "{needed}"
        );
        opens_again(&pm, &options.memory(needed), (30_000, len));
    }
}
