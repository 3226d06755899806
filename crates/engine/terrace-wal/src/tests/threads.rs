//! Several threads: one commit order, groups, and nothing acknowledged lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use terrace_base::Error;
use terrace_sim::{Call, Fault as DiskFault, HookedDisk, Injection, Op, Rng, SimDisk, Survival};

use super::basics::{put, recover_with, small};
use crate::{Durability, Log, Position};

/// Threads append records that name thread and number; gives, for each acknowledged record, its
/// sequence number, payload and durability.
fn load(log: &Log, threads: u64, each: u64, long: bool) -> Vec<(u64, Vec<u8>, Durability)> {
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for number in 0..each {
                    let len = if long && rng.percent(3) {
                        20_000
                    } else {
                        rng.below(150) as usize
                    };
                    let mut bytes = [thread, number].map(u64::to_be_bytes).concat();
                    bytes.resize(16 + len, thread as u8);
                    let durability = if rng.percent(20) {
                        Durability::Sync
                    } else {
                        Durability::Buffered
                    };
                    let Ok(sequence) = put(log, &bytes, durability) else {
                        return;
                    };
                    acknowledged
                        .lock()
                        .unwrap()
                        .push((sequence, bytes, durability));
                }
            });
        }
    });
    acknowledged.into_inner().unwrap()
}

fn check(
    disk: &SimDisk,
    from: Position,
    acknowledged: &[(u64, Vec<u8>, Durability)],
    power_cut: bool,
) {
    let (_, _, records) = recover_with(disk, small(1 << 20), from, 0).unwrap();
    for (i, (sequence, _)) in records.iter().enumerate() {
        assert_eq!(*sequence, i as u64 + 1);
    }
    for (sequence, bytes, durability) in acknowledged {
        if power_cut && *durability == Durability::Buffered {
            continue;
        }
        let found = records.get(*sequence as usize - 1).map(|(_, bytes)| bytes);
        assert!(
            found == Some(bytes),
            "record {sequence}, acknowledged as {durability:?}"
        );
    }
    // Each thread waits for its record, so its records must come in its order.
    let mut last = std::collections::BTreeMap::new();
    for (_, bytes) in &records {
        let before = last.insert(bytes[..8].to_vec(), bytes[8..16].to_vec());
        assert!(before.is_none_or(|before| before < bytes[8..16].to_vec()));
    }
}

#[test]
fn what_threads_were_told_is_durable_is_there_after_a_cut() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(seed), 0).unwrap();
        let from = log.position();
        // Far into the run, so that all threads are at work, wherever that is for each.
        disk.inject(Injection::any(200 + seed * 37, DiskFault::PowerCut));
        let acknowledged = load(&log, 4, 300, true);
        assert!(!disk.is_powered());
        // Where the cut came while a segment was made, nothing is unknown, and the log only refuses.
        assert!(log.poisoned().is_some() || put(&log, &[0; 20_000], Durability::Sync).is_err());
        for survivor in 0..4 {
            check(&disk.crash(survivor), from, &acknowledged, true);
        }
        check(
            &disk.crash_keeping(Survival::Nothing),
            from,
            &acknowledged,
            true,
        );
    }
}

#[test]
fn a_failed_sync_is_told_to_every_thread_that_waits() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(seed), 0).unwrap();
        let from = log.position();
        disk.inject(Injection::at(Op::Sync, 20 + seed, DiskFault::Eio));
        let acknowledged = load(&log, 4, 300, false);
        assert!(
            acknowledged.len() < 1200,
            "all threads must have been stopped"
        );
        assert!(log.poisoned().is_some());
        check(&disk, from, &acknowledged, false);
    }
}

#[test]
fn one_sync_serves_all_that_were_appended_before_it() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    let appended: Vec<_> = (0..20u8)
        .map(|i| {
            let mut reservation = log.reserve(10).unwrap();
            log.append(&mut reservation, &[&[i; 10]])
        })
        .collect();
    let before = disk.calls();
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for mine in appended.chunks(5) {
            let (log, barrier) = (&log, &barrier);
            scope.spawn(move || {
                barrier.wait();
                mine.iter()
                    .for_each(|a| log.commit(*a, Durability::Sync).unwrap());
            });
        }
    });
    assert_eq!(disk.calls() - before, 2, "one write and one sync");
    assert_eq!(log.stats().syncs, 1);
}

