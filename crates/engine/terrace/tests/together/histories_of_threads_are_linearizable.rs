//! Several threads on few keys, with background demotion, cleaning and checkpoints on a pool far
//! too small: the recorded histories have an order in which every answer is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::expiry::{BEGIN, Hands, at};
use crate::common::{Shape, create, factor};
use terrace::{Database, Durability, Kind, Map, MapOptions, Options, Tiers};
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

/// Steps of records that expire, many of them while somebody is at work on them.
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
