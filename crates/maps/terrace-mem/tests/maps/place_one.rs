//! Maps for one thread over two kinds of memory: answers are those of an ordered map whatever lies
//! where, bytes stay within the limit, and what is hot comes to be fast.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use terrace_mem::place::{Memory, Placement, Steps, Touch, Watch};
use terrace_mem::{
    HybridMap, HybridMultiMap, HybridSet, IndexKey, Merging, Options, Stage, Trigger, Updates,
};

fn random(x: &mut u64) -> u64 {
    *x = x
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *x >> 33
}

fn heaps(bytes: u64) -> Placement {
    Placement::two(Memory::Heap, Memory::Heap).fast_bytes(bytes)
}

fn small(merging: Merging, updates: Updates) -> Options {
    Options {
        segment_len: 256,
        trigger: Trigger::Constant(60),
        floor: 16,
        merging,
        updates,
        ..Options::default()
    }
}

/// Lookups that waited for slow memory.
#[derive(Debug, Default)]
struct Waits(AtomicU64);

impl Watch for Waits {
    fn touch(&self, touch: Touch) {
        if matches!(touch, Touch::Segment { slow: true, .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Plants the fault that the test below names for this process.
#[cfg(feature = "planted-faults")]
fn plant() {
    use terrace_mem::Fault;
    let name = std::env::var(FAULT).unwrap_or_default();
    let all = [Fault::KeptCopy, Fault::OldReturn];
    terrace_mem::plant(all.into_iter().find(|fault| format!("{fault:?}") == name));
}

#[cfg(feature = "planted-faults")]
const FAULT: &str = "TERRACE_MEM_FAULT";

#[cfg(not(feature = "planted-faults"))]
fn plant() {}

/// In a process of its own: it is planted in all of it.
#[cfg(feature = "planted-faults")]
#[test]
fn a_copy_that_stays_when_its_value_changes_is_caught() {
    let passes = |fault: &str| {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "place_one::integers_are_those_of_an_ordered_map"])
            .env(FAULT, fault)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(said.contains("running 1 test"), "{said}");
        run.status.success()
    };
    assert!(passes("") && !passes("KeptCopy") && !passes("OldReturn"));
}

/// What was written lies in the dynamic stage, and is looked for there first; when it is merged it has the copies
/// that it had before.
#[test]
fn hot_entries_that_are_written_do_not_wait() {
    let waits = Arc::new(Waits::default());
    let options = Options {
        merging: Merging::Manual,
        segment_len: 256,
        ..Options::default()
    };
    let mut options = options.placement(heaps(60_000).manual()).unwrap();
    options.memories = options.memories.watched_by(Arc::clone(&waits) as _);
    let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
    map.extend((0..10_000).map(|i| (i * 1_000_003, i)));
    map.merge_all();
    let hot = || (0..50u64).map(|i| i * 200 * 1_000_003);
    let look = |map: &HybridMap<u64, u64>, of: &dyn Fn(u64) -> u64| {
        let before = waits.0.load(Ordering::Relaxed);
        for (i, key) in hot().enumerate() {
            assert_eq!(map.get(&key), Some(&of(i as u64)));
        }
        waits.0.load(Ordering::Relaxed) - before
    };
    for _ in 0..200 {
        look(&map, &|i| i * 200);
        map.place_step(Steps::nodes(256));
    }
    assert!(look(&map, &|i| i * 200) <= 2, "{}", map.placement());
    let slow = map.placement().slow_segments;
    assert!(slow > 70_000, "{}", map.placement());
    for (i, key) in hot().enumerate() {
        map.insert(key, i as u64);
    }
    assert_eq!(look(&map, &|i| i), 0);
    map.merge_all();
    assert_eq!(map.stage_lens().0, 0);
    assert!(look(&map, &|i| i) <= 2, "{}", map.placement());
}

/// All operations beside a model, with steps between them. Twenty keys are looked up most, so that
/// copies of them come, are erased and come again.
fn like_a_model<K, V>(
    key: impl Fn(u64) -> K,
    val: impl Fn(u64) -> V,
    make: impl Fn(Options) -> HybridMap<K, V>,
    options: Options,
    fast: u64,
) -> u64
where
    K: IndexKey + Ord + Clone + Debug,
    V: Clone + PartialEq + Debug,
{
    plant();
    let mut map = make(options.placement(heaps(fast).manual()).unwrap());
    let n = if cfg!(miri) { 200 } else { 20_000 };
    map.extend((0..n).map(|i| (key(i), val(i))));
    let mut model: BTreeMap<K, V> = (0..n).map(|i| (key(i), val(i))).collect();
    let mut x = 5;
    for round in 0..if cfg!(miri) { 300 } else { 12_000u64 } {
        let hot = key(random(&mut x) % 20 * (n / 20));
        let any = key(random(&mut x) % n);
        match random(&mut x) % 32 {
            0..4 => assert_eq!(
                map.insert(any.clone(), val(round)),
                model.insert(any, val(round))
            ),
            4 => assert_eq!(
                map.insert(hot.clone(), val(round)),
                model.insert(hot, val(round))
            ),
            5 => {
                let there = map.update(&hot, |known| *known = val(round));
                let known = model.get_mut(&hot).map(|known| *known = val(round));
                assert_eq!(there, known.is_some());
            }
            6 => {
                map.range_mut::<K, _>(hot.clone()..)
                    .take(3)
                    .for_each(|(_, known)| *known = val(round));
                model
                    .range_mut(hot..)
                    .take(3)
                    .for_each(|(_, known)| *known = val(round));
            }
            7 | 8 => assert_eq!(map.remove(&any), model.remove(&any)),
            9 => {
                map.entry(hot.clone())
                    .and_modify(|known| *known = val(round))
                    .or_insert(val(7));
                model
                    .entry(hot)
                    .and_modify(|known| *known = val(round))
                    .or_insert(val(7));
            }
            10 => assert_eq!(map.get(&any), model.get(&any)),
            _ => assert_eq!(map.get(&hot), model.get(&hot)),
        }
        for _ in 0..6 {
            let hot = key(random(&mut x) % 20 * (n / 20));
            assert_eq!(map.get(&hot), model.get(&hot));
        }
        if round % 3 == 0 {
            map.place_step(Steps::nodes(1 + round as usize % 7));
        }
        if round % 1000 == 999 {
            assert!(map.iter().eq(model.iter().map(|(k, v)| (k.clone(), v))));
            let place = map.placement();
            assert_eq!(
                place.fast_segments + place.slow_segments > 0,
                !map.stages().is_empty()
            );
            assert_eq!(place.copies, map.memory_usage().copies as u64);
            match round / 1000 {
                3 => map = map.clone(),
                5 => {
                    let mut behind = map.split_off(&key(n / 2));
                    assert!(behind.len() > 100 && behind.placement().memories.len() == 2);
                    map.append(&mut behind);
                }
                7 => {
                    map.retain(|_, known| *known != val(7));
                    model.retain(|_, known| *known != val(7));
                }
                8 => {
                    map.iter_mut().for_each(|(_, known)| *known = val(8));
                    model.values_mut().for_each(|known| *known = val(8));
                }
                9 => map.merge_all(),
                _ => {}
            }
        }
    }
    assert!(map.iter().eq(model.iter().map(|(k, v)| (k.clone(), v))));
    let copied = map.placement().noted[2];
    map.clear();
    let place = map.placement();
    assert_eq!(
        (place.fast_segments, place.slow_segments, place.copies),
        (0, 0, 0)
    );
    assert!(map.insert(key(3), val(3)).is_none() && map.get(&key(3)) == Some(&val(3)));
    copied
}

const WAYS: [(Merging, Updates); 3] = [
    (Merging::Incremental, Updates::Promote),
    (Merging::Blocking, Updates::InPlace),
    (Merging::Blocking, Updates::Promote),
];

#[test]
fn integers_are_those_of_an_ordered_map() {
    let mut copied = 0;
    for fast in [0, 60_000, 120_000, 4 << 20] {
        for (merging, updates) in WAYS {
            let made = |options| HybridMap::with_copies(options).unwrap();
            copied += like_a_model(|k| k * 977, |v| v, made, small(merging, updates), fast);
        }
    }
    let made = |options| HybridMap::with_copies(options).unwrap();
    let options = small(Merging::Incremental, Updates::Promote);
    copied += like_a_model(|k| k << 30, |v| v as u128, made, options, 120_000);
    assert!(
        copied > 1000 || cfg!(miri),
        "{copied} noted lookups by copies"
    );
}

#[test]
fn byte_strings_are_those_of_an_ordered_map() {
    let key = |k: u64| {
        format!("{:x}{}", k * 7919 % 16, "long".repeat((k % 13) as usize)) + &k.to_string()
    };
    for fast in [0, 120_000, 4 << 20] {
        let made = |options| HybridMap::with_copies(options).unwrap();
        like_a_model(
            key,
            |v| v,
            made,
            small(Merging::Incremental, Updates::Promote),
            fast,
        );
    }
}

#[test]
fn values_that_own_memory_are_those_of_an_ordered_map() {
    let val = |v: u64| format!("value {v}");
    for fast in [0, 120_000] {
        let made = |options| HybridMap::with_options(options).unwrap();
        like_a_model(
            |k| k * 977,
            val,
            made,
            small(Merging::Blocking, Updates::InPlace),
            fast,
        );
    }
}

/// A tenth of the bytes are fast; nine lookups in ten are of few keys, anywhere. Then others are hot.
#[test]
fn single_hot_entries_come_to_be_fast_and_others_take_their_place() {
    let waits = Arc::new(Waits::default());
    let mut options = Options::default()
        .placement(heaps(100_000).manual())
        .unwrap();
    options.memories = options.memories.watched_by(Arc::clone(&waits) as _);
    let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
    let n = 50_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let mut x = 9;
    for shift in [0, 17] {
        let mut last = 0;
        for _ in 0..12 {
            let before = waits.0.load(Ordering::Relaxed);
            for round in 0..10_000 {
                let i = match random(&mut x) % 10 {
                    0 => random(&mut x) % n,
                    _ => random(&mut x) % 400 * 101 + shift,
                };
                assert_eq!(map.get(&(i * 1_000_003)), Some(&i));
                if round % 64 == 0 {
                    map.place_step(Steps::nodes(256));
                }
            }
            last = waits.0.load(Ordering::Relaxed) - before;
        }
        let place = map.placement();
        assert!(last < 2000, "{last} of 10,000 waited: {place}");
        assert!(place.copies > 8_000 && place.fast() <= 100_000, "{place}");
        assert!(place.peak <= 100_000, "{} at most: {place}", place.peak);
    }
}

/// A run of neighbours is hot: whole segments go to fast memory, and come back when it moves. Changes
/// of the map alone make steps.
#[test]
fn hot_segments_come_to_be_fast_and_cold_ones_leave() {
    let waits = Arc::new(Waits::default());
    let options = Options {
        segment_len: 512,
        updates: Updates::InPlace,
        ..Options::default()
    };
    let mut options = options.placement(heaps(160_000)).unwrap();
    options.memories = options.memories.watched_by(Arc::clone(&waits) as _);
    // Values that are neither `Clone` nor words.
    #[derive(Debug, PartialEq)]
    struct Own(u64);
    let mut map = HybridMap::<u64, Own>::with_options(options).unwrap();
    let n = 50_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, Own(i))));
    let mut x = 9;
    for first in [1000, 30_000] {
        let mut last = 0;
        for _ in 0..40 {
            let before = waits.0.load(Ordering::Relaxed);
            for _ in 0..10_000 {
                let i = match random(&mut x) % 10 {
                    0 => random(&mut x) % n,
                    _ => first + random(&mut x) % 4000,
                };
                assert_eq!(map.get(&(i * 1_000_003)), Some(&Own(i)));
                if i % 8 == 0 {
                    assert_eq!(map.insert(i * 1_000_003, Own(i)), Some(Own(i)));
                }
            }
            let place = map.placement();
            assert!(place.peak <= 160_000, "{} at most: {place}", place.peak);
            last = waits.0.load(Ordering::Relaxed) - before;
        }
        assert!(last < 2500, "{last} of 10,000 waited: {}", map.placement());
    }
    assert!(map.placement().demoted > 0, "{}", map.placement());
    // A range that is read makes its beginning warm.
    let before: u64 = map.placement().noted.iter().sum();
    (0..4000u64).for_each(|i| assert!(map.range(i..).next().is_some()));
    let noted = map.placement().noted.iter().sum::<u64>() - before;
    assert!((400..600).contains(&noted), "{noted} of 4,000");
}

