//! The basics: values go in, come out, survive closing, and appear in order.

use std::collections::BTreeMap;

use crate::common::{all_shapes, create, named};
use terrace::{
    Database, Durability, Error, HashOptions, Index, KeySource, Kind, MapOptions, Options,
    SweepOrder, TableOptions, Tiers, TreeOptions,
};
use terrace_sim::SimDisk;

fn options() -> Options {
    Options::new().memory(8 << 20)
}

fn both_trees(db: &Database) -> [terrace::Tree; 2] {
    [Tiers::One, Tiers::Two].map(|tiers| {
        let options = TreeOptions::new().tiers(tiers);
        db.tree_with(&named((Kind::Tree, tiers, false)), options)
            .unwrap()
    })
}

#[test]
fn values_survive_a_clean_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in all_shapes(&db).unwrap() {
        for i in 0..2000u32 {
            tree.put(i.to_be_bytes(), format!("value {i}")).unwrap();
        }
        tree.delete(7u32.to_be_bytes()).unwrap();
        tree.put(b"large", vec![5; 300_000]).unwrap();
    }
    db.close().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    assert_eq!(db.stats().opening.replayed_operations, 0);
    for tree in all_shapes(&db).unwrap() {
        assert_eq!(tree.get(7u32.to_be_bytes()).unwrap(), None);
        assert_eq!(tree.get(8u32.to_be_bytes()).unwrap().unwrap(), b"value 8");
        assert_eq!(tree.get(b"large").unwrap().unwrap(), vec![5; 300_000]);
        assert_eq!(tree.iter().unwrap().count(), 2000);
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Every shape has all records in no order too, each once, also when they change meanwhile.
#[test]
fn all_records_come_once_in_no_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let key = |i: u32| (i.wrapping_mul(0x9E37_79B1)).to_be_bytes();
    for map in all_shapes(&db).unwrap() {
        for i in 0..3000 {
            map.put(key(i), vec![1; 100]).unwrap();
        }
        map.put(b"large", vec![5; 300_000]).unwrap();
        let mut seen = BTreeMap::new();
        for (n, record) in (0..).zip(map.iter_unordered().unwrap()) {
            let (key_seen, value) = record.unwrap();
            assert_eq!(seen.insert(key_seen, value.len()), None);
            // Rows that grow move to other pages, and a few become large values.
            let len = if n % 50 == 0 { 100_000 } else { 300 };
            map.put(key(n % 3000), vec![2; len]).unwrap();
        }
        assert_eq!(seen.len(), 3001, "{}", map.name());
        assert_eq!(seen[&b"large"[..]], 300_000);
        // One that is given up is no harm to those that follow.
        for _ in 0..10 {
            let mut begun = map.iter_unordered().unwrap();
            assert!(begun.next().unwrap().is_ok());
        }
        let mut forgotten: Vec<_> = (0..6).map(|_| map.iter_unordered().unwrap()).collect();
        for some in &mut forgotten {
            assert_eq!(some.map(Result::unwrap).count(), 3001);
        }
    }
}

/// For comparison only: everything but an order.
#[test]
fn tiers_of_a_hash_table_may_have_hash_functions_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let own = HashOptions::new().own_hashes(true);
    let db = Database::open(dir.path(), options()).unwrap();
    let refused = |e: Error| assert!(e.to_string().contains("two tiers"), "{e}");
    refused(db.tree_with("tree", own).unwrap_err());
    refused(db.table_with("table", own.into()).unwrap_err());
    refused(db.hash_with("one", own.tiers(Tiers::One)).unwrap_err());
    let hash = db.hash_with("own", own).unwrap();
    for i in 0..100_000u32 {
        hash.put(i.to_be_bytes(), [i as u8; 200]).unwrap();
    }
    drop(hash);
    db.close().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let e = db.hash_with("own", HashOptions::new().own_hashes(false));
    assert!(e.unwrap_err().to_string().contains("of their own"));
    let hash = db.hash("own").unwrap();
    for i in 0..100_000u32 {
        assert_eq!(hash.get(i.to_be_bytes()).unwrap(), Some(vec![i as u8; 200]));
    }
    let first = hash.iter().unwrap().next().unwrap();
    assert!(first.unwrap_err().to_string().contains("no order"));
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
    db.drop_structure("own").unwrap();
}

