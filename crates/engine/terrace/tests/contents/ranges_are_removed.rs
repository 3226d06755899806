//! Removing ranges: what is in them is gone, what is not stays, of structures of all kinds with an order and
//! of tables with their indexes; it can be ended early, and what is put behind it stays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{SHAPES, create, named, seeds, tiny};
use terrace::{
    Cancel, Database, Durability, Error, Kind, Map, MapOptions, Options, RemoveOptions, Result,
    Tiers, Tree, TreeOptions,
};
use terrace_sim::{Rng, SimDisk};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(map: &Map) -> Records {
    map.iter().unwrap().collect::<Result<_>>().unwrap()
}

fn remove(map: &Map, low: &[u8], high: &[u8], options: RemoveOptions<'_>) -> Result<u64> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.remove_range(low..high, options),
        (_, Some(table)) => table.remove_range(low..high, options),
        _ => unreachable!("a structure without an order"),
    }
}

fn remove_prefix(map: &Map, prefix: &[u8]) -> Result<u64> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.remove_prefix(prefix, RemoveOptions::new()),
        (_, Some(table)) => table.remove_prefix(prefix, RemoveOptions::new()),
        _ => unreachable!("a structure without an order"),
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

fn filled(map: &Map, seed: u64) -> Records {
    let mut rng = Rng::new(seed);
    let mut records = Records::new();
    for n in 0..2500 {
        // Some in pages of their own.
        let len = if n % 301 == 0 { 9000 } else { 40 };
        let value = [vec![b'a' + (n % 7) as u8; 2], rng.bytes(len)].concat();
        map.put(key(n), &value).unwrap();
        records.insert(key(n), value);
    }
    records
}

/// What is durable with the next checkpoint alone is removed like that, whatever the database's writes promise.
#[test]
fn a_range_of_what_is_not_logged_is_removed_where_writes_are_synced() {
    let disk = SimDisk::new(1);
    let options = tiny(1).durability(Durability::Sync);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree_with("t", TreeOptions::new().logged(false)).unwrap();
    for n in 0..10 {
        tree.put(key(n), "1").unwrap();
    }
    let removed = tree.remove_range(key(2)..key(5), RemoveOptions::new());
    assert_eq!(removed.unwrap(), 3);
    assert_eq!(tree.remove_prefix("", RemoveOptions::new()).unwrap(), 7);
    assert_eq!(tree.iter().unwrap().count(), 0);
}

#[test]
fn what_is_in_a_range_is_gone_and_what_is_not_stays() {
    for seed in seeds(1) {
        for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
            let disk = SimDisk::new(seed);
            let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
            let map = create(&db, "a", shape, MapOptions::new()).unwrap();
            let mut records = filled(&map, seed);
            let mut rng = Rng::new(seed);
            for _ in 0..4 {
                let (a, b) = (rng.below(2600), rng.below(2600));
                let (low, high) = (key(a.min(b)), key(a.max(b)));
                let inside = records.range(low.clone()..high.clone()).count();
                let removed = remove(&map, &low, &high, RemoveOptions::new()).unwrap();
                assert_eq!(removed, inside as u64, "{}", named(shape));
                records.retain(|key, _| *key < low || *key >= high);
                assert_eq!(all(&map), records, "{}", named(shape));
                let again = remove(&map, &low, &high, RemoveOptions::new()).unwrap();
                assert_eq!(again, 0);
            }
            let before = records.len();
            records.retain(|key, _| !key.starts_with(b"1"));
            let removed = remove_prefix(&map, b"1").unwrap();
            assert_eq!(removed as usize, before - records.len());
            assert_eq!(all(&map), records, "{}", named(shape));
            // Each entry of an index has its row.
            assert!(db.verify().unwrap().is_clean(), "{}", named(shape));
            drop((map, db));
            let found = disk.restart(seed);
            let db = Database::open_on(found.shared(), tiny(seed + 1)).unwrap();
            assert_eq!(all(&db.map("a").unwrap()), records, "{}", named(shape));
        }
    }
}

