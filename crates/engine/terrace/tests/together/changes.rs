//! The changes of a database, read commit by commit: all of them, each once, none that could be taken back.

use std::time::Duration;

use crate::common::changes::{
    Copy, a_copy_equals_the_database, a_place_to_begin_at_outlives_a_power_cut,
    a_snapshot_begins_where_the_changes_do, everything, what_is_unfinished_is_not_shown,
};
use crate::common::{seeds, tiny};
use terrace::{Cancel, Change, ChangesOptions, Database, Error, Result};
use terrace_sim::{Fault as DiskFault, Injection, Op, Rng, SimDisk, Survival};

#[test]
fn a_copy_that_is_fed_by_them_equals_the_database() {
    for seed in seeds(4) {
        a_copy_equals_the_database(seed);
    }
}

#[test]
fn a_table_is_shown_when_it_is_whole() {
    what_is_unfinished_is_not_shown();
}

#[test]
fn no_commit_is_in_snapshot_and_changes_or_in_neither() {
    a_snapshot_begins_where_the_changes_do();
}

#[test]
fn where_reading_begins_no_power_cut_takes_back() {
    a_place_to_begin_at_outlives_a_power_cut();
}

/// The log before a checkpoint need not be durable where no reader needs it. Who comes back to it then is not told of
/// damage, as there is none, but that it is gone.
#[test]
fn what_a_power_cut_took_behind_a_checkpoint_is_gone_and_no_damage() {
    let (mut gone, mut whole) = (0, 0);
    for seed in seeds(2) {
        let mut n = 1;
        loop {
            let disk = SimDisk::new(seed);
            // One segment takes all of it.
            let db = Database::open_on(disk.shared(), tiny(seed).log_segment(64 << 10)).unwrap();
            let tree = db.tree("t").unwrap();
            let mut changes = db.changes(ChangesOptions::new()).unwrap();
            tree.put("a", "1").unwrap();
            let place = changes.next().unwrap().unwrap().place();
            drop(changes);
            for i in 0..20u32 {
                tree.put(i.to_be_bytes(), [7; 90]).unwrap();
            }
            disk.inject(Injection::any(n, DiskFault::PowerCut));
            let made = db.checkpoint().is_ok();
            drop(db);
            let disk = disk.crash_keeping(Survival::Nothing);
            let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
            let tree = db.tree("t").unwrap();
            tree.put("z", "2").unwrap();
            let read = db.changes(ChangesOptions::new().from(place).until_now());
            let read: Result<Vec<_>> = read.and_then(Iterator::collect);
            match read {
                Ok(commits) => {
                    let last = commits.last().map(terrace::Commit::sequence);
                    assert_eq!(last, Some(db.sequence().unwrap()), "seed {seed}, call {n}");
                    whole += 1;
                }
                Err(Error::ChangesGone { .. }) => gone += 1,
                Err(other) => panic!("seed {seed}, call {n}: {other}"),
            }
            if made {
                break;
            }
            n += 1;
        }
    }
    assert!(gone > 0 && whole > 0, "{gone} {whole}");
}

#[test]
fn who_comes_too_late_is_told_so() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    tree.put("a", "1").unwrap();
    let place = changes.next().unwrap().unwrap().place();
    drop(changes);
    // More than a few checkpoints of log, none of which is kept.
    for i in 0..3000u32 {
        tree.put(format!("{i:04}"), "0123456789".repeat(9)).unwrap();
    }
    db.checkpoint().unwrap();
    let gone = db.changes(ChangesOptions::new().from(place)).unwrap_err();
    assert!(matches!(gone, Error::ChangesGone { from, .. } if from == place.next_sequence()));
    assert_eq!(gone.kind(), "changes_gone");
    // The place of another database is none here.
    let other = Database::open_on(SimDisk::new(2).shared(), tiny(2)).unwrap();
    let refused = other.changes(ChangesOptions::new().from(place));
    assert!(matches!(refused, Err(Error::ChangesGone { .. })));
}

#[test]
fn who_is_too_slow_is_told_so_and_nobody_waits_for_him() {
    let disk = SimDisk::new(1);
    let options = tiny(1).archive_lag(64 << 10);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    tree.put("a", "1").unwrap();
    assert!(changes.next().unwrap().is_ok());
    for i in 0..5000u32 {
        tree.put(format!("{i:04}"), "0123456789".repeat(9)).unwrap();
    }
    db.checkpoint().unwrap();
    let mut seen = changes.by_ref().skip_while(Result::is_ok);
    let gone = seen.next().unwrap().unwrap_err();
    assert!(matches!(gone, Error::ChangesGone { .. }), "{gone}");
    assert!(changes.next().is_none());
}

