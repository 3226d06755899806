//! Maps over two kinds of memory: answers are those of an ordered map whatever lies where, bytes
//! stay within the limit, and what is hot comes to be fast.

#[path = "../support/drive_place.rs"]
mod drive_place;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use terrace_mem::place::{Memory, Placement, Steps, Touch, Watch};
use terrace_mem::{ConcurrentHybridMap, IndexKey, Merging, Options, Stage, Trigger};

fn random(x: &mut u64) -> u64 {
    *x = x
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *x >> 33
}

fn heaps(bytes: u64) -> Placement {
    Placement::two(Memory::Heap, Memory::Heap).fast_bytes(bytes)
}

fn small(merging: Merging) -> Options {
    Options {
        segment_len: 64,
        trigger: Trigger::Constant(20),
        merging,
        ..Options::default()
    }
}

/// Steps until there is nothing to do, or for long.
fn settle<K: IndexKey, V: Clone + Send + Sync + 'static>(map: &ConcurrentHybridMap<K, V>) {
    for _ in 0..200 {
        if !map.place_step(Steps::nodes(256)) {
            break;
        }
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
    let all = [Fault::StaleCopy, Fault::ShortMove];
    terrace_mem::plant(all.into_iter().find(|fault| format!("{fault:?}") == name));
}

#[cfg(feature = "planted-faults")]
const FAULT: &str = "TERRACE_MEM_FAULT";

#[cfg(not(feature = "planted-faults"))]
fn plant() {}

/// Each fault in a process of its own: it is planted in all of it.
#[cfg(feature = "planted-faults")]
#[test]
fn planted_faults_are_caught() {
    let passes = |fault: &str, test: &str| {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FAULT, fault)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(said.contains("running 1 test"), "{test}: {said}");
        run.status.success()
    };
    for (fault, test) in [
        ("StaleCopy", "place::integers_are_those_of_an_ordered_map"),
        ("ShortMove", "place::every_stage_goes_to_either_memory"),
    ] {
        assert!(passes("", test), "{test} must pass without a fault");
        assert!(!passes(fault, test), "{fault} was not caught");
    }
}

/// Inserts, removes and lookups beside a model, with steps between all of them. Twenty keys are
/// looked up most, so that copies of them come, go stale and come again.
fn like_a_model<K, V>(key: impl Fn(u64) -> K, val: impl Fn(u64) -> V, options: Options, fast: u64)
where
    K: IndexKey + Ord + Clone + std::fmt::Debug,
    V: Clone + Send + Sync + PartialEq + std::fmt::Debug + 'static,
{
    plant();
    let options = options.placement(heaps(fast).manual()).unwrap();
    let map = ConcurrentHybridMap::<K, V>::with_options(options).unwrap();
    let mut model = BTreeMap::new();
    let mut x = 5;
    for round in 0..if cfg!(miri) { 300 } else { 20_000u64 } {
        let hot = random(&mut x) % 20;
        let any = random(&mut x) % 1500;
        match random(&mut x) % 16 {
            0 | 1 => {
                let (key, val) = (key(any), val(round));
                assert_eq!(map.insert(&key, val.clone()), model.insert(key, val));
            }
            2 => assert_eq!(
                map.insert(&key(hot), val(round)),
                model.insert(key(hot), val(round))
            ),
            3 => assert_eq!(map.remove(&key(any)), model.remove(&key(any))),
            4 => assert_eq!(map.get(&key(any)), model.get(&key(any)).cloned()),
            _ => assert_eq!(map.get(&key(hot)), model.get(&key(hot)).cloned()),
        }
        if round % 3 == 0 {
            map.place_step(Steps::nodes(1 + round as usize % 7));
        }
        if round.is_multiple_of(1000) {
            assert!(
                map.iter()
                    .eq(model.iter().map(|(k, v)| (k.clone(), v.clone())))
            );
            map.get_batch(&model.keys().take(50).collect::<Vec<_>>())
                .into_iter()
                .zip(model.values())
                .for_each(|(found, val)| assert_eq!(found.as_ref(), Some(val)));
            let place = map.placement();
            assert_eq!(
                place.fast_segments + place.slow_segments > 0,
                !map.stages().is_empty()
            );
        }
    }
    assert!(map.iter().eq(model));
    map.clear();
    // They count until no reader can see them, also one that reads another map at the moment.
    let bytes = || {
        map.merge_all();
        std::thread::yield_now();
        map.placement().fast_segments + map.placement().slow_segments
    };
    assert!((0..100_000).any(|_| bytes() == 0), "{}", map.placement());
}