#[test]
fn every_stage_goes_to_either_memory() {
    let stages = [
        Stage::Auto,
        Stage::CompactBTree,
        Stage::STree,
        Stage::Bitmap,
        Stage::Buckets,
        Stage::EliasFano,
    ];
    for stage in stages {
        let options = Options {
            stage,
            ..small(Merging::Blocking, Updates::Promote)
        };
        let options = options.placement(heaps(200_000).manual()).unwrap();
        let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
        map.extend((0..5000).map(|i| (i * 300, i)));
        let place = map.placement();
        assert!(place.slow_segments >= 5000 * 8, "{stage:?}: {place}");
        assert_eq!(
            place.fast_keys > 0,
            stage == Stage::CompactBTree,
            "{stage:?}"
        );
        for round in 0..20 {
            (0..5000).for_each(|i| assert_eq!(map.get(&(i * 300)), Some(&i), "{stage:?}"));
            for _ in 0..200 {
                map.place_step(Steps::nodes(256));
            }
            let place = map.placement();
            assert!(place.fast() <= 200_000, "{stage:?} {round}: {place}");
        }
        let place = map.placement();
        assert!(place.promoted > 0, "{stage:?}: {place}");
        assert!(
            map.iter().eq((0..5000)
                .map(|i| (i * 300, i))
                .collect::<Vec<_>>()
                .iter()
                .map(|(k, v)| (*k, v)))
        );
    }
}