/// Who opens the database does not need what is kept: that it cannot be read is told to who reads it.
#[test]
fn a_segment_that_is_kept_and_cannot_be_read_hinders_no_opening() {
    let disk = SimDisk::new(1);
    let open = |seed| Database::open_on(disk.shared(), tiny(seed).keep_changes(1 << 20));
    let db = open(1).unwrap();
    let tree = db.tree("t").unwrap();
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    tree.put("a", "1").unwrap();
    let place = changes.next().unwrap().unwrap().place();
    drop(changes);
    for i in 0..3000u32 {
        tree.put(format!("{i:04}"), [7; 90]).unwrap();
    }
    drop(tree);
    db.close().unwrap();
    let names = terrace::Disk::list(&disk).unwrap();
    let logs = names.iter().filter(|name| name.starts_with("log-"));
    let oldest = logs.min().unwrap().clone();
    disk.inject(Injection {
        file: Some(oldest),
        forever: true,
        ..Injection::at(Op::Read, 1, DiskFault::Eio)
    });
    let db = open(2).unwrap();
    assert_eq!(db.tree("t").unwrap().iter().unwrap().count(), 3001);
    let gone = db.changes(ChangesOptions::new().from(place)).unwrap_err();
    assert!(matches!(gone, Error::ChangesGone { .. }), "{gone}");
}

#[test]
fn the_log_that_is_kept_has_a_bound_and_outlives_closing() {
    let disk = SimDisk::new(1);
    let keep = 256 << 10;
    let open = |seed| Database::open_on(disk.shared(), tiny(seed).keep_changes(keep)).unwrap();
    let db = open(1);
    let tree = db.tree("t").unwrap();
    let mut most = 0;
    let mut places = Vec::new();
    let mut rng = Rng::new(7);
    for i in 0..60u32 {
        // From before a part of what is kept.
        let at_once = ChangesOptions::new().sync_every(Some(Duration::ZERO));
        let mut changes = db.changes(at_once).unwrap();
        tree.put("place", i.to_string()).unwrap();
        places.push(changes.next().unwrap().unwrap().place());
        for _ in 0..100 {
            tree.put(rng.bytes(8), rng.bytes(90)).unwrap();
        }
        db.checkpoint().unwrap();
        most = most.max(db.stats().log.file_bytes);
    }
    // What is kept, what a checkpoint needs, and segments made ahead.
    assert!(most < keep + (256 << 10), "{most}");
    let newest = db.sequence().unwrap();
    drop(tree);
    db.close().unwrap();
    let db = open(2);
    // A third of it is there for sure, as each part has about 11 KiB.
    let place = places[places.len() - 8];
    let mut copy: Vec<u64> = Vec::new();
    for commit in db
        .changes(ChangesOptions::new().from(place).until_now())
        .unwrap()
    {
        copy.push(commit.unwrap().sequence());
    }
    assert_eq!(copy.first(), Some(&place.next_sequence()));
    assert_eq!(copy.last(), Some(&newest));
    assert!(copy.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let old = db.changes(ChangesOptions::new().from(places[0]));
    assert!(matches!(old, Err(Error::ChangesGone { .. })));
}

#[test]
fn who_waits_hears_of_the_next_commit_and_of_a_cancel() {
    let db = Database::open_on(
        SimDisk::new(1).shared(),
        tiny(1).foreground(false).memory(4 << 20),
    )
    .unwrap();
    let tree = db.tree("t").unwrap();
    let cancel = Cancel::new();
    let options = ChangesOptions::new()
        .sync_every(Some(Duration::from_millis(1)))
        .cancel(&cancel);
    let mut changes = db.changes(options).unwrap();
    std::thread::scope(|scope| {
        let (heard, hears) = std::sync::mpsc::channel();
        let changes = &mut changes;
        let reader = scope.spawn(move || {
            let mut copy = Copy::default();
            let first = changes.next().unwrap().unwrap();
            assert!(matches!(
                first.changes().next(),
                Some(Change::Put { key: b"a", .. })
            ));
            copy.sequence = first.sequence();
            heard.send(()).unwrap();
            // It ends when it is cancelled, not before.
            assert!(changes.next().is_none());
            copy.sequence
        });
        tree.put("a", "1").unwrap();
        let put = db.sequence().unwrap();
        hears.recv().unwrap();
        cancel.cancel();
        assert_eq!(reader.join().unwrap(), put);
    });
    // A database that is closed ends the reading, with an error.
    let mut changes = db.changes(ChangesOptions::new()).unwrap();
    assert_eq!(everything(&db).unwrap()["t"].len(), 1);
    let handle = db.clone();
    db.close().unwrap();
    assert!(changes.next().unwrap().is_err());
    drop(handle);
}
