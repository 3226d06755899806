//! What is reported to be in a set is restorable, whatever comes when.

use std::time::Duration;

use terrace::fault::set_clock_ahead;
use terrace::{
    Database, Error, Index, KeySource, RestoreOptions, RestoreTo, TableOptions, backup_contents_on,
    restore_on, verify_backup_on,
};
use terrace_sim::{Fault as DiskFault, Injection, SimDisk};

use super::following::{follow, restored};
use crate::common::chains::chains;
use crate::common::clock::clocks;
use crate::common::{seeds, tiny};

#[test]
fn what_is_reported_is_restorable_in_every_order() {
    for seed in seeds(3) {
        chains(seed, 50);
    }
}

#[test]
fn a_time_that_was_twice_is_told_and_both_are_to_be_had() {
    clocks();
}

#[test]
fn behind_a_break_without_a_point_the_newest_is_refused_and_the_set_is_not_clean() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let options = tiny(1).archive_lag(20 << 10);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    let follower = follow(&db, &set).unwrap();
    tree.put("a", "before").unwrap();
    let reported = follower.archive().unwrap();
    for i in 0..14 {
        tree.put("b", [i; 3500]).unwrap();
    }
    db.checkpoint().unwrap();
    // The point that is needed now cannot be made, because the set's disk has no room for its pages.
    set.set_capacity(Some(set.used_bytes() + 3000));
    follower.archive().unwrap_err();
    let status = follower.status();
    assert_eq!((status.sequence, status.breaks), (reported, 1));
    assert!(status.error.is_some());
    set.set_capacity(None);
    // The process dies.
    disk.inject(Injection::any(1, DiskFault::PowerCut));
    drop((follower, tree, db));

    let all = backup_contents_on(set.shared()).unwrap();
    let (first, last) = (all.logs[1].first, all.logs[1].last);
    let found = verify_backup_on(set.shared(), |_| ()).unwrap();
    assert_eq!(found.unreached, Some((first, last)));
    assert!(found.problems.is_empty() && !found.is_clean());
    let told = restored(&set, RestoreTo::Latest).unwrap_err();
    let text = told.to_string();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    for has in [
        format!("{first} to {last}"),
        format!("after change {reported},"),
        "--up-to-break".into(),
    ] {
        assert!(text.contains(&has), "{has}: {text}");
    }
    let to = SimDisk::new(3);
    let options = RestoreOptions::new().up_to_break(true).options(tiny(9));
    let report = restore_on(set.shared(), to.shared(), options).unwrap();
    assert_eq!(report.sequence, reported);
    // What is asked for by its number needs no flag.
    restored(&set, RestoreTo::Sequence(reported)).unwrap();
    restored(&set, RestoreTo::Sequence(last)).unwrap_err();
}

#[test]
fn an_index_that_lacks_what_went_past_the_log_is_not_there_after_a_restore() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let unlogged = || TableOptions::new().logged(false);
    let rows = db.table_with("rows", unlogged()).unwrap();
    for i in 0..100u8 {
        rows.put([i], [i / 2; 4]).unwrap();
    }
    let follower = follow(&db, &set).unwrap();
    let index = |name: &str| Index::on(name, KeySource::bytes(0..1));
    rows.create_index(index("late")).unwrap();
    // A table that the point does not have is empty after a restore, and so are its indexes.
    let new = db
        .table_with("new", unlogged().index(index("with")))
        .unwrap();
    new.create_index(index("behind")).unwrap();
    new.put([1], [1; 4]).unwrap();
    follower.stop().unwrap();
    let to = SimDisk::new(3);
    let report = restore_on(
        set.shared(),
        to.shared(),
        RestoreOptions::new().options(tiny(9)),
    )
    .unwrap();
    assert_eq!(report.lost_indexes, ["late"]);
    let db = Database::open_on(to.shared(), tiny(10)).unwrap();
    let rows = db.table_with("rows", unlogged()).unwrap();
    assert_eq!(rows.iter().unwrap().count(), 100);
    assert!(rows.index("late").is_err());
    rows.create_index(index("late")).unwrap();
    let late = rows.index("late").unwrap();
    assert_eq!(late.get([3]).unwrap().count(), 2);
    let new = db.table_with("new", unlogged()).unwrap();
    assert_eq!(new.iter().unwrap().count(), 0);
    new.put([2], [1; 4]).unwrap();
    for name in ["with", "behind"] {
        assert_eq!(new.index(name).unwrap().get([1]).unwrap().count(), 1);
    }
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn two_who_follow_come_to_rest() {
    let (disk, one, two) = (SimDisk::new(1), SimDisk::new(2), SimDisk::new(3));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let (a, b) = (follow(&db, &one).unwrap(), follow(&db, &two).unwrap());
    tree.put("a", "1").unwrap();
    for _ in 0..2 {
        a.archive().unwrap();
        b.archive().unwrap();
    }
    let at_rest = db.sequence().unwrap();
    for _ in 0..5 {
        a.archive().unwrap();
        b.archive().unwrap();
    }
    assert_eq!(db.sequence().unwrap(), at_rest);
    // What is written now has a mark behind it in both sets.
    tree.put("a", "2").unwrap();
    let both = [a.archive().unwrap(), b.archive().unwrap()];
    assert!(both.iter().all(|reached| *reached > at_rest), "{both:?}");
}

#[test]
fn the_age_of_a_snapshot_goes_by_how_long_it_was_not_by_what_the_clock_shows() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("a", "1").unwrap();
    set_clock_ahead(-3_600_000);
    let first = db.snapshot().unwrap();
    set_clock_ahead(0);
    tree.put("a", "2").unwrap();
    let second = db.snapshot_at_most(Duration::from_secs(1800)).unwrap();
    assert_eq!(first.sequence(), second.sequence());
}
