//! The lane: what goes there, what closes it, what it keeps reserved.

use std::sync::Arc;

use terrace_base::Error;
use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_sim::{Rng, SimDisk, Survival};

use super::basics::{put, recover_with, small};
use crate::{Appended, Durability, Log, LogOptions, Reservation};

fn is_open(log: &Log) -> bool {
    log.state.lock().lane.is_some()
}

/// A log on a disk of which parts can be written by copying, with the lane open.
fn opened() -> (SimDisk, Log) {
    let disk = SimDisk::new(1);
    disk.set_lending(true);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    open(&log);
    (disk, log)
}

fn open(log: &Log) {
    for _ in 0..50 {
        if is_open(log) {
            return;
        }
        put(log, b"to open it", Durability::Buffered).unwrap();
    }
    panic!("the lane does not open");
}

#[test]
fn records_go_to_the_lane_while_it_is_open_and_what_needs_the_whole_log_closes_it() {
    type Closes = fn(&Log);
    let all: [(&str, Closes); 5] = [
        ("sync", |log| log.sync().unwrap()),
        ("cut", |log| assert!(log.position().sequence > 1)),
        ("long record", |log| {
            put(log, &[1; 3000], Durability::Buffered)
                .map(drop)
                .unwrap();
        }),
        ("hold", |log| assert!(log.hold(0).1.sequence > 1)),
        ("close", |log| log.close().unwrap()),
    ];
    for (what, closes) in all {
        let (disk, log) = opened();
        let before = (log.stats(), log.next_sequence(), disk.calls());
        for i in 0..3 {
            let mut reservation = log.reserve(5).unwrap();
            let appended = log.append(&mut reservation, &[b"12", b"345"]);
            assert_eq!(appended.sequence, before.1 + i);
            log.commit(appended, Durability::Buffered).unwrap();
        }
        log.flush().unwrap();
        assert!(is_open(&log) && disk.calls() == before.2, "{what}: no call");
        let stats = log.stats();
        assert_eq!(stats.records, before.0.records + 3);
        assert_eq!(stats.record_bytes, before.0.record_bytes + 15);
        assert_eq!(stats.log_bytes, before.0.log_bytes + 3 * (16 + 1 + 5));
        closes(&log);
        assert!(!is_open(&log), "{what}");
    }
}

#[test]
fn checks_are_made_without_closing_it() {
    let (_, log) = opened();
    let first = log.next_sequence();
    let mut reservation = log.reserve(20).unwrap();
    assert_eq!(log.append_if(&mut reservation, &[b"no"], || false), None);
    let yes = log.append_if(&mut reservation, &[b"yes"], || true).unwrap();
    drop(reservation);
    let mut reservation = log.reserve(20).unwrap();
    let made = log.append_made(&mut reservation, || b"made".to_vec());
    drop(reservation);
    assert_eq!((yes.sequence, made.sequence), (first, first + 1));
    log.commit(made, Durability::Buffered).unwrap();
    assert!(is_open(&log));
}

#[test]
fn a_thread_that_takes_a_place_and_never_fills_it_poisons_and_keeps_nobody_waiting() {
    let (_, log) = opened();
    let mut reservation = log.reserve(5).unwrap();
    drop(log.take(&mut reservation, 5).expect("a place"));
    // The next one is not acknowledged: what is before it never will be there.
    let next = put(&log, b"behind", Durability::Buffered);
    assert!(matches!(next, Err(Error::Poisoned { .. })), "{next:?}");
    assert!(log.sync().is_err() && log.reserve(1).is_err());
}

#[test]
fn a_record_that_its_reservation_does_not_cover_poisons() {
    let (_, log) = opened();
    let mut reservation = log.reserve(5).unwrap();
    let appended = log.append(&mut reservation, &[&[1; 500]]);
    assert!(log.commit(appended, Durability::Buffered).is_err());
    assert!(log.poisoned().is_some());
}

#[test]
fn whoever_has_a_reservation_finds_room_in_whatever_order() {
    let mut in_lane = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        disk.set_lending(true);
        let log = Log::create(disk.shared(), small(seed + 1), 0).unwrap();
        let from = log.position();
        let mut held: Vec<(Reservation<'_>, usize)> = Vec::new();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        let mut last: Option<Appended> = None;
        for _ in 0..400 {
            match rng.below(16) {
                0..6 if held.len() < 6 => {
                    let len = match rng.below(12) {
                        0 => 400,
                        _ => rng.below(60) as usize,
                    };
                    held.push((log.reserve(len).unwrap(), len));
                }
                0..12 if !held.is_empty() => {
                    let (mut reservation, len) =
                        held.swap_remove(rng.below(held.len() as u64) as usize);
                    let bytes = vec![rng.below(256) as u8; len];
                    let appended = log.append(&mut reservation, &[&bytes]);
                    in_lane += u32::from(appended.piece != crate::record::NO_PIECE);
                    expected.push(bytes);
                    assert_eq!(appended.sequence, expected.len() as u64);
                    last = Some(appended);
                }
                12 if !held.is_empty() => drop(held.pop()),
                13 if rng.percent(30) => {
                    log.position();
                }
                14 if rng.percent(30) => log.sync().unwrap(),
                _ => {
                    if let Some(last) = last {
                        log.commit(last, Durability::Buffered).unwrap();
                    }
                }
            }
        }
        drop(held);
        log.flush().unwrap();
        assert_eq!(log.poisoned().map(|e| e.to_string()), None);
        log.sync().unwrap();
        let state = log.state.lock();
        assert_eq!(
            (state.reserved, state.reserved_buffer),
            (0, 0),
            "seed {seed}"
        );
        assert_eq!(state.stats.records, expected.len() as u64);
        assert_eq!(
            state.stats.record_bytes,
            expected.iter().map(|r| r.len() as u64).sum::<u64>()
        );
        drop(state);
        drop(log);
        let copy = disk.crash_keeping(Survival::Nothing);
        let (_, _, records) = recover_with(&copy, small(seed + 2), from, 0).unwrap();
        let found: Vec<Vec<u8>> = records.into_iter().map(|(_, bytes)| bytes).collect();
        assert!(found == expected, "seed {seed}");
    }
    assert!(in_lane > 10_000, "{in_lane}");
}

#[test]
fn many_threads_write_a_file_by_copying() {
    let folder = tempfile::tempdir().unwrap();
    let options = |seed| LogOptions {
        segment_bytes: 1 << 20,
        seed: Some(seed),
        ..LogOptions::default()
    };
    let disk = FileDisk::open(folder.path(), DirectIo::Preferred).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let log = Log::create(disk.clone(), options(1), 0).unwrap();
    let from = log.position();
    let mut written: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..5000u32 {
                        let bytes = [
                            &[thread][..],
                            &i.to_le_bytes(),
                            &vec![thread; i as usize % 200],
                        ]
                        .concat();
                        let durability = match i % 2000 {
                            1999 => Durability::Sync,
                            _ => Durability::Buffered,
                        };
                        mine.push((put(log, &bytes, durability).unwrap(), bytes));
                    }
                    mine
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    written.sort_unstable();
    assert_eq!(log.stats().records, 20_000);
    // As after the end of the process: nothing is synced.
    drop(log);
    let mut found = Vec::new();
    Log::recover(disk, options(2), from, 0, &mut |sequence, bytes| {
        found.push((sequence, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    assert!(found == written);
}