#[test]
fn integers_are_those_of_an_ordered_map() {
    for fast in [0, 20_000, 40_000, 1 << 20] {
        like_a_model(|k| k * 977, |v| v, small(Merging::Manual), fast);
        like_a_model(|k| k << 30, |v| v as u128, small(Merging::Blocking), fast);
    }
}

#[test]
fn byte_strings_are_those_of_an_ordered_map() {
    for fast in [0, 20_000, 40_000, 1 << 20] {
        let key = |k: u64| {
            format!("{:x}{}", k * 7919 % 16, "long".repeat((k % 13) as usize)) + &k.to_string()
        };
        like_a_model(key, |v| v, small(Merging::Blocking), fast);
    }
}

#[test]
fn values_that_own_memory_are_those_of_an_ordered_map() {
    for fast in [0, 60_000] {
        let val = |v: u64| format!("value {v}");
        like_a_model(|k| k * 977, val, small(Merging::Blocking), fast);
    }
}

#[test]
fn every_stage_goes_to_either_memory() {
    let ints = [
        Stage::Auto,
        Stage::CompactBTree,
        Stage::STree,
        Stage::Bitmap,
        Stage::Buckets,
        Stage::EliasFano,
        #[cfg(feature = "compressed")]
        Stage::Compressed,
    ];
    plant();
    for stage in ints {
        let options = Options {
            stage,
            ..small(Merging::Blocking)
        };
        let options = options.placement(heaps(200_000).manual()).unwrap();
        let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        map.extend((0..5000).map(|i| (i * 300, i)));
        let slow = map.placement().slow_segments;
        assert!(slow >= 5000 * 8, "{stage:?}: {slow} bytes in slow memory");
        for round in 0..20 {
            (0..5000).for_each(|i| assert_eq!(map.get(&(i * 300)), Some(i), "{stage:?}"));
            settle(&map);
            let place = map.placement();
            assert!(place.fast() <= 200_000, "{stage:?} {round}: {place}");
        }
        assert!(
            map.placement().promoted > 0,
            "{stage:?}: {}",
            map.placement()
        );
        assert!(map.iter().eq((0..5000).map(|i| (i * 300, i))), "{stage:?}");
    }
}

/// A tenth of the entries' bytes are fast; nine lookups in ten are of few keys, anywhere.
#[test]
fn single_hot_entries_come_to_be_fast_and_others_take_their_place() {
    let waits = Arc::new(Waits::default());
    let mut options = Options::default()
        .placement(heaps(100_000).manual())
        .unwrap();
    options.memories = options.memories.watched_by(Arc::clone(&waits) as _);
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let n = 50_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let mut x = 9;
    for shift in [0, 17] {
        let mut last = 0;
        for _ in 0..12 {
            let before = waits.0.load(Ordering::Relaxed);
            for _ in 0..10_000 {
                let i = match random(&mut x) % 10 {
                    0 => random(&mut x) % n,
                    _ => random(&mut x) % 400 * 101 + shift,
                };
                assert_eq!(map.get(&(i * 1_000_003)), Some(i));
            }
            settle(&map);
            last = waits.0.load(Ordering::Relaxed) - before;
        }
        assert!(last < 2000, "{last} of 10,000 waited: {}", map.placement());
        let place = map.placement();
        assert!(place.copies > 10_000 && place.fast() <= 100_000, "{place}");
    }
}

/// By Zipf's law over keys that lie anywhere, as long as it is: bytes go to copies, and stay.
#[test]
fn what_is_settled_does_not_go_back_and_forth() {
    let options = Options {
        segment_len: 512,
        ..Options::default()
    };
    let options = options.placement(heaps(280_000).manual()).unwrap();
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let n = 50_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let mut x = 9;
    let mut look_up = |lookups: u64| {
        for i in 0..lookups {
            let unit = random(&mut x) as f64 / (1u64 << 31) as f64;
            let rank = (n as f64).powf(unit) as u64;
            let key = rank * 40_503 % n;
            assert_eq!(map.get(&(key * 1_000_003)), Some(key));
            if i % 64 == 0 {
                map.place_step(Steps::nodes(256));
            }
        }
        let place = map.placement();
        (place.promoted + place.demoted, place)
    };
    let (before, _) = look_up(600_000);
    let (after, place) = look_up(300_000);
    assert!(after - before < 40, "{} moves: {place}", after - before);
    assert!(place.copies > 50_000, "{place}");
}