#[test]
fn sets_and_maps_of_lists_lie_in_two_memories_too() {
    let wide = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let options = || {
        let placement = heaps(80_000).manual();
        small(Merging::Incremental, Updates::Promote)
            .placement(placement)
            .unwrap()
    };
    let mut set = HybridSet::<u64>::with_options(options()).unwrap();
    let mut lists = HybridMultiMap::<u64, u64>::with_options(options()).unwrap();
    let (mut keys, mut model) = (
        std::collections::BTreeSet::new(),
        BTreeMap::<u64, Vec<u64>>::new(),
    );
    set.extend((0..20_000).map(wide));
    keys.extend((0..20_000).map(wide));
    let mut x = 3;
    for round in 0..if cfg!(miri) { 200 } else { 20_000u64 } {
        let key = wide(random(&mut x) % 20_000);
        let hot = wide(random(&mut x) % 20 * 900);
        match random(&mut x) % 8 {
            0 | 1 => {
                assert_eq!(set.insert(key), keys.insert(key));
                lists.insert(key, round);
                model.entry(key).or_default().push(round);
            }
            2 => {
                assert_eq!(set.remove(&key), keys.remove(&key));
                lists.remove_all(&key);
                model.remove(&key);
            }
            _ => {
                assert_eq!(set.contains(&hot), keys.contains(&hot));
                let known = model.get(&hot).map_or(&[][..], Vec::as_slice);
                assert_eq!(lists.get(&hot), known);
            }
        }
        for _ in 0..4 {
            let hot = wide(random(&mut x) % 20 * 900);
            assert_eq!(set.contains(&hot), keys.contains(&hot));
        }
        if round % 3 == 0 {
            set.place_step(Steps::nodes(8));
            lists.place_step(Steps::nodes(8));
        }
    }
    assert!(set.iter().eq(keys.iter().copied()));
    assert!(
        model
            .iter()
            .all(|(key, vals)| lists.get(key) == vals.as_slice())
    );
    let (a, b) = (set.placement(), lists.placement());
    assert!(a.slow_segments > 0 && a.copies > 0 && a.noted[2] > 0, "{a}");
    assert!(b.slow_segments > 0 && b.copies == 0, "{b}");
}

