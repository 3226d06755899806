//! The lane under the concurrency checker: what is acknowledged is there at that instant, with all before it, and
//! what closes it waits for no thread without end.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use terrace_base::Error;
use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk, Survival};

use super::shuttle::{SCHEDULES, small};
use crate::fault::Fault;
use crate::{Durability, Follower, Log, Position};

/// A log whose lane is open.
fn opened(fault: Fault) -> (SimDisk, Arc<Log>, Position) {
    let disk = SimDisk::new(1);
    disk.set_lending(true);
    let mut options = small(1);
    options.fault = fault;
    let log = Log::create(disk.shared(), options, 0).unwrap();
    let from = log.position();
    for byte in 0..20 {
        if log.state.lock().lane.is_some() {
            break;
        }
        put(&log, byte, Durability::Buffered).unwrap();
    }
    assert!(log.state.lock().lane.is_some(), "it is open");
    (disk, Arc::new(log), from)
}

/// The record with this byte; its sequence number.
fn put(log: &Log, byte: u8, durability: Durability) -> Result<u64, Error> {
    let mut reservation = log.reserve(10)?;
    let appended = log.append(&mut reservation, &[&[byte; 4], &[byte; 6]]);
    log.commit(appended, durability)?;
    Ok(appended.sequence)
}

