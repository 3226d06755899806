//! Each planted fault makes some check fail; without it the same check passes.
//!
//! `cargo test -p terrace-mem --features planted-faults,shuttle --test checker planted`

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use terrace_mem::{
    ConcurrentHybridMap, Fault, HybridMap, Merging, Options, Pair, Trigger, What, plant,
};

/// Whether the check fails with the fault; all in one test of a process of its own, since a fault is planted in
/// the whole process.
fn caught(fault: Fault, check: fn()) -> bool {
    plant(Some(fault));
    let failed = catch_unwind(check).is_err();
    plant(None);
    failed
}

/// Runs a scene in `orders` orders of steps, the same ones each time: what they find they find again.
fn in_orders(scene: fn(), orders: usize) {
    shuttle::check_random_with_seed(scene, 1, orders);
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

/// Byte strings must be found, in order, while segments are merged.
fn byte_strings_are_whole() {
    let options = Options {
        shortcuts: 1,
        ..Options::default()
    };
    let mut map = HybridMap::<Vec<u8>, u64>::with_options(options).unwrap();
    let key = |i: u64| {
        format!(
            "com.mail@{}{:x}",
            i % 7,
            i.wrapping_mul(0x9E37_79B9) >> 8 & 0xFFFFF
        )
    };
    for i in 0..20_000u64 {
        map.insert(key(i).into_bytes(), i);
        let j = i.wrapping_mul(0x9E37_79B9) % (i + 1);
        assert_eq!(map.get(key(j).as_bytes()), Some(&j), "a value is another's");
    }
    assert!(map.keys().is_sorted(), "keys are out of order");
    for i in 0..20_000u64 {
        assert!(map.contains_key(key(i).as_bytes()), "a key is lost");
    }
}

/// The same while parts of a concurrent map are merged, by the same way.
fn shared_byte_strings_are_whole() {
    let options = Options {
        segment_len: 256,
        merging: Merging::Manual,
        ..Options::default()
    };
    let map = ConcurrentHybridMap::<Vec<u8>, u64>::with_options(options).unwrap();
    let key = |i: u64| {
        let x = i.wrapping_mul(0x9E37_79B9) >> 8 & 0xFFFFF;
        format!("com.mail@{}{x:x}", i % 7).into_bytes()
    };
    for i in 0..1200u64 {
        map.insert(&key(i), i);
        if i % 40 == 0 {
            map.merge_all();
        }
    }
    let keys: Vec<Vec<u8>> = map.keys().collect();
    assert!(keys.is_sorted(), "keys are out of order");
    for i in 0..1200u64 {
        assert_eq!(map.get(&key(i)[..]), Some(i), "a key is lost");
    }
}

/// The dynamic structure of a pair has what a `BTreeMap` has while keys with long shared beginnings
/// come and go.
#[cfg_attr(not(feature = "pairs"), allow(dead_code))]
fn structure_is_whole(pair: Pair) {
    let options = Options {
        pair,
        floor: 4,
        ..Options::dynamic_only()
    };
    let mut map = HybridMap::<Vec<u8>, u64>::with_options(options).unwrap();
    let mut model = BTreeMap::new();
    for i in 0..4000u64 {
        let x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        // Up to three keys behind each of 200 beginnings, so that layers come and go.
        let key = format!("{:07}{:07}{}", x % 20, x / 20 % 10, x / 200 % 3).into_bytes();
        if i % 2 == 1 {
            assert_eq!(map.remove(&key), model.remove(&key));
        } else {
            assert_eq!(map.insert(key.clone(), i), model.insert(key, i));
        }
        if i.is_multiple_of(100) {
            assert!(map.iter().eq(model.iter().map(|(k, v)| (k.clone(), v))));
        }
    }
}

/// What was used stays when all else is merged.
fn marks_are_kept(pair: Pair) {
    let options = Options {
        pair,
        floor: 4,
        what: What::Cold,
        merging: Merging::Manual,
        ..Options::default()
    };
    let key = |i: u64| format!("{:03}-{:07}", i % 10, i).into_bytes();
    let mut map = HybridMap::<u64, u64>::with_options(options.clone()).unwrap();
    let mut texts = HybridMap::<Vec<u8>, u64>::with_options(options).unwrap();
    for i in 0..1000 {
        assert_eq!((map.insert(i, i), texts.insert(key(i), i)), (None, None));
    }
    for i in (0..1000).step_by(4) {
        assert_eq!((map.get(&i), texts.get(&key(i))), (Some(&i), Some(&i)));
    }
    while map.stage_lens().0 > 250 && map.merge_step() {}
    while texts.stage_lens().0 > 250 && texts.merge_step() {}
    let lens = (map.stage_lens(), texts.stage_lens());
    assert_eq!(lens, ((250, 750), (250, 750)), "a mark is lost");
}

/// Entries are changed while merge steps split the segments before theirs.
fn places_are_whole(pair: Pair) {
    let options = Options {
        pair,
        floor: 4,
        segment_len: 16,
        trigger: Trigger::Constant(8),
        ..Options::default()
    };
    let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
    map.extend((0..2000).map(|i| (i * 10, 0)));
    for i in 0..2000u64 {
        let at = i.wrapping_mul(0x9E37_79B9) % 2000;
        map.insert(at * 10 + i % 9 + 1, i);
        assert!(map.update(&(i * 10), |val| *val += 1), "an entry is missed");
    }
    assert!((0..2000).all(|i| map.get(&(i * 10)) == Some(&1)));
}

/// In this variable a process is told that it is there for the faults alone: other tests in it would meet them.
const ALONE: &str = "TERRACE_MEM_FAULTS_ALONE";

#[test]
fn every_planted_fault_is_caught() {
    if std::env::var_os(ALONE).is_some() {
        return each_is_caught();
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "planted::every_planted_fault_is_caught",
            "--nocapture",
        ])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(said.contains("running 1 test"), "{said}");
    assert!(run.status.success(), "{said}{errors}");
}

