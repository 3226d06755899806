//! Several threads write while demotion, cleaning and checkpoints run, and the power goes at some
//! write. Each thread's batches are numbered: what is found of a thread is its batches up to some
//! number, whole, at least the last that it was told is durable; and across threads a batch that
//! was begun after another had been acknowledged is never there without it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::unlogged::threads_write;
use crate::common::{all_shapes, factor, seeds};
use terrace::{Database, Durability, Map, Options, Result, encode};
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

const THREADS: usize = 4;
/// Each number overwrites the one this much before it.
const KEYS: u64 = 1500;

fn options() -> Options {
    Options::new()
        .memory(1 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(256 << 10)
}

fn key(thread: usize, number: u64) -> [u8; 9] {
    let mut key = [thread as u8; 9];
    key[1..].copy_from_slice(&encode::u64(number % KEYS));
    key
}

fn value(thread: usize, number: u64) -> Vec<u8> {
    let mut rng = Rng::new((thread as u64) << 40 | number);
    let len = if rng.percent(1) { 3000 } else { rng.below(200) };
    [&encode::u64(number)[..], &rng.bytes(len as usize)].concat()
}

/// A batch: the number of its thread, and what every thread had had acknowledged when it began.
fn write(db: &Database, trees: &[Map], thread: usize, number: u64, seen: &[u64]) -> Result<bool> {
    let mut batch = db.batch();
    let value = value(thread, number);
    for tree in trees {
        batch.put(tree, key(thread, number), &value);
    }
    let marker: Vec<u8> = [number]
        .iter()
        .chain(seen)
        .flat_map(|&n| encode::u64(n))
        .collect();
    batch.put(&trees[0], [thread as u8], marker);
    let sync = number % 7 == thread as u64;
    let durability = if sync {
        Durability::Sync
    } else {
        Durability::Buffered
    };
    db.write(batch, durability).map(|()| sync)
}

fn numbers(marker: &[u8]) -> Vec<u64> {
    marker.chunks(8).filter_map(encode::to_u64).collect()
}

#[test]
fn a_power_cut_under_load_leaves_a_prefix() {
    let zeros = || [const { AtomicU64::new(0) }; THREADS];
    for seed in seeds(3) {
        let mut rng = Rng::new(seed);
        let mut disk = SimDisk::new(seed);
        disk.set_lending(seed % 2 == 0);
        let (synced, acknowledged) = (zeros(), zeros());
        for round in 0..4 {
            disk.inject(Injection::at(
                Op::Write,
                20 + rng.below(800),
                Fault::PowerCut,
            ));
            if let Ok(db) = Database::open_on(disk.shared(), options())
                && let Ok(trees) = all_shapes(&db)
            {
                std::thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let (db, trees, synced, acknowledged) =
                            (&db, &trees, &synced, &acknowledged);
                        scope.spawn(move || {
                            loop {
                                let seen =
                                    acknowledged.each_ref().map(|n| n.load(Ordering::SeqCst));
                                let number = seen[thread] + 1;
                                match write(db, trees, thread, number, &seen) {
                                    Ok(sync) => {
                                        acknowledged[thread].store(number, Ordering::SeqCst);
                                        if sync {
                                            synced[thread].store(number, Ordering::SeqCst);
                                        }
                                    }
                                    Err(_) => break,
                                }
                            }
                        });
                    }
                });
            }
            disk = disk.crash(rng.next_u64());
            let db = Database::open_on(disk.shared(), options()).unwrap();
            check(&db, seed, round, &synced, &acknowledged);
        }
    }
}

fn check(db: &Database, seed: u64, round: u32, synced: &[AtomicU64], acknowledged: &[AtomicU64]) {
    let trees = all_shapes(db).unwrap();
    let found: Vec<Vec<u64>> = (0..THREADS)
        .map(|thread| {
            trees[0]
                .get([thread as u8])
                .unwrap()
                .map_or(vec![0; 5], |m| numbers(&m))
        })
        .collect();
    for thread in 0..THREADS {
        let last = found[thread][0];
        let least = synced[thread].load(Ordering::SeqCst);
        let most = acknowledged[thread].load(Ordering::SeqCst) + 1;
        let context = format!("seed {seed}, round {round}, thread {thread}: {last} found");
        assert!(last >= least, "{context}, {least} was durable");
        assert!(last <= most, "{context}, {most} was the last begun");
        for (other, &seen) in found[thread][1..].iter().enumerate() {
            assert!(
                found[other][0] >= seen,
                "{context}, but not {seen} of {other} before it"
            );
        }
        for number in last.saturating_sub(KEYS - 1).max(1)..=last {
            for tree in &trees {
                let got = tree.get(key(thread, number)).unwrap();
                assert!(
                    got == Some(value(thread, number)),
                    "{context}, {number} is wrong"
                );
            }
        }
        // The next round goes on from what was found.
        synced[thread].store(last, Ordering::SeqCst);
        acknowledged[thread].store(last, Ordering::SeqCst);
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "seed {seed}, round {round}: {report}");
}

#[test]
fn of_what_has_no_log_it_leaves_one_instant() {
    threads_write(12 * factor());
}
