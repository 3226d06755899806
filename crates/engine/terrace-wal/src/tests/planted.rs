//! Every planted mistake is caught by a run of the kind that holds without it.

use terrace_sim::{Fault as DiskFault, Injection, Op, Rng, SimDisk, Survival};

use super::basics::{put, recover_with, small};
use super::crash::run_with_cuts;
use super::errors::run_with_error;
use super::harness::Run;
use crate::fault::Fault;
use crate::{Durability, Follower, Log, LogOptions, Position, RecoveryReport};

/// The first failure that says `what`, of random power cuts, as in the test that holds without a fault.
fn cuts(fault: Fault, what: &str) -> Option<String> {
    let is_it = |failure: &String| failure.contains(what);
    let mut rng = Rng::new(99);
    (1000..3000).find_map(|seed| {
        let cuts: Vec<u64> = (0..rng.below(4)).map(|_| 1 + rng.below(120)).collect();
        run_with_cuts(seed, fault, 1 + rng.below(200), &cuts)
            .err()
            .filter(is_it)
    })
}

/// The process dies, then the power goes.
fn kill_then_cut(fault: Fault, what: &str) -> Option<String> {
    let is_it = |failure: &String| failure.contains(what);
    (0..300).find_map(|seed| {
        let mut run = Run::new(seed, fault);
        run.create().ok()?;
        for _ in 0..2 {
            run.work(15).ok()?;
            run.kill();
            if let Err(failure) = run.recover() {
                return Some(failure).filter(is_it);
            }
        }
        run.work(5).ok()?;
        run.cut_power(seed);
        run.recover().err().filter(is_it)
    })
}

/// A sync fails, the database is opened again, the power goes.
fn failed_syncs(fault: Fault, what: &str) -> Option<String> {
    let is_it = |failure: &String| failure.contains(what);
    (0..400).find_map(|seed| {
        let injection = Injection::at(Op::Sync, 1 + seed % 25, DiskFault::Eio);
        run_with_error(seed, fault, injection, true)
            .err()
            .filter(is_it)
    })
}

