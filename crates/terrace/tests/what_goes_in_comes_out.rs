//! The basics: values go in, come out, survive closing, and appear in order.

use terrace::{Database, Durability, Error, Options, Tiers, TreeOptions};

fn options() -> Options {
    Options::new().memory(8 << 20)
}

fn both_kinds(db: &Database) -> [terrace::Tree; 2] {
    [Tiers::One, Tiers::Two].map(|tiers| {
        db.tree_with(&format!("{tiers:?}"), TreeOptions::new().tiers(tiers))
            .unwrap()
    })
}

#[test]
fn values_survive_a_clean_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in both_kinds(&db) {
        for i in 0..2000u32 {
            tree.put(i.to_be_bytes(), format!("value {i}")).unwrap();
        }
        tree.delete(7u32.to_be_bytes()).unwrap();
        tree.put(b"large", vec![5; 300_000]).unwrap();
    }
    db.close().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    assert_eq!(db.stats().opening.replayed_operations, 0);
    for tree in both_kinds(&db) {
        assert_eq!(tree.get(7u32.to_be_bytes()).unwrap(), None);
        assert_eq!(tree.get(8u32.to_be_bytes()).unwrap().unwrap(), b"value 8");
        assert_eq!(tree.get(b"large").unwrap().unwrap(), vec![5; 300_000]);
        assert_eq!(tree.iter().unwrap().count(), 2000);
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn ranges_run_from_both_ends_and_meet() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in both_kinds(&db) {
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

#[test]
fn what_looks_also_answers() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for tree in both_kinds(&db) {
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
    let [one, two] = both_kinds(&db);
    two.put("gone", "x").unwrap();
    let mut batch = db.batch();
    batch
        .put(&one, "k", "1")
        .put(&two, "k", "2")
        .delete(&two, "gone")
        .put(&one, "k", "3");
    assert_eq!(batch.len(), 4);
    db.write(batch, Durability::Sync).unwrap();
    assert_eq!(one.get("k").unwrap().unwrap(), b"3");
    assert_eq!(two.get("k").unwrap().unwrap(), b"2");
    assert_eq!(two.get("gone").unwrap(), None);
    db.write(db.batch(), Durability::Sync).unwrap();
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
    for tree in both_kinds(&db) {
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
        let estimate = tree.estimated_len().unwrap();
        assert!(
            estimate.abs_diff(records) < records / 4,
            "{estimate} of {records}"
        );
    }
}
