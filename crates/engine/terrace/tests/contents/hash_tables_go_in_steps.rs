//! Steps through a hash table, and looks that wait for no disk.

use std::collections::BTreeMap;

use terrace::{Database, Options};

fn database(memory: u64) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::new().memory(memory).direct_io(false)).unwrap();
    (dir, db)
}

#[test]
fn each_record_comes_out_once_whatever_the_steps_are_and_a_reopening_between_them() {
    let (dir, mut db) = database(16 << 20);
    let mut all = BTreeMap::new();
    let hash = db.hash("h").unwrap();
    for i in 0..5_000u32 {
        let value = vec![i as u8; if i % 500 == 0 { 20_000 } else { 8 }];
        hash.put(format!("key{i}"), &value).unwrap();
        all.insert(format!("key{i}").into_bytes(), value);
    }
    drop(hash);
    for least in [0, 1, 10, 333, 100_000] {
        let mut seen = BTreeMap::new();
        let (mut from, mut steps) = (0, 0);
        loop {
            let hash = db.hash("h").unwrap();
            let step = hash.scan(from, least).unwrap();
            assert!(step.next.is_none() || step.records.len() >= least.max(1));
            for (key, value) in step.records {
                let large = all[&key].len() > 10_000;
                assert_eq!(value.is_none(), large);
                if let Some(value) = value {
                    assert_eq!(value, all[&key]);
                }
                assert_eq!(seen.insert(key, ()), None, "it came out twice");
            }
            drop(hash);
            steps += 1;
            if steps == 3 {
                db.close().unwrap();
                db = Database::open(dir.path(), Options::new().memory(16 << 20).direct_io(false))
                    .unwrap();
            }
            match step.next {
                None => break,
                Some(next) => {
                    assert!(next > from && next % 65_536 == 0);
                    from = next;
                }
            }
        }
        assert!(seen.keys().eq(all.keys()));
    }
}

#[test]
fn a_look_that_waits_for_no_disk_says_what_would() {
    let (dir, db) = database(16 << 20);
    let tree = db.tree("t").unwrap();
    for i in 0..20_000u32 {
        tree.put(format!("key{i:08}"), [7; 1000]).unwrap();
    }
    db.close().unwrap();
    drop(tree);
    // No thread in the background reads pages that were hot.
    let options = Options::new().memory(16 << 20).direct_io(false);
    let db = Database::open(dir.path(), options.foreground(true)).unwrap();
    let tree = db.tree("t").unwrap();
    let mut value = Vec::new();
    let reads = || db.stats().pages.reads;
    let before = reads();
    let cold = (0..20_000u32).step_by(100).find(|i| {
        let key = format!("key{i:08}");
        tree.get_if_resident(key, &mut value).unwrap().is_none()
    });
    assert_eq!(reads(), before, "it read a page");
    let cold = format!("key{:08}", cold.expect("some page is on disk"));
    assert!(tree.get_into(&cold, &mut value).unwrap());
    assert_eq!(tree.get_if_resident(&cold, &mut value).unwrap(), Some(true));
    assert_eq!(value, [7; 1000]);
    assert!(tree.get_if_resident(vec![0; 70_000], &mut value).is_err());
}
