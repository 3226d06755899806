//! What concerns several keys of the concurrent map at once: its ends, all of it, many entries in
//! order.

use crate::linear::{History, Op, State};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use terrace_mem::{ConcurrentHybridMap, MAX_KEY_LEN, Merging, Options, Pair, Trigger};

fn small(merging: Merging) -> Options {
    Options {
        segment_len: 16,
        trigger: Trigger::Constant(6),
        merging,
        ..Options::default()
    }
}

fn random(x: &mut u64) -> u64 {
    *x = x
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *x >> 33
}

/// Fewer under Miri.
const fn few(many: u64, miri: u64) -> u64 {
    if cfg!(miri) { miri } else { many }
}

/// Three parts run empty from both ends and fill again.
#[test]
fn histories_of_the_ends_of_a_map_are_linearizable() {
    for seed in 0..crate::runs(100, 2) {
        let merging = [Merging::Incremental, Merging::Blocking][seed as usize % 2];
        let options = Options {
            pair: Pair::ALL[seed as usize / 2 % Pair::ALL.len()],
            ..small(merging)
        };
        let mut map = ConcurrentHybridMap::with_options(options).unwrap();
        let start: State = (0..40).map(|i| (i * 10, i as u32)).collect();
        map.extend(start.clone());
        let history = History::default();
        thread::scope(|scope| {
            for t in 0..3 {
                let (map, history) = (&map, &history);
                scope.spawn(move || {
                    let mut x = seed * 10 + t;
                    for i in 0..20 {
                        let key = random(&mut x) % 410;
                        let op = match random(&mut x) % if seed % 3 < 2 { 8 } else { 32 } {
                            0 | 1 => Op::Insert(key, 1000 + i),
                            2 => Op::First,
                            3 => Op::Last,
                            4 if seed % 3 == 2 => Op::Clear,
                            5 => Op::Get(key / 10 * 10),
                            n if n % 3 > 0 => Op::PopFirst,
                            _ => Op::PopLast,
                        };
                        history.run(map, op);
                    }
                });
            }
        });
        history.check(&start);
    }
}