/// For comparison, and what tables were before there was a choice.
#[test]
fn the_hot_tier_of_a_table_may_be_a_heap() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memory(3 << 20).page_size(4096);
    let heap = MapOptions::new().hot_heap(true);
    let db = Database::open(dir.path(), options()).unwrap();
    let refused = |e: Error| assert!(e.to_string().contains("as its hot tier"), "{e}");
    refused(db.tree_with("tree", heap).unwrap_err());
    refused(db.hash_with("hash", heap).unwrap_err());
    let one = heap.tiers(Tiers::One);
    refused(db.table_with("one", one.into()).unwrap_err());
    let first = Index::on("first", KeySource::bytes(0..1));
    let with_index = TableOptions::new().hot_heap(true).index(first);
    let table = db.table_with("heap", with_index).unwrap();
    let others = db.table("tree").unwrap();
    let (records, value) = (15_000u32, |i: u32| vec![i as u8; 150]);
    for i in 0..records {
        table.put(i.to_be_bytes(), value(i)).unwrap();
        others.put(i.to_be_bytes(), value(i)).unwrap();
    }
    drop((table, others));
    db.close().unwrap();
    for sweep in [SweepOrder::Heap, SweepOrder::Index] {
        let db = Database::open(dir.path(), options().sweep(sweep)).unwrap();
        let differs = |name: &str, heap: bool| {
            let e = db.table_with(name, TableOptions::new().hot_heap(heap));
            let e = e.unwrap_err().to_string();
            assert!(e.contains("is a heap") && e.contains("is no heap"), "{e}");
        };
        differs("heap", false);
        differs("tree", true);
        for name in ["heap", "tree"] {
            let table = db.table(name).unwrap();
            for i in 0..records {
                assert_eq!(table.get(i.to_be_bytes()).unwrap(), Some(value(i)));
                table.put(i.to_be_bytes(), value(i)).unwrap();
            }
            assert_eq!(table.iter().unwrap().count(), records as usize);
        }
        let stats = db.stats();
        let mut all = stats.structures.iter();
        assert!(all.all(|structure| structure.demotions > 0), "{stats}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }
    let db = Database::open(dir.path(), options()).unwrap();
    db.drop_structure("heap").unwrap();
    db.drop_structure("tree").unwrap();
}

/// What `iter_unordered` is for.
#[test]
fn rows_of_one_tier_are_read_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memory(4 << 20);
    let db = Database::open(dir.path(), options()).unwrap();
    let table = db
        .table_with("rows", terrace::TableOptions::new().tiers(Tiers::One))
        .unwrap();
    for i in 0..100_000u32 {
        let key = i.wrapping_mul(0x9E37_79B1).to_be_bytes();
        table.put(key, [1; 120]).unwrap();
    }
    let reads = || db.stats().pages.reads;
    let before = reads();
    assert_eq!(table.iter_unordered().unwrap().count(), 100_000);
    let spent = reads() - before;
    // 13.7 MB, the index, and what others push out meanwhile.
    assert!(spent < 1500, "{spent} pages were read");
}

