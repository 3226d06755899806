//! What the documentation promises beyond the behaviour of a `BTreeMap`.

#[path = "../support/like_std.rs"]
mod like_std;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "concurrent")]
use terrace_mem::ConcurrentHybridMap;
use terrace_mem::{
    HybridMap, HybridMultiMap, HybridSet, KeyTooLong, MAX_KEY_LEN, Merging, Options, OptionsError,
    Pair, Stage, Trigger, Updates, What,
};

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

const N: u64 = if cfg!(miri) { 500 } else { 100_000 };

fn manual() -> Options {
    Options {
        merging: Merging::Manual,
        ..Options::default()
    }
}

#[test]
fn a_key_that_is_too_long_is_refused_and_changes_nothing() {
    let long = vec![7u8; MAX_KEY_LEN + 1];
    let error = KeyTooLong {
        len: MAX_KEY_LEN + 1,
    };
    let mut map = HybridMap::<Vec<u8>, u8>::new();
    map.insert(long[1..].to_vec(), 1);
    assert_eq!(map.try_insert(long.clone(), 2), Err(error));
    assert!(catch_unwind(AssertUnwindSafe(|| map.insert(long.clone(), 2))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map.entry(long.clone())))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| map.extend([(long.clone(), 2)]))).is_err());
    assert_eq!(
        (map.len(), map.get(&long), map.get(&long[1..])),
        (1, None, Some(&1))
    );
    map.merge_all();
    assert_eq!(map.get(&long[1..]), Some(&1));

    #[cfg(feature = "concurrent")]
    {
        let map = ConcurrentHybridMap::<Vec<u8>, u8>::with_options(manual()).unwrap();
        assert_eq!(map.try_insert(&long, 2), Err(error));
        assert!(map.is_empty());
    }
    let mut map = HybridMultiMap::<Vec<u8>, u8>::new();
    assert_eq!(map.try_insert(long, 2), Err(error));
    assert!(map.is_empty());
    assert!(error.to_string().contains("65536"));
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let with = |options| HybridMap::<u64, u8>::with_options(options).err();
    let front = Options {
        stage: Stage::FrontCoded,
        ..Options::default()
    };
    assert_eq!(
        with(front.clone()),
        Some(OptionsError::StageForKeys(Stage::FrontCoded))
    );
    assert!(HybridMap::<String, u8>::with_options(front).is_ok());
    let fano = Options {
        stage: Stage::EliasFano,
        ..Options::default()
    };
    assert!(HybridMap::<String, u8>::with_options(fano).is_err());
    for n in [0, 15, 8193] {
        let options = Options {
            segment_len: n,
            ..Options::default()
        };
        assert_eq!(with(options), Some(OptionsError::SegmentLen(n)));
    }
    for trigger in [Trigger::Ratio(0), Trigger::Constant(0)] {
        let options = Options {
            trigger,
            ..Options::default()
        };
        assert_eq!(with(options), Some(OptionsError::ZeroTrigger));
    }
}

#[cfg(feature = "concurrent")]
#[test]
fn options_that_a_concurrent_map_does_not_have_are_refused() {
    let usual = Options::default;
    let field = |options| match ConcurrentHybridMap::<u64, u8>::with_options(options).err() {
        Some(OptionsError::NoEffect(field)) => field,
        other => panic!("{other:?}"),
    };
    let cold = What::Cold;
    assert_eq!(
        field(Options {
            what: cold,
            ..usual()
        }),
        "what"
    );
    let updates = Updates::InPlace;
    assert_eq!(field(Options { updates, ..usual() }), "updates");
    let symbols = true;
    assert_eq!(field(Options { symbols, ..usual() }), "symbols");
    assert_eq!(
        field(Options {
            floor: 9,
            ..usual()
        }),
        "floor"
    );
    let filter = false;
    assert_eq!(field(Options { filter, ..usual() }), "filter");
    assert!(
        OptionsError::NoEffect("what")
            .to_string()
            .contains("`what`")
    );
}

