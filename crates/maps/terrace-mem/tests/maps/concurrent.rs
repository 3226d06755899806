//! The concurrent map with real threads.

use crate::linear::{History, Op, State};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use terrace_mem::{ConcurrentHybridMap, Merging, Options, Pair, Trigger};

fn small(merging: Merging) -> Options {
    Options {
        segment_len: 16,
        trigger: Trigger::Constant(6),
        merging,
        ..Options::default()
    }
}

const WAYS: [Merging; 3] = [Merging::Incremental, Merging::Blocking, Merging::Manual];

fn random(x: &mut u64) -> u64 {
    *x = x
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *x >> 33
}

#[test]
fn one_thread_behaves_like_a_btree_map() {
    for merging in WAYS {
        let map = ConcurrentHybridMap::<String, u64>::with_options(small(merging)).unwrap();
        let mut model = BTreeMap::new();
        let mut x = 5;
        for round in 0..if cfg!(miri) { 300 } else { 8000 } {
            let key = format!("{:x}", random(&mut x) % 700);
            match random(&mut x) % 8 {
                0..4 => assert_eq!(map.insert(&key, round), model.insert(key, round)),
                4 | 5 => assert_eq!(map.remove(&key), model.remove(&key)),
                6 => {
                    let new = map.update(&key, |old| old.map(|n| n + 1));
                    model.get_mut(&key).into_iter().for_each(|n| *n += 1);
                    assert_eq!(new, model.get(&key).copied());
                }
                _ => assert_eq!(map.get(key.as_str()), model.get(&key).copied()),
            }
            assert_eq!(map.len(), model.len());
            if round.is_multiple_of(400) {
                assert!(map.iter().eq(model.iter().map(|(k, v)| (k.clone(), *v))));
                let (a, b) = ("3".to_string(), "b".to_string());
                let span = model
                    .range(a.clone()..b.clone())
                    .map(|(k, v)| (k.clone(), *v));
                assert!(map.range(a..b).eq(span));
                if merging == Merging::Manual {
                    map.merge_all();
                    assert_eq!(map.stage_lens(), (0, model.len()));
                }
            }
        }
        assert!(map.memory_usage().total() > model.len() * 9);
    }
}

#[test]
fn histories_of_real_threads_are_linearizable() {
    for seed in 0..crate::runs(50, 2) {
        let options = Options {
            pair: Pair::ALL[seed as usize / 2 % Pair::ALL.len()],
            ..small(WAYS[seed as usize % 2])
        };
        let map = ConcurrentHybridMap::with_options(options).unwrap();
        let history = History::default();
        thread::scope(|scope| {
            for t in 0..3 {
                let (map, history) = (&map, &history);
                scope.spawn(move || {
                    let mut x = seed * 10 + t;
                    for i in 0..if cfg!(miri) { 20 } else { 120 } {
                        let (how, key) = (random(&mut x) % 8, random(&mut x) % 30);
                        let val = (t * 1000 + i) as u32;
                        let op = match how {
                            0 => Op::Get(key),
                            1 => Op::Remove(key),
                            2 => Op::GetOrInsert(key, val),
                            3 => Op::Add(key, 1),
                            4 => Op::RemoveIf(key, val - val % 3),
                            _ => Op::Insert(key, val),
                        };
                        history.run(map, op);
                    }
                });
            }
        });
        history.check(&State::new());
    }
}

