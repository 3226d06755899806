//! The hand-over between leaders under the concurrency checker: no thread waits for ever, and what is
//! acknowledged is there.
//!
//! `cargo test -p terrace-wal --features shuttle`

use std::sync::Arc;

use shuttle::rand::Rng;
use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk, Survival};

use crate::fault::Fault;
use crate::{Durability, Log, LogOptions};

pub(super) const SCHEDULES: usize = 2000;

pub(super) fn small(seed: u64) -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        buffer_bytes: 8 << 10,
        seed: Some(seed),
        ..LogOptions::default()
    }
}

/// What threads with these durabilities and record lengths are told, and what is there afterwards.
fn run(plan: &[(Durability, usize, usize)], injection: Option<Injection>) {
    run_with(plan, injection, false);
}

/// The same, beside a thread that attends. In every other schedule parts of files can be written by copying.
fn run_with(plan: &[(Durability, usize, usize)], injection: Option<Injection>, attended: bool) {
    let disk = SimDisk::new(1);
    disk.set_lending(shuttle::rand::thread_rng().gen_bool(0.5));
    let log = Arc::new(Log::create(disk.shared(), small(1), 0).unwrap());
    let from = log.position();
    if let Some(injection) = injection {
        disk.inject(injection);
    }
    let attendant = attended.then(|| {
        let log = log.clone();
        shuttle::thread::spawn(move || log.run_background())
    });
    let threads: Vec<_> = plan
        .iter()
        .enumerate()
        .map(|(thread, &(durability, len, count))| {
            let log = log.clone();
            shuttle::thread::spawn(move || {
                let mut done = Vec::new();
                for _ in 0..count {
                    let Ok(mut reservation) = log.reserve(len) else {
                        break;
                    };
                    let bytes = vec![thread as u8; len];
                    let appended = log.append(&mut reservation, &[&bytes]);
                    if log.commit(appended, durability).is_err() {
                        break;
                    }
                    done.push((appended.sequence, bytes, durability));
                }
                done
            })
        })
        .collect();
    let acknowledged: Vec<_> = threads
        .into_iter()
        .flat_map(|t| t.join().unwrap())
        .collect();
    // A poisoned log lets it go by itself.
    if log.poisoned().is_none() {
        log.dismiss();
    }
    if let Some(attendant) = attendant {
        attendant.join().unwrap();
    }
    let lives_on = disk.copy();
    for (copy, power_cut) in [
        (disk.crash_keeping(Survival::Nothing), true),
        (lives_on, false),
    ] {
        let mut found = Vec::new();
        Log::recover(copy.shared(), small(2), from, 0, &mut |sequence, bytes| {
            found.push((sequence, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        for (sequence, bytes, durability) in &acknowledged {
            if power_cut && *durability == Durability::Buffered {
                continue;
            }
            assert_eq!(
                found.get(*sequence as usize - 1),
                Some(&(*sequence, bytes.clone()))
            );
        }
    }
}

#[test]
fn leaders_hand_over() {
    use Durability::{Buffered, Sync};
    shuttle::check_random(
        || run(&[(Sync, 10, 2), (Sync, 20, 2), (Buffered, 30, 2)], None),
        SCHEDULES,
    );
}

#[test]
fn a_failed_sync_wakes_all() {
    use Durability::{Buffered, Sync};
    let fault = || Some(Injection::at(Op::Sync, 2, DiskFault::Eio));
    shuttle::check_random(
        move || run(&[(Sync, 10, 2), (Sync, 20, 2), (Buffered, 30, 2)], fault()),
        SCHEDULES,
    );
}

#[test]
fn long_records_and_full_buffers_and_segments_wait_for_each_other_without_end() {
    use Durability::{Buffered, Sync};
    shuttle::check_random(
        || {
            run(
                &[(Buffered, 900, 8), (Sync, 9000, 1), (Buffered, 800, 8)],
                None,
            )
        },
        SCHEDULES / 3,
    );
}

#[test]
fn writers_and_the_thread_that_attends_make_segments_without_end() {
    use Durability::{Buffered, Sync};
    shuttle::check_random(
        || {
            let plan = [(Buffered, 900, 8), (Sync, 2000, 4), (Buffered, 800, 8)];
            run_with(&plan, None, true);
        },
        SCHEDULES / 3,
    );
}

#[test]
fn a_sync_that_fails_while_a_segment_is_made_ends_the_thread_that_attends() {
    use Durability::{Buffered, Sync};
    let fault = || Some(Injection::at(Op::Sync, 3, DiskFault::Eio));
    shuttle::check_random(
        move || {
            let plan = [(Buffered, 900, 8), (Sync, 2000, 4), (Buffered, 800, 8)];
            run_with(&plan, fault(), true);
        },
        SCHEDULES / 3,
    );
}

/// A commit that is to be durable beside a checkpoint that becomes so, and a sync that fails for one
/// of them: the other is not told that all is well.
fn commit_beside_checkpoint(fault: Fault) {
    let disk = SimDisk::new(1);
    let mut options = small(1);
    options.fault = fault;
    let log = Arc::new(Log::create(disk.shared(), options, 0).unwrap());
    let from = log.position();
    disk.inject(Injection::at(Op::Sync, 1, DiskFault::Eio));
    let checkpoint = {
        let log = log.clone();
        shuttle::thread::spawn(move || log.checkpointed(from, 0).is_ok())
    };
    let acknowledged = log.reserve(10).ok().is_some_and(|mut reservation| {
        let appended = log.append(&mut reservation, &[&[7; 10]]);
        log.commit(appended, Durability::Sync).is_ok()
    });
    checkpoint.join().unwrap();
    let mut found = 0;
    let copy = disk.crash_keeping(Survival::Nothing);
    Log::recover(copy.shared(), small(2), from, 0, &mut |_, _| {
        found += 1;
        Ok(())
    })
    .unwrap();
    assert!(found == 1 || !acknowledged, "acknowledged, and lost");
}

#[test]
fn a_sync_that_fails_for_another_is_not_taken_for_done() {
    shuttle::check_random(|| commit_beside_checkpoint(Fault::None), SCHEDULES);
    // In the same orders each time: what they find they find again.
    let planted = || {
        let check = || commit_beside_checkpoint(Fault::SyncsAtOnce);
        shuttle::check_random_with_seed(check, 1, SCHEDULES);
    };
    assert!(std::panic::catch_unwind(planted).is_err());
}
