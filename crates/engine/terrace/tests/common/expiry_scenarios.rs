//! Scenarios of records that expire, one at least for each fault that may be planted there.

use std::sync::Arc;
use std::time::Duration;

use super::expiry::{BEGIN, Hands, at, options, run};
use super::{create, named, tiny};
use terrace::{
    Database, Error, Index, KeySource, Kind, MapOptions, TableOptions, Tiers, Tree, TreeOptions,
};
use terrace_sim::SimDisk;
use terrace_tier::fault::{Point, hook};

/// Scenarios that one fault each is found by, at least, with the fault's name.
pub const SCENARIOS: [(&str, fn()); 11] = [
    ("moves", moves_of_expired_records),
    ("rows", rows_of_tables),
    ("unique", an_expired_row_holds_no_key),
    ("keys", an_expired_row_holds_none_of_its_keys),
    ("clock", the_time_is_never_less_after_an_opening),
    ("commit", a_commit_sees_what_has_expired),
    ("lengthened", a_lease_that_is_being_lengthened_is_waited_for),
    ("large", a_large_value_stays_to_its_end),
    ("older", an_older_value_does_not_come_back),
    ("levels", an_older_level_does_not_come_back),
    ("hot copies", what_a_merge_has_dropped_is_no_damage_above),
];

fn moves_of_expired_records() {
    run(1, (Kind::Tree, Tiers::Two, false), 500);
    run(2, (Kind::Hash, Tiers::One, false), 300);
}

fn rows_of_tables() {
    run(3, (Kind::Table, Tiers::Two, false), 400);
}

fn opened(hands: &Arc<Hands>) -> (SimDisk, Database) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options(1, hands)).unwrap();
    (disk, db)
}

/// Hot copies of records that a merge below has dropped, as they had expired, are no damage.
pub fn what_a_merge_has_dropped_is_no_damage_above() {
    let shape = (Kind::Lsm, Tiers::Two, false);
    let hands = Hands::new();
    let (_disk, db) = opened(&hands);
    let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
    let key = |i: u64| format!("k{:05}", i * 7919 % 8000);
    for i in 0..200 {
        map.put_until(key(i), vec![b'n'; 300], at(BEGIN + 1000))
            .unwrap();
    }
    for round in 0..3 {
        for i in 200..8000 {
            map.put(key(i), vec![b'o' + round; 300]).unwrap();
            // They stay above, and are clean once they were written below.
            for n in 0..2 {
                map.get(key((i * 2 + n) % 200)).unwrap();
            }
        }
    }
    db.verify().unwrap().into_result().unwrap();
    hands.pass(1000);
    for i in 200..8000 {
        map.put(key(i), vec![b'p'; 300]).unwrap();
        if i % 500 == 0 {
            db.verify().unwrap().into_result().unwrap();
        }
    }
    assert!(db.stats().expiry.dropped_by_merge > 0);
    db.verify().unwrap().into_result().unwrap();
}

/// A commit finds a record there, and gives it a longer lease. Who asks for the record in between, when the shorter
/// one is over, waits: else it would be gone, and there again.
pub fn a_lease_that_is_being_lengthened_is_waited_for() {
    let by_range = |tree: &Tree| {
        let last = tree.iter().unwrap().next_back();
        last.map(|record| record.unwrap().1)
    };
    lengthened(|clock| clock.pass(20), |tree| tree.get("b").unwrap());
    lengthened(|clock| clock.pass(20), by_range);
    // The clock is put right by as much as is believed at once.
    lengthened(|clock| clock.set(clock.now() + 3_000_000), by_range);
}

fn lengthened(late: fn(&Hands), ask: fn(&Tree) -> Option<Vec<u8>>) {
    let hands = Hands::new();
    let (_disk, db) = opened(&hands);
    let options = TreeOptions::new().tiers(Tiers::One).expiring();
    let tree = db.tree_with("t", options).unwrap();
    tree.put_until("b", "1", at(BEGIN + 10)).unwrap();
    // What the reader does: it waits for a lock, or has its answer.
    let (does, did) = std::sync::mpsc::channel();
    let (start, started) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn({
            let tree = &tree;
            move || {
                let waits = does.clone();
                hook(Some(Box::new(move |point| {
                    if point == Point::Waiting {
                        let _ = waits.send(());
                    }
                })));
                started.recv().unwrap();
                let found = ask(tree);
                let _ = does.send(());
                hook(None);
                found
            }
        });
        let (clock, mut first) = (hands.clone(), true);
        hook(Some(Box::new(move |point| {
            if point == Point::Applied && std::mem::take(&mut first) {
                // "a" is written, "b" not yet.
                late(&clock);
                start.send(()).unwrap();
                did.recv().unwrap();
            }
        })));
        db.transaction(|t| {
            assert!(t.get(&tree, "b")?.is_some());
            t.put(&tree, "a", "2")?;
            t.put_until(&tree, "b", "2", at(BEGIN + 10_000_000))
        })
        .unwrap();
        hook(None);
        assert_eq!(reader.join().unwrap().as_deref(), Some(&b"2"[..]));
    });
}