#[test]
fn ranges_run_from_both_ends_and_meet() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in both_trees(&db) {
        for i in 0..1000u32 {
            tree.put(i.to_be_bytes(), i.to_le_bytes()).unwrap();
        }
        let key = |i: u32| i.to_be_bytes();
        let keys = |range: terrace::Range| -> Vec<u32> {
            range
                .map(|e| u32::from_be_bytes(e.unwrap().0.try_into().unwrap()))
                .collect()
        };
        assert_eq!(
            keys(tree.range(key(10)..key(20)).unwrap()),
            (10..20).collect::<Vec<_>>()
        );
        assert_eq!(
            keys(tree.range(key(10)..=key(20)).unwrap()),
            (10..=20).collect::<Vec<_>>()
        );
        assert_eq!(keys(tree.range(..key(3)).unwrap()), [0, 1, 2]);
        assert_eq!(keys(tree.range(key(998)..).unwrap()), [998, 999]);
        assert_eq!(
            keys(tree.range(key(20)..key(10)).unwrap()),
            Vec::<u32>::new()
        );
        assert_eq!(
            keys(tree.prefix([0, 0, 1]).unwrap()),
            (256..512).collect::<Vec<_>>()
        );
        let mut range = tree.range(key(100)..key(900)).unwrap();
        let mut seen = Vec::new();
        for turn in 0.. {
            let entry = if turn % 3 == 0 {
                range.next_back()
            } else {
                range.next()
            };
            let Some(entry) = entry else { break };
            seen.push(u32::from_be_bytes(entry.unwrap().0.try_into().unwrap()));
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        assert_eq!(seen.len(), 800);
        seen.sort_unstable();
        assert_eq!(seen, (100..900).collect::<Vec<_>>());
        assert_eq!(tree.first().unwrap().unwrap().0, key(0));
        assert_eq!(tree.last().unwrap().unwrap().0, key(999));
    }
}

/// Records are read many at once, so one that is returned may be older than the call that returns it; but
/// never than the range, and never something else.
#[test]
fn a_record_of_a_range_is_as_it_was_since_the_range_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for map in all_shapes(&db).unwrap() {
        let key = |i: u32| i.to_be_bytes();
        let all = 5000;
        (0..all).for_each(|i| map.put(key(i), "before it was made").unwrap());
        (0..all).for_each(|i| map.put(key(i), "old").unwrap());
        let mut range = map.iter().unwrap();
        let first = range.next().unwrap().unwrap();
        assert_eq!(first.1, b"old");
        // Some change, some go, some come back.
        for i in 0..all {
            match i % 3 {
                0 => map.put(key(i), "new").unwrap(),
                1 => map.delete(key(i)).unwrap(),
                _ => {}
            }
        }
        let (mut seen, mut stayed, mut new) = (Vec::new(), 0, 0);
        for record in std::iter::once(Ok(first)).chain(range) {
            let (key, value) = record.unwrap();
            let i = u32::from_be_bytes(key.as_slice().try_into().unwrap());
            match i % 3 {
                0 => assert!(value == b"old" || value == b"new", "{value:?}"),
                _ => assert_eq!(value, b"old"),
            }
            stayed += u32::from(i % 3 != 1);
            new += u32::from(value == b"new");
            seen.push(i);
        }
        assert_eq!(stayed, (0..all).filter(|i| i % 3 != 1).count() as u32);
        assert!(new > 0, "{}: everything was read at once", map.name());
        let out = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), out, "{}: a key came twice", map.name());
    }
}

#[test]
fn what_looks_also_answers() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in all_shapes(&db).unwrap() {
        assert!(tree.insert("a", "1").unwrap());
        assert!(!tree.insert("a", "2").unwrap());
        assert_eq!(tree.remove("a").unwrap().unwrap(), b"1");
        assert_eq!(tree.remove("a").unwrap(), None);
        assert!(!tree.update("a", |old| old.map(<[u8]>::to_vec)).unwrap());
        assert!(!tree.contains_key("a").unwrap());
        assert!(!tree.update("a", |_| Some(b"3".to_vec())).unwrap());
        assert!(
            tree.update("a", |old| Some([old.unwrap(), b"4"].concat()))
                .unwrap()
        );
        assert_eq!(tree.get("a").unwrap().unwrap(), b"34");
        assert!(tree.update("a", |_| None).unwrap());
        assert_eq!(tree.get("a").unwrap(), None);
    }
}