#[test]
fn each_is_caught_where_the_code_as_it_is_holds() {
    type Runs = fn(Fault, &str) -> Option<String>;
    let all: [(Fault, Runs, &str); 13] = [
        (Fault::AnyLaterBlockIsDamage, cuts, "honest log is refused"),
        (Fault::ScanFromSegmentStart, cuts, "not what was appended"),
        (Fault::StampWritten, cuts, "honest log is refused"),
        (Fault::NoSeal, cuts, ""),
        (Fault::SealBeforeDelete, kill_and_reuse, ""),
        (Fault::NoResync, kill_then_cut, ""),
        (Fault::NoRewrite, failed_syncs, ""),
        (Fault::AcknowledgeUnsynced, cuts, "were acknowledged"),
        (Fault::NewestSegmentOnly, cuts, ""),
        (Fault::NoDirectorySync, cuts, ""),
        (Fault::RetrySync, failed_syncs, ""),
        (Fault::MovePinnedCut, cuts, ""),
        (Fault::WrittenAtOnce, kill_then_cut, ""),
    ];
    for runs in [cuts, kill_then_cut, failed_syncs, kill_and_reuse] {
        assert_eq!(runs(Fault::None, ""), None);
    }
    let mut missed = Vec::new();
    for (fault, runs, what) in all {
        if runs(fault, what).is_none() {
            missed.push((fault, what));
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

/// Power cuts in quick succession, so that recovery goes over the same segments again and again.
fn kill_and_reuse(fault: Fault, what: &str) -> Option<String> {
    let is_it = |failure: &String| failure.contains(what);
    let mut rng = Rng::new(5);
    (0..1000).find_map(|seed| {
        let cuts: Vec<u64> = (0..6).map(|_| 1 + rng.below(40)).collect();
        run_with_cuts(seed, fault, 5 + rng.below(60), &cuts)
            .err()
            .filter(is_it)
    })
}

#[test]
fn rot_below_what_was_synced_is_damage_and_its_absence_of_proof_is_planted() {
    let found = |fault| {
        let disk = SimDisk::new(7);
        let mut options = small(7);
        options.fault = fault;
        let log = Log::create(disk.shared(), options, 0).unwrap();
        let from = log.position();
        for i in 0..30u8 {
            put(&log, &[i; 100], Durability::Sync).unwrap();
        }
        drop(log);
        // The first block after the header of the segment, and one in the middle.
        [4096 + 50, 4096 + 512 * 12 + 50].map(|at| {
            let copy = disk.crash(0);
            let mut bytes = copy.contents("log-00000001").unwrap();
            bytes[at] ^= 1;
            copy.place("log-00000001", bytes);
            let mut options = small(8);
            options.fault = fault;
            let error = recover_with(&copy, options, from, 0).err()?.to_string();
            error
                .contains(&format!("log-00000001 is damaged at byte {}", at - 50))
                .then_some(())
        })
    };
    assert_eq!(found(Fault::None), [Some(()); 2]);
    assert_eq!(found(Fault::NoBlockProvesDamage), [None; 2]);
}

#[test]
fn a_forgotten_generation_note_lets_an_old_superblock_in() {
    let refused = |fault| {
        let disk = SimDisk::new(7);
        let log = Log::create(disk.shared(), with(fault, 1), 0).unwrap();
        let first = log.position();
        put(&log, b"a", Durability::Sync).unwrap();
        let second = log.position();
        log.checkpointed(second, 1).unwrap();
        drop(log);
        let noted = recover_with(&disk, with(fault, 2), first, 0).is_err();
        // The superblock of generation 2 is durable, but the crash comes before its note.
        let copy = disk.crash(1);
        let (log, ..) = recover_with(&copy, with(fault, 3), second, 2).unwrap();
        drop(log);
        let noted_at_recovery = recover_with(&copy.crash(1), with(fault, 4), second, 1).is_err();
        [noted, noted_at_recovery]
    };
    assert_eq!(refused(Fault::None), [true, true]);
    assert!(!refused(Fault::NoGenerationNote)[0]);
    assert!(!refused(Fault::NoNoteAtRecovery)[1]);
}

#[test]
fn blocks_of_an_earlier_life_of_the_file_do_not_come_back() {
    // Some file systems show what lay on the device before where a new file was reserved and not
    // written: here, the blocks of the segment that had the same number before the crash.
    let resurrected = |fault| {
        let fill = |log: &Log, byte: u8| {
            while log.position().segment < 3 {
                put(log, &[byte; 100], Durability::Sync).unwrap();
            }
        };
        let disk = SimDisk::new(7);
        let log = Log::create(disk.shared(), with(fault, 1), 0).unwrap();
        let from = log.position();
        put(&log, b"kept", Durability::Sync).unwrap();
        fill(&log, 1);
        let old = disk.contents("log-00000002").unwrap();
        // Of all that only the first record survives.
        let first = disk.contents("log-00000001").unwrap()[..4096 + 512].to_vec();
        drop(log);
        let disk = SimDisk::new(8);
        disk.place(
            "log-00000001",
            [first, vec![0; (16 << 10) - 4096 - 512]].concat(),
        );
        let (log, _, records) = recover_with(&disk, with(fault, 2), from, 0).unwrap();
        assert_eq!(records.len(), 1);
        put(&log, &[1; 100], Durability::Sync).unwrap();
        drop(log);
        let mut bytes = disk.contents("log-00000002").unwrap();
        bytes[4096 + 512..].copy_from_slice(&old[4096 + 512..]);
        disk.place("log-00000002", bytes);
        recover_with(&disk, with(fault, 3), from, 0).map(|(_, _, records)| records.len())
    };
    assert_eq!(resurrected(Fault::None).unwrap(), 2);
    assert!(!matches!(resurrected(Fault::NoSalt), Ok(2)));
}

fn with(fault: Fault, seed: u64) -> LogOptions {
    let mut options = small(seed);
    options.fault = fault;
    options
}

/// A log with one record, opened again, which seals its first segment; where it begins, and what the
/// opening found.
fn opened_again(disk: &SimDisk, fault: Fault, before: &[u8]) -> (Position, Log, RecoveryReport) {
    let log = Log::create(disk.shared(), with(fault, 1), 0).unwrap();
    let from = log.position();
    put(&log, before, Durability::Sync).unwrap();
    drop(log);
    let (log, report, _) = recover_with(disk, with(fault, 2), from, 0).unwrap();
    (from, log, report)
}

#[test]
fn rot_of_the_first_segment_after_an_opening_is_damage() {
    // Its header, all of it or so little left that there is none.
    let damages: [fn(&mut Vec<u8>); 3] = [
        |bytes| bytes[..4096].fill(0),
        |bytes| bytes[..2560].fill(7),
        |bytes| bytes.truncate(40),
    ];
    let found = |fault, damage: Option<fn(&mut Vec<u8>)>| {
        let disk = SimDisk::new(7);
        let (from, log, _) = opened_again(&disk, fault, b"before");
        put(&log, b"after", Durability::Sync).unwrap();
        drop(log);
        match damage {
            Some(damage) => {
                let mut bytes = disk.contents("log-00000002").unwrap();
                damage(&mut bytes);
                disk.place("log-00000002", bytes);
            }
            None => terrace_base::disk::Disk::delete(&disk, "log-00000002").unwrap(),
        }
        recover_with(&disk, with(fault, 3), from, 0).map(|(_, _, records)| records.len())
    };
    for damage in damages.map(Some).into_iter().chain([None]) {
        let error = found(Fault::None, damage).unwrap_err().to_string();
        assert!(error.contains("log-00000002"), "{error}");
        // Lost without a word.
        assert_eq!(found(Fault::NoSuccessorMark, damage).unwrap(), 1);
    }
}

#[test]
fn rot_of_the_seal_with_a_segment_behind_it_is_damage() {
    let found = |fault, before: &[u8], after: Option<&[u8]>| {
        let disk = SimDisk::new(7);
        let (from, log, report) = opened_again(&disk, fault, before);
        let seal = report.end.offset.next_multiple_of(512) as usize;
        if let Some(after) = after {
            put(&log, after, Durability::Sync).unwrap();
        }
        drop(log);
        let mut bytes = disk.contents("log-00000001").unwrap();
        bytes[seal + 9] ^= 1;
        disk.place("log-00000001", bytes);
        recover_with(&disk, with(fault, 3), from, 0).map(|(_, _, records)| records.len())
    };
    // The mark of a successor says so, and without it the stamps of the blocks behind do; whether
    // the end is at the end of a sector, as after a sync, or not.
    for before in [&b"before"[..], &[7; 512 - 16 - 2]] {
        for fault in [Fault::None, Fault::NoSuccessorMark] {
            let error = found(fault, before, Some(b"after"))
                .unwrap_err()
                .to_string();
            assert!(error.contains("log-00000001 is damaged at byte"), "{error}");
        }
        // With nothing behind it, it is only made again.
        assert_eq!(found(Fault::None, before, None).unwrap(), 1);
    }
}

/// A place that a power cut took back is none any more, and not one in the middle of what was sealed in front of it.
#[test]
fn a_place_behind_the_end_is_none() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 0).unwrap();
    let begin = log.position();
    put(&log, b"synced", Durability::Sync).unwrap();
    let (_, there) = log.hold(u64::MAX);
    put(&log, &[7; 2000], Durability::Buffered).unwrap();
    let (_, gone) = log.hold(u64::MAX);
    drop(log);
    let cut = disk.crash_keeping(Survival::Nothing);
    let (log, ..) = recover_with(&cut, small(2), begin, 0).unwrap();
    assert!(log.hold_from(there, u64::MAX).unwrap().is_some());
    assert!(log.hold_from(gone, u64::MAX).unwrap().is_none());
    // And neither once the log goes on in the next segment.
    put(&log, b"after", Durability::Sync).unwrap();
    assert!(log.hold_from(there, u64::MAX).unwrap().is_some());
    assert!(log.hold_from(gone, u64::MAX).unwrap().is_none());
}

#[test]
fn who_follows_is_given_nothing_that_a_cut_takes_back() {
    let given = |fault| {
        let disk = SimDisk::new(1);
        let mut options = small(1);
        options.fault = fault;
        let log = Log::create(disk.shared(), options, 0).unwrap();
        let (_, place) = log.hold(u64::MAX);
        let mut follower = Follower::new(place, place.sequence);
        put(&log, b"synced", Durability::Sync).unwrap();
        put(&log, b"written", Durability::Buffered).unwrap();
        let mut given = 0;
        let mut take = |_, _: &[u8]| {
            given += 1;
            Ok(())
        };
        log.follow(&mut follower, &mut take).unwrap();
        given
    };
    assert_eq!(given(Fault::None), 1);
    assert_eq!(given(Fault::FollowedUnsynced), 2);
}