#[test]
fn no_entry_is_ever_missed_while_merges_run() {
    let options = Options {
        segment_len: 64,
        trigger: Trigger::Constant(16),
        ..Options::default()
    };
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let n = if cfg!(miri) { 200 } else { 20_000 };
    // Even keys stay, odd ones come and go.
    (0..n).for_each(|i| assert_eq!(map.insert(&(i * 2), i), None));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..2 {
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                let mut x = t;
                for _ in 0..n * 2 {
                    let key = random(&mut x) % n * 2 + 1;
                    if random(&mut x).is_multiple_of(2) {
                        map.insert(&key, 0)
                    } else {
                        map.remove(&key)
                    };
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        let (map, done) = (&map, &done);
        scope.spawn(move || {
            let mut x = 77;
            while !done.load(Ordering::SeqCst) {
                let i = random(&mut x) % n;
                assert_eq!(map.get(&(i * 2)), Some(i));
                let from = i * 2;
                let span: Vec<u64> = map.range(from..from + 50).map(|e| e.0).collect();
                let all = (from..(from + 50).min(n * 2)).step_by(2);
                assert!(
                    span.is_sorted() && all.clone().all(|k| span.contains(&k)),
                    "{span:?}"
                );
                let back: Vec<u64> = map.range(from..from + 50).rev().map(|e| e.0).collect();
                assert!(
                    back.is_sorted_by(|a, b| a > b) && all.clone().all(|k| back.contains(&k)),
                    "{back:?}"
                );
            }
        });
    });
    assert_eq!(map.iter().filter(|(k, _)| k % 2 == 0).count() as u64, n);
    assert_eq!(map.iter().count(), map.len());
}

/// Entries of both stages, deleted ones among them.
fn held(map: &ConcurrentHybridMap<u64, u64>) -> usize {
    let (dynamic, fixed) = map.stage_lens();
    dynamic + fixed
}

#[test]
fn a_window_that_slides_leaves_nothing_behind() {
    let (n, window) = if cfg!(miri) { (400, 50) } else { (20_000, 500) };
    let options = Options {
        segment_len: 64,
        merging: Merging::Blocking,
        ..Options::default()
    };
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let directory = || map.memory_usage().directory;
    (0..window).for_each(|i| assert_eq!(map.insert(&i, i), None));
    let (first, mut most) = (directory(), 0);
    for i in window..n {
        assert_eq!(map.insert(&i, i), None);
        assert_eq!(map.remove(&(i - window)), Some(i - window));
        most = most.max(held(&map));
    }
    assert!(most < window as usize * 2, "{most}");
    assert!(directory() < first * 2, "{} after {first}", directory());
    assert!(map.iter().eq((n - window..n).map(|i| (i, i))));
}

#[test]
fn parts_without_entries_are_given_up() {
    let empty = ConcurrentHybridMap::<u64, u64>::with_options(small(Merging::Manual)).unwrap();
    for back in [false, true] {
        let map = ConcurrentHybridMap::<u64, u64>::with_options(small(Merging::Manual)).unwrap();
        (0..2000).for_each(|i| assert_eq!(map.insert(&i, i), None));
        map.merge_all();
        assert_eq!(map.stage_lens(), (0, 2000));
        // A part, some parts, all of them; also the first and the last ones.
        for cut in [100..120, 300..900, 0..200, 1900..2000, 0..2000] {
            for i in cut.clone() {
                map.remove(&i);
            }
            map.merge_all();
            assert_eq!(map.stage_lens(), (0, map.len()));
            for i in cut.clone().chain([cut.start.saturating_sub(1), cut.end]) {
                assert_eq!(map.get(&i), map.iter().find(|e| e.0 == i).map(|e| e.1));
            }
            if back {
                cut.clone()
                    .for_each(|i| assert_eq!(map.insert(&i, i), None));
                map.merge_all();
                assert!(map.range(cut.clone()).eq(cut.clone().map(|i| (i, i))));
                cut.for_each(|i| assert_eq!(map.remove(&i), Some(i)));
                map.merge_all();
            }
        }
        // As one empty part, but for some room in the list of parts.
        assert!(map.memory_usage().total() < empty.memory_usage().total() + 64);
    }
}