#[test]
fn a_buffer_full_of_reservations_makes_the_next_wait_and_not_fail() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    let from = log.position();
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let (log, acknowledged) = (&log, &acknowledged);
            scope.spawn(move || {
                for _ in 0..200 {
                    // Half of them are given back unused.
                    let unused = log.reserve(600).unwrap();
                    drop(unused);
                    let sequence = put(log, &[thread; 700], Durability::Buffered).unwrap();
                    acknowledged.lock().unwrap().push(sequence);
                }
            });
        }
    });
    let mut acknowledged = acknowledged.into_inner().unwrap();
    acknowledged.sort_unstable();
    assert!(acknowledged.iter().copied().eq(1..=1200));
    drop(log);
    let (_, _, records) = recover_with(&disk, small(1), from, 0).unwrap();
    assert_eq!(records.len(), 1200);
}

#[test]
fn nobody_else_waits_while_the_next_segment_is_made() {
    let disk = SimDisk::new(1);
    let turn = Arc::new(Mutex::new(()));
    // The sync of the second segment waits for `turn`.
    let slow = {
        let turn = turn.clone();
        HookedDisk::new(disk.shared(), move |call| {
            if matches!(call, Call::Sync(name) if name.ends_with('2')) {
                drop(turn.lock().unwrap());
            }
        })
    };
    let log = Log::create(Arc::new(slow), small(1), 0).unwrap();
    let held = turn.lock().unwrap();
    let (sender, done) = channel();
    let went_on = std::thread::scope(|scope| {
        // A third of the space is left when the first of them begins to make a segment.
        for thread in 0..3u8 {
            let (log, sender) = (&log, sender.clone());
            scope.spawn(move || {
                for _ in 0..20 {
                    put(log, &[thread; 100], Durability::Buffered).unwrap();
                }
                sender.send(thread).unwrap();
            });
        }
        let two = (0..2).all(|_| done.recv_timeout(Duration::from_secs(30)).is_ok());
        let third = done.recv_timeout(Duration::from_millis(50)).is_ok();
        drop(held);
        two && !third
    });
    assert!(went_on);
    assert_eq!(log.stats().records, 60);
    assert_eq!(log.stats().segments_created, 1);
}

#[test]
fn a_writer_that_panics_in_what_it_does_for_all_keeps_nobody_waiting() {
    type Which = fn(&Call<'_>) -> bool;
    let calls: [(&str, Which); 3] = [
        ("writing", |call| matches!(call, Call::Write(_))),
        ("syncing", |call| matches!(call, Call::Sync(_))),
        ("making a segment", |call| matches!(call, Call::Create(_))),
    ];
    for (what, which) in calls {
        let armed = Arc::new(AtomicBool::new(false));
        let once = armed.clone();
        let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
            if which(&call) && once.swap(false, Ordering::SeqCst) {
                panic!("a panic that a test has asked for");
            }
        });
        let log = Arc::new(Log::create(Arc::new(disk), small(1), 0).unwrap());
        armed.store(true, Ordering::SeqCst);
        let (sender, done) = channel();
        for thread in 0..4u8 {
            let (log, sender) = (log.clone(), sender.clone());
            // No thread waits for its end: should it have none, the test has one.
            std::thread::spawn(move || {
                loop {
                    let put = || put(&log, &[thread; 100], Durability::Sync);
                    // Who has panicked goes on, and is told as the others.
                    if let Ok(Err(error)) = catch_unwind(AssertUnwindSafe(put)) {
                        return sender.send(error);
                    }
                }
            });
        }
        for _ in 0..4 {
            let told = done.recv_timeout(Duration::from_secs(30));
            let poisoned = matches!(told, Ok(Error::Poisoned { .. }));
            assert!(poisoned, "{what}: {told:?}");
        }
    }
}
