//! Calls that fail: ordinary errors while space is reserved, poison after that, and no acknowledged record lost.

use terrace_base::Error;
use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk};

use super::basics::{put, recover_with, small};
use super::crash::calls_of;
use super::harness::{Failure, Run};
use crate::fault::Fault;
use crate::{Durability, Log, LogOptions};

/// A run whose n-th call fails, which goes on as a program would: on a full disk it tries again, on
/// a poisoned log it opens anew. Then the process dies or the power is cut.
pub(crate) fn run_with_error(
    seed: u64,
    fault: Fault,
    injection: Injection,
    power: bool,
) -> Result<(), Failure> {
    let mut run = Run::new(seed, fault);
    run.disk.inject(injection);
    let mut open = run.create().is_ok();
    for attempt in 0..6 {
        if !open {
            run.kill();
            match run
                .recover()
                .map_err(|f| format!("opening {attempt}: {f}"))?
            {
                Ok(()) => open = true,
                Err(_) => continue,
            }
        }
        match run.work(12) {
            Ok(()) => {}
            Err(e) if e.is_disk_full() => run.disk_full += 1,
            Err(_) => open = false,
        }
        if power && attempt == 4 {
            run.cut_power(seed);
            open = false;
        }
    }
    run.disk.heal();
    run.kill();
    run.recover()
        .map_err(|f| format!("the end: {f}"))?
        .map_err(|e| format!("the end: {e}"))
}

fn hold(injections: impl Fn(u64) -> Injection) {
    for seed in 0..8 {
        for at in 1..=calls_of(seed) + 10 {
            for power in [false, true] {
                if let Err(failure) = run_with_error(seed, Fault::None, injections(at), power) {
                    panic!(
                        "seed {seed}, {:?}, power cut {power}: {failure}",
                        injections(at)
                    );
                }
            }
        }
    }
}

#[test]
fn an_input_output_error_at_every_call() {
    hold(|at| Injection::any(at, DiskFault::Eio));
}

#[test]
fn a_full_disk_at_every_call() {
    hold(|at| Injection::any(at, DiskFault::NoSpace));
}

#[test]
fn a_failed_sync_at_every_sync() {
    hold(|at| Injection::at(Op::Sync, at, DiskFault::Eio));
}

#[test]
fn a_failed_sync_stops_the_log_for_all_and_is_not_tried_again() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    put(&log, b"kept", Durability::Sync).unwrap();
    disk.inject(Injection::at(Op::Sync, 1, DiskFault::Eio));
    assert!(matches!(
        put(&log, b"unknown", Durability::Sync),
        Err(Error::Poisoned { .. })
    ));
    let syncs = disk.calls_of(Op::Sync);
    assert!(matches!(log.reserve(1), Err(Error::Poisoned { .. })));
    assert!(matches!(log.sync(), Err(Error::Poisoned { .. })));
    assert!(matches!(
        log.checkpointed(from, 1),
        Err(Error::Poisoned { .. })
    ));
    assert!(log.poisoned().is_some());
    assert_eq!(disk.calls_of(Op::Sync), syncs);
    let (_, _, records) = recover_with(&disk.crash(3), small(2), from, 0).unwrap();
    assert_eq!(records[0], (1, b"kept".to_vec()));
}

#[test]
fn a_full_disk_is_an_ordinary_error_and_writing_goes_on_once_there_is_space() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    disk.set_capacity(Some(40 << 10));
    let mut count = 0u64;
    let full = loop {
        match put(&log, &[3; 100], Durability::Buffered) {
            Ok(_) => count += 1,
            Err(e) => break e,
        }
    };
    assert!(full.is_disk_full(), "{full}");
    assert!(log.poisoned().is_none());
    assert_eq!(
        disk.names(),
        ["log-00000001", "log-00000002"],
        "nothing half-made is left"
    );
    // What frees space still gets through: the last quarter of a segment is kept for it.
    for _ in 0..5 {
        let mut reservation = log.reserve_urgent(20).unwrap();
        let appended = log.append(&mut reservation, &[b"delete something...."]);
        log.commit(appended, Durability::Sync).unwrap();
        count += 1;
    }
    assert!(log.reserve(100).is_err_and(|e| e.is_disk_full()));
    // So does a checkpoint, which then makes room.
    let cut = log.position();
    log.checkpointed(cut, 1).unwrap();
    put(&log, &[4; 100], Durability::Sync).unwrap();
    disk.set_capacity(None);
    for _ in 0..300 {
        put(&log, &[5; 100], Durability::Buffered).unwrap();
    }
    drop(log);
    let (_, _, records) = recover_with(&disk, small(2), cut, 1).unwrap();
    assert_eq!(records.len(), 301);
    assert_eq!(records[0].0, count + 1);
    assert!(matches!(
        recover_with(&disk, small(3), from, 0),
        Err(Error::Corrupt { .. })
    ));
}

/// It has room, and the segment after the next one, which is made ahead, does not fit the disk: what it has
/// room in must not be given back and made again, for ever.
#[test]
fn a_record_of_several_segments_is_taken_or_refused_when_the_disk_is_nearly_full() {
    for len in (16_000..40_000).step_by(700) {
        let disk = SimDisk::new(1);
        let log = Log::create(disk.shared(), small(1), 0).unwrap();
        disk.set_capacity(Some(disk.used_bytes() + (120 << 10)));
        // Whoever would make segments without end is told that the power is gone.
        disk.inject(Injection::any(3000, DiskFault::PowerCut));
        let taken = (0..20).find_map(|_| put(&log, &vec![3; len], Durability::Buffered).err());
        let full = taken.expect("the disk is full");
        assert!(full.is_disk_full(), "{len}: {full}");
        assert!(log.poisoned().is_none());
    }
}