#[test]
fn sorted_input_goes_straight_into_the_static_stage() {
    let mut map: HybridMap<u64, u64> = (0..N).map(|i| (i, i)).collect();
    assert_eq!(map.stage_lens(), (0, N as usize));
    map.extend((N..N * 2).map(|i| (i, i)));
    assert_eq!(map.stage_lens(), (0, N as usize * 2));
    if !cfg!(miri) {
        assert!(map.memory_usage().total() < N as usize * 2 * 17 / 2);
    }
    // What comes out of order is inserted; what comes twice replaces.
    map.extend([(N * 2, 1), (N * 2, 2), (5, 3)]);
    assert_eq!((map.get(&(N * 2)), map.get(&5)), (Some(&2), Some(&3)));
    assert_eq!(map.len() as u64, N * 2 + 1);
}

/// Gives the pairs of its range, then `None`, and then one more.
struct GoesOn(std::ops::Range<u64>, u32);

impl Iterator for GoesOn {
    type Item = (u64, u64);
    fn next(&mut self) -> Option<(u64, u64)> {
        match self.0.next() {
            Some(i) => Some((i, i)),
            None => {
                self.1 += 1;
                (self.1 == 2).then_some((u64::MAX, 0))
            }
        }
    }
}

#[test]
fn an_iterator_that_has_ended_is_not_asked_again() {
    let goes_on = || GoesOn(0..100, 0);
    let mut map = HybridMap::<u64, u64>::new();
    map.extend(goes_on());
    assert_eq!(map.len(), 100);
    map.extend(goes_on());
    assert_eq!(map.len(), 100);
    let mut map = HybridMap::<u64, u64>::with_options(manual()).unwrap();
    map.extend(goes_on());
    assert_eq!(map.len(), 100);
    let set: HybridSet<u64> = goes_on().map(|entry| entry.0).collect();
    assert_eq!(set.len(), 100);
    #[cfg(feature = "concurrent")]
    {
        let map: ConcurrentHybridMap<u64, u64> = goes_on().collect();
        assert_eq!(map.len(), 100);
        let mut map = ConcurrentHybridMap::<u64, u64>::new();
        map.insert(&5, 5);
        map.extend(goes_on());
        assert_eq!(map.len(), 100);
    }
}

#[test]
fn a_map_that_merges_when_asked_leaves_sorted_entries_where_they_are() {
    let n = if cfg!(miri) { 100 } else { 5000 };
    for &pair in Pair::ALL {
        let options = Options {
            pair,
            segment_len: 16,
            ..Options::dynamic_only()
        };
        let new = || HybridMap::<u64, u64>::with_options(options.clone()).unwrap();
        let mut map = new();
        map.extend((0..n as u64).map(|i| (i, i)));
        assert_eq!(map.stage_lens(), (n, 0), "{pair:?}");
        assert_eq!(map.clone().stage_lens(), (n, 0), "{pair:?}");
        let mut other = new();
        other.append(&mut map);
        assert_eq!(other.stage_lens(), (n, 0), "{pair:?}");
        other.retain(|key, _| key % 2 == 0);
        assert_eq!(other.stage_lens(), (n / 2, 0), "{pair:?}");
        let behind = other.split_off(&(n as u64 / 2));
        assert_eq!(other.stage_lens(), (n / 4, 0), "{pair:?}");
        assert_eq!(behind.stage_lens(), (n / 4, 0), "{pair:?}");
        // What was asked for stays.
        other.merge_all();
        assert_eq!(other.clone().stage_lens(), (0, n / 4), "{pair:?}");
        other.retain(|_, _| true);
        assert_eq!(other.stage_lens(), (0, n / 4), "{pair:?}");
        let behind = other.split_off(&0);
        assert_eq!(behind.stage_lens(), (0, n / 4), "{pair:?}");
        assert!(behind.keys().eq((0..n as u64 / 2).step_by(2)));
    }
}

