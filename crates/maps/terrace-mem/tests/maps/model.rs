//! Random operations against `BTreeMap`: all kinds of keys, all options, merges all the time, of the
//! concurrent map by one thread.

#[path = "../support/drive.rs"]
mod drive;
#[cfg(feature = "concurrent")]
#[path = "../support/drive_concurrent.rs"]
mod drive_concurrent;

use crate::runs;
use drive::{TestKey, drive, drive_pair};
use std::collections::BTreeMap;
use terrace_mem::{HybridMap, Options, Pair};

fn bytes(seed: u64, n: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}

/// Many short runs for the many options, a few long ones for large maps.
fn check<K: TestKey>() {
    let len = if cfg!(miri) { 900 } else { 3000 };
    for seed in 0..runs(25, 6) {
        drive::<K>(&bytes(seed + 1, len));
    }
    for seed in 0..runs(1, 0) {
        drive::<K>(&bytes(seed + 1000, 40_000));
    }
}

#[cfg(feature = "concurrent")]
fn check_concurrent<K: TestKey>() {
    let len = if cfg!(miri) { 600 } else { 3000 };
    for seed in 0..runs(16, 4) {
        drive_concurrent::drive::<K>(&bytes(seed + 1, len), true);
    }
    for seed in 0..runs(1, 0) {
        drive_concurrent::drive::<K>(&bytes(seed + 1000, 20_000), true);
    }
}

#[test]
fn any_bytes() {
    check::<Box<[u8]>>();
}

#[test]
fn every_pair_by_itself() {
    for &pair in Pair::ALL {
        for seed in 0..runs(6, 1) {
            drive_pair(pair, &bytes(seed + 1, if cfg!(miri) { 600 } else { 3000 }));
        }
    }
}

#[test]
fn wide_integers() {
    check::<u64>();
}

#[test]
fn narrow_signed_integers() {
    check::<i16>();
}

#[test]
fn strings() {
    check::<String>();
}

#[test]
fn byte_vectors() {
    check::<Vec<u8>>();
}

#[test]
fn arrays() {
    check::<[u8; 4]>();
}

#[test]
fn tuples() {
    check::<(u16, String)>();
}

#[test]
fn integers_of_128_bits() {
    check::<u128>();
}

#[cfg(feature = "concurrent")]
#[test]
fn integers_in_a_concurrent_map() {
    check_concurrent::<u64>();
    check_concurrent::<i16>();
}

#[cfg(feature = "concurrent")]
#[test]
fn strings_in_a_concurrent_map() {
    check_concurrent::<String>();
    check_concurrent::<(u16, String)>();
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// Addresses in symbols are found, changed and removed as others are, and take fewer bytes.
#[test]
fn symbols_make_addresses_shorter() {
    let n = if cfg!(miri) { 700 } else { 30_000u32 };
    let names = [
        "johnson", "peterson", "miller", "garcia", "wilson", "taylor",
    ];
    let key = |i: u32| {
        let x = mix(u64::from(i)) as usize;
        let name = |at: usize| names[x / at % names.len()];
        format!(
            "com.example@{}.{}{:03x}",
            name(7),
            name(77),
            x >> 20 & 0xFFF
        ) + &i.to_string()
    };
    let mut bytes = Vec::new();
    for symbols in [false, true] {
        let options = Options {
            symbols,
            ..Options::default()
        };
        let mut map = HybridMap::<String, u32>::with_options(options).unwrap();
        let mut model = BTreeMap::new();
        for i in 0..n {
            assert_eq!(map.insert(key(i), i), model.insert(key(i), i));
            if i % 7 == 0 {
                let old = key(mix(u64::from(i)) as u32 % (i + 1));
                assert_eq!(map.remove(&old), model.remove(&old));
            }
            if i % 5 == 0 {
                let old = key(mix(u64::from(i) + 1) as u32 % (i + 1));
                assert_eq!(map.get(&old), model.get(&old));
            }
        }
        assert!(
            map.iter()
                .eq(model.iter().map(|(key, val)| (key.clone(), val)))
        );
        assert!(
            map.iter()
                .rev()
                .eq(model.iter().rev().map(|(key, val)| (key.clone(), val)))
        );
        for (at, (key, val)) in model.iter().enumerate() {
            assert_eq!(map.get(key), Some(val));
            if at % 100 == 0 {
                let ours = map.range::<String, _>(key..).take(30);
                let theirs = model.range(key.clone()..).take(30);
                assert!(ours.eq(theirs.map(|(key, val)| (key.clone(), val))));
                assert!(!map.contains_key(&format!("{key}x")));
            }
        }
        let copy = map.clone();
        assert!(copy.iter().eq(map.iter()));
        map.merge_all();
        bytes.push(map.memory_usage().static_keys);
    }
    println!("{bytes:?}");
    assert!(cfg!(miri) || bytes[1] * 10 < bytes[0] * 9, "{bytes:?}");
}
