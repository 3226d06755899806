//! The disk fills up: writes are refused and change nothing, reads, deletes and checkpoints go on,
//! and once there is space again writing works again without a new opening.

use std::collections::BTreeMap;

use crate::common::{SHAPES, Shape, create, tiny};
use terrace::{Database, Kind, Map, MapOptions, Options, Tiers};
use terrace_sim::{Rng, SimDisk};

fn check(tree: &Map, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let got: BTreeMap<_, _> = tree.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(got.len(), model.len());
    assert!(got == *model);
}

fn fill_and_recover(options: &dyn Fn() -> Options, shape: Shape, value_bytes: usize) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let tree = create(&db, "t", shape, MapOptions::new()).unwrap();
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(7);
    let mut put = |tree: &Map, model: &mut BTreeMap<_, _>| {
        let key = (rng.below(20_000) as u32).to_be_bytes().to_vec();
        let value = rng.bytes(value_bytes);
        tree.put(&key, &value).map(|()| {
            model.insert(key, value);
        })
    };
    for _ in 0..1000 {
        put(&tree, &mut model).unwrap();
    }
    disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    let mut refused = 0;
    for _ in 0..200_000 {
        match put(&tree, &mut model) {
            Ok(()) => {}
            Err(e) if e.is_disk_full() => {
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(refused, 20, "the disk never filled up");
    check(&tree, &model);
    // What a checkpoint needs is reserved, however full the disk is.
    db.checkpoint().unwrap();
    // The way out: deletes and a checkpoint, which gives back the log and the pages.
    let keys: Vec<_> = model.keys().cloned().collect();
    let (mut deleted, mut told) = (0, None);
    for key in keys.iter().take(keys.len() / 2) {
        match tree.delete(key) {
            Ok(()) => {
                model.remove(key);
                deleted += 1;
            }
            // The reserve is not without end.
            Err(e) if e.is_disk_full() => {
                told = Some(e);
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(deleted > 50, "only {deleted} deletes worked: {told:?}");
    check(&tree, &model);
    if shape.0 != Kind::Tree {
        // Deletes in the order of keys have touched nearly every page of a hash table or a heap, and
        // the checkpoint writes them all to new places before it frees the old ones: a little space is
        // needed.
        disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    }
    // A checkpoint frees what the deletes have left: deletes go on.
    db.checkpoint().unwrap();
    for key in keys.iter().skip(deleted).take(100) {
        let deleted = tree.delete(key);
        deleted.unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        model.remove(key);
    }
    check(&tree, &model);
    disk.set_capacity(None);
    for _ in 0..2000 {
        put(&tree, &mut model).unwrap();
    }
    check(&tree, &model);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
    drop(tree);
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), options()).unwrap();
    check(&db.map("t").unwrap(), &model);
    assert!(db.verify().unwrap().is_clean());
}

/// Those with this number of tiers.
fn shapes(tiers: Tiers) -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().filter(move |shape| shape.1 == tiers)
}

#[test]
fn a_full_disk_is_no_disaster_with_one_tier() {
    for shape in shapes(Tiers::One) {
        fill_and_recover(&|| tiny(1).seed(1), shape, 200);
    }
}

#[test]
fn a_full_disk_is_no_disaster_with_two_tiers() {
    for shape in shapes(Tiers::Two) {
        fill_and_recover(&|| tiny(2).seed(2), shape, 200);
    }
}

#[test]
fn a_full_disk_is_no_disaster_for_large_values() {
    for shape in shapes(Tiers::Two) {
        fill_and_recover(&|| tiny(3).seed(3), shape, 6000);
    }
}

#[test]
fn a_full_disk_is_no_disaster_with_background_threads() {
    let options = || {
        Options::new()
            .memory(1 << 20)
            .page_size(4096)
            .log_segment(64 << 10)
            .log_limit(256 << 10)
    };
    for shape in shapes(Tiers::Two) {
        fill_and_recover(&options, shape, 200);
    }
}

/// A range is a way out too: of all that has pages to give back at once.
#[test]
fn a_range_goes_on_a_full_disk() {
    let cut = |shape: &&Shape| matches!(shape.0, Kind::Tree | Kind::Lsm);
    for shape in SHAPES.iter().filter(cut) {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let map = create(&db, "t", *shape, MapOptions::new()).unwrap();
        let put = |n: u32| map.put(n.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 200]);
        (0..1000).for_each(|n| put(n).unwrap());
        disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
        let mut full = (1000..200_000).filter_map(|n| put(n).err());
        assert!(full.by_ref().take(20).all(|e| e.is_disk_full()));
        let before = map.iter().unwrap().count();
        let middle = (1u32 << 31).to_be_bytes();
        let tree = map.as_tree().unwrap();
        tree.delete_range(..middle)
            .unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        let left = map.iter().unwrap().count();
        assert!(0 < left && left < before, "{left} of {before}");
        assert!(
            map.iter()
                .unwrap()
                .all(|record| record.unwrap().0[..] >= middle[..])
        );
        // What it took is free once a checkpoint has said so.
        db.reclaim().unwrap();
        db.checkpoint().unwrap();
        (0..100).for_each(|n| put(n).unwrap());
        assert!(db.verify().unwrap().is_clean(), "{shape:?}");
    }
}