#[test]
fn the_longest_keys_are_those_of_a_btree_map_in_every_compact_form() {
    let n = if cfg!(miri) { 4 } else { 24 };
    let long = |fill: u8, last: u8| {
        let mut key = vec![fill; MAX_KEY_LEN];
        key[MAX_KEY_LEN - 1] = last;
        key
    };
    // They share all but the last byte, or are beginnings of each other, or are all zeros.
    let same = (0..n).map(|i| long(7, i));
    let zeros = (0..n).map(|i| vec![0; MAX_KEY_LEN - usize::from(i)]);
    let parts = (0..n).map(|i| {
        let mut key = long(9, 9);
        key[usize::from(i) * 2500] = 8;
        key
    });
    let keys = same.chain(zeros).chain(parts).chain([vec![]]);
    let model: BTreeMap<Vec<u8>, usize> = keys.zip(0..).collect();
    for &pair in Pair::ALL {
        let options = Options {
            pair,
            segment_len: 16,
            ..Options::dynamic_only()
        };
        let mut map = HybridMap::<Vec<u8>, usize>::with_options(options).unwrap();
        // In two halves, so that the second is merged into what is there.
        for half in 0..2 {
            for (key, &val) in model.iter().filter(|entry| entry.1 % 2 == half) {
                assert_eq!(map.insert(key.clone(), val), None);
            }
            map.merge_all();
        }
        let same = |map: &HybridMap<Vec<u8>, usize>, model: &BTreeMap<Vec<u8>, usize>| {
            assert_eq!(map.stage_lens(), (0, model.len()), "{pair:?}");
            let theirs = || model.iter().map(|(key, val)| (key.clone(), val));
            assert!(map.iter().eq(theirs()), "{pair:?}");
            assert!(map.iter().rev().eq(theirs().rev()), "{pair:?}");
        };
        same(&map, &model);
        for (key, val) in &model {
            assert_eq!(map.get(key), Some(val), "{pair:?}");
            assert!(map.range::<Vec<u8>, _>(key..).next() == Some((key.clone(), val)));
            let before = map.range::<Vec<u8>, _>(..key).next_back();
            let theirs = model.range::<Vec<u8>, _>(..key).next_back();
            assert!(before == theirs.map(|(key, val)| (key.clone(), val)));
            // Not there: one that is a byte shorter, one that is greater in the last.
            let mut near = key.clone();
            near.pop();
            assert_eq!(map.get(&near), model.get(&near));
            near.push(250);
            assert_eq!(map.get(&near), model.get(&near));
            let next = model.range::<Vec<u8>, _>(&near..).next();
            assert!(
                map.range::<Vec<u8>, _>(&near..).next()
                    == next.map(|(key, val)| (key.clone(), val))
            );
        }
        let gone: Vec<Vec<u8>> = model.keys().step_by(3).cloned().collect();
        let mut less = model.clone();
        for key in &gone {
            assert_eq!(map.remove(key), less.remove(key), "{pair:?}");
        }
        map.merge_all();
        same(&map, &less);
    }
}

#[test]
fn popping_from_both_ends_passes_deleted_entries_of_any_number() {
    let n = if cfg!(miri) { 300 } else { 5000 };
    for cut in [0, 1, 8, 9, 70, n / 2 - 20] {
        let mut map = HybridMap::<String, u64>::with_options(manual()).unwrap();
        map.extend((0..n).map(|i| (format!("{i:06}"), i)));
        map.merge_all();
        // Two live entries beside each gap.
        for i in (2..2 + cut).chain(n - 2 - cut..n - 2) {
            assert_eq!(map.remove(&format!("{i:06}")), Some(i));
        }
        for i in [0, 1, 2 + cut, 3 + cut] {
            assert_eq!(map.pop_first().map(|entry| entry.1), Some(i));
            assert_eq!(map.pop_last().map(|entry| entry.1), Some(n - 1 - i));
        }
        assert!(map.values().copied().eq(4 + cut..n - 4 - cut));
        assert!(map.values().rev().copied().eq((4 + cut..n - 4 - cut).rev()));
    }
}

