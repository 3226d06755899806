//! Scenarios of ranges that are removed at once: who has read in one finds out, and what was confirmed stays removed.

use std::time::Duration;

use terrace::{
    Change, ChangesOptions, Database, Durability, Kind, MapOptions, Tiers, Tree, TreeOptions,
};
use terrace_sim::SimDisk;

use super::{SHAPES, create, tiny};

/// Tiers of the trees.
const TIERS: [Tiers; 2] = [Tiers::One, Tiers::Two];

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn filled(disk: &SimDisk, tiers: Tiers) -> (Database, Tree) {
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let options = TreeOptions::new().tiers(tiers);
    let tree = db.tree_with("t", options).unwrap();
    for n in 0..3000 {
        tree.put(key(n), [7; 60]).unwrap();
    }
    (db, tree)
}

/// The range goes while the new value is being worked out.
pub fn an_update_brings_nothing_back() {
    for tiers in TIERS {
        let (_db, tree) = filled(&SimDisk::new(1), tiers);
        let mut seen = Vec::new();
        let updated = tree.update(key(1500), |old| {
            seen.push(old.is_some());
            if seen.len() == 1 {
                tree.delete_range(key(100)..key(2900)).unwrap();
            }
            old.map(|old| [old, &b"more"[..]].concat())
        });
        updated.unwrap();
        assert_eq!(seen, [true, false], "{tiers:?}");
        assert_eq!(tree.get(key(1500)).unwrap(), None);
        assert_eq!(tree.iter().unwrap().count(), 200);
    }
}

/// A transaction has read a range, or one record, of what goes before it commits; and one that has nothing to do
/// with it goes on.
pub fn a_transaction_that_read_there_begins_again() {
    for tiers in TIERS {
        for by_range in [false, true] {
            let (db, tree) = filled(&SimDisk::new(1), tiers);
            let mut seen = Vec::new();
            let done = db.transaction(|t| {
                let count = match by_range {
                    true => t.range(&tree, key(1000)..key(1010))?.count(),
                    false => usize::from(t.get(&tree, key(1000))?.is_some()),
                };
                seen.push(count);
                if seen.len() == 1 {
                    tree.delete_range(key(900)..key(1100)).unwrap();
                }
                t.put(&tree, "count", count.to_string())
            });
            done.unwrap();
            let first = if by_range { 10 } else { 1 };
            assert_eq!(seen, [first, 0], "{tiers:?}, by range {by_range}");
            assert_eq!(tree.get("count").unwrap().as_deref(), Some(&b"0"[..]));

            let mut attempts = 0;
            let apart = db.transaction(|t| {
                attempts += 1;
                let count = t.range(&tree, key(10)..key(20))?.count();
                if attempts == 1 {
                    tree.delete_range(key(2000)..key(2100)).unwrap();
                }
                t.put(&tree, "count", count.to_string())
            });
            apart.unwrap();
            assert_eq!(attempts, 1, "{tiers:?}: a range has no part in the other");
        }
    }
}

/// A transaction removes a range, with what it has put there itself and what others have put there before it commits;
/// and who has read there begins again.
pub fn a_transaction_removes_what_is_there_when_it_commits() {
    for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
        let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
        let map = create(&db, "a", shape, MapOptions::new()).unwrap();
        for n in 0..300 {
            map.put(key(n), key(n)).unwrap();
        }
        let mut attempts = 0;
        let removed: terrace::Result<u64> = db.transaction(|t| {
            attempts += 1;
            t.put(&map, "00150x", "its own")?;
            t.delete(&map, key(151))?;
            let removed = t.remove_range(&map, key(100)..key(200))?;
            // Without reading it, which would be enough to find the other.
            let left = t.range_unchecked(&map, key(90)..key(210))?;
            assert_eq!(left.count(), 20);
            t.put(&map, "00160x", "put behind it")?;
            if attempts == 1 {
                map.put("00155x", "by another").unwrap();
            }
            Ok(removed)
        });
        assert_eq!((attempts, removed.unwrap()), (2, 101), "{shape:?}");
        let left: Vec<_> = map.iter().unwrap().map(|r| r.unwrap().0).collect();
        let kept = (0..100).chain(200..300).map(key);
        let mut expected: Vec<_> = kept.chain([b"00160x".to_vec()]).collect();
        expected.sort();
        assert_eq!(left, expected, "{shape:?}");

        let mut seen = Vec::new();
        let done = db.transaction(|t| {
            seen.push(t.range(&map, key(10)..key(20))?.count());
            if seen.len() == 1 {
                db.transaction(|t| t.remove_range(&map, key(0)..key(15)))?;
            }
            t.put(&map, "seen", [b'0' + seen.len() as u8])
        });
        done.unwrap();
        assert_eq!(seen, [10, 5], "{shape:?}");
        assert!(db.verify().unwrap().is_clean(), "{shape:?}");
    }
}

/// What was confirmed as durable is gone behind a power cut, and in what reads the changes.
pub fn what_was_confirmed_stays_removed() {
    for tiers in TIERS {
        let disk = SimDisk::new(1);
        let (db, tree) = filled(&disk, tiers);
        let mut changes = db.changes(ChangesOptions::new()).unwrap();
        tree.delete_range_with(key(100)..key(2900), Durability::Sync)
            .unwrap();
        // It is durable, so it is there; who waited for one that was never logged would wait for ever.
        let commit = changes.next_within(Duration::from_secs(1)).unwrap();
        let commit = commit.expect("the feed tells nothing of the range");
        let told: Vec<_> = commit.changes().collect();
        let [
            Change::DeleteRange {
                structure,
                low,
                high,
            },
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(structure.name.as_deref(), Some("t"));
        assert_eq!((*low, *high), (&key(100)[..], Some(&key(2900)[..])));
        let found = disk.crash(7);
        let again = Database::open_on(found.shared(), tiny(2)).unwrap();
        let left = again.tree("t").unwrap();
        assert_eq!(left.iter().unwrap().count(), 200, "{tiers:?}");
        assert!(again.verify().unwrap().is_clean());
    }
}

/// All of them, by name.
pub const ALL: [(&str, fn()); 4] = [
    (
        "an update brings nothing back",
        an_update_brings_nothing_back,
    ),
    (
        "a transaction that read there begins again",
        a_transaction_that_read_there_begins_again,
    ),
    (
        "a transaction removes what is there when it commits",
        a_transaction_removes_what_is_there_when_it_commits,
    ),
    (
        "what was confirmed stays removed",
        what_was_confirmed_stays_removed,
    ),
];
