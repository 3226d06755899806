//! Many leaves and a long log are read by several threads, and what is opened is what was there.

use std::sync::Arc;

use terrace_pm::pm::{Pm, Sim};
use terrace_pm::{Options, PmMap};

const CAPACITY: u64 = 64 << 20;
/// Keys of a map with more leaves than one thread reads alone.
const KEYS: u64 = 90_000;

fn options(threads: usize) -> Options {
    Options::new()
        .memory(8 << 20)
        .capacity(CAPACITY)
        .threads(threads)
}

fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Keys of which many have the same first eight bytes.
fn bytes(i: u64) -> Vec<u8> {
    format!("key {:04}/{}", key(i) % 5000, i).into_bytes()
}

/// What a crash of the process leaves of a map that `fill` has filled.
fn image<M>(open: impl Fn(Arc<dyn Pm>) -> M, fill: impl Fn(&M), crash: impl Fn(M)) -> Vec<u64> {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = open(sim.clone());
    fill(&map);
    crash(map);
    sim.image()
}

fn ints() -> Vec<u64> {
    image(
        |pm| PmMap::<u64, u64>::open_on(pm, options(1)).unwrap(),
        |map| {
            for i in 0..KEYS {
                map.put(key(i), i).unwrap();
            }
            // Leaves are merged, and free leaves have headers that look like those of the chain.
            for i in (0..KEYS).filter(|i| key(*i) < u64::MAX / 4) {
                map.delete(key(i)).unwrap();
            }
        },
        PmMap::crash,
    )
}

fn is_left(i: u64) -> bool {
    key(i) >= u64::MAX / 4
}

#[test]
fn numbers_are_opened_by_several_threads() {
    let image = ints();
    for threads in [1, 3, 4] {
        let sim = Arc::new(Sim::from_image(&image, CAPACITY));
        let map = PmMap::<u64, u64>::open_on(sim, options(threads)).unwrap();
        let stats = map.stats();
        assert!(
            stats.opened_leaves > 3000 && stats.replayed >= 10_000,
            "{stats:?}"
        );
        for i in 0..KEYS {
            assert_eq!(map.get(key(i)).unwrap(), is_left(i).then_some(i));
        }
        let report = map.verify().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        // What is free is free, and nothing else.
        for i in 0..KEYS {
            map.put(key(i), i + 1).unwrap();
        }
        assert_eq!(map.iter().count() as u64, KEYS);
        assert!(map.verify().unwrap().is_clean());
    }
}

#[test]
fn a_damaged_leaf_is_told_whoever_reads_it() {
    let image = ints();
    // Headers of leaves, here and there, and whatever else lies there.
    let places = (1..=40).map(|n| n * image.len() / 640 / 64 * 64);
    let told = |threads| {
        let told = places.clone().map(|at| {
            let mut damaged = image.clone();
            damaged[at] ^= 1 << (at / 64 % 28);
            let sim = Arc::new(Sim::from_image(&damaged, CAPACITY));
            let opened = PmMap::<u64, u64>::open_on(sim, options(threads));
            opened.err().map(|error| error.to_string())
        });
        told.collect::<Vec<_>>()
    };
    let alone = told(1);
    let damaged = alone.iter().flatten().filter(|what| what.contains("leaf"));
    assert!(damaged.count() > 5, "{alone:?}");
    assert_eq!(told(4), alone);
}

#[test]
fn byte_strings_are_opened_and_swept_by_several_threads() {
    let value = |i: u64| vec![i as u8; (i % 90) as usize];
    let image = image(
        |pm| PmMap::<[u8], [u8]>::open_on(pm, options(1)).unwrap(),
        |map| {
            for i in 0..KEYS {
                map.put(bytes(i), value(i)).unwrap();
            }
            for i in (0..KEYS).step_by(3) {
                map.delete(bytes(i)).unwrap();
            }
            for i in (1..KEYS).step_by(3) {
                map.put(bytes(i), value(i + 7)).unwrap();
            }
        },
        PmMap::crash,
    );
    let left = |i: u64| match i % 3 {
        0 => None,
        1 => Some(value(i + 7)),
        _ => Some(value(i)),
    };
    for threads in [1, 4] {
        let sim = Arc::new(Sim::from_image(&image, CAPACITY));
        let map = PmMap::<[u8], [u8]>::open_on(sim, options(threads)).unwrap();
        let stats = map.stats();
        assert!(
            stats.opened_leaves > 3000 && stats.replayed >= 10_000,
            "{stats:?}"
        );
        for i in 0..KEYS {
            assert_eq!(map.get(bytes(i)).unwrap(), left(i), "{i}");
        }
        // The sweep has freed what nothing refers to, and no more: what is written now takes the places of
        // none of these.
        for i in (0..KEYS).step_by(3) {
            map.put(bytes(i), value(i + 1)).unwrap();
        }
        for i in 0..KEYS {
            let now = left(i).unwrap_or_else(|| value(i + 1));
            assert_eq!(map.get(bytes(i)).unwrap(), Some(now), "{i}");
        }
        let report = map.verify().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn only_what_was_buffered_is_buffered_again() {
    for threads in [1, 2] {
        let sim = Arc::new(Sim::new(CAPACITY));
        let map = PmMap::<u64, u64>::open_on(sim.clone(), options(threads)).unwrap();
        for i in 0..KEYS {
            map.put(key(i), i).unwrap();
        }
        let before = map.stats();
        map.crash();
        let map = PmMap::<u64, u64>::open_on(sim, options(threads)).unwrap();
        let after = map.stats();
        // Of the records most are in leaves already: they are not drained once more. Nodes are others than before,
        // so some are drained that have more than their share now.
        assert!(after.replayed > 2 * before.buffered, "{after:?}");
        assert!(after.drained < before.buffered / 50, "{after:?}");
        assert!(after.buffered > before.buffered / 50 * 49, "{after:?}");
        assert!(after.buffered <= before.buffered, "{after:?}");
    }
}