/// Nodes that a walk over deleted entries decompresses come into the cache, so its bytes tell of it.
#[cfg(feature = "compressed")]
#[test]
#[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
fn the_ends_of_a_map_are_found_without_a_walk_over_deleted_entries() {
    let n = 4000;
    for first in [true, false] {
        let options = Options {
            stage: Stage::Compressed,
            cache_nodes: 8,
            ..manual()
        };
        let mut map = HybridMap::<String, u64>::with_options(options).unwrap();
        // Long keys where entries are deleted, short ones elsewhere.
        let gone = if first { 0..1920 } else { n - 1920..n };
        let key = |i: u64| match gone.contains(&i) {
            true => format!("{i:06}{}", "x".repeat(1000)),
            false => format!("{i:06}"),
        };
        map.extend((0..n).map(|i| (key(i), i)));
        map.merge_all();
        assert!(gone.clone().all(|i| map.remove(&key(i)) == Some(i)));
        let live = (0..n).filter(|i| !gone.contains(i));
        assert!(live.clone().all(|i| map.contains_key(&key(i))));
        let before = map.memory_usage().cache;
        let found = if first { map.first() } else { map.last() };
        let want = if first { live.min() } else { live.max() };
        assert_eq!(found.map(|entry| *entry.1), want);
        let after = map.memory_usage().cache;
        // A node or two at the border have long keys as well.
        assert!(after < before + 3 * 64 * 1010, "{after} after {before}");
    }
}

#[test]
fn many_short_extensions_leave_no_more_bytes_than_inserts() {
    let mut map: HybridMap<u64, u64> = (0..N).map(|i| (i, i)).collect();
    let mut inserted: HybridMap<u64, u64> = (0..N).map(|i| (i, i)).collect();
    for i in N..N * 2 {
        map.extend([(i, i)]);
        inserted.insert(i, i);
    }
    assert!(map.keys().eq(0..N * 2) && map.values().copied().eq(0..N * 2));
    let bytes = |map: &HybridMap<u64, u64>| map.memory_usage().total();
    assert!(
        bytes(&map) <= bytes(&inserted) * 2,
        "{:?}",
        map.memory_usage()
    );
}

#[test]
fn entries_that_are_appended_behind_deleted_ones_do_not_hide_those_before() {
    let n = if cfg!(miri) { 320 } else { 5120 };
    let options = Options {
        segment_len: n as usize * 4 / 5,
        ..Options::default()
    };
    // As far as the last segment is still there, and where it is gone as a whole.
    for gone in [n / 40, n / 4] {
        let mut map = HybridMap::<(u32, u64), u64>::with_options(options.clone()).unwrap();
        map.extend((1..=n).map(|i| ((1, i), i)));
        let rest = n - gone;
        (rest + 1..=n).for_each(|i| assert_eq!(map.remove(&(1, i)), Some(i)));
        map.extend((rest + 1..=rest + n).map(|i| ((1, i), i)));
        for i in 1..=rest + n {
            assert_eq!(map.get(&(1, i)), Some(&i));
        }
        assert!(map.keys().eq((1..=rest + n).map(|i| (1, i))));
        assert_eq!(map.len() as u64, rest + n);
    }
}