/// A run of neighbours is hot: whole segments go to fast memory, and come back when it moves.
#[test]
fn hot_segments_come_to_be_fast_and_cold_ones_leave() {
    let waits = Arc::new(Waits::default());
    let mut options = Options {
        segment_len: 512,
        ..Options::default()
    }
    .placement(heaps(160_000).manual())
    .unwrap();
    options.memories = options.memories.watched_by(Arc::clone(&waits) as _);
    // Without copies: these values are none of one or two words.
    let mut map = ConcurrentHybridMap::<u64, [u64; 1]>::with_options(options).unwrap();
    let n = 50_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, [i])));
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
                assert_eq!(map.get(&(i * 1_000_003)), Some([i]));
            }
            settle(&map);
            assert!(map.placement().fast() <= 160_000, "{}", map.placement());
            last = waits.0.load(Ordering::Relaxed) - before;
        }
        assert!(last < 2000, "{last} of 10,000 waited: {}", map.placement());
    }
    assert!(map.placement().demoted > 0, "{}", map.placement());
}

/// Where all segments are fast there is nothing to be learned, until they are too many.
#[test]
fn fewer_lookups_are_noted_while_all_segments_are_fast() {
    let options = Options {
        segment_len: 512,
        ..Options::default()
    };
    let options = options.placement(heaps(1 << 20).manual()).unwrap();
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let fill = |map: &mut ConcurrentHybridMap<u64, u64>, from: u64, to: u64| {
        map.extend((from..to).map(|i| (i * 1_000_003, i)));
    };
    let noted = |map: &ConcurrentHybridMap<u64, u64>| {
        let before = map.placement().noted.iter().sum::<u64>();
        for i in 0..64_000 {
            let key = i * 7919 % 20_000;
            assert_eq!(map.get(&(key * 1_000_003)), Some(key));
        }
        map.placement().noted.iter().sum::<u64>() - before
    };
    fill(&mut map, 0, 20_000);
    for _ in 0..50 {
        noted(&map);
        settle(&map);
    }
    assert_eq!(map.placement().slow_segments, 0, "{}", map.placement());
    let few = noted(&map);
    assert!((900..1_100).contains(&few), "{few}: {}", map.placement());
    fill(&mut map, 20_000, 200_000);
    assert!(map.placement().slow_segments > 0, "{}", map.placement());
    let many = noted(&map);
    assert!((7_400..8_500).contains(&many), "{many}");
}

#[test]
fn one_kind_of_memory_is_as_without() {
    let options = Options::default().placement(Placement::uniform()).unwrap();
    assert!(!options.memories.is_two());
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    (0..10_000).for_each(|i| assert_eq!(map.insert(&i, i), None));
    map.merge_all();
    assert_eq!(map.placement(), Default::default());
    assert!(!map.place_step(Steps::nodes(100)));
    assert_eq!(map.memory_usage().copies, 0);
    assert_eq!(map.placement().to_string(), "one kind of memory\n");
}

#[test]
fn a_memory_that_is_none_is_an_error_with_the_way_out() {
    let none = Placement::two(Memory::Heap, Memory::Node(63)).fast_bytes(1);
    let error = Options::default().placement(none).unwrap_err().to_string();
    assert!(error.contains("node 63"), "{error}");
    let same = Placement::two(Memory::Node(0), Memory::Node(0));
    assert!(Options::default().placement(same).is_err());
}