#[test]
fn a_batch_changes_several_structures_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let [one, two] = both_trees(&db);
    let hash = db.hash("hash").unwrap();
    two.put("gone", "x").unwrap();
    let mut batch = db.batch();
    batch
        .put(&one, "k", "1")
        .put(&two, "k", "2")
        .delete(&two, "gone")
        .put(&hash, "k", "4")
        .put(&one, "k", "3");
    assert_eq!(batch.len(), 5);
    db.write(batch, Durability::Sync).unwrap();
    assert_eq!(one.get("k").unwrap().unwrap(), b"3");
    assert_eq!(two.get("k").unwrap().unwrap(), b"2");
    assert_eq!(two.get("gone").unwrap(), None);
    assert_eq!(hash.get("k").unwrap().unwrap(), b"4");
    db.write(db.batch(), Durability::Sync).unwrap();
}

/// Where an inner node has room for two keys a tree grew by a level with each leaf, until a batch in the
/// log could be carried out neither then nor by any opening.
#[test]
fn the_longest_keys_may_come_falling() {
    let disk = terrace_sim::SimDisk::new(1);
    let options = || Options::new().memory(8 << 20).page_size(4096);
    let key = |i: u32| {
        let mut key = vec![b'p'; terrace::max_key_bytes(4096) - 4];
        key.extend(i.to_be_bytes());
        key
    };
    let db = Database::open_on(disk.shared(), options()).unwrap();
    // A heap has its keys in a tree.
    let shapes = [
        (Kind::Tree, Tiers::One, false),
        (Kind::Tree, Tiers::Two, false),
        (Kind::Table, Tiers::One, false),
    ];
    let maps = shapes.map(|shape| create(&db, &named(shape), shape, MapOptions::new()).unwrap());
    for first in (0..3000).step_by(10) {
        let mut batch = db.batch();
        for i in first..first + 10 {
            for map in &maps {
                batch.put(map, key(3000 - i), [1; 100]);
            }
        }
        db.write(batch, Durability::Buffered).unwrap();
    }
    // As a process that dies leaves it.
    let disk = disk.copy();
    let db = Database::open_on(disk.shared(), options()).unwrap();
    assert!(db.stats().opening.replayed_operations > 0);
    for shape in shapes {
        let map = db.map(&named(shape)).unwrap();
        assert_eq!(map.iter().unwrap().count(), 3000, "{}", map.name());
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn structures_have_names_that_can_change_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let tree = db.tree("a").unwrap();
    tree.put("k", "v").unwrap();
    assert!(matches!(
        db.create_tree("a", TreeOptions::new()),
        Err(Error::StructureExists { .. })
    ));
    db.rename_structure("a", "b").unwrap();
    assert_eq!(tree.name(), "b");
    assert!(matches!(
        db.rename_structure("a", "c"),
        Err(Error::NoSuchStructure { .. })
    ));
    let other = db.tree("a").unwrap();
    assert_eq!(other.get("k").unwrap(), None);
    assert!(matches!(
        db.rename_structure("a", "b"),
        Err(Error::StructureExists { .. })
    ));
    db.drop_structure("b").unwrap();
    assert!(matches!(tree.get("k"), Err(Error::NoSuchStructure { .. })));
    assert!(matches!(
        tree.put("k", "v"),
        Err(Error::NoSuchStructure { .. })
    ));
    assert!(matches!(
        db.open_tree("b", TreeOptions::new()),
        Err(Error::NoSuchStructure { .. })
    ));
    assert_eq!(db.tree("b").unwrap().get("k").unwrap(), None);
    let wrong = db
        .open_tree("b", TreeOptions::new().tiers(Tiers::One))
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("one tier") && wrong.contains("two tiers"),
        "{wrong}"
    );
    // The kind, too, is asked for, and both are named.
    let wrong = db.hash("b").unwrap_err().to_string();
    assert!(
        wrong.contains("is a tree") && wrong.contains("a hash table"),
        "{wrong}"
    );
    let hash = db.create_hash("h", HashOptions::new()).unwrap();
    assert_eq!(hash.kind(), Kind::Hash);
    let wrong = db.tree("h").unwrap_err().to_string();
    assert!(
        wrong.contains("is a hash table") && wrong.contains("a tree"),
        "{wrong}"
    );
    db.open_hash("h", HashOptions::new().tiers(Tiers::Two))
        .unwrap();
    drop(hash);
    db.drop_structure("h").unwrap();
    let names: Vec<_> = db.structures().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a", "b"]);
    drop((tree, other));
    db.close().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let names: Vec<_> = db.structures().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn the_number_of_records_is_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options().page_size(4096)).unwrap();
    let mut maps = all_shapes(&db).unwrap();
    let apart = HashOptions::new().own_hashes(true);
    maps.push((*db.create_hash("apart", apart).unwrap()).clone());
    for tree in maps {
        assert_eq!(tree.estimated_len().unwrap(), 0);
        for i in 0..50u64 {
            tree.put(i.to_be_bytes(), "x").unwrap();
        }
        tree.delete(3u64.to_be_bytes()).unwrap();
        assert_eq!(tree.estimated_len().unwrap(), 49);
        let records = 60_000u64;
        for i in 0..records {
            let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            tree.put(key.to_be_bytes(), vec![7; (key % 150) as usize])
                .unwrap();
        }
        // What lies in the levels of an LSM-tree is known less well.
        let is_lsm = tree.kind() == terrace::Kind::Lsm;
        let within = records / if is_lsm { 4 } else { 20 };
        let estimate = tree.estimate().unwrap();
        assert!(
            estimate.records.abs_diff(records) < within,
            "{estimate:?} of {records}"
        );
        assert!(estimate.hot <= estimate.records, "{estimate:?}");
        let survey = db.survey().unwrap();
        let found = survey
            .structures
            .iter()
            .find(|s| s.info.name == tree.name());
        let found = found.unwrap();
        let surveyed = found.records.unwrap();
        assert!(surveyed.abs_diff(records) < within, "{surveyed}");
        // What is hot and clean is in both tiers; dirty records are in one.
        match found.info.tiers {
            terrace::Tiers::One => assert_eq!(estimate.hot, 0),
            terrace::Tiers::Two => assert!(estimate.hot > 0),
        }
        let (all, most) = (estimate.hot + estimate.cold, estimate.records);
        assert!(
            estimate.hot.max(estimate.cold) <= most + most / 4,
            "{estimate:?}"
        );
        assert!(all + all / 4 >= most, "{estimate:?}");
    }
}