#[test]
fn parts_of_long_keys_have_few_of_them() {
    let directory = |len: usize| {
        let map = ConcurrentHybridMap::<String, u64>::with_options(Options {
            merging: Merging::Manual,
            ..Options::default()
        })
        .unwrap();
        let key = |i: u64| format!("{i:03}{}", "x".repeat(len));
        (0..300).for_each(|i| assert_eq!(map.insert(&key(i), i), None));
        map.merge_all();
        assert!(map.iter().eq((0..300).map(|i| (key(i), i))));
        map.memory_usage().directory
    };
    // Five megabytes of keys are four parts at least, of more than 200 bytes each.
    let (long, short) = (directory(16_000), directory(0));
    assert!(long > short + 3 * 200, "{long} and {short}");
}

#[test]
fn a_split_of_a_first_part_whose_bound_lies_among_its_keys_takes_out_that_part() {
    let options = Options {
        segment_len: 16,
        merging: Merging::Manual,
        ..Options::default()
    };
    let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
    let thousands = || (0..32).map(|i| (i * 1000, i));
    let fill = || {
        for (key, val) in thousands() {
            assert_eq!(map.insert(&key, val), None);
        }
        map.merge_all();
    };
    // Two parts, of which the first one leaves: its range goes to the second one.
    fill();
    for (key, val) in thousands() {
        assert_eq!(map.remove(&key), Some(val));
    }
    map.merge_all();
    // That one is split, and its first piece again.
    fill();
    for i in 1..=16 {
        assert_eq!(map.insert(&i, i), None);
    }
    map.merge_all();
    // First what would be gone: a key of the part that was split would be looked for for ever.
    for (key, val) in thousands().rev() {
        assert_eq!(map.get(&key), Some(val), "{key}");
    }
    let all = [(0, 0)].into_iter().chain((1..=16).map(|i| (i, i)));
    assert!(map.iter().eq(all.chain(thousands().skip(1))));
}

/// Its clone panics when told to.
#[derive(Debug, PartialEq)]
struct Fragile(u32);

static BREAK: AtomicBool = AtomicBool::new(false);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!BREAK.load(Ordering::SeqCst), "asked to break");
        Fragile(self.0)
    }
}

#[test]
fn a_clone_that_panics_leaves_the_map_usable() {
    let map = ConcurrentHybridMap::<u64, Fragile>::with_options(small(Merging::Manual)).unwrap();
    (0..100).for_each(|i| assert!(map.insert(&i, Fragile(i as u32)).is_none()));
    BREAK.store(true, Ordering::SeqCst);
    for act in [
        &(|| assert!(map.get(&5).is_some())) as &dyn Fn(),
        &|| assert!(map.insert(&5, Fragile(0)).is_some()),
        &|| assert!(map.remove(&5).is_some()),
        &|| assert!(map.first().is_some()),
        &|| assert!(map.pop_first().is_some()),
        &|| assert!(map.pop_last().is_some()),
        &|| assert!(map.get_or_insert_with(&5, || Fragile(0)) == Fragile(5)),
        &|| assert!(map.get_or_insert_with(&500, || Fragile(0)) == Fragile(0)),
        &|| assert!(map.remove_if(&5, |_| true).is_some()),
        &|| assert!(map.clone().len() == 100),
        &|| map.merge_all(),
        &|| assert!(map.iter().count() > 0),
        &|| assert!(map.iter().next_back().is_some()),
    ] {
        assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    }
    BREAK.store(false, Ordering::SeqCst);
    assert!(map.iter().eq((0..100).map(|i| (i, Fragile(i as u32)))));
    map.merge_all();
    assert_eq!(map.remove(&5), Some(Fragile(5)));
    assert_eq!(map.len(), 99);
}

/// Waits for what the background thread does, with a limit far above what it takes.
fn comes(true_of: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while !true_of() && Instant::now() < end {
        thread::yield_now();
    }
    true_of()
}

/// Its clone panics while the number is not 0, and counts down.
struct Brittle(&'static AtomicUsize);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        let left = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        assert!(left.is_err(), "asked to break");
        Brittle(self.0)
    }
}