/// Threads write, read and place at once; nothing is lost, and no lookup sees an older value than
/// one before it did.
#[test]
fn threads_read_and_write_while_segments_move() {
    let options = small(Merging::Incremental)
        .placement(heaps(60_000).manual())
        .unwrap();
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    (0..2000).for_each(|i| assert_eq!(map.insert(&(i * 50), 0), None));
    let rounds = if cfg!(miri) { 30 } else { 6000u64 };
    std::thread::scope(|scope| {
        for t in 0..2u64 {
            let map = &map;
            scope.spawn(move || {
                // Each thread has its keys, and counts each of them up.
                let mut x = t + 1;
                for round in 1..=rounds {
                    let i = random(&mut x) % 50 * 2 + t;
                    map.insert(&(i * 50), round);
                    assert_eq!(map.get(&(i * 50)), Some(round));
                    for _ in 0..4 {
                        map.get(&(random(&mut x) % 60 * 50));
                    }
                }
            });
        }
        let map = &map;
        scope.spawn(move || {
            let (mut x, mut seen) = (77, [0; 100]);
            for _ in 0..rounds * 4 {
                let i = random(&mut x) as usize % 100;
                let now = map.get(&(i as u64 * 50)).unwrap();
                assert!(
                    now >= seen[i],
                    "key {i} went back from {} to {now}",
                    seen[i]
                );
                seen[i] = now;
                map.place_step(Steps::nodes(8));
            }
        });
    });
    assert_eq!(map.len(), 2000);
}

/// The thread of a map places by itself, and ends with it.
#[test]
fn a_thread_places_and_ends_with_its_map() {
    use std::time::{Duration, Instant};
    let options = Options::default().placement(heaps(1 << 20)).unwrap();
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    map.extend((0..5000).map(|i| (i * 7, i)));
    // A minute is what a machine that does much else may need.
    let end = Instant::now() + Duration::from_secs(60);
    while map.placement().promoted == 0 {
        assert!(Instant::now() < end, "nothing moved: {}", map.placement());
        (0..5000).for_each(|i| assert_eq!(map.get(&(i * 7)), Some(i)));
    }
    drop(map);
}

/// No thread looks a key up: a run of neighbours is read in order, again and again.
#[test]
fn what_is_read_in_order_comes_to_be_fast() {
    let options = Options {
        segment_len: 512,
        ..Options::default()
    };
    let options = options.placement(heaps(160_000).manual()).unwrap();
    let mut map = ConcurrentHybridMap::<u64, [u64; 1]>::with_options(options).unwrap();
    map.extend((0..50_000u64).map(|i| (i * 1_000_003, [i])));
    for (round, first) in (0..20_000u64).map(|round| (round, 20_000 + round * 37 % 3900)) {
        let from = first * 1_000_003;
        let read = map.range(from..).take(60).map(|(_, [i])| i);
        assert!(read.eq(first..first + 60));
        if round % 8 == 0 {
            map.place_step(Steps::nodes(256));
        }
    }
    let place = map.placement();
    assert!(place.promoted > 4, "{place}");
    let before = map.placement();
    for i in 0..2000u64 {
        let read = map.range((20_000 + i) * 1_000_003..).nth(20);
        assert_eq!(read.map(|(_, [i])| i), Some(20_020 + i));
    }
    let after = map.placement();
    let [fast, slow] = [0, 1].map(|i| after.noted[i] - before.noted[i]);
    assert!(fast > 8 * slow, "{fast} fast, {slow} slow: {after}");
}

/// Who asks for the ends, or writes over what is there, reads segments too.
#[test]
fn ends_and_updates_are_noted() {
    let map = || {
        let options = Options::default().placement(heaps(80_000).manual());
        let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options.unwrap()).unwrap();
        map.extend((0..50_000u64).map(|i| (i * 1_000_003, i)));
        map
    };
    let ends = map();
    for i in 0..4000 {
        assert_eq!(ends.first(), Some((0, 0)));
        assert_eq!(ends.last(), Some((49_999 * 1_000_003, 49_999)));
        if i % 64 == 0 {
            ends.place_step(Steps::nodes(256));
        }
    }
    assert!(ends.placement().promoted > 0, "{}", ends.placement());
    let updates = map();
    let before: u64 = updates.placement().noted.iter().sum();
    (0..4000u64).for_each(|i| assert_eq!(updates.insert(&(i * 1_000_003), 7), Some(i)));
    let noted = updates.placement().noted.iter().sum::<u64>() - before;
    assert!((400..600).contains(&noted), "{noted} of 4,000");
}

/// More fast bytes than the map has: copies are never more than there is to copy.
#[test]
fn copies_never_take_more_than_the_map_itself() {
    let options = Options {
        segment_len: 256,
        ..Options::default()
    };
    let options = options.placement(heaps(256 << 20).manual()).unwrap();
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let n = 200_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let mut x = 3;
    for _ in 0..40 {
        for _ in 0..20_000 {
            let i = random(&mut x) % 400 * 499;
            assert_eq!(map.get(&(i * 1_000_003)), Some(i));
        }
        settle(&map);
        let place = map.placement();
        let all = place.fast_segments + place.slow_segments;
        assert!(place.copies <= all, "{place}");
    }
    assert!(map.placement().copied > 0);
}

