//! What goes in comes out: records of all sizes, over blocks and segments, across reopenings.

use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};
use terrace_sim::{Rng, SimDisk};

use crate::{Durability, Log, LogOptions, Position, RecoveryReport};

/// Small segments and a small buffer, so that everything happens often.
pub(crate) fn small(seed: u64) -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        buffer_bytes: 8 << 10,
        seed: Some(seed),
        ..LogOptions::default()
    }
}

/// Sequence numbers and payloads, in the order of replay.
pub(crate) type Recovered = Vec<(u64, Vec<u8>)>;

pub(crate) fn recover_with(
    disk: &SimDisk,
    options: LogOptions,
    from: Position,
    generation: u64,
) -> Result<(Log, RecoveryReport, Recovered)> {
    let mut records = Vec::new();
    let (log, report) = Log::recover(
        disk.shared(),
        options,
        from,
        generation,
        &mut |sequence, bytes| {
            records.push((sequence, bytes.to_vec()));
            Ok(())
        },
    )?;
    Ok((log, report, records))
}

pub(crate) fn put(log: &Log, bytes: &[u8], durability: Durability) -> Result<u64> {
    let mut reservation = log.reserve(bytes.len())?;
    let middle = bytes.len() / 2;
    let appended = log.append(&mut reservation, &[&bytes[..middle], &bytes[middle..]]);
    log.commit(appended, durability)?;
    Ok(appended.sequence)
}

pub(crate) fn payload(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => 0,
        1 => rng.below(3000),
        2 if rng.percent(20) => rng.below(60_000),
        _ => rng.below(200),
    };
    rng.bytes(len as usize)
}

#[test]
fn records_of_all_sizes_come_back_in_order() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(seed), 0).unwrap();
        let start = log.position();
        let mut expected = Vec::new();
        for i in 0..200u64 {
            let bytes = payload(&mut rng);
            let durability = if rng.percent(10) {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            assert_eq!(put(&log, &bytes, durability).unwrap(), i + 1);
            expected.push((i + 1, bytes));
            if rng.percent(5) {
                log.position();
            }
        }
        let end = log.position();
        assert!(log.bytes_since(start) >= expected.iter().map(|(_, b)| b.len() as u64).sum());
        assert_eq!(log.bytes_since(end), 0);
        log.close().unwrap();
        drop(log);
        let (log, report, records) = recover_with(&disk, small(seed + 1000), start, 0).unwrap();
        assert!(
            records == expected,
            "seed {seed}: {} of {}",
            records.len(),
            expected.len()
        );
        assert_eq!(report.end.sequence, 201);
        assert!(!report.dropped_tail);
        // And it goes on.
        put(&log, b"more", Durability::Buffered).unwrap();
        drop(log);
        let (_, _, records) = recover_with(&disk, small(seed + 2000), start, 0).unwrap();
        assert_eq!(records.len(), 201, "seed {seed}");
        assert_eq!(records[200], (201, b"more".to_vec()));
    }
}

#[test]
fn recovery_starts_exactly_at_the_cut() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(seed), 0).unwrap();
        let mut cuts = vec![(log.position(), 0)];
        let mut expected = Vec::new();
        for i in 0..100u64 {
            let bytes = payload(&mut rng);
            // Sync commits between cuts pad the log; no cut may move.
            let durability = if rng.percent(40) {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            let mut reservation = log.reserve(bytes.len()).unwrap();
            let appended = log.append(&mut reservation, &[&bytes]);
            if rng.percent(20) {
                cuts.push((log.position(), i as usize + 1));
            }
            log.commit(appended, durability).unwrap();
            if rng.percent(20) {
                cuts.push((log.position(), i as usize + 1));
            }
            expected.push((i + 1, bytes));
        }
        log.close().unwrap();
        drop(log);
        for (n, &(cut, before)) in cuts.iter().enumerate() {
            let copy = disk.crash(seed);
            let (_, _, records) =
                recover_with(&copy, small(seed + 1000 + n as u64), cut, 0).unwrap();
            assert!(
                records == expected[before..],
                "seed {seed}, cut {n} at {cut:?}"
            );
        }
    }
}

#[test]
fn a_log_that_was_opened_and_not_written_to_can_be_cut_and_opened_again() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    let mut from = log.position();
    put(&log, b"one", Durability::Sync).unwrap();
    drop(log);
    for round in 1..6u64 {
        let (log, _, records) = recover_with(&disk, small(round), from, round - 1).unwrap();
        assert_eq!(records.len(), usize::from(round == 1));
        from = log.position();
        assert_eq!(from.sequence, 2);
        log.checkpointed(from, round).unwrap();
        drop(log);
    }
    assert!(disk.names().len() <= 2, "{:?}", disk.names());
}

