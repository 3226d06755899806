//! Scenarios of ranges that are removed at once: who has read in one finds out, and what was confirmed stays removed.

use std::collections::BTreeMap;
use std::time::Duration;

use terrace::{
    Change, ChangesOptions, Commit, Database, Durability, Kind, MapOptions, Merge, Tiers,
    TransactionOptions, Tree,
};
use terrace_sim::SimDisk;

use super::{SHAPES, Shape, create, tiny};

/// The structures of which ranges go by pages.
const CUT: [Shape; 4] = [
    (Kind::Tree, Tiers::One, false),
    (Kind::Tree, Tiers::Two, false),
    (Kind::Lsm, Tiers::One, false),
    (Kind::Lsm, Tiers::Two, false),
];

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn filled(disk: &SimDisk, shape: Shape) -> (Database, Tree) {
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let made = create(&db, "t", shape, MapOptions::new()).unwrap();
    let tree = made.as_tree().unwrap();
    for n in 0..3000 {
        tree.put(key(n), [7; 60]).unwrap();
    }
    (db, tree)
}

/// Does to a copy of the structure what a commit tells of it; how many ranges went.
fn apply(commit: &Commit, copy: &mut Records) -> usize {
    let mut ranges = 0;
    for change in commit.changes() {
        match change {
            Change::Put {
                structure,
                key,
                value,
                ..
            } if structure.name.as_deref() == Some("t") => {
                copy.insert(key.to_vec(), value.to_vec());
            }
            Change::Delete { key, .. } => drop(copy.remove(key)),
            Change::DeleteRange { low, high, .. } => {
                ranges += 1;
                copy.retain(|k, _| **k < *low || high.is_some_and(|high| **k >= *high));
            }
            _ => {}
        }
    }
    ranges
}

/// The range goes while the new value is being worked out.
pub fn an_update_brings_nothing_back() {
    for shape in CUT {
        let (_db, tree) = filled(&SimDisk::new(1), shape);
        let mut seen = Vec::new();
        let updated = tree.update(key(1500), |old| {
            seen.push(old.is_some());
            if seen.len() == 1 {
                tree.delete_range(key(100)..key(2900)).unwrap();
            }
            old.map(|old| [old, &b"more"[..]].concat())
        });
        updated.unwrap();
        assert_eq!(seen, [true, false], "{shape:?}");
        assert_eq!(tree.get(key(1500)).unwrap(), None);
        assert_eq!(tree.iter().unwrap().count(), 200);
    }
}

