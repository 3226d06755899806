//! The simulated disk keeps its promises: durable what was synced, any subset of the rest.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use terrace_base::AlignedBuf;
use terrace_base::disk::Disk;
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk, Survival};

#[test]
fn what_was_synced_survives_every_cut() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let file = disk.create_buffered("f").unwrap();
        file.write_at(&[1; 3000], 100).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        file.write_at(&[2; 1000], 4000).unwrap();
        let after = disk.crash(seed);
        let bytes = after.contents("f").unwrap();
        assert!(bytes[100..3100].iter().all(|&b| b == 1));
        assert!(bytes.iter().skip(3100).all(|&b| b == 0 || b == 2));
    }
}

#[test]
fn unsynced_writes_are_kept_lost_or_torn_at_sectors() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let disk = SimDisk::new(0);
        let file = disk.create_buffered("f").unwrap();
        file.write_at(&[1; 1536], 0).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        file.write_at(&[2; 1536], 0).unwrap();
        let bytes = disk.crash(seed).contents("f").unwrap();
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector was torn");
        }
        outcomes.insert((bytes[0], bytes[512], bytes[1024]));
    }
    assert_eq!(outcomes.len(), 8, "every subset of sectors must come up");
}

#[test]
fn a_small_write_takes_the_rest_of_its_sector_along() {
    let disk = SimDisk::new(0);
    let file = disk.create_buffered("f").unwrap();
    file.write_at(b"first", 0).unwrap();
    file.write_at(b"second", 5).unwrap();
    disk.sync_directory().unwrap();
    let outcomes: BTreeSet<Vec<u8>> = (0..100)
        .map(|s| disk.crash(s).contents("f").unwrap())
        .collect();
    let possible: BTreeSet<Vec<u8>> = [&b""[..], b"first", b"firstsecond"]
        .map(<[u8]>::to_vec)
        .into();
    assert_eq!(outcomes, possible);
}

#[test]
fn names_are_durable_only_after_the_directory_is_synced() {
    let outcomes = |synced: bool| -> BTreeSet<Vec<String>> {
        let disk = SimDisk::new(0);
        disk.create_buffered("old").unwrap();
        disk.sync_directory().unwrap();
        disk.delete("old").unwrap();
        disk.create_buffered("new").unwrap().sync().unwrap();
        if synced {
            disk.sync_directory().unwrap();
        }
        (0..100).map(|seed| disk.crash(seed).names()).collect()
    };
    assert_eq!(
        outcomes(false).len(),
        4,
        "both changes of name are independent"
    );
    assert_eq!(outcomes(true), [vec!["new".to_owned()]].into());
}

#[test]
fn a_failed_sync_leaves_anything_and_a_later_one_does_not_repair_it() {
    let mut lost_for_good = 0;
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = disk.create_buffered("f").unwrap();
        disk.sync_directory().unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        disk.inject(Injection::at(Op::Sync, 1, Fault::Eio));
        assert!(file.sync().is_err());
        assert_eq!(
            disk.contents("f").unwrap(),
            [1; 512],
            "the cache still shows it"
        );
        file.sync().unwrap();
        disk.inject(Injection::at(Op::Sync, 1, Fault::PowerCut));
        file.write_at(&[2; 512], 512).unwrap();
        assert!(file.sync().is_err());
        let bytes = disk.restart(seed).contents("f").unwrap();
        lost_for_good += usize::from(bytes.get(..512) != Some(&[1; 512]));
    }
    // A disk where the second sync always heals would hide the mistake of retrying a failed sync.
    assert!(lost_for_good > 10, "{lost_for_good}");
}

#[test]
fn faults_strike_at_their_call_and_only_there() {
    let disk = SimDisk::new(1);
    disk.inject(Injection {
        file: Some("b".into()),
        ..Injection::at(Op::Create, 2, Fault::NoSpace)
    });
    disk.create("a1").unwrap();
    disk.create("b1").unwrap();
    disk.create("a2").unwrap();
    assert_eq!(
        disk.create("b2").err().unwrap().kind(),
        ErrorKind::StorageFull
    );
    disk.create("b2").unwrap();
    disk.inject(Injection {
        forever: true,
        ..Injection::any(2, Fault::Eio)
    });
    disk.list().unwrap();
    for _ in 0..3 {
        assert!(disk.list().is_err());
    }
    disk.heal();
    disk.list().unwrap();
}

#[test]
fn after_a_cut_every_call_fails_until_the_restart() {
    let disk = SimDisk::new(1);
    let file = disk.create_buffered("f").unwrap();
    disk.inject(Injection::any(1, Fault::PowerCut));
    assert!(file.write_at(b"x", 0).is_err());
    assert!(!disk.is_powered());
    assert!(file.sync().is_err() && disk.list().is_err() && disk.create("g").is_err());
    let after = disk.restart(3);
    assert!(after.list().is_ok());
    assert!(file.len().is_err(), "handles of the old disk stay dead");
}

#[test]
fn capacity_bounds_all_files_and_can_be_moved() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(8192));
    let file = disk.create("f").unwrap();
    file.allocate(0, 8192).unwrap();
    assert_eq!(
        file.allocate(8192, 4096).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(
        file.len().unwrap(),
        8192,
        "a refused allocation changes nothing"
    );
    file.write_at(&AlignedBuf::zeroed(4096), 4096).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 0);
    disk.set_capacity(Some(16384));
    file.allocate(8192, 4096).unwrap();
    disk.delete("f").unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 16384);
}