#[test]
fn random_integers_take_no_more_bytes_than_promised() {
    let mut map = HybridMap::<u64, u64>::new();
    for i in 0..N {
        map.insert(mix(i), i);
        if i % 1000 == 999 && !cfg!(miri) {
            let (dynamic, fixed) = map.stage_lens();
            assert!(
                dynamic <= 1024.max(fixed / 10 + 100),
                "{dynamic} beside {fixed}"
            );
        }
    }
    if !cfg!(miri) {
        assert!(map.memory_usage().total() as u64 * 10 < N * 163);
        assert_eq!(map.stages()[0].0, Stage::Buckets);
    }
    (0..N).for_each(|i| assert_eq!(map.get(&mix(i)), Some(&i)));
    // Memory goes back when entries go.
    (0..N).for_each(|i| assert_eq!(map.remove(&mix(i)), Some(i)));
    let usage = map.memory_usage();
    assert!(
        usage.dynamic + usage.static_keys + usage.static_values < 1 << 20,
        "{usage:?}"
    );
}

#[test]
fn a_step_moves_a_segment_at_most() {
    let mut map = HybridMap::<u64, u64>::with_options(manual()).unwrap();
    for i in 0..N {
        map.insert(if i.is_multiple_of(2) { mix(i) } else { i }, i);
    }
    let mut before = map.stage_lens().0;
    while map.merge_step() {
        let now = map.stage_lens().0;
        assert!(before - now <= 4096);
        before = now;
    }
    assert_eq!(map.stage_lens(), (0, N as usize));
}

#[test]
fn a_step_moves_few_long_keys() {
    let mut map = HybridMap::<String, u64>::with_options(manual()).unwrap();
    let n = if cfg!(miri) { 60 } else { 500 };
    let key = |i: u64| format!("{:020}{}", mix(i), "x".repeat(16_000));
    (0..n).for_each(|i| assert_eq!(map.insert(key(i), i), None));
    let mut before = map.stage_lens().0;
    while map.merge_step() {
        let now = map.stage_lens().0;
        // Of 256 KiB, and the one that makes them full.
        assert!(before - now <= 17, "{} at once", before - now);
        before = now;
    }
    assert_eq!(map.stage_lens(), (0, n as usize));
    assert!((0..n).all(|i| map.get(&key(i)) == Some(&i)));
}

#[test]
fn merge_cold_keeps_what_was_used() {
    let options = Options {
        what: What::Cold,
        ..manual()
    };
    let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
    (0..300).for_each(|i| assert_eq!(map.insert(i, i), None));
    (100..130).for_each(|i| assert_eq!(map.get(&i), Some(&i)));
    map.merge_step();
    assert_eq!(map.stage_lens(), (30, 270));
    // What was not used again since is cold.
    map.merge_step();
    assert_eq!(map.stage_lens(), (0, 300));
    (0..300).for_each(|i| assert_eq!(map.get(&i), Some(&i)));
}

#[test]
fn a_blocking_merge_keeps_what_was_used() {
    let options = Options {
        what: What::Cold,
        merging: Merging::Blocking,
        trigger: Trigger::Constant(200),
        segment_len: 16,
        ..Options::default()
    };
    let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
    // More entries are hot than a range is asked for at a time.
    (0..200).for_each(|i| assert_eq!(map.insert(i, i), None));
    assert!((20..120).all(|i| map.get(&i) == Some(&i)));
    // The change that merges stays as well.
    assert_eq!(map.insert(200, 200), None);
    assert_eq!(map.stage_lens(), (101, 100));
    // What was not used again since is cold.
    (201..300).for_each(|i| assert_eq!(map.insert(i, i), None));
    assert_eq!(map.stage_lens(), (200, 100));
    assert_eq!(map.remove(&7), Some(7));
    assert_eq!(map.stage_lens(), (0, 299));
}

#[test]
fn an_update_goes_where_the_options_say() {
    for (updates, lens) in [(Updates::Promote, (1, 99)), (Updates::InPlace, (0, 100))] {
        let options = Options {
            updates,
            ..manual()
        };
        let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
        map.extend((0..100).map(|i| (i, i)));
        map.merge_all();
        assert_eq!(map.insert(7, 70), Some(7));
        assert!(map.update(&7, |val| *val += 1));
        assert_eq!((map.get(&7), map.stage_lens()), (Some(&71), lens));
    }
}