/// A transaction has read a range, or one record, of what goes before it commits; and one that has nothing to do
/// with it goes on.
pub fn a_transaction_that_read_there_begins_again() {
    for shape in CUT {
        for by_range in [false, true] {
            let (db, tree) = filled(&SimDisk::new(1), shape);
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
            assert_eq!(seen, [first, 0], "{shape:?}, by range {by_range}");
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
            assert_eq!(attempts, 1, "{shape:?}: a range has no part in the other");
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

/// A range goes with all else that a transaction does, and nothing of it is read.
pub fn a_transaction_takes_a_range_with_its_other_changes() {
    for shape in CUT {
        let disk = SimDisk::new(1);
        let (db, tree) = filled(&disk, shape);
        let other = create(&db, "o", SHAPES[2], MapOptions::new()).unwrap();
        let mut changes = db.changes(ChangesOptions::new()).unwrap();
        let count =
            |t: &mut terrace::Transaction| t.range_unchecked(&tree, key(0)..).map(Iterator::count);
        let append = |more: &str| Merge::Append {
            bytes: more.as_bytes().to_vec(),
            limit: 100,
        };
        let mut attempts = 0;
        let options = TransactionOptions::new().durability(Durability::Sync);
        let done: terrace::Result<()> = db.transaction_with(options, |t| {
            attempts += 1;
            t.put(&tree, "01500x", "before")?;
            t.put(&tree, "99999", "before")?;
            t.merge(&tree, "00777", append("more"))?;
            let before = t.savepoint();
            t.delete_range(&tree, key(0)..key(3000))?;
            assert_eq!(count(t)?, 1);
            t.put(&tree, key(5), "taken back")?;
            t.rollback_to(&before)?;
            assert_eq!((count(t)?, t.get(&tree, key(5))?.is_some()), (3002, true));
            t.delete_range(&tree, key(100)..key(2900))?;
            assert_eq!(t.get(&tree, key(1500))?, None);
            assert_eq!(t.get_unchecked(&tree, "01500x")?, None);
            assert!(!t.remove(&tree, key(1501)).map(|old| old.is_some())?);
            assert_eq!(count(t)?, 201);
            t.put(&tree, "01600", "behind")?;
            t.merge(&tree, "01700", append("alone"))?;
            t.put(&other, "o", "other")?;
            // Goes record by record, what was put in between along.
            t.delete_range(&tree, key(1550)..key(1650))?;
            t.put(&tree, "01601", "behind")?;
            assert_eq!(count(t)?, 203);
            if attempts == 1 {
                tree.put("02000x", "by another").unwrap();
            }
            Ok(())
        });
        done.unwrap();
        assert_eq!(
            attempts, 1,
            "{shape:?}: what others have written there counts as read"
        );
        // What the commit tells comes to the same, in its order.
        let mut copy: Records = (0..3000).map(|n| (key(n), vec![7; 60])).collect();
        let mut ranges = 0;
        while let Some(commit) = changes.next_within(Duration::from_secs(1)).unwrap() {
            ranges += apply(&commit, &mut copy);
            if ranges > 0 {
                break;
            }
        }
        let found = disk.crash(3);
        let again = Database::open_on(found.shared(), tiny(2)).unwrap();
        for db in [&db, &again] {
            let tree = db.map("t").unwrap();
            let left: Vec<_> = tree.iter().unwrap().map(|r| r.unwrap()).collect();
            let kept = (0..100).chain(2900..3000).map(|n| (key(n), vec![7; 60]));
            let more = [("01601", "behind"), ("01700", "alone"), ("99999", "before")];
            let more = more.map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
            let mut expected: Vec<_> = kept.chain(more).collect();
            expected.sort();
            assert!(left == expected, "{shape:?}: {} records", left.len());
            assert!(
                copy.iter()
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .eq(expected)
            );
            let value = db.map("o").unwrap().get("o").unwrap();
            assert_eq!(value.as_deref(), Some(&b"other"[..]));
            assert!(db.verify().unwrap().is_clean(), "{shape:?}");
        }
    }
}

/// Others who have read in a range that a transaction takes begin again; who has read elsewhere does not; and it itself
/// begins again where what it has read is no more so.
pub fn who_read_in_a_range_of_a_transaction_begins_again() {
    for shape in CUT {
        let (db, tree) = filled(&SimDisk::new(1), shape);
        let go = |low: u32, high: u32| {
            let gone: terrace::Result<()> =
                db.transaction(|t| t.delete_range(&tree, key(low)..key(high)));
            gone.unwrap();
        };
        for by_range in [false, true] {
            let first = if by_range { 1000 } else { 2000 };
            let mut seen = Vec::new();
            let done: terrace::Result<()> = db.transaction(|t| {
                let apart = t.get(&tree, key(10))?.is_some();
                let there = match by_range {
                    true => t.range(&tree, key(first)..key(first + 10))?.count() > 0,
                    false => t.get(&tree, key(first))?.is_some(),
                };
                seen.push((apart, there));
                if seen.len() == 1 {
                    go(first - 100, first + 100);
                }
                t.put(&tree, "count", seen.len().to_string())
            });
            done.unwrap();
            assert_eq!(seen, [(true, true), (true, false)], "{shape:?}");
        }
        let mut attempts = 0;
        let done: terrace::Result<()> = db.transaction(|t| {
            attempts += 1;
            // Its own range, which it has read in, is no hindrance.
            let many = t.range(&tree, key(500)..key(600))?.count();
            let one = t.get(&tree, key(2500))?;
            t.delete_range(&tree, key(500)..key(600))?;
            if attempts == 1 {
                tree.put(key(2500), "another").unwrap();
            }
            t.put(&tree, "count", format!("{many}, {}", one.is_some()))
        });
        done.unwrap();
        assert_eq!(attempts, 2, "{shape:?}");
        assert_eq!(
            tree.get("count").unwrap().as_deref(),
            Some(&b"100, true"[..])
        );
        assert_eq!(tree.range(key(500)..key(600)).unwrap().count(), 0);
        let seen = tree.update(key(30), |old| {
            if old.is_some() {
                go(20, 40);
            }
            old.map(<[u8]>::to_vec)
        });
        seen.unwrap();
        assert_eq!(tree.get(key(30)).unwrap(), None);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// A put that its own transaction's range overrules is gone behind a crash too, where there was nothing else in the range.
pub fn what_a_range_overrules_does_not_come_back() {
    for shape in CUT {
        for is_filled in [false, true] {
            let disk = SimDisk::new(1);
            let (db, tree) = filled(&disk, shape);
            if !is_filled {
                tree.delete_range(key(0)..).unwrap();
            }
            let mut changes = db.changes(ChangesOptions::new()).unwrap();
            let options = TransactionOptions::new().durability(Durability::Sync);
            let done: terrace::Result<()> = db.transaction_with(options, |t| {
                t.put(&tree, "00150x", "overruled")?;
                t.put(&tree, "00151", "before")?;
                t.delete_range(&tree, "00150a".."00151")?;
                t.put(&tree, "00150y", "behind")
            });
            done.unwrap();
            let mut copy = Records::new();
            let commit = changes.next_within(Duration::from_secs(1)).unwrap();
            apply(&commit.expect("the commit is told"), &mut copy);
            let keys: Vec<_> = copy.keys().map(Vec::as_slice).collect();
            assert_eq!(keys, [&b"00150y"[..], b"00151"], "{shape:?}");
            let found = disk.crash(3);
            let again = Database::open_on(found.shared(), tiny(2)).unwrap();
            for db in [&db, &again] {
                let tree = db.map("t").unwrap();
                let there = ["00150x", "00150y", "00151"].map(|k| tree.get(k).unwrap());
                let there = there.each_ref().map(Option::as_deref);
                assert_eq!(
                    there,
                    [None, Some(&b"behind"[..]), Some(&b"before"[..])],
                    "{shape:?}, filled: {is_filled}"
                );
            }
        }
    }
}

/// What was confirmed as durable is gone behind a power cut, and in what reads the changes.
pub fn what_was_confirmed_stays_removed() {
    for shape in CUT {
        let disk = SimDisk::new(1);
        let (db, tree) = filled(&disk, shape);
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
        let left = again.map("t").unwrap().as_tree().unwrap();
        assert_eq!(left.iter().unwrap().count(), 200, "{shape:?}");
        assert!(again.verify().unwrap().is_clean());
    }
}

/// All of them, by name.
pub const ALL: [(&str, fn()); 7] = [
    (
        "what a range overrules does not come back",
        what_a_range_overrules_does_not_come_back,
    ),
    (
        "a transaction takes a range with its other changes",
        a_transaction_takes_a_range_with_its_other_changes,
    ),
    (
        "who read in a range of a transaction begins again",
        who_read_in_a_range_of_a_transaction_begins_again,
    ),
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