/// The records that are found when a log is opened.
fn found(disk: &SimDisk, from: Position) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    Log::recover(disk.shared(), small(2), from, 0, &mut |sequence, bytes| {
        found.push((sequence, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    found
}

/// What another thread does beside those that put.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Sync,
    Cut,
    Flush,
    LongRecord,
    FailedSync,
    Poison,
}

/// Threads put; each record that is acknowledged is there if the process dies at that instant.
fn acknowledged_is_there(fault: Fault, beside: Beside) {
    let (disk, log, from) = opened(fault);
    if matches!(beside, Beside::FailedSync) {
        disk.inject(Injection::at(Op::Sync, 1, DiskFault::Eio));
    }
    let threads: Vec<_> = (101..104)
        .map(|byte| {
            let (log, disk) = (log.clone(), disk.clone());
            thread::spawn(move || {
                let sequence = put(&log, byte, Durability::Buffered).ok()?;
                Some((sequence, byte, disk.copy()))
            })
        })
        .collect();
    match beside {
        Beside::Sync => log.sync().unwrap(),
        Beside::Cut => assert!(log.position().sequence > 1),
        Beside::Flush => {
            let next = log.next_sequence();
            log.flush().unwrap();
            let there = found(&disk.copy(), from).len() as u64;
            assert!(there + 1 >= next, "{there} of those before {next}");
        }
        Beside::LongRecord => {
            let mut reservation = log.reserve(3000).unwrap();
            let appended = log.append(&mut reservation, &[&[9; 3000]]);
            log.commit(appended, Durability::Buffered).unwrap();
        }
        Beside::FailedSync => assert!(log.sync().is_err()),
        Beside::Poison => log.poison("a test has asked for it"),
    }
    for thread in threads {
        let Some((sequence, byte, disk)) = thread.join().unwrap() else {
            assert!(log.poisoned().is_some());
            continue;
        };
        disk.heal();
        let found = found(&disk, from);
        let record = found.get(sequence as usize - 1);
        assert_eq!(record, Some(&(sequence, vec![byte; 10])));
    }
    if log.poisoned().is_none() {
        log.sync().unwrap();
        let state = log.state.lock();
        assert_eq!((state.reserved, state.reserved_buffer), (0, 0));
    }
}

#[test]
fn what_is_acknowledged_is_there_whatever_closes_the_lane() {
    let all = [
        Beside::Sync,
        Beside::Cut,
        Beside::Flush,
        Beside::LongRecord,
        Beside::FailedSync,
        Beside::Poison,
    ];
    for beside in all {
        let check = move || acknowledged_is_there(Fault::None, beside);
        shuttle::check_random(check, SCHEDULES / 4);
    }
}

/// Whether the schedules of one seed find a fault.
fn is_found(check: impl Fn() + Send + Sync + std::panic::UnwindSafe + 'static) -> bool {
    let planted = || shuttle::check_random_with_seed(check, 1, SCHEDULES);
    std::panic::catch_unwind(planted).is_err()
}

#[test]
fn what_is_told_too_early_is_found() {
    for fault in [
        Fault::DoneAlone,
        Fault::DoneBeforeCopied,
        Fault::WrittenBeforeDone,
    ] {
        let check = move || acknowledged_is_there(fault, Beside::Sync);
        assert!(is_found(check), "{fault:?}");
    }
}

/// Who finds at his check that another thread has not begun stands before that one's record.
fn checked_in_order(fault: Fault) {
    let (_, log, _) = opened(fault);
    let has_begun = Arc::new(AtomicBool::new(false));
    let other = {
        let (log, has_begun) = (log.clone(), has_begun.clone());
        thread::spawn(move || {
            has_begun.store(true, Ordering::SeqCst);
            put(&log, 1, Durability::Buffered).unwrap()
        })
    };
    let mut reservation = log.reserve(10).unwrap();
    let check = || !has_begun.load(Ordering::SeqCst);
    let appended = log.append_if(&mut reservation, &[&[2; 10]], check);
    drop(reservation);
    let others = other.join().unwrap();
    assert!(appended.is_none_or(|appended| appended.sequence < others));
}

#[test]
fn nobody_appends_between_a_check_and_its_record() {
    shuttle::check_random(|| checked_in_order(Fault::None), SCHEDULES);
    assert!(is_found(|| checked_in_order(Fault::CheckedBesideAppends)));
}

#[test]
fn who_follows_gets_what_is_durable_in_order() {
    let check = || {
        let (disk, log, _) = opened(Fault::None);
        let (hold, place) = log.hold(u64::MAX);
        let threads: Vec<_> = [Durability::Buffered, Durability::Sync]
            .into_iter()
            .map(|durability| {
                let log = log.clone();
                thread::spawn(move || {
                    for byte in 1..4 {
                        put(&log, byte, durability).unwrap();
                    }
                })
            })
            .collect();
        let mut follower = Follower::new(place, 0);
        let mut got = Vec::new();
        for round in 0..3 {
            if round == 2 {
                log.sync().unwrap();
            }
            log.follow(&mut follower, &mut |sequence, bytes| {
                got.push((sequence, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
            let durable = found(&disk.copy().crash_keeping(Survival::Nothing), place.into());
            assert!(got.len() <= durable.len() && got[..] == durable[..got.len()]);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        log.let_go(hold);
    };
    shuttle::check_random(check, SCHEDULES / 4);
}

/// What a reservation of `len` bytes waits for in the buffer comes, however those before it are written.
#[test]
fn who_waits_for_room_is_woken() {
    let check = || {
        let (_, log, _) = opened(Fault::None);
        let mut held = [1100, 1100].map(|len| log.reserve(len).unwrap());
        // At some number the next reservation finds that the lane has promised all that it has.
        for byte in 0..thread_rng().gen_range(0..60) {
            put(&log, byte, Durability::Buffered).unwrap();
        }
        let short = {
            let log = log.clone();
            thread::spawn(move || put(&log, 1, Durability::Buffered).unwrap())
        };
        let waits = {
            let log = log.clone();
            thread::spawn(move || drop(log.reserve(1900).unwrap()))
        };
        for reservation in &mut held {
            let appended = log.append(reservation, &[&[7; 1100]]);
            log.commit(appended, Durability::Buffered).unwrap();
        }
        drop(held);
        short.join().unwrap();
        waits.join().unwrap();
    };
    shuttle::check_random(check, 2 * SCHEDULES);
}
