//! Each planted fault makes some check fail; without it the same check passes.
//!
//! `cargo test -p terrace-mem --features planted-faults,shuttle --test planted`
#![cfg(all(feature = "planted-faults", feature = "shuttle"))]

#[path = "support/linear.rs"]
mod linear;
#[path = "support/scenes.rs"]
mod scenes;

use std::panic::catch_unwind;
use terrace_mem::{Fault, HybridMap, Merging, Options, plant};

/// Whether the check fails with the fault; all in one test, since a fault is planted globally.
fn caught(fault: Fault, check: fn()) -> bool {
    plant(Some(fault));
    let failed = catch_unwind(check).is_err();
    plant(None);
    failed
}

/// Keys must be found while the filter changes its generation.
fn filter_is_whole() {
    let options = Options {
        merging: Merging::Manual,
        ..Options::default()
    };
    let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
    for i in 0..5000u64 {
        map.insert(i * 7919 % 5003, i);
        if i.is_multiple_of(50) {
            assert!(
                (0..=i).all(|j| map.contains_key(&(j * 7919 % 5003))),
                "a key is lost"
            );
        }
    }
}

#[test]
fn every_planted_fault_is_caught() {
    let same: fn() = || shuttle::check_random(scenes::same_keys, 3000);
    let split: fn() = || shuttle::check_random(scenes::split, 3000);
    let fresh: fn() = || shuttle::check_random(scenes::fresh_keys, 3000);
    for (fault, check) in [
        (Fault::DroppedTombstone, same),
        (Fault::EarlyRemove, fresh),
        (Fault::BlindRemove, fresh),
        (Fault::BlindRemove, split),
        (Fault::EarlySwap, filter_is_whole as fn()),
    ] {
        check();
        assert!(caught(fault, check), "{fault:?} was not caught");
    }
}