/// Keys of a stage that cannot say where they lie stay in fast memory: the map says so.
#[test]
fn keys_that_stay_in_fast_memory_are_told() {
    let map = |stage| {
        let options = Options {
            stage,
            ..Options::default()
        };
        let options = options.placement(heaps(10_000).manual()).unwrap();
        let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        map.extend((0..20_000u64).map(|i| (i * 1_000_003, i)));
        map.placement()
    };
    let all = map(Stage::STree);
    assert_eq!((all.fast_keys, all.notes.len()), (0, 0), "{all}");
    let values = map(Stage::CompactBTree);
    assert!(values.fast_keys > 10_000 && values.fast_keys == values.fast_segments);
    assert!(values.to_string().contains("keep their keys"), "{values}");
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
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let n = 300_000u64;
    map.extend((0..n).map(|i| (i * 1_000_003, i)));
    let place = map.placement();
    assert!(
        place.refused > 0 && place.fast_segments > 1 << 20,
        "{place}"
    );
    assert!(place.slow_segments > 1 << 20, "{place}");
    for round in 0..3 {
        // Over the limit for good: after some tries there is nothing to do.
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
                .all(|i| map.get(&(i * 1_000_003)) == Some(i))
        );
    }
    // Room again: what lay there is gone, and others follow.
    (0..n / 2).for_each(|i| assert_eq!(map.remove(&(i * 1_000_003)), Some(i)));
    map.merge_all();
    let demoted = map.placement().demoted;
    for _ in 0..400 {
        map.place_step(Steps::nodes(1024));
        std::thread::yield_now();
    }
    assert!(map.placement().demoted > demoted, "{}", map.placement());
    assert!((n / 2..n).all(|i| map.get(&(i * 1_000_003)) == Some(i)));
}

#[cfg(target_os = "linux")]
#[test]
fn slow_memory_that_is_full_costs_no_answer_and_no_endless_work() {
    let me = std::env::current_exe().unwrap();
    // Blocks of 512 bytes: 2 MiB. A file that would be longer is an error then, and no signal.
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact place::a_map_over_little_slow_memory --ignored";
    let out = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(me)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

/// What the fuzzer does, with bytes by chance.
#[test]
fn bytes_by_chance_are_operations_on_all_kinds() {
    let mut x = 1;
    for round in 0..if cfg!(miri) { 5 } else { 60u8 } {
        let mut bytes = vec![round, random(&mut x) as u8];
        bytes.extend((0..1500).map(|_| random(&mut x) as u8));
        drive_place::drive(&bytes);
    }
}

/// What is given up counts until no thread could see it any more, and all maps of a process share who looks:
/// beside other tests more is in use for a while.
#[test]
fn updates_do_not_exceed_the_limit() {
    let me = std::env::current_exe().unwrap();
    let out = std::process::Command::new(me)
        .args([
            "--exact",
            "place::updates_alone_in_their_process",
            "--ignored",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

/// Writes make what is always fast grow, until it is merged: others make room for it.
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn updates_alone_in_their_process() {
    const N: u64 = 100_000;
    let limit = N * 53 / 10;
    let options = Options {
        merging: Merging::Blocking,
        ..Options::default()
    };
    let options = options.placement(heaps(limit).manual()).unwrap();
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    map.extend((0..N).map(|i| (i * 1_000_003, i)));
    let mut x = 11;
    for i in 0..1_000_000u64 {
        // Most are for few, anywhere.
        let (a, b) = (random(&mut x) % N, random(&mut x) % N);
        let key = (a * b / N * (random(&mut x) % N) / N * 7919) % N * 1_000_003;
        match random(&mut x) % 20 {
            0 => drop(map.insert(&key, i)),
            _ => assert!(map.get(&key).is_some()),
        }
        if i % 64 == 0 {
            map.place_step(Steps::nodes(256));
        }
    }
    let place = map.placement();
    assert!(place.peak <= limit, "{} of {limit}: {place}", place.peak);
    assert!(
        place.copied > 1000 && place.always_fast > limit / 10,
        "{place}"
    );
}