/// After single puts nearly all records of the hot tier are there alone, and how many that are is as uncertain as how
/// many it has; much of the cold one is not in memory. After a loader all are cold.
#[test]
fn a_survey_right_after_a_load_is_within_a_twentieth() {
    for kind in [Kind::Tree, Kind::Hash, Kind::Table] {
        for (seed, records) in [(1, 8_000), (2, 14_000), (3, 20_000), (4, 35_000)] {
            for together in [false, true] {
                let disk = SimDisk::new(seed);
                let options = crate::common::tiny(seed).memory(4 << 20);
                let db = Database::open_on(disk.shared(), options).unwrap();
                let two = MapOptions::new().tiers(Tiers::Two);
                let map = db.create_map("m", kind, two).unwrap();
                let all = (0..records).map(|i| terrace_base::checksum::mix(i, seed).to_be_bytes());
                if together {
                    let mut loader = map.loader().unwrap();
                    all.for_each(|key| loader.put(key, [7; 100]).unwrap());
                    loader.finish().unwrap();
                } else {
                    all.for_each(|key| map.put(key, [7; 100]).unwrap());
                }
                let survey = db.survey().unwrap();
                let found = survey.structures[0].records.unwrap();
                assert!(
                    found.abs_diff(records) * 20 <= records,
                    "{kind}, loaded together: {together}: {found} of {records}"
                );
            }
        }
    }
}