#[test]
fn deletes_move_no_entries_that_the_options_keep() {
    let cold = Options {
        what: What::Cold,
        trigger: Trigger::Constant(1000),
        ..Options::default()
    };
    for options in [manual(), cold] {
        let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
        map.extend((0..400).map(|i| (i * 2, i)));
        map.merge_all();
        for i in 0..50 {
            assert_eq!(map.insert(i * 2 + 1, i), None);
        }
        // Enough that the segment is rebuilt, and what is new is in use all along.
        for i in 0..300 {
            assert!((0..50).all(|i| map.get(&(i * 2 + 1)) == Some(&i)));
            assert_eq!(map.remove(&(i * 2)), Some(i));
        }
        assert_eq!(map.stage_lens(), (50, 100));
        assert_eq!(map.len(), map.iter().count());
    }
}

#[test]
fn the_greatest_ratio_is_always_exceeded() {
    let options = Options {
        trigger: Trigger::Ratio(1 << (usize::BITS - 1)),
        floor: 2,
        ..Options::default()
    };
    let mut map = HybridMap::<u64, u64>::with_options(options).unwrap();
    (0..100).for_each(|i| assert_eq!(map.insert(i, i), None));
    // Two entries that came are merged by the change that follows.
    assert_eq!(map.stage_lens(), (2, 98));
}

#[test]
fn segments_of_long_keys_are_short_also_when_they_are_loaded_in_order() {
    let n = if cfg!(miri) { 40 } else { 1000 };
    let options = Options {
        segment_len: n,
        ..Options::default()
    };
    let mut map = HybridMap::<String, usize>::with_options(options).unwrap();
    let key = |i: usize| format!("{}{i:06}", "x".repeat(4000));
    map.extend((0..n).map(|i| (key(i), i)));
    assert_eq!(map.stage_lens(), (0, n));
    assert!((0..n).all(|i| map.get(&key(i)) == Some(&i)));
    // Of 16 entries each, two cache lines for the header of each.
    assert!(map.memory_usage().directory > n / 16 * 128);
}

#[test]
fn updates_alone_leave_most_entries_in_the_static_stage() {
    let change: [fn(&mut HybridMap<u64, u64>, u64); 3] = [
        |map, i| assert!(map.update(&i, |val| *val += 1)),
        |map, i| *map.get_mut(&i).unwrap() += 1,
        |map, i| *map.entry(i).or_insert(0) += 1,
    ];
    for change in change {
        let mut map: HybridMap<u64, u64> = (0..N).map(|i| (i, i)).collect();
        map.merge_all();
        for i in 0..N {
            change(&mut map, mix(i) % N);
            let (dynamic, fixed) = map.stage_lens();
            assert!(
                dynamic <= 1024.max(fixed / 10 + 100),
                "{dynamic} beside {fixed}"
            );
        }
        assert_eq!(map.values().sum::<u64>(), N * (N - 1) / 2 + N);
    }
}

#[cfg(feature = "compressed")]
#[test]
fn compressed_leaves_are_cached() {
    let options = Options {
        stage: Stage::Compressed,
        cache_nodes: 8,
        ..manual()
    };
    let mut map = HybridMap::<String, u64>::with_options(options).unwrap();
    map.extend((0..5000).map(|i| (format!("https://example.org/page/{i:08}"), i)));
    map.merge_all();
    assert_eq!(map.get("https://example.org/page/00000077"), Some(&77));
    (0..5000).for_each(|i| assert!(map.contains_key(&format!("https://example.org/page/{i:08}"))));
    let usage = map.memory_usage();
    assert!(
        usage.cache > 8 * 64 * 33 && usage.cache < 10 * 64 * 40,
        "{usage:?}"
    );
    assert!(usage.static_keys < 5000 * 12, "{usage:?}");
}