#[test]
fn it_can_be_ended_and_what_is_put_behind_it_stays() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let map = create(&db, "a", SHAPES[1], MapOptions::new()).unwrap();
    let records = filled(&map, 1);
    let cancel = Cancel::new();
    let mut told = Vec::new();
    let options = RemoveOptions::new().cancel(&cancel).progress(|removed| {
        told.push(removed);
        if told.len() == 2 {
            cancel.cancel();
        }
    });
    let ended = remove(&map, b"", b"9", options).unwrap_err();
    assert!(matches!(&ended, Error::Cancelled { what } if what.contains("records are removed")));
    assert_eq!(told.len(), 2);
    // What is gone is the front.
    let left = all(&map);
    let gone = told[1] as usize;
    assert!(gone > 0 && gone < records.len());
    assert!(left.keys().eq(records.keys().skip(gone)));
    // A thread puts the first key again while the rest is removed.
    let mut put = false;
    let options = RemoveOptions::new().progress(|_| {
        if !put {
            map.put("0000", "again").unwrap();
            put = true;
        }
    });
    remove(&map, b"", b"9", options).unwrap();
    assert_eq!(
        all(&map),
        Records::from([(b"0000".to_vec(), b"again".to_vec())])
    );
}

#[test]
fn who_reads_in_a_range_that_goes_at_once_finds_out() {
    for (name, scenario) in crate::common::ranges::ALL {
        println!("{name}");
        scenario();
    }
}

/// The structures of which ranges go by pages, and whether their changes are logged.
const CUT: [(Kind, Tiers, bool); 8] = [
    (Kind::Tree, Tiers::One, true),
    (Kind::Tree, Tiers::Two, true),
    (Kind::Tree, Tiers::One, false),
    (Kind::Tree, Tiers::Two, false),
    (Kind::Lsm, Tiers::One, true),
    (Kind::Lsm, Tiers::Two, true),
    (Kind::Lsm, Tiers::One, false),
    (Kind::Lsm, Tiers::Two, false),
];

/// One random thing.
fn act(tree: &Tree, records: &mut Records, rng: &mut Rng) {
    let key = |rng: &mut Rng| match rng.below(12) {
        0 => [vec![b'0'; 400], vec![rng.below(200) as u8]].concat(),
        _ => key(rng.below(4000)),
    };
    match rng.below(100) {
        0..4 => {
            let (low, high) = (key(rng), key(rng));
            match rng.below(4) {
                0 => {
                    tree.delete_range(low.clone()..).unwrap();
                    records.retain(|key, _| *key < low);
                }
                1 => {
                    let prefix = &low[..low.len().min(2)];
                    tree.delete_prefix(prefix).unwrap();
                    records.retain(|key, _| !key.starts_with(prefix));
                }
                _ => {
                    tree.delete_range(low.clone()..=high.clone()).unwrap();
                    records.retain(|key, _| *key < low || *key > high);
                }
            }
        }
        4..20 => {
            let key = key(rng);
            tree.delete(&key).unwrap();
            records.remove(&key);
        }
        _ => {
            let (key, len) = (key(rng), if rng.percent(2) { 9000 } else { rng.below(120) });
            let value = rng.bytes(len as usize);
            tree.put(&key, &value).unwrap();
            records.insert(key, value);
        }
    }
}

