//! Several threads on few keys, with background demotion, cleaning and checkpoints on a pool far
//! too small: the recorded histories have an order in which every answer is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::changes::Copy;
use crate::common::expiry::{BEGIN, Hands, at};
use crate::common::{Shape, create, factor};
use terrace::{
    ChangesOptions, Database, Durability, Kind, Map, MapOptions, Options, RemoveOptions, Tiers,
};
use terrace_sim::{History, Operation, Outcome, Recorder, Rng, SimDisk};

const THREADS: u64 = 4;
const KEYS: u64 = 24;

fn options() -> Options {
    Options::new()
        .memory(1 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(256 << 10)
}

fn key(i: u64) -> Vec<u8> {
    // Spread, so that neighbours lie on different leaves.
    format!("{:05}", i * 997 % 5000).into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(30) {
        0 => 3000,
        1..=4 => 500,
        _ => 8 + rng.below(100) as usize,
    };
    rng.bytes(len)
}

fn step(tree: &Map, rng: &mut Rng, recorder: &mut Recorder<'_>) {
    let key = key(rng.below(KEYS));
    let new = value(rng);
    match rng.below(12) {
        0..=4 => recorder.record(&key, Operation::Get, || {
            Some(Outcome::Value(tree.get(&key).unwrap()))
        }),
        5..=6 => recorder.record(&key, Operation::Put(new.clone()), || {
            tree.put(&key, &new).unwrap();
            Some(Outcome::Done)
        }),
        7 => recorder.record(&key, Operation::Insert(new.clone()), || {
            Some(Outcome::Changed(tree.insert(&key, &new).unwrap()))
        }),
        8 => recorder.record(&key, Operation::Update(new.clone()), || {
            let there = tree.update(&key, |old| old.map(|_| new.clone())).unwrap();
            Some(Outcome::Changed(there))
        }),
        9 => recorder.record(&key, Operation::Delete, || {
            tree.delete(&key).unwrap();
            Some(Outcome::Done)
        }),
        10 => recorder.record(&key, Operation::Remove, || {
            Some(Outcome::Changed(tree.remove(&key).unwrap().is_some()))
        }),
        _ => recorder.record(&key, Operation::Put(new.clone()), || {
            let mut batch = tree.database().batch();
            batch
                .put(tree, &key, "overwritten in the same batch")
                .put(tree, &key, &new);
            tree.database().write(batch, Durability::Buffered).unwrap();
            Some(Outcome::Done)
        }),
    };
}

fn round(seed: u64, shape: Shape, inclusive: bool) {
    round_with(options(), seed, shape, inclusive);
}

fn round_with(options: Options, seed: u64, shape: Shape, inclusive: bool) {
    let disk = SimDisk::new(seed);
    disk.set_lending(seed.is_multiple_of(2));
    let db = Database::open_on(disk.shared(), options).unwrap();
    let options = MapOptions::new().inclusive(inclusive);
    let tree = create(&db, "t", shape, options).unwrap();
    let ordered = tree.as_tree();
    // Ballast that keeps the pool full and the hot tier at its cap.
    for i in 0..5000u64 {
        tree.put(format!("{i:05}x"), [i as u8; 150]).unwrap();
    }
    let history = History::new();
    let stop = AtomicBool::new(false);
    let end = Instant::now() + Duration::from_millis(700 * factor().min(20));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (history, tree, stop) = (&history, &tree, &stop);
            scope.spawn(move || {
                let mut recorder = history.recorder();
                let mut rng = Rng::new(seed << 8 | thread);
                let mut steps = 0;
                while steps < 20_000 && !stop.load(Ordering::Relaxed) {
                    step(tree, &mut rng, &mut recorder);
                    steps += 1;
                }
            });
        }
        let (tree, ordered, stop) = (&tree, &ordered, &stop);
        scope.spawn(move || {
            // Reads of the ballast promote and demote; scans see every key of it once.
            let mut rng = Rng::new(seed);
            while !stop.load(Ordering::Relaxed) {
                let i = rng.below(5000);
                let got = tree.get(format!("{i:05}x")).unwrap();
                assert_eq!(got.unwrap(), [i as u8; 150]);
                if let Some(tree) = ordered
                    && rng.percent(2)
                {
                    let low = format!("{i:05}");
                    let ballast = tree.range(low.as_str()..).unwrap().take(100);
                    let mut next = i;
                    for entry in ballast {
                        let (key, _) = entry.unwrap();
                        if key.len() == 6 {
                            assert_eq!(key, format!("{next:05}x").into_bytes());
                            next += 1;
                        }
                    }
                }
                if ordered.is_none() && rng.percent(1) {
                    // In the order of a hash: each key that stays comes once.
                    let keys = tree.iter().unwrap().map(|entry| entry.unwrap().0);
                    let ballast = keys.filter(|key| key.len() == 6).collect::<BTreeSet<_>>();
                    assert_eq!(ballast.len(), 5000);
                }
            }
        });
        scope.spawn(move || {
            while Instant::now() < end {
                db.checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(history.len() > 100);
    if let Err(violation) = history.check(&BTreeMap::new()) {
        panic!("seed {seed}, {shape:?}, inclusive {inclusive}: {violation}");
    }
    let report = tree.database().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn histories_with_one_tier_are_linearizable() {
    round(1, (Kind::Tree, Tiers::One, false), true);
    round(11, (Kind::Hash, Tiers::One, false), true);
    round(21, (Kind::Table, Tiers::One, false), true);
    round(31, (Kind::Lsm, Tiers::One, false), true);
}

#[test]
fn histories_with_two_inclusive_tiers_are_linearizable() {
    round(2, (Kind::Tree, Tiers::Two, false), true);
    round(12, (Kind::Hash, Tiers::Two, false), true);
    round(22, (Kind::Table, Tiers::Two, false), true);
    round(32, (Kind::Lsm, Tiers::Two, false), true);
}

#[test]
fn histories_with_two_exclusive_tiers_are_linearizable() {
    round(3, (Kind::Tree, Tiers::Two, false), false);
    round(13, (Kind::Hash, Tiers::Two, false), false);
    round(23, (Kind::Table, Tiers::Two, false), false);
}

#[test]
fn histories_with_readers_that_lock_are_linearizable() {
    let options = || options().pessimistic_locks(true);
    round_with(options(), 41, (Kind::Tree, Tiers::One, false), true);
    round_with(options(), 42, (Kind::Tree, Tiers::Two, false), true);
    round_with(options(), 43, (Kind::Hash, Tiers::Two, false), false);
}

/// Steps of records that expire, many of them while another thread is at work on them.
fn expiring_step(tree: &Map, hands: &Hands, rng: &mut Rng, recorder: &mut Recorder<'_>) {
    let key = key(rng.below(KEYS));
    let new = value(rng);
    let end = hands.now() + rng.below(12);
    match rng.below(12) {
        0..=4 => recorder.record(&key, Operation::Get, || {
            Some(Outcome::Value(tree.get(&key).unwrap()))
        }),
        5..=6 => recorder.record(&key, Operation::PutUntil(new.clone(), end), || {
            tree.put_until(&key, &new, at(end)).unwrap();
            Some(Outcome::Done)
        }),
        7 => recorder.record(&key, Operation::Insert(new.clone()), || {
            Some(Outcome::Changed(tree.insert(&key, &new).unwrap()))
        }),
        8 => recorder.record(&key, Operation::Update(new.clone()), || {
            let there = tree.update(&key, |old| old.map(|_| new.clone())).unwrap();
            Some(Outcome::Changed(there))
        }),
        9 => recorder.record(&key, Operation::ExpireAt(end), || {
            Some(Outcome::Changed(tree.expire_at(&key, at(end)).unwrap()))
        }),
        10 => recorder.record(&key, Operation::Remove, || {
            Some(Outcome::Changed(tree.remove(&key).unwrap().is_some()))
        }),
        _ => recorder.record(&key, Operation::PutUntil(new.clone(), end), || {
            let mut batch = tree.database().batch();
            batch
                .put(tree, &key, "overwritten in the same batch")
                .put_until(tree, &key, &new, at(end));
            tree.database().write(batch, Durability::Buffered).unwrap();
            Some(Outcome::Done)
        }),
    };
}

/// The clock goes on at instants that the history knows, and what has expired is dropped all the while.
fn expiring_round(seed: u64, shape: Shape) {
    let (disk, hands) = (SimDisk::new(seed), Hands::new());
    let db = Database::open_on(disk.shared(), options().clock(hands.clone())).unwrap();
    let tree = create(&db, "t", shape, MapOptions::new().expiring()).unwrap();
    for i in 0..4000u64 {
        tree.put(format!("{i:05}x"), [i as u8; 150]).unwrap();
    }
    let (history, stop) = (History::new(), AtomicBool::new(false));
    let begin = Operation::Time(hands.now());
    history
        .recorder()
        .record_of_all((0..KEYS).map(key), begin, || Some(Outcome::Done));
    let end = Instant::now() + Duration::from_millis(700 * factor().min(20));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (history, tree, stop, hands) = (&history, &tree, &stop, &hands);
            scope.spawn(move || {
                let mut recorder = history.recorder();
                let mut rng = Rng::new(seed << 8 | thread);
                let mut steps = 0;
                while steps < 20_000 && !stop.load(Ordering::Relaxed) {
                    expiring_step(tree, hands, &mut rng, &mut recorder);
                    steps += 1;
                }
            });
        }
        let (history, stop, hands) = (&history, &stop, &hands);
        scope.spawn(move || {
            let mut recorder = history.recorder();
            while !stop.load(Ordering::Relaxed) {
                let keys = (0..KEYS).map(key);
                let now = Operation::Time(hands.now() + 2);
                recorder.record_of_all(keys, now, || {
                    hands.pass(2);
                    Some(Outcome::Done)
                });
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let tree = &tree;
        scope.spawn(move || {
            // Brings the ballast up, and the others down.
            let mut rng = Rng::new(seed);
            while !stop.load(Ordering::Relaxed) {
                let i = rng.below(4000);
                let got = tree.get(format!("{i:05}x")).unwrap();
                assert_eq!(got.unwrap(), [i as u8; 150]);
            }
        });
        scope.spawn(move || {
            while Instant::now() < end {
                db.checkpoint().unwrap();
                db.drop_expired().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(history.len() > 100 && hands.now() > BEGIN);
    if let Err(violation) = history.check(&BTreeMap::new()) {
        panic!("seed {seed}, {shape:?}: {violation}");
    }
    let report = tree.database().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn histories_with_records_that_expire_are_linearizable() {
    expiring_round(51, (Kind::Tree, Tiers::One, false));
    expiring_round(52, (Kind::Tree, Tiers::Two, false));
    expiring_round(53, (Kind::Hash, Tiers::Two, false));
    expiring_round(54, (Kind::Table, Tiers::Two, false));
    expiring_round(55, (Kind::Lsm, Tiers::Two, false));
}

/// Removes what lies between two of the keys, at once where that can be had, or in steps.
fn remove_range(map: &Map, rng: &mut Rng, recorder: &mut Recorder<'_>) {
    let (a, b) = (rng.below(5000), rng.below(5000));
    let (low, high) = (
        format!("{:05}", a.min(b)).into_bytes(),
        format!("{:05}", a.max(b)).into_bytes(),
    );
    let inside = (0..KEYS)
        .map(key)
        .filter(|key| (&low..&high).contains(&key));
    recorder.record_of_all(inside, Operation::Delete, || {
        let steps = RemoveOptions::new();
        match (map.as_tree(), map.as_table()) {
            (Some(tree), _) if rng.percent(70) => {
                tree.delete_range(low.clone()..high.clone()).unwrap();
            }
            (Some(tree), _) => drop(tree.remove_range(low.clone()..high.clone(), steps).unwrap()),
            (_, Some(table)) => drop(
                table
                    .remove_range(low.clone()..high.clone(), steps)
                    .unwrap(),
            ),
            _ => unreachable!("a structure without an order"),
        }
        Some(Outcome::Done)
    });
}

/// Ranges go while others are at work in them, and a thread keeps a copy by the changes: in the end it has the
/// same records.
fn round_of_ranges(seed: u64, shape: Shape) {
    let disk = SimDisk::new(seed);
    disk.set_lending(seed.is_multiple_of(2));
    // The reader of the changes may be late.
    let db = Database::open_on(disk.shared(), options().archive_lag(1 << 30)).unwrap();
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    let map = create(&db, "t", shape, MapOptions::new()).unwrap();
    let filler = |i: u64| (format!("{i:05}x"), [i as u8; 150]);
    for (key, value) in (0..5000).map(filler) {
        map.put(key, value).unwrap();
    }
    let (history, stop) = (History::new(), AtomicBool::new(false));
    let end = Instant::now() + Duration::from_millis(700 * factor().min(20));
    let copy = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut copy = Copy::default();
            loop {
                // Whatever was written before is durable by then.
                let is_last = stop.load(Ordering::SeqCst) && map.database().sync().is_ok();
                while let Some(commit) = changes.next_within(Duration::from_millis(100)).unwrap() {
                    copy.apply(&commit);
                }
                if is_last {
                    return copy;
                }
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (history, map) = (&history, &map);
                scope.spawn(move || {
                    let mut recorder = history.recorder();
                    let mut rng = Rng::new(seed << 8 | thread);
                    let mut steps = 0;
                    while steps < 20_000 && Instant::now() < end {
                        match rng.below(60) {
                            0 => remove_range(map, &mut rng, &mut recorder),
                            // So that there are pages between the keys.
                            1..20 => {
                                let (key, value) = filler(rng.below(5000));
                                map.put(key, value).unwrap();
                            }
                            _ => step(map, &mut rng, &mut recorder),
                        }
                        steps += 1;
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                map.database().checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
        reader.join().unwrap()
    });
    assert!(history.len() > 100);
    if let Err(violation) = history.check(&BTreeMap::new()) {
        panic!("seed {seed}, {shape:?}: {violation}");
    }
    let left: BTreeMap<_, _> = map.iter().unwrap().map(Result::unwrap).collect();
    assert!(copy.records()["t"] == left, "seed {seed}, {shape:?}");
    let report = map.database().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn histories_with_ranges_that_go_are_linearizable() {
    round_of_ranges(61, (Kind::Tree, Tiers::One, false));
    round_of_ranges(62, (Kind::Tree, Tiers::Two, false));
    round_of_ranges(63, (Kind::Table, Tiers::Two, false));
    round_of_ranges(64, (Kind::Lsm, Tiers::Two, false));
    round_of_ranges(65, (Kind::Lsm, Tiers::One, false));
}