/// One stream of random operations goes to every structure and to a map: all agree after every
/// reopening.
#[test]
fn all_structures_mirror_a_map() {
    let disk = terrace_sim::SimDisk::new(8);
    let mut rng = terrace_sim::Rng::new(8);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..5 {
        let db = Database::open_on(disk.shared(), crate::common::tiny(round)).unwrap();
        let maps = all_shapes(&db).unwrap();
        for map in &maps {
            let got = map.iter().unwrap().collect::<Result<BTreeMap<_, _>, _>>();
            assert!(got.unwrap() == model, "round {round}, {}", map.name());
            let down = map.iter().unwrap().rev().map(Result::unwrap);
            let mut up: Vec<_> = map.iter().unwrap().map(Result::unwrap).collect();
            up.reverse();
            assert!(down.eq(up), "round {round}, {}: downwards", map.name());
            assert_eq!(map.is_empty().unwrap(), model.is_empty());
            let Some(table) = map.as_table() else {
                continue;
            };
            let key = (rng.below(2500) as u16).to_be_bytes();
            let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
            let all = table.range(key..).unwrap().map(Result::unwrap);
            assert!(all.eq(model.range(key.to_vec()..).map(owned)), "{key:?}");
            let all = table.prefix(&key[..1]).unwrap().rev().map(Result::unwrap);
            let of_prefix = model.iter().rev().filter(|(k, _)| k[0] == key[0]);
            assert!(all.eq(of_prefix.map(owned)), "prefix {key:?}");
            assert_eq!(table.first().unwrap(), model.first_key_value().map(owned));
            assert_eq!(table.last().unwrap(), model.last_key_value().map(owned));
        }
        for _ in 0..3000 {
            let key = (rng.below(2500) as u16).to_be_bytes().to_vec();
            let len = if rng.percent(1) { 5000 } else { rng.below(250) };
            let value = rng.bytes(len as usize);
            let pick = rng.below(10);
            let old = model.get(&key).cloned();
            for map in &maps {
                match pick {
                    0..=3 => map.put(&key, &value).unwrap(),
                    4..=5 => map.delete(&key).unwrap(),
                    6 => assert_eq!(map.insert(&key, &value).unwrap(), old.is_none()),
                    7 => assert_eq!(map.remove(&key).unwrap(), old),
                    _ => assert_eq!(map.get(&key).unwrap(), old, "{key:?} in {}", map.name()),
                }
            }
            match pick {
                0..=3 => drop(model.insert(key, value)),
                4..=5 | 7 => drop(model.remove(&key)),
                6 => drop(model.entry(key).or_insert(value)),
                _ => {}
            }
        }
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }
}

/// Versions are shared by records, so writes of others move that of this one; an update that takes long
/// would never find it where it was.
#[test]
fn an_update_is_not_asked_again_because_others_were_written() {
    let disk = SimDisk::new(5);
    let db = Database::open_on(disk.shared(), crate::common::tiny(5)).unwrap();
    let (map, others) = (db.tree("map").unwrap(), db.tree("others").unwrap());
    map.put("k", "1").unwrap();
    let mut asked = 0;
    map.update("k", |old| {
        asked += 1;
        assert_eq!(old, Some(&b"1"[..]));
        // Several for each version that there is.
        for i in 0..60_000u32 {
            others.put(i.to_be_bytes(), "").unwrap();
        }
        Some(b"2".to_vec())
    })
    .unwrap();
    assert_eq!((asked, map.get("k").unwrap()), (1, Some(b"2".to_vec())));
    // But when it was this one it is.
    let mut asked = 0;
    map.update("k", |old| {
        asked += 1;
        if asked == 1 {
            map.put("k", "3").unwrap();
        }
        Some([old.unwrap(), b"+"].concat())
    })
    .unwrap();
    assert_eq!((asked, map.get("k").unwrap()), (2, Some(b"3+".to_vec())));
}