#[test]
fn ranges_go_at_once_as_from_a_model() {
    for seed in seeds(2) {
        for (kind, tiers, logged) in CUT {
            let mut rng = Rng::new(seed);
            let mut disk = SimDisk::new(seed);
            let options = || MapOptions::new().tiers(tiers).logged(logged);
            let of = |db: &Database| db.map("t").unwrap().as_tree().unwrap();
            // A snapshot of all of it has to fit.
            let memory = |seed| tiny(seed).memory(2 << 20);
            let mut db = Database::open_on(disk.shared(), memory(seed)).unwrap();
            db.create_map("t", kind, options()).unwrap();
            let mut tree = of(&db);
            let mut records = Records::new();
            let mut kept = Vec::new();
            for round in 0..12 {
                for _ in 0..400 {
                    act(&tree, &mut records, &mut rng);
                }
                let what =
                    format!("seed {seed}, {kind:?}, {tiers:?}, logged {logged}, round {round}");
                assert_eq!(all(&tree), records, "{what}");
                let report = db.verify().unwrap();
                assert!(report.is_clean(), "{what}: {report}");
                // Who looks at how it was before still sees all of it.
                for (snapshot, before) in &kept {
                    let snapshot: &terrace::Snapshot = snapshot;
                    let seen = snapshot.map("t").unwrap();
                    let seen = seen.iter().unwrap().collect::<Result<Records>>();
                    assert_eq!(&seen.unwrap(), before, "{what}");
                }
                match round % 4 {
                    0 => kept.push((db.snapshot().unwrap(), records.clone())),
                    3 => {
                        kept.clear();
                        drop(tree);
                        db.close().unwrap();
                        disk = disk.restart(seed + round);
                        db = Database::open_on(disk.shared(), memory(seed + round)).unwrap();
                        tree = of(&db);
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn ranges_that_cannot_be_are_refused_and_empty_ones_are_not() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("a", "1").unwrap();
    let long = vec![b'a'; 5000];
    let refused = tree.delete_range(long.clone()..).unwrap_err();
    assert!(matches!(refused, Error::KeyTooLong { .. }), "{refused}");
    // A range that ends before it begins is empty, and so is one without records.
    tree.delete_range("b".."a").unwrap();
    tree.delete_range("b".."c").unwrap();
    assert_eq!(tree.iter().unwrap().count(), 1);
    db.drop_structure("t").unwrap();
    let gone = tree.delete_range("a".."b").unwrap_err();
    assert!(matches!(gone, Error::NoSuchStructure { .. }), "{gone}");
}

/// Two keys far apart are put and go together, and no reader ever sees one of them alone; threads demote beside.
#[test]
fn nobody_sees_a_part_of_a_range_that_goes_at_once() {
    for (kind, tiers, _) in CUT.into_iter().filter(|of| of.2) {
        let options = Options::new().memory(4 << 20).page_size(4096);
        let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
        let options = MapOptions::new().tiers(tiers);
        let tree = db.create_map("t", kind, options).unwrap();
        let tree = tree.as_tree().unwrap();
        let done = AtomicBool::new(false);
        let (seen, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        let read: Result<_> = db.transaction(|t| {
                            let first = t.get(&tree, key(0))?;
                            let last = t.get(&tree, key(2499))?;
                            let many = t.range(&tree, key(1000)..key(1400))?.count();
                            Ok((first, last, many))
                        });
                        let is_right = read.is_ok_and(|(first, last, many)| {
                            let all = if first.is_some() { 400 } else { 0 };
                            first == last && many == all
                        });
                        let count = if is_right { &seen } else { &wrong };
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for round in 0..12u64 {
                let mut batch = db.batch();
                for n in 0..2500 {
                    batch.put(&tree, key(n), round.to_le_bytes());
                }
                db.write(batch, Durability::Buffered).unwrap();
                let looks = || seen.load(Ordering::SeqCst) + wrong.load(Ordering::SeqCst);
                let until = looks() + 2;
                while looks() < until {
                    std::thread::yield_now();
                }
                tree.delete_range(key(0)..=key(2499)).unwrap();
                assert_eq!(tree.iter().unwrap().count(), 0);
            }
            done.store(true, Ordering::SeqCst);
        });
        assert_eq!(wrong.load(Ordering::SeqCst), 0, "{kind:?}, {tiers:?}");
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn a_range_of_records_that_expire_goes_with_those_that_have() {
    let hands = crate::common::expiry::Hands::new();
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
    for n in 0..1000 {
        let minutes = std::time::Duration::from_secs(60 * (n % 3));
        tree.put_for(key(n), "1", minutes).unwrap();
    }
    hands.pass(61_000);
    tree.delete_range(key(100)..key(900)).unwrap();
    let left = all(&tree);
    assert!(left.keys().all(|k| *k < key(100) || *k >= key(900)));
    assert_eq!(left.len(), 200 / 3);
    assert!(db.verify().unwrap().is_clean());
}
