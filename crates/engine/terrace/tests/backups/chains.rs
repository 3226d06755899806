//! What is reported to be in a set is restorable, whatever comes when.

use terrace::{
    Database, Error, RestoreOptions, RestoreTo, backup_contents_on, restore_on, verify_backup_on,
};
use terrace_sim::{Fault as DiskFault, Injection, SimDisk};

use super::following::{follow, restored};
use crate::common::chains::chains;
use crate::common::clock::clocks;
use crate::common::{seeds, tiny};

#[test]
fn what_is_reported_is_restorable_in_every_order() {
    for seed in seeds(6) {
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
