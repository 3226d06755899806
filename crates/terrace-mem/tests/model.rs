//! Random operations against `BTreeMap`: all kinds of keys, all options, merges all the time, of the
//! concurrent map by one thread.
#![cfg(not(feature = "shuttle"))]

#[path = "support/drive.rs"]
mod drive;
#[cfg(feature = "concurrent")]
#[path = "support/drive_concurrent.rs"]
mod drive_concurrent;

use drive::{TestKey, drive};

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
    let (runs, len) = if cfg!(miri) { (6, 900) } else { (100, 3000) };
    for seed in 0..runs {
        drive::<K>(&bytes(seed + 1, len));
    }
    for seed in 0..if cfg!(miri) { 0 } else { 3 } {
        drive::<K>(&bytes(seed + 1000, 40_000));
    }
}

#[cfg(feature = "concurrent")]
fn check_concurrent<K: TestKey>() {
    let (runs, len) = if cfg!(miri) { (4, 600) } else { (60, 3000) };
    for seed in 0..runs {
        drive_concurrent::drive::<K>(&bytes(seed + 1, len), true);
    }
    for seed in 0..if cfg!(miri) { 0 } else { 2 } {
        drive_concurrent::drive::<K>(&bytes(seed + 1000, 20_000), true);
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