#[test]
fn the_next_segment_is_made_ahead_and_its_lack_is_no_error_before_it_is_needed() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    let used = |log: &Log| log.bytes_since(from);
    while log.stats().segments_created == 0 {
        put(&log, &[3; 100], Durability::Buffered).unwrap();
    }
    let half = 4 << 10..6 << 10;
    assert!(half.contains(&used(&log)), "{}", used(&log));
    // The same without space: tried once, and again only when there is no other way.
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    disk.set_capacity(Some(16 << 10));
    let end = loop {
        if let Err(e) = put(&log, &[3; 100], Durability::Buffered) {
            break e;
        }
    };
    assert!(end.is_disk_full(), "{end}");
    assert!(used(&log) > half.end, "{}", used(&log));
    assert_eq!(disk.calls_of(Op::Create), 3);
    disk.set_capacity(None);
    put(&log, &[3; 100], Durability::Buffered).unwrap();
}

#[test]
fn the_last_space_runs_out_as_an_error_too_and_a_full_disk_can_be_opened() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    disk.set_capacity(Some(16 << 10));
    let mut count = 0;
    let mut urgent = |log: &Log| {
        let mut reservation = log.reserve_urgent(10)?;
        let appended = log.append(&mut reservation, &[&[1; 10]]);
        log.commit(appended, Durability::Sync)?;
        count += 1;
        Ok::<_, Error>(())
    };
    let end = loop {
        if let Err(e) = urgent(&log) {
            break e;
        }
    };
    assert!(end.is_disk_full(), "{end}");
    assert!(log.poisoned().is_none());
    drop(log);
    assert!(count > 20, "{count}");
    for seed in 0..20 {
        let copy = disk.crash(seed);
        let (log, _, records) = recover_with(&copy, small(2 + seed), from, 0).unwrap();
        assert_eq!(records.len(), count);
        assert!(log.reserve(10).is_err_and(|e| e.is_disk_full()));
        let cut = log.position();
        log.checkpointed(cut, 1).unwrap();
        copy.set_capacity(Some(32 << 10));
        put(&log, b"again", Durability::Sync).unwrap();
    }
}

#[test]
fn a_record_too_long_for_the_disk_gives_the_space_back() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    put(&log, b"before", Durability::Sync).unwrap();
    disk.set_capacity(Some(10 * (16 << 10)));
    for _ in 0..3 {
        assert!(log.reserve(1 << 20).is_err_and(|e| e.is_disk_full()));
        assert!(disk.names().len() <= 2, "{:?}", disk.names());
    }
    put(&log, &[1; 50_000], Durability::Sync).unwrap();
    for seed in 0..10 {
        let (_, _, records) = recover_with(&disk.copy().crash(seed), small(2), from, 0).unwrap();
        assert_eq!(records.len(), 2);
    }
}

/// With segments of 1 MiB and space for a part of one: what frees space goes on after an opening, other
/// writes only if half a segment can be had.
#[test]
fn a_nearly_full_disk_gets_shorter_segments() {
    let disk = SimDisk::new(1);
    let options = |seed| LogOptions {
        segment_bytes: 1 << 20,
        ..small(seed)
    };
    let log = Log::create(disk.shared(), options(1), 0).unwrap();
    let from = log.position();
    put(&log, b"before", Durability::Sync).unwrap();
    drop(log);
    let urgent = |log: &Log| {
        let mut reservation = log.reserve_urgent(1000)?;
        let appended = log.append(&mut reservation, &[&[2; 1000]]);
        log.commit(appended, Durability::Sync)
    };
    for (space, ordinary) in [(100 << 10, false), (300 << 10, false), (700 << 10, true)] {
        let copy = disk.copy();
        copy.set_capacity(Some(copy.used_bytes() + space));
        let (log, _, before) = recover_with(&copy, options(2), from, 0).unwrap();
        let put = put(&log, b"ordinary", Durability::Sync);
        assert_eq!(put.is_ok(), ordinary, "{space}: {put:?}");
        assert!(put.is_ok() || put.is_err_and(|e| e.is_disk_full()));
        let done = (0..2000).take_while(|_| urgent(&log).is_ok()).count();
        assert!(done >= 50, "{space}: {done}");
        assert!(log.poisoned().is_none());
        assert!(log.disk_bytes() <= (1 << 20) + space);
        drop(log);
        for seed in 0..5 {
            let (_, _, records) =
                recover_with(&copy.copy().crash(seed), options(3), from, 0).unwrap();
            assert_eq!(records.len(), before.len() + usize::from(ordinary) + done);
        }
        // Once there is space again, segments are as long as they were.
        copy.set_capacity(None);
        let (log, ..) = recover_with(&copy, options(4), from, 0).unwrap();
        let files = log.disk_bytes();
        self::put(&log, &[3; 100], Durability::Sync).unwrap();
        assert!(log.disk_bytes() >= files + (1 << 20), "{space}");
    }
}