#[test]
fn unaligned_access_is_refused_as_direct_io_would() {
    let disk = SimDisk::new(1);
    let file = disk.create("f").unwrap();
    let block = AlignedBuf::zeroed(8192);
    file.write_at(&block, 0).unwrap();
    for (from, len, offset) in [(0, 4096, 512), (0, 100, 0), (1, 4096, 0)] {
        let error = file.write_at(&block[from..from + len], offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    let disk = SimDisk::new(1);
    disk.create_buffered("f")
        .unwrap()
        .write_at(b"x", 0)
        .unwrap();
    let copy = disk.copy();
    disk.delete("f").unwrap();
    disk.crash(0);
    assert_eq!(copy.contents("f").unwrap(), b"x");
    assert_eq!(copy.pending("f"), Some(1));
    assert!(copy.crash_keeping(Survival::Nothing).names().is_empty());
}

/// A random run of calls, faults included.
fn run(seed: u64) -> (u64, u64, Vec<Vec<u8>>) {
    let disk = SimDisk::new(seed);
    let mut rng = Rng::new(seed);
    disk.inject(Injection::any(20, Fault::Eio));
    disk.inject(Injection::at(Op::Write, 10, Fault::NoSpace));
    for _ in 0..60 {
        let name = format!("f{}", rng.below(3));
        match rng.below(6) {
            0 => drop(disk.create_buffered(&name)),
            1 => drop(disk.delete(&name)),
            2 => drop(disk.sync_directory()),
            _ => {
                if let Ok(file) = disk.open_buffered(&name) {
                    let len = rng.below(2000) as usize;
                    let bytes = rng.bytes(len);
                    drop(file.write_at(&bytes, rng.below(4000)));
                    if rng.percent(20) {
                        drop(file.sync());
                    }
                }
            }
        }
    }
    let after = disk.crash_keeping(Survival::Some(seed));
    let contents = after
        .names()
        .iter()
        .map(|n| after.contents(n).unwrap())
        .collect();
    (disk.trace(), disk.calls(), contents)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_the_same_survivor() {
    for seed in 0..30 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn a_failed_sync_of_the_directory_is_not_repaired_by_a_later_one() {
    let (mut lost, mut undeleted) = (0, 0);
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        disk.create_buffered("old").unwrap();
        disk.sync_directory().unwrap();
        disk.delete("old").unwrap();
        disk.create_buffered("new").unwrap();
        disk.inject(Injection::at(Op::SyncDirectory, 1, Fault::Eio));
        assert!(disk.sync_directory().is_err());
        // It still shows what the disk may have lost.
        assert_eq!(disk.names(), ["new"]);
        disk.create_buffered("newer").unwrap();
        disk.sync_directory().unwrap();
        let after = disk.crash_keeping(Survival::All).names();
        assert!(after.contains(&"newer".to_owned()));
        lost += u64::from(!after.contains(&"new".to_owned()));
        undeleted += u64::from(after.contains(&"old".to_owned()));
    }
    assert!(lost > 10 && undeleted > 10, "{lost} {undeleted}");
}

#[test]
fn a_direct_write_that_fails_leaves_any_of_its_sectors() {
    let mut block = AlignedBuf::zeroed(4096);
    block.fill(1);
    let outcomes: BTreeSet<Vec<u8>> = (0..400)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let file = disk.create("f").unwrap();
            file.allocate(0, 4096).unwrap();
            disk.inject(Injection::at(Op::Write, 1, Fault::Eio));
            assert!(file.write_at(&block, 0).is_err());
            let bytes = disk.contents("f").unwrap();
            bytes.chunks(512).map(|sector| sector[0]).collect()
        })
        .collect();
    let behind_a_gap = |sectors: &Vec<u8>| sectors[0] == 0 && sectors[7] == 1;
    assert!(outcomes.iter().any(behind_a_gap));
    assert!(outcomes.len() > 100, "{}", outcomes.len());
}

#[test]
fn a_forgetful_cache_lets_go_of_what_a_failed_sync_dropped() {
    let reads = |forgetful: bool, direct: bool| {
        let mut changed = 0;
        for seed in 0..100 {
            let disk = SimDisk::new(seed);
            disk.set_forgetful(forgetful);
            let file = match direct {
                true => disk.create("f").unwrap(),
                false => disk.create_buffered("f").unwrap(),
            };
            file.allocate(0, 4096).unwrap();
            file.sync().unwrap();
            let mut block = AlignedBuf::zeroed(4096);
            block.fill(1);
            file.write_at(&block, 0).unwrap();
            disk.inject(Injection::at(Op::Sync, 1, Fault::Eio));
            assert!(file.sync().is_err());
            let lost = disk.pending("f") == Some(0);
            let mut back = AlignedBuf::zeroed(4096);
            for _ in 0..50 {
                file.read_at(&mut back, 0).unwrap();
            }
            let now = back.iter().all(|&b| b == 0);
            assert!(now || back.iter().all(|&b| b == 1), "seed {seed}");
            assert!(lost || !now, "seed {seed}: what is to be written is gone");
            // What is written again is there again.
            file.write_at(&block, 0).unwrap();
            file.read_at(&mut back, 0).unwrap();
            assert!(back.iter().all(|&b| b == 1));
            changed += u64::from(now);
        }
        changed
    };
    assert!(reads(true, false) > 10);
    assert_eq!(reads(true, true) + reads(false, false), 0);
}