/// A transaction that has read a record as being there, and commits when it is not, runs again.
pub fn a_commit_sees_what_has_expired() {
    for shape in super::SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let other = db.tree("other").unwrap();
        map.put_until("a", "1", at(BEGIN + 10)).unwrap();
        for way in 0..3 {
            map.put_until("a", "1", at(hands.now() + 10)).unwrap();
            let mut seen = Vec::new();
            db.transaction(|t| {
                let found = match way {
                    0 => t.get(&map, "a")?.is_some(),
                    1 => t.iter(&map)?.next().is_some(),
                    _ => t.contains_key(&map, "a")?,
                };
                seen.push(found);
                if seen.len() == 1 {
                    hands.pass(10);
                }
                if way < 2 {
                    t.put(&other, "seen", if found { "yes" } else { "no" })?;
                }
                Ok::<(), Error>(())
            })
            .unwrap();
            assert_eq!(seen, [true, false], "{shape:?}, {way}");
        }
        assert_eq!(other.get("seen").unwrap().as_deref(), Some(&b"no"[..]));
        // A merge of a batch that was worked out before is worked out anew.
        map.put_until("a", "1", at(hands.now() + 10)).unwrap();
        assert!(map.expire_in("a", Some(Duration::from_millis(20))).unwrap());
        hands.pass(19);
        assert_eq!(map.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        hands.pass(1);
        assert_eq!(map.get("a").unwrap(), None);
    }
}