/// Writes make what is always fast grow, until it is merged: others make room for it.
#[test]
fn updates_do_not_exceed_the_limit() {
    const N: u64 = 100_000;
    let limit = N * 53 / 10;
    for merging in [Merging::Incremental, Merging::Blocking] {
        let options = Options {
            merging,
            ..Options::default()
        };
        let options = options.placement(heaps(limit)).unwrap();
        let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
        map.extend((0..N).map(|i| (i * 1_000_003, i)));
        let mut x = 11;
        for i in 0..600_000u64 {
            let (a, b) = (random(&mut x) % N, random(&mut x) % N);
            let key = (a * b / N * (random(&mut x) % N) / N * 7919) % N * 1_000_003;
            match random(&mut x) % 20 {
                0 => drop(map.insert(key, i)),
                _ => assert!(map.get(&key).is_some()),
            }
        }
        let place = map.placement();
        assert!(place.peak <= limit, "{} of {limit}: {place}", place.peak);
        assert!(
            place.copied > 1000 && place.always_fast > limit / 20,
            "{place}"
        );
    }
}

#[test]
fn one_kind_of_memory_is_as_without() {
    let options = Options::default().placement(Placement::uniform()).unwrap();
    let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
    let mut plain = HybridMap::<u64, u64>::new();
    map.extend((0..20_000).map(|i| (i, i)));
    plain.extend((0..20_000).map(|i| (i, i)));
    assert_eq!(map.placement(), Default::default());
    assert!(!map.place_step(Steps::nodes(100)));
    assert_eq!(map.memory_usage(), plain.memory_usage());
}