#[test]
fn keys_that_are_kept_aside_are_counted() {
    let key = |i: u32| format!("{}{i:02}", "x".repeat(50_000));
    let mut map = HybridMap::<String, u32>::with_options(manual()).unwrap();
    (0..200).for_each(|i| assert_eq!(map.insert(format!("{i:04}"), i), None));
    assert_eq!(map.insert(key(1), 1), None);
    // The greatest key that the filter has met.
    assert!(map.memory_usage().filter > 50_000);
    map.merge_all();
    #[cfg(feature = "concurrent")]
    {
        let map = ConcurrentHybridMap::<String, u32>::with_options(manual()).unwrap();
        (0..60).for_each(|i| assert_eq!(map.insert(&key(i), i), None));
        map.merge_all();
        // The bounds of two parts at least: once to find them, once with each of them.
        assert!(map.memory_usage().directory > 2 * 2 * 50_000);
    }
}

#[test]
fn maps_and_entries_can_be_shown() {
    let mut map = HybridMap::from([(1u64, 'a'), (2, 'b')]);
    let of_std = BTreeMap::from([(1u64, 'a'), (2, 'b')]);
    assert_eq!(format!("{map:?}"), format!("{of_std:?}"));
    let entry = format!("{:?}", map.entry(1));
    assert_eq!(entry, "Entry(OccupiedEntry { key: 1, value: 'a' })");
    assert_eq!(format!("{:?}", map.entry(3)), "Entry(VacantEntry(3))");
    assert_eq!(format!("{:?}", map.keys()), "Keys { .. }");
    assert_eq!(format!("{:?}", map.into_iter()), "IntoIter { .. }");
    let multi: HybridMultiMap<u64, char> = [(1, 'a'), (1, 'b')].into_iter().collect();
    assert_eq!(format!("{multi:?}"), "{1: ['a', 'b']}");
    #[cfg(feature = "concurrent")]
    {
        let shared: ConcurrentHybridMap<u64, char> = of_std.clone().into_iter().collect();
        assert_eq!(format!("{shared:?}"), format!("{of_std:?}"));
    }
}

#[test]
fn maps_go_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<HybridMap<u64, String>>();
    check::<HybridMap<String, u64>>();
    check::<HybridMultiMap<(u8, String), u64>>();
    #[cfg(feature = "concurrent")]
    check::<ConcurrentHybridMap<String, u64>>();
}

/// As many slots as the option says, whichever way the entries came; and they go with them.
#[test]
fn shortcuts_take_what_the_option_says() {
    let n = if cfg!(miri) { 600 } else { 20_000u32 };
    let key = |i: u32| format!("key {:08x}", i.wrapping_mul(0x9E37_79B9));
    for each in [0, 1, 3, 40, usize::MAX] {
        let options = Options {
            shortcuts: each,
            ..Options::default()
        };
        let mut sorted: Vec<String> = (0..n).map(key).collect();
        sorted.sort();
        let mut bulk = HybridMap::<String, u32>::with_options(options.clone()).unwrap();
        bulk.extend(sorted.into_iter().zip(0..));
        let mut map = HybridMap::<String, u32>::with_options(options).unwrap();
        for i in 0..n {
            map.insert(key(i), i);
            let j = i.wrapping_mul(2_654_435_761) % (i + 1);
            assert_eq!(map.get(&key(j)), Some(&j));
        }
        map.merge_all();
        for map in [&bulk, &map] {
            let slots = map.memory_usage().shortcuts / 64;
            let worth = (n as usize).checked_div(each).unwrap_or(0);
            let least = worth.saturating_sub(256);
            assert!(
                (least..=worth + worth / 30).contains(&slots),
                "{slots} by {each}"
            );
        }
        (0..n).for_each(|i| assert!(map.remove(&key(i)).is_some()));
        map.merge_all();
        assert_eq!(map.get(&key(0)), None);
        assert!(map.memory_usage().shortcuts <= 1 << 15);
    }
}