/// Its reference says when it is gone in coarse units, and never too early.
pub fn a_large_value_stays_to_its_end() {
    for shape in super::SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let (value, end) = (vec![b'l'; 9000], BEGIN + 1_000_000);
        map.put_until("large", &value, at(end)).unwrap();
        for i in 0..1500 {
            map.put(format!("k{i:04}"), vec![b'v'; 400]).unwrap();
        }
        hands.set(end - 300_000);
        terrace::fault::tend(&db).unwrap();
        db.compact(Default::default()).unwrap();
        terrace::fault::tend(&db).unwrap();
        assert!(
            map.get("large").unwrap().as_ref() == Some(&value),
            "{shape:?}"
        );
        hands.set(end - 1);
        terrace::fault::tend(&db).unwrap();
        assert!(
            map.get("large").unwrap().as_ref() == Some(&value),
            "{shape:?}"
        );
        hands.set(end);
        assert_eq!(map.get("large").unwrap(), None, "{shape:?}");
        hands.set(end + 256_000);
        terrace::fault::tend(&db).unwrap();
        let dropped = db.stats().expiry;
        let all = dropped.dropped_by_round + dropped.dropped_by_merge;
        assert_eq!(all, 1, "{shape:?}: {dropped:?}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

/// The cold tier has a value that stays, the hot one a newer one that has expired: it goes down as a deletion.
pub fn an_older_value_does_not_come_back() {
    for shape in super::SHAPES
        .into_iter()
        .filter(|shape| shape.1 == Tiers::Two)
    {
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let key = |i: u64| format!("k{i:05}");
        for i in 0..4000 {
            map.put(key(i), vec![b'o'; 400]).unwrap();
        }
        for i in (0..4000).step_by(40) {
            map.put_until(key(i), vec![b'n'; 400], at(BEGIN + 1000))
                .unwrap();
        }
        hands.pass(1000);
        // So much that all of it goes down.
        for i in 4000..9000 {
            map.put(key(i), vec![b'o'; 400]).unwrap();
        }
        terrace::fault::tend(&db).unwrap();
        for i in (0..4000).step_by(40) {
            assert_eq!(map.get(key(i)).unwrap(), None, "{shape:?}, {i}");
        }
    }
}

/// The same of the levels of an LSM-tree.
pub fn an_older_level_does_not_come_back() {
    for tiers in [Tiers::One, Tiers::Two] {
        let shape = (Kind::Lsm, tiers, false);
        let hands = Hands::new();
        let (_disk, db) = opened(&hands);
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        let key = |i: u64| format!("k{:05}", i * 7919 % 8000);
        for i in 0..8000 {
            map.put(key(i), vec![b'o'; 300]).unwrap();
        }
        for i in 0..2000 {
            map.put_until(key(i), vec![b'n'; 300], at(BEGIN + 1000))
                .unwrap();
        }
        hands.pass(1000);
        for i in 2000..8000 {
            map.put(key(i), vec![b'p'; 300]).unwrap();
        }
        assert!(db.stats().expiry.dropped_by_merge > 0, "{tiers:?}");
        for i in 0..2000 {
            assert_eq!(map.get(key(i)).unwrap(), None, "{tiers:?}, {i}");
        }
    }
}

/// One that is in the way in a unique index goes with the batch of the one that comes.
pub fn an_expired_row_holds_no_key() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let options = TableOptions::new()
        .expiring()
        .index(Index::on("mail", KeySource::bytes(0..3)).unique());
    let table = db.table_with("users", options).unwrap();
    table.put_until("1", "abc-1", at(BEGIN + 10)).unwrap();
    assert!(matches!(
        table.put("2", "abc-2"),
        Err(Error::Duplicate { .. })
    ));
    hands.pass(10);
    table.put("2", "abc-2").unwrap();
    let index = table.index("mail").unwrap();
    let found = index.get("abc").unwrap().next().unwrap().unwrap();
    assert_eq!(found, (b"2".to_vec(), b"abc-2".to_vec()));
    // One that is put anew is one that has the key no more.
    assert!(matches!(
        table.put("1", "abc-3"),
        Err(Error::Duplicate { .. })
    ));
    assert!(db.verify().unwrap().is_clean());
    // The same in a batch, a transaction, and where an index is made.
    table.put_until("3", "def-3", at(BEGIN + 20)).unwrap();
    table.put_until("4", "ghi-4", at(BEGIN + 20)).unwrap();
    hands.pass(10);
    let mut batch = db.batch();
    batch.put(&table, "5", "def-5").put(&table, "6", "x");
    db.write(batch, None).unwrap();
    db.transaction(|t| t.put(&table, "7", "ghi-7")).unwrap();
    table.drop_index("mail").unwrap();
    table.put_until("8", "jkl-8", at(BEGIN + 30)).unwrap();
    table.put("9", "jkl-9").unwrap();
    hands.pass(10);
    table
        .create_index(Index::on("mail", KeySource::bytes(0..3)).unique())
        .unwrap();
    let index = table.index("mail").unwrap();
    let keys: Vec<_> = index
        .keys::<&[u8]>(..)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let expected = [("abc", "2"), ("def", "5"), ("ghi", "7"), ("jkl", "9")];
    let expected = expected.map(|(key, row)| (key.as_bytes().to_vec(), row.as_bytes().to_vec()));
    assert_eq!(keys, expected);
    assert!(db.verify().unwrap().is_clean());
}

/// A record that has expired stays so when the clock is set back and the database opened again.
pub fn the_time_is_never_less_after_an_opening() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
    tree.put_until("a", "1", at(BEGIN + 1000)).unwrap();
    hands.pass(1000);
    assert_eq!(tree.get("a").unwrap(), None);
    db.checkpoint().unwrap();
    let copy = disk.copy();
    drop((tree, db));
    hands.set(BEGIN);
    let db = Database::open_on(copy.shared(), tiny(2).clock(hands.clone())).unwrap();
    let tree = db.open_tree("t", MapOptions::new().expiring()).unwrap();
    assert_eq!(tree.get("a").unwrap(), None);
    // A mark says what time it was, too.
    hands.set(BEGIN + 2000);
    tree.put_until("b", "1", at(BEGIN + 3000)).unwrap();
    hands.set(BEGIN + 3000);
    assert_eq!(tree.get("b").unwrap(), None);
}

/// The same where rows have several keys: one that goes gives up all of them.
pub fn an_expired_row_holds_none_of_its_keys() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let letters = || {
        let each = |row: &[u8]| Ok(row.iter().map(|byte| vec![*byte]).collect());
        Index::many("letters", each).unique()
    };
    let options = TableOptions::new().expiring().index(letters());
    let table = db.table_with("t", options).unwrap();
    table.put_until("1", "abc", at(BEGIN + 10)).unwrap();
    table.put_until("2", "de", at(BEGIN + 10)).unwrap();
    hands.pass(10);
    table.put("3", "bdx").unwrap();
    assert!(db.verify().unwrap().is_clean());
    table.put("4", "ae").unwrap();
    // The same where the index is made.
    table.drop_index("letters").unwrap();
    table.put_until("0", "pqr", at(BEGIN + 20)).unwrap();
    table.put_until("5", "qst", at(BEGIN + 30)).unwrap();
    table.put("6", "ps").unwrap();
    table.put_until("7", "sx", at(BEGIN + 20)).unwrap();
    table.put("8", "t").unwrap();
    hands.pass(20);
    table.create_index(letters()).unwrap();
    let index = table.index("letters").unwrap();
    let keys: Vec<_> = index
        .keys::<&[u8]>(..)
        .unwrap()
        .map(|entry| {
            let (key, row) = entry.unwrap();
            format!("{}{}", key.escape_ascii(), row.escape_ascii())
        })
        .collect();
    let expected = ["a4", "b3", "d3", "e4", "p6", "s6", "t8", "x3"];
    assert_eq!(keys, expected);
    assert!(db.verify().unwrap().is_clean());
}