#[test]
fn a_clone_that_panics_in_the_background_does_not_end_merging() {
    static BREAKS: AtomicUsize = AtomicUsize::new(1);
    let map = ConcurrentHybridMap::with_options(small(Merging::Incremental)).unwrap();
    // The sixth entry makes the part due; the merge is given up.
    (0..6u64).for_each(|i| assert!(map.insert(&i, Brittle(&BREAKS)).is_none()));
    assert!(comes(|| BREAKS.load(Ordering::SeqCst) == 0));
    assert_eq!(map.stage_lens(), (6, 0));
    // The next change tells of the part again.
    assert!(map.insert(&6, Brittle(&BREAKS)).is_none());
    assert!(comes(|| map.stage_lens() == (0, 7)), "nothing is merged");
}

#[test]
fn an_iterator_goes_on_where_a_clone_panicked() {
    static BREAKS: AtomicUsize = AtomicUsize::new(0);
    let map = ConcurrentHybridMap::with_options(small(Merging::Manual)).unwrap();
    (0..100u64).for_each(|i| assert!(map.insert(&i, Brittle(&BREAKS)).is_none()));
    map.merge_all();
    let mut iter = map.iter();
    let mut keys = Vec::new();
    for _ in 0..4 {
        BREAKS.store(1, Ordering::SeqCst);
        let mut all = || keys.extend(iter.by_ref().map(|entry| entry.0));
        assert!(catch_unwind(AssertUnwindSafe(&mut all)).is_err());
    }
    keys.extend(iter.map(|entry| entry.0));
    assert!(keys.into_iter().eq(0..100));
}

static NOSY: OnceLock<ConcurrentHybridMap<u64, Nosy>> = OnceLock::new();

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Its drop uses the map that it was in.
#[derive(Clone)]
struct Nosy;

impl Drop for Nosy {
    fn drop(&mut self) {
        // What is dropped meanwhile does nothing more.
        if let Some(map) = NOSY.get()
            && !BUSY.replace(true)
        {
            assert!(!map.contains_key(&u64::MAX));
            map.merge_all();
            BUSY.set(false);
        }
    }
}

#[test]
fn a_drop_that_uses_the_map_does_not_wait_for_itself() {
    let map = NOSY.get_or_init(|| {
        ConcurrentHybridMap::with_options(small(Merging::Blocking)).expect("good options")
    });
    let all = thread::spawn(|| {
        for round in 0..4 {
            (0..60).for_each(|i| assert_eq!(map.insert(&i, Nosy).is_some(), round > 0));
        }
        (0..20).for_each(|i| assert!(map.remove(&i).is_some()));
        (0..10).for_each(|_| assert!(map.pop_first().is_some() && map.pop_last().is_some()));
        assert_eq!(map.len(), 20);
        map.clear();
    });
    assert!(comes(|| all.is_finished()), "it waits");
    all.join().unwrap();
    assert!(map.is_empty());
}

#[test]
fn values_that_were_replaced_are_freed_while_the_map_is_at_rest() {
    for merging in WAYS {
        let map = ConcurrentHybridMap::<u64, Arc<()>>::with_options(small(merging)).unwrap();
        let (old, new) = (Arc::new(()), Arc::new(()));
        // Other tests may look into their maps at that moment: later looks into any map let the
        // rest go.
        let other = ConcurrentHybridMap::<u64, ()>::with_options(small(Merging::Manual)).unwrap();
        let freed = |val| comes(|| !other.contains_key(&0) && Arc::strong_count(val) == 1);
        (0..40).for_each(|i| assert!(map.insert(&i, Arc::clone(&old)).is_none()));
        map.merge_all();
        (0..40).for_each(|i| assert!(map.insert(&i, Arc::clone(&new)).is_some()));
        map.merge_all();
        assert!(freed(&old), "{merging:?}: of what was replaced");
        drop(map);
        assert!(freed(&new), "{merging:?}: of what was in the map");
    }
}