#[test]
fn what_some_threads_put_in_line_others_get_once_and_in_order() {
    let map = ConcurrentHybridMap::<u64, u64>::with_options(small(Merging::Incremental)).unwrap();
    let n = few(20_000, 200);
    let (left, got) = (AtomicUsize::new(2), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for t in 0..2 {
            let (map, left) = (&map, &left);
            scope.spawn(move || {
                (0..n).for_each(|i| assert_eq!(map.insert(&(i * 2 + t), i), None));
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for t in 0..2 {
            let (map, left, got) = (&map, &left, &got);
            scope.spawn(move || {
                let mut mine = Vec::new();
                loop {
                    let done = left.load(Ordering::SeqCst) == 0;
                    let next = if t == 0 {
                        map.pop_first()
                    } else {
                        map.pop_last()
                    };
                    match next {
                        Some((key, val)) => {
                            assert_eq!(key / 2, val);
                            mine.push((done, key));
                        }
                        None if done => break,
                        None => thread::yield_now(),
                    }
                }
                // Nothing comes any more: what one thread gets is in order.
                let late = mine.iter().filter(|e| e.0).map(|e| e.1);
                let late: Vec<u64> = late.collect();
                assert!(late.is_sorted_by(|a, b| (a < b) == (t == 0)), "{late:?}");
                got.lock().unwrap().extend(mine.into_iter().map(|e| e.1));
            });
        }
    });
    let mut got = got.into_inner().unwrap();
    got.sort_unstable();
    assert!(got.into_iter().eq(0..n * 2), "one is missing or came twice");
    assert!(map.is_empty() && map.first().is_none() && map.last().is_none());
}

#[test]
fn a_value_that_is_missing_is_made_once() {
    let map = ConcurrentHybridMap::<u64, usize>::with_options(small(Merging::Incremental)).unwrap();
    let (made, n) = (AtomicUsize::new(0), few(3000, 60));
    thread::scope(|scope| {
        for t in 0..3 {
            let (map, made) = (&map, &made);
            scope.spawn(move || {
                for i in 0..n {
                    let key = if t == 0 { i } else { n - 1 - i };
                    let val = map.get_or_insert_with(&key, || made.fetch_add(1, Ordering::SeqCst));
                    assert_eq!(map.get(&key), Some(val));
                }
            });
        }
    });
    assert_eq!((made.into_inner(), map.len()), (n as usize, n as usize));
}

#[test]
fn a_map_that_is_cleared_again_and_again_keeps_what_comes_afterwards() {
    let map = ConcurrentHybridMap::<u64, u64>::with_options(small(Merging::Incremental)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..2 {
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                let mut round = 0;
                while !done.load(Ordering::SeqCst) {
                    for i in 0..100 {
                        map.insert(&(i * 2 + t), round);
                    }
                    round += 1;
                }
            });
        }
        for _ in 0..few(500, 5) {
            map.clear();
            assert!(map.iter().is_sorted() && map.iter().count() <= 200);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(map.iter().count(), map.len());
    map.clear();
    assert_eq!(
        (map.len(), map.iter().next(), map.stage_lens()),
        (0, None, (0, 0))
    );
    assert_eq!(map.insert(&1, 1), None);
    assert_eq!((map.len(), map.first()), (1, Some((1, 1))));
}

#[test]
fn entries_in_order_go_straight_into_segments() {
    let n = few(10_000, 300);
    let map: ConcurrentHybridMap<String, u64> = (0..n).map(|i| (format!("{i:06}"), i)).collect();
    assert_eq!((map.stage_lens(), map.len()), ((0, n as usize), n as usize));
    assert!(map.iter().eq((0..n).map(|i| (format!("{i:06}"), i))));
    let copy = map.clone();
    assert_eq!((copy.stage_lens(), &copy), ((0, n as usize), &map));
    assert!(map.insert("000005x", 5).is_none() && copy != map);
    // The first one out of order, and all behind it, are inserted.
    let some = [(3, 'a'), (5, 'b'), (5, 'c'), (4, 'd'), (9, 'e')];
    let map = ConcurrentHybridMap::from(some);
    assert_eq!(map.stage_lens(), (3, 2));
    assert!(map.iter().eq(BTreeMap::from(some)));
}

#[test]
fn what_came_before_a_panic_of_extend_is_in_the_concurrent_map() {
    let mut map =
        ConcurrentHybridMap::<Vec<u8>, u64>::with_options(small(Merging::Manual)).unwrap();
    let key = |i: u64| i.to_be_bytes().to_vec();
    let some = (0..100).map(|i| {
        assert!(i < 50, "asked to break");
        (key(i), i)
    });
    assert!(catch_unwind(AssertUnwindSafe(|| map.extend(some))).is_err());
    assert!(map.iter().eq((0..50).map(|i| (key(i), i))));
    map.clear();
    let long = [(key(1), 1), (vec![7; MAX_KEY_LEN + 1], 2), (key(2), 2)];
    assert!(catch_unwind(AssertUnwindSafe(|| map.extend(long))).is_err());
    assert!(map.iter().eq([(key(1), 1)]) && map.len() == 1);
    assert!(catch_unwind(|| map.get_or_insert_with(&vec![7; MAX_KEY_LEN + 1], || 2)).is_err());
    assert_eq!(map.len(), 1);
}

#[test]
fn parts_of_sorted_entries_are_bounded_by_the_bytes_of_their_keys() {
    let key = |i: u64| format!("{i:03}{}", "x".repeat(16_000));
    let long: ConcurrentHybridMap<String, u64> = (0..300).map(|i| (key(i), i)).collect();
    let short: ConcurrentHybridMap<u64, u64> = (0..300).map(|i| (i, i)).collect();
    assert!(long.iter().eq((0..300).map(|i| (key(i), i))));
    // Five megabytes of keys are four parts at least, of more than 200 bytes each.
    let (long, short) = (
        long.memory_usage().directory,
        short.memory_usage().directory,
    );
    assert!(long > short + 3 * 200, "{long} and {short}");
}

#[test]
fn a_map_that_several_threads_extend_has_the_entries_of_all() {
    let map = ConcurrentHybridMap::<u64, u64>::with_options(small(Merging::Blocking)).unwrap();
    thread::scope(|scope| {
        for t in 0..3 {
            let mut map = &map;
            scope.spawn(move || map.extend((0..500).map(|i| (i * 3 + t, i))));
        }
    });
    assert!(map.keys().eq(0..1500));
    let keys: Vec<u64> = (0..2000).rev().collect();
    let found = map.get_batch(&keys.iter().collect::<Vec<_>>());
    assert!(
        found
            .into_iter()
            .eq(keys.iter().map(|key| (*key < 1500).then_some(key / 3)))
    );
}
