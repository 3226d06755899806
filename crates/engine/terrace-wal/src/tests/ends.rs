//! What recovery makes of odd ends: the last number there is, files that are gone, disks that forget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::Error;
use terrace_sim::{Call, Fault as DiskFault, HookedDisk, Injection, Op, SimDisk};

use super::basics::{put, recover_with, small};
use super::harness::Run;
use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, LAST, SEAL, SegmentHeader, seal_block};
use crate::lsn::Lsn;
use crate::{Durability, Log, Position};

/// Segment `u32::MAX` with one block that has these flags, and the cut at its first block.
fn last_segment(flags: u32) -> (SimDisk, Position) {
    let header = SegmentHeader {
        number: u32::MAX,
        incarnation: 5,
        generation: 0,
        segment_bytes: 16 << 10,
    };
    let at = Lsn::new(u32::MAX, 4096);
    let mut bytes = header.page();
    bytes.resize(16 << 10, 0);
    let mut block = [0; BLOCK_HEADER + 16];
    block[BLOCK_HEADER..BLOCK_HEADER + 8].copy_from_slice(&at.raw().to_le_bytes());
    block[BLOCK_HEADER + 8..].copy_from_slice(&1u64.to_le_bytes());
    let len = if flags == SEAL {
        block.len()
    } else {
        BLOCK_HEADER
    };
    seal_block(&mut block[..len], 5, at, at, flags);
    bytes[4096..4096 + len].copy_from_slice(&block[..len]);
    let disk = SimDisk::new(1);
    disk.place("log-ffffffff", bytes);
    (disk, Position::new(at, 1))
}

#[test]
fn behind_the_last_number_there_is_no_segment() {
    let (disk, from) = last_segment(SEAL);
    let (log, report, _) = recover_with(&disk, small(1), from, 0).unwrap();
    assert_eq!(report.records, 0);
    let error = put(&log, b"one more", Durability::Sync).unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    // And none to go on in, where a block says that there is.
    let (disk, from) = last_segment(LAST);
    let error = recover_with(&disk, small(1), from, 0).err().unwrap();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_segment_that_is_gone_is_not_one_that_cannot_be_read() {
    let told = |damage: fn(&SimDisk)| {
        let disk = SimDisk::new(1);
        let log = Log::create(disk.shared(), small(1), 0).unwrap();
        let from = log.position();
        while log.position().segment < 3 {
            put(&log, &[7; 500], Durability::Sync).unwrap();
        }
        drop(log);
        damage(&disk);
        let error = recover_with(&disk, small(2), from, 0).err().unwrap();
        error.to_string()
    };
    let gone = told(|disk| terrace_base::disk::Disk::delete(disk, "log-00000002").unwrap());
    assert!(gone.contains("log-00000002"), "{gone}");
    assert!(gone.contains("the file is missing"), "{gone}");
    let rotten = told(|disk| disk.place("log-00000002", vec![7; 16 << 10]));
    assert!(rotten.contains("neither copy of the header"), "{rotten}");
}

#[test]
fn what_was_replayed_is_what_is_sealed() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let from = log.position();
    put(&log, b"one", Durability::Sync).unwrap();
    let one = disk.contents("log-00000001").unwrap();
    put(&log, b"two", Durability::Buffered).unwrap();
    drop(log);
    // The write of the second record has failed, and the cache, which had it clean, lets it go while
    // the log is opened: after the header and the blocks were read, and before they are again.
    let reads = Arc::new(AtomicU64::new(0));
    let (below, count) = (disk.clone(), reads.clone());
    let hooked = HookedDisk::new(disk.shared(), move |call| {
        if matches!(call, Call::Read(_)) && count.fetch_add(1, Ordering::Relaxed) == 2 {
            below.place("log-00000001", one.clone());
        }
    });
    let mut replayed = 0;
    let opened = Log::recover(Arc::new(hooked), small(2), from, 0, &mut |_, _| {
        replayed += 1;
        Ok(())
    });
    assert_eq!(replayed, 2);
    assert!(reads.load(Ordering::Relaxed) > 2);
    let error = opened.err().unwrap();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("open the database again"));
    // Nothing was sealed: the next opening takes what there is.
    let (_, _, records) = recover_with(&disk, small(3), from, 0).unwrap();
    assert_eq!(records.len(), 1);
}

#[test]
fn a_seal_whose_sync_failed_is_written_again() {
    let mut failed = 0;
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(1), 0).unwrap();
        let from = log.position();
        put(&log, b"one", Durability::Sync).unwrap();
        drop(log);
        let before = disk.calls_of(Op::Sync);
        // Of the syncs of an opening that of the seal is the last.
        let copy = disk.copy();
        let (log, ..) = recover_with(&copy, small(2), from, 0).unwrap();
        drop(log);
        let nth = copy.calls_of(Op::Sync) - before;
        disk.inject(Injection::at(Op::Sync, nth, DiskFault::Eio));
        failed += u64::from(recover_with(&disk, small(2), from, 0).is_err());
        // The cache may show the seal and take it for clean.
        let (log, ..) = recover_with(&disk, small(3), from, 0).unwrap();
        put(&log, b"two", Durability::Sync).unwrap();
        drop(log);
        let (_, _, records) = recover_with(&disk.crash(seed), small(4), from, 0).unwrap();
        assert_eq!(records.len(), 2, "seed {seed}");
    }
    assert_eq!(failed, 60);
}

#[test]
fn a_segment_that_could_not_be_made_durable_is_made_anew() {
    for seed in 0..60 {
        for op in [Op::Sync, Op::SyncDirectory] {
            let disk = SimDisk::new(seed);
            let log = Log::create(disk.shared(), small(1), 0).unwrap();
            let from = log.position();
            put(&log, b"one", Durability::Sync).unwrap();
            drop(log);
            let (log, ..) = recover_with(&disk, small(2), from, 0).unwrap();
            // Behind the seal a segment is needed. What is visible of it may never become durable.
            disk.inject(Injection::at(op, 1, DiskFault::Eio));
            put(&log, b"refused", Durability::Sync).unwrap_err();
            drop(log);
            let (log, ..) = recover_with(&disk, small(3), from, 0).unwrap();
            put(&log, b"two", Durability::Sync).unwrap();
            drop(log);
            let (_, _, records) = recover_with(&disk.crash(seed), small(4), from, 0).unwrap();
            assert_eq!(records.len(), 2, "seed {seed}, {op:?}");
            assert_eq!(records[1].1, b"two");
        }
    }
}

#[test]
fn what_a_cache_forgets_after_a_failed_sync_was_never_promised() {
    for seed in 0..600 {
        let mut run = Run::new(seed, Fault::None);
        run.forgetful = true;
        run.disk.set_forgetful(true);
        if run.create().is_err() {
            continue;
        }
        for life in 0..4 {
            run.disk.inject(Injection::at(
                [Op::Sync, Op::SyncDirectory, Op::Write][(seed / 7 % 3) as usize],
                1 + (seed + life) % 9,
                DiskFault::Eio,
            ));
            let _ = run.work(15);
            run.kill();
            if life % 2 == 1 {
                run.cut_power(seed);
            }
            let mut tries = 0;
            loop {
                match run.recover() {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        tries += 1;
                        assert!(tries < 40, "seed {seed}, life {life}: {error}");
                    }
                    Err(failure) => panic!("seed {seed}, life {life}: {failure}"),
                }
            }
        }
    }
}