fn each_is_caught() {
    let same: fn() = || in_orders(crate::scenes::same_keys, 3000);
    let split: fn() = || in_orders(crate::scenes::split, 3000);
    let fresh: fn() = || in_orders(crate::scenes::fresh_keys, 3000);
    let drained: fn() = || in_orders(crate::scenes::drained, 3000);
    let drained_first: fn() = || in_orders(crate::scenes::drained_first, 3000);
    let ends: fn() = || in_orders(crate::scenes::first_entries, 3000);
    let shared: fn() = || in_orders(shared_byte_strings_are_whole, 1);
    let cleared: fn() = || in_orders(crate::scenes::cleared, 3000);
    for (fault, check) in [
        (Fault::DroppedTombstone, same),
        (Fault::EarlyRemove, fresh),
        (Fault::BlindRemove, fresh),
        (Fault::BlindRemove, split),
        (Fault::UnmarkedLeave, drained),
        (Fault::UnmarkedLeave, drained_first),
        (Fault::LooseEnds, ends),
        (Fault::UnmarkedClear, cleared),
        (Fault::EarlySwap, filter_is_whole as fn()),
        (Fault::ShortSearch, byte_strings_are_whole),
        (Fault::StaleShare, byte_strings_are_whole),
        (Fault::StaleShare, shared),
        (Fault::StaleShortcut, byte_strings_are_whole),
        (Fault::LostMark, || marks_are_kept(Pair::Auto)),
        (Fault::StalePlace, || places_are_whole(Pair::Auto)),
        #[cfg(feature = "pairs")]
        (Fault::LostMark, || marks_are_kept(Pair::SkipList)),
        #[cfg(feature = "pairs")]
        (Fault::LostMark, || marks_are_kept(Pair::Masstree)),
        #[cfg(feature = "pairs")]
        (Fault::LostMark, || marks_are_kept(Pair::Art)),
        #[cfg(feature = "pairs")]
        (Fault::StalePlace, || places_are_whole(Pair::SkipList)),
        #[cfg(feature = "pairs")]
        (Fault::StalePlace, || places_are_whole(Pair::Art)),
        #[cfg(feature = "pairs")]
        (Fault::FreedTwice, || structure_is_whole(Pair::Art)),
        #[cfg(feature = "pairs")]
        (Fault::LeftLayer, || structure_is_whole(Pair::Masstree)),
    ] {
        check();
        assert!(caught(fault, check), "{fault:?} was not caught");
    }
}