#[test]
fn checkpoints_delete_what_lies_before_them() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    for round in 1..10 {
        for _ in 0..100 {
            put(&log, &[7; 300], Durability::Buffered).unwrap();
        }
        let cut = log.position();
        log.checkpointed(cut, round).unwrap();
        assert!(disk.names().len() <= 3, "{:?}", disk.names());
        assert_eq!(log.bytes_since(cut), 0);
    }
    assert!(log.stats().segments_deleted > 10);
}

#[test]
fn an_older_superblock_is_refused() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 3).unwrap();
    let first = log.position();
    put(&log, b"x", Durability::Sync).unwrap();
    let second = log.position();
    log.checkpointed(second, 4).unwrap();
    let third = log.position();
    log.checkpointed(third, 5).unwrap();
    drop(log);
    for (from, generation) in [(first, 3), (second, 4)] {
        let error = recover_with(&disk, small(1), from, generation)
            .err()
            .unwrap();
        assert!(
            matches!(&error, Error::Corrupt { file, .. } if file == "log-00000001"),
            "{error}"
        );
    }
    recover_with(&disk, small(1), third, 5).unwrap();
}

#[test]
fn a_missing_or_foreign_segment_is_an_error_that_names_it() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    let from = log.position();
    for _ in 0..200 {
        put(&log, &[1; 200], Durability::Sync).unwrap();
    }
    drop(log);
    let named = |disk: &SimDisk, name: &str| {
        let error = recover_with(disk, small(1), from, 0).err().unwrap();
        assert!(
            matches!(&error, Error::Corrupt { file, .. } if file == name),
            "{error}"
        );
    };
    for name in ["log-00000001", "log-00000002"] {
        let copy = disk.crash(0);
        copy.delete(name).unwrap();
        named(&copy, name);
        copy.place(name, vec![0xee; 16 << 10]);
        named(&copy, name);
        copy.place(name, Vec::new());
        named(&copy, name);
    }
    assert!(matches!(
        Log::create(Arc::new(disk.crash(0)), small(1), 0),
        Err(Error::Invalid { .. })
    ));
}

#[test]
fn options_out_of_range_are_refused_with_what_would_do() {
    let disk = SimDisk::new(0);
    for segment_bytes in [0, 4096, 20_000, 1 << 40] {
        let options = LogOptions {
            segment_bytes,
            ..small(0)
        };
        assert!(matches!(
            Log::create(disk.shared(), options, 0),
            Err(Error::Invalid { .. })
        ));
    }
    let options = LogOptions {
        buffer_bytes: 100,
        ..small(0)
    };
    assert!(matches!(
        Log::create(disk.shared(), options, 0),
        Err(Error::MemoryTooSmall { .. })
    ));
}

#[test]
fn a_record_that_is_too_long_is_refused_at_the_door() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    assert!(matches!(log.reserve(2 << 30), Err(Error::Invalid { .. })));
}

#[test]
fn an_append_without_its_reservation_stops_the_log_instead_of_losing_the_record_silently() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    let mut reservation = log.reserve(10).unwrap();
    let appended = log.append(&mut reservation, &[&[0; 500]]);
    assert!(matches!(
        log.commit(appended, Durability::Buffered),
        Err(Error::Poisoned { .. })
    ));
    assert!(matches!(log.reserve(1), Err(Error::Poisoned { .. })));
}

#[test]
fn a_closed_log_takes_nothing_more() {
    let disk = SimDisk::new(0);
    let log = Log::create(disk.shared(), small(0), 0).unwrap();
    put(&log, b"x", Durability::Buffered).unwrap();
    log.close().unwrap();
    assert!(matches!(log.reserve(1), Err(Error::Invalid { .. })));
    assert_eq!(
        disk.pending("log-00000001"),
        Some(0),
        "closing makes everything durable"
    );
}

#[test]
fn files_are_counted_with_the_length_that_they_have() {
    let disk = SimDisk::new(1);
    let on_disk = || -> u64 {
        let names = disk.names().into_iter();
        names
            .map(|name| disk.contents(&name).unwrap().len() as u64)
            .sum()
    };
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    for _ in 0..50 {
        put(&log, &[1; 2000], Durability::Buffered).unwrap();
    }
    assert_eq!(log.disk_bytes(), on_disk());
    drop(log);
    let larger = LogOptions {
        segment_bytes: 64 << 10,
        ..small(2)
    };
    let (log, ..) = recover_with(&disk, larger, from, 0).unwrap();
    assert_eq!(log.disk_bytes(), on_disk());
    for _ in 0..50 {
        put(&log, &[2; 2000], Durability::Buffered).unwrap();
    }
    assert_eq!(log.disk_bytes(), on_disk());
    let cut = log.position();
    log.checkpointed(cut, 1).unwrap();
    assert_eq!(log.disk_bytes(), on_disk());
}
