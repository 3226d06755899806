//! Pruning: what is forgotten goes, what is still needed of it is copied, and a power cut at any call leaves a
//! set that is whole.

use terrace::{Database, Keep, RestoreTo, Tiers, TreeOptions, prune_backup_on, verify_backup_on};
use terrace_sim::{Fault, Injection, SimDisk};

use super::{Contents, back_up, contents, restored, whole};
use crate::common::tiny;

const PAGE: u64 = 4096;

/// A database in one tree whose pages are written anew but for a few, and a set with a point before each
/// time: so the file of the first point has some pages that all points need.
fn mostly_new(rounds: u64) -> (Database, SimDisk, Vec<Contents>) {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
    let tree = db
        .tree_with("t", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    let mut wanted = Vec::new();
    for round in 0..rounds {
        // The last eighth is cold, and of the rest only a part changes each time.
        let many = if round == 0 { 1600 } else { 1400 };
        for i in (0..many).filter(|i| round == 0 || i / 200 % rounds != round) {
            tree.put(format!("{i:04}"), [round as u8; 64]).unwrap();
        }
        back_up(&db, &set).unwrap();
        wanted.push(contents(&db));
        // So that no two have the same time.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    (db, set, wanted)
}

#[test]
fn what_is_needed_of_a_file_that_hardly_anybody_names_is_copied() {
    let (db, set, wanted) = mostly_new(4);
    let report = prune_backup_on(set.shared(), 2).unwrap();
    assert_eq!(
        (&report.kept[..], &report.forgotten[..]),
        (&[3, 4][..], &[1, 2][..])
    );
    assert!(report.rewritten.contains(&1), "{report:?}");
    whole(&set, &[3, 4]);
    for point in [3, 4] {
        let (found, _) = restored(&set, RestoreTo::Point(point)).unwrap();
        assert_eq!(found, wanted[point as usize - 1]);
    }
    // A set of one point has its pages, and not many more.
    let report = prune_backup_on(set.shared(), 1).unwrap();
    assert_eq!(report.kept, [4]);
    let live = db.stats().pages.live;
    let used = set.used_bytes();
    assert!(
        used < (2 * live + 16) * PAGE,
        "{used} bytes for {live} pages"
    );
    whole(&set, &[4]);
    // Nothing is left to be done.
    let report = prune_backup_on(set.shared(), 1).unwrap();
    assert_eq!((report.rewritten, report.freed_bytes), (vec![], 0));

    // It goes on, in the process that made it and in another.
    let tree = db.tree("t").unwrap();
    tree.put("0001", "new").unwrap();
    let next = back_up(&db, &set).unwrap();
    assert!(next.point > 4 && next.stored_pages < live / 4, "{next:?}");
    whole(&set, &[4, next.point]);
    let (found, _) = restored(&set, RestoreTo::Latest).unwrap();
    assert_eq!(found, contents(&db));
    let (found, _) = restored(&set, RestoreTo::Point(4)).unwrap();
    assert_eq!(Some(&found), wanted.last());
}

#[test]
fn what_a_time_needs_stays() {
    let (_, set, wanted) = mostly_new(4);
    let points = terrace::list_backup_on(set.shared()).unwrap();
    let then = points[2].time - std::time::Duration::from_millis(1);
    // As many as are asked for, whatever their time.
    let all = prune_backup_on(set.shared(), Keep::newest(4).since(then)).unwrap();
    assert!(all.forgotten.is_empty());
    // Before all of them.
    let none = prune_backup_on(set.shared(), Keep::newest(1).since(std::time::UNIX_EPOCH));
    assert!(none.unwrap().forgotten.is_empty());
    // The second is the last one before.
    let kept = prune_backup_on(set.shared(), Keep::newest(1).since(then)).unwrap();
    assert_eq!(kept.forgotten, [1], "{points:?}");
    // Behind all of them.
    let later = points[3].time + std::time::Duration::from_secs(1);
    let last = prune_backup_on(set.shared(), Keep::newest(0).since(later)).unwrap();
    assert_eq!(last.kept, [4]);
    let (found, _) = restored(&set, RestoreTo::Latest).unwrap();
    assert_eq!(Some(&found), wanted.last());
}

#[test]
fn a_power_cut_while_points_are_forgotten_leaves_the_set_whole() {
    let (_, set, wanted) = mostly_new(4);
    let mut at = 1;
    loop {
        let now = set.copy();
        now.inject(Injection::any(at, Fault::PowerCut));
        let pruned = prune_backup_on(now.shared(), 2);
        if now.is_powered() {
            assert!(!pruned.unwrap().rewritten.is_empty());
            break;
        }
        let found = now.crash(at);
        let report = verify_backup_on(found.shared(), |_| ()).unwrap();
        assert!(report.is_clean(), "cut at call {at}: {:?}", report.problems);
        assert!(
            report.whole == [1, 2, 3, 4] || report.whole == [3, 4],
            "cut at call {at}: {:?}",
            report.whole
        );
        for point in report.whole {
            let (records, _) = restored(&found, RestoreTo::Point(point)).unwrap();
            assert_eq!(records, wanted[point as usize - 1], "cut at call {at}");
        }
        // What it left goes the next time.
        prune_backup_on(found.shared(), 2).unwrap();
        let report = verify_backup_on(found.shared(), |_| ()).unwrap();
        assert!(report.is_clean() && report.leftovers.is_empty());
        at += 1;
    }
    assert!(at > 15, "only {at} calls");
}

#[test]
fn points_are_forgotten_without_room_for_a_copy_and_beside_damage() {
    let (_, set, wanted) = mostly_new(4);
    let full = set.copy();
    full.set_capacity(Some(full.used_bytes() + 2 * PAGE));
    let report = prune_backup_on(full.shared(), 1).unwrap();
    assert_eq!((report.kept, report.rewritten), (vec![4], vec![]));
    let found = verify_backup_on(full.shared(), |_| ()).unwrap();
    assert!(found.is_clean() && found.leftovers.is_empty(), "{found:?}");
    full.set_capacity(None);
    let report = prune_backup_on(full.shared(), 1).unwrap();
    assert!(!report.rewritten.is_empty() && report.freed_bytes > 0);
    whole(&full, &[4]);
    let (found, _) = restored(&full, RestoreTo::Latest).unwrap();
    assert_eq!(Some(&found), wanted.last());

    // The last page of the first point's file is a cold one.
    let mut bytes = set.contents("point-1.pages").unwrap();
    let value = bytes.windows(64).rposition(|some| some == [0; 64]);
    bytes[value.unwrap()] ^= 1;
    set.place("point-1.pages", bytes);
    let report = prune_backup_on(set.shared(), 1).unwrap();
    assert!(!report.rewritten.contains(&1), "{report:?}");
    let found = verify_backup_on(set.shared(), |_| ()).unwrap();
    assert_eq!((found.whole, found.damaged), (vec![], vec![4]));
    assert!(
        found.problems[0].contains("point-1.pages"),
        "{:?}",
        found.problems
    );
}
