//! What is left of a map when a value, a key or the user's code panics.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use terrace_mem::{HybridMap, MAX_KEY_LEN, Options};

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

const N: u64 = if cfg!(miri) { 500 } else { 100_000 };

#[test]
fn what_came_before_a_panic_of_extend_is_in_the_map() {
    let key = |i: usize| format!("{i:06}").into_bytes();
    let long = |i| match i {
        5000 => vec![7; MAX_KEY_LEN + 1],
        i => key(i),
    };
    let panics = |i| match i {
        5000 => panic!("asked to panic"),
        i => key(i),
    };
    for key_of in [&long as &dyn Fn(usize) -> Vec<u8>, &panics] {
        for from in [0, 4000, 4999] {
            let mut map = HybridMap::<Vec<u8>, usize>::new();
            let all = (from..6000).map(|i| (key_of(i), i));
            assert!(catch_unwind(AssertUnwindSafe(|| map.extend(all))).is_err());
            assert!(map.iter().map(|(_, val)| *val).eq(from..5000));
            assert!((from..5000).all(|i| map.get(&key(i)) == Some(&i)));
        }
    }
}

#[test]
fn a_panic_of_retain_takes_one_entry_with_it() {
    let mut map: HybridMap<u64, u64> = (0..N).map(|i| (mix(i) >> 20, i)).collect();
    let mut model: BTreeMap<u64, u64> = (0..N).map(|i| (mix(i) >> 20, i)).collect();
    let keep = |_: &u64, val: &mut u64| {
        *val += 1;
        val.is_multiple_of(3)
    };
    map.retain(keep);
    model.retain(keep);
    assert!(map.iter().eq(model.iter().map(|(key, val)| (*key, val))));
    let victim = *model.keys().nth(model.len() / 2).unwrap();
    let act = || map.retain(|key, _| *key != victim || panic!("asked to panic"));
    assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    model.remove(&victim);
    assert!(map.iter().eq(model.iter().map(|(key, val)| (*key, val))));
    map.retain(|_, _| false);
    assert!(map.is_empty() && map.iter().next().is_none());
}

/// Its drop panics when told to.
struct Loud(#[allow(dead_code, reason = "gives the value a size")] u64);

static LOUD: AtomicBool = AtomicBool::new(false);

impl Drop for Loud {
    fn drop(&mut self) {
        assert!(
            !LOUD.load(Ordering::SeqCst) || std::thread::panicking(),
            "asked to panic"
        );
    }
}

#[test]
fn a_drop_that_panics_leaves_the_map_usable() {
    let options = Options {
        segment_len: 16,
        floor: 4,
        ..Options::default()
    };
    let mut map = HybridMap::<u64, Loud>::with_options(options).unwrap();
    (0..200).for_each(|i| assert!(map.insert(i, Loud(i)).is_none()));
    LOUD.store(true, Ordering::SeqCst);
    for i in (0..200).step_by(3) {
        let panics = |act: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(act)).is_err();
        assert!(panics(&mut || drop(map.insert(i, Loud(1)))));
        assert!(panics(&mut || drop(map.remove(&i))));
        assert!(map.get(&i).is_none());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| map.clear())).is_err());
    LOUD.store(false, Ordering::SeqCst);
    (0..200).for_each(|i| drop(map.insert(i, Loud(i))));
    assert_eq!(map.len(), 200);
    assert!(map.keys().eq(0..200));
}