/// Slow memory of 2 MiB: what does not fit stays in fast memory, and nothing spins over it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test below, with a limit on the length of files"]
fn a_map_over_little_slow_memory() {
    let slow = Memory::Memfd { huge: false };
    let placement = Placement::two(Memory::Heap, slow)
        .fast_bytes(100_000)
        .manual();
    let options = Options::default().placement(placement).unwrap();
    let mut map = HybridMap::<u64, u64>::with_copies(options).unwrap();
    let n = 300_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let place = map.placement();
    assert!(
        place.refused > 0 && place.fast_segments > 1 << 20,
        "{place}"
    );
    assert!(place.slow_segments > 1 << 20, "{place}");
    for round in 0..3 {
        let busy = (0..400).take_while(|_| map.place_step(Steps::nodes(256)));
        assert!(busy.count() < 400, "{round}: {}", map.placement());
        let before = map.placement().refused;
        for _ in 0..20 {
            while map.place_step(Steps::nodes(256)) {}
        }
        let tries = map.placement().refused - before;
        assert!(tries <= 2, "{tries} tries: {}", map.placement());
        assert!(
            (0..n)
                .step_by(7)
                .all(|i| map.get(&(i * 1_000_003)) == Some(&i))
        );
    }
    // Room again: what lay there is gone, and others follow.
    (0..n / 2).for_each(|i| assert_eq!(map.remove(&(i * 1_000_003)), Some(i)));
    map.merge_all();
    let demoted = map.placement().demoted;
    for _ in 0..400 {
        map.place_step(Steps::nodes(1024));
    }
    assert!(map.placement().demoted > demoted, "{}", map.placement());
    assert!((n / 2..n).all(|i| map.get(&(i * 1_000_003)) == Some(&i)));
}

#[cfg(target_os = "linux")]
#[test]
fn slow_memory_that_is_full_costs_no_answer_and_no_endless_work() {
    let me = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact place_one::a_map_over_little_slow_memory --ignored";
    let out = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(me)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}
