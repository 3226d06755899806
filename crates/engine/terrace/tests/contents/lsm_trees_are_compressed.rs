//! Compression of an LSM-tree is an option that stays with it, and can be changed: over openings, crashes,
//! snapshots and backups.

use crate::common::tiny;
use terrace::{
    BackupOptions, Compression, Database, Error, LevelStats, LsmOptions, MapOptions, Rate,
    RestoreOptions, Tiers, Tree, TreeOptions, restore_on,
};
use terrace_sim::SimDisk;

const RECORDS: u32 = 12_000;

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

/// Half of it is random.
fn value(i: u32, round: u32) -> Vec<u8> {
    let random = (0..12).flat_map(|n| {
        (i + 1)
            .wrapping_mul(0x9E37_79B1 + n * 2 + round)
            .to_le_bytes()
    });
    random.chain([b'.'; 52]).collect()
}

fn fill(tree: &Tree, round: u32) {
    for i in 0..RECORDS {
        tree.put(key(i), value(i, round)).unwrap();
    }
}

fn check(tree: &Tree, round: u32) {
    for i in (0..RECORDS).step_by(7) {
        assert_eq!(tree.get(key(i)).unwrap(), Some(value(i, round)), "{i}");
    }
    assert_eq!(tree.iter().unwrap().count(), RECORDS as usize);
    assert_eq!(tree.iter().unwrap().rev().count(), RECORDS as usize);
}

fn last_level(db: &Database) -> LevelStats {
    let stats = db.stats();
    let lsm = stats.structures[0].lsm.as_ref().unwrap();
    *lsm.levels.last().unwrap()
}

fn said(db: &Database) -> Compression {
    db.structures()[0].compression
}

#[test]
fn more_records_are_in_a_page_and_all_are_found() {
    let sizes = [Compression::None, Compression::LZ4].map(|compression| {
        let disk = SimDisk::new(1);
        for tiers in [Tiers::One, Tiers::Two] {
            let disk = SimDisk::new(1);
            let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
            let options = LsmOptions::new().tiers(tiers).compression(compression);
            let tree = db.create_lsm("t", options).unwrap();
            fill(&tree, 0);
            check(&tree, 0);
            db.verify().unwrap().into_result().unwrap();
        }
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let options = LsmOptions::new().compression(compression);
        let tree = db.create_lsm("t", options).unwrap();
        fill(&tree, 0);
        db.compact(terrace::CompactOptions::new()).unwrap();
        check(&tree, 0);
        db.verify().unwrap().into_result().unwrap();
        let level = last_level(&db);
        assert_eq!(level.page_bytes, level.data_pages * 4096);
        (level.bytes, level.page_bytes)
    });
    let [(plain, room), (bytes, packed)] = sizes;
    assert!(plain <= room && bytes > packed * 5 / 4, "{sizes:?}");
    assert!(packed * 10 < room * 8, "{sizes:?}");
}

#[test]
fn what_was_said_stays_until_something_else_is_said() {
    let disk = SimDisk::new(2);
    let lz4 = Compression::Lz4 { levels: 2 };
    {
        let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
        let tree = db
            .create_lsm("t", LsmOptions::new().compression(lz4))
            .unwrap();
        db.sync().unwrap();
        assert_eq!(said(&db), lz4);
        // As it was made, before any checkpoint.
        let crashed = disk.copy().crash(1);
        let again = Database::open_on(crashed.shared(), tiny(2)).unwrap();
        assert_eq!(said(&again), lz4);
        fill(&tree, 0);
        db.close().unwrap();
    }
    let disk = disk.restart(3);
    let db = Database::open_on(disk.shared(), tiny(3)).unwrap();
    assert_eq!(said(&db), lz4);
    // Who says nothing changes nothing.
    let tree = db.lsm("t").unwrap();
    fill(&tree, 1);
    db.compact(terrace::CompactOptions::new()).unwrap();
    assert_eq!(said(&db), lz4);
    let level = last_level(&db);
    assert!(level.bytes > level.page_bytes * 5 / 4, "{level:?}");
    // Another word, which a crash does not take back.
    let none = LsmOptions::new().compression(Compression::None);
    db.lsm_with("t", none).unwrap();
    db.sync().unwrap();
    assert_eq!(said(&db), Compression::None);
    let disk = disk.crash(2);
    drop(db);
    let db = Database::open_on(disk.shared(), tiny(4)).unwrap();
    assert_eq!(said(&db), Compression::None);
    let tree = db.lsm("t").unwrap();
    check(&tree, 1);
    fill(&tree, 2);
    check(&tree, 2);
    db.compact(terrace::CompactOptions::new()).unwrap();
    let level = last_level(&db);
    assert!(level.bytes <= level.page_bytes, "{level:?}");
    db.verify().unwrap().into_result().unwrap();
}

#[test]
fn snapshots_and_backups_have_what_is_compressed() {
    let (disk, set, to) = (SimDisk::new(4), SimDisk::new(5), SimDisk::new(6));
    let db = Database::open_on(disk.shared(), tiny(5).memory(8 << 20)).unwrap();
    let options = LsmOptions::new().compression(Compression::LZ4);
    let tree = db.create_lsm("t", options).unwrap();
    fill(&tree, 0);
    let snapshot = db.snapshot().unwrap();
    fill(&tree, 1);
    let then = snapshot.map("t").unwrap();
    for i in (0..RECORDS).step_by(11) {
        assert_eq!(then.get(key(i)).unwrap(), Some(value(i, 0)));
    }
    assert_eq!(then.iter().unwrap().count(), RECORDS as usize);
    drop((then, snapshot));
    let options = BackupOptions::new().rate(Rate::Fast);
    db.backup_on(set.shared(), options).unwrap();
    let options = RestoreOptions::new().options(tiny(6));
    restore_on(set.shared(), to.shared(), options).unwrap();
    let restored = Database::open_on(to.shared(), tiny(7)).unwrap();
    assert_eq!(said(&restored), Compression::LZ4);
    check(&restored.lsm("t").unwrap(), 1);
    restored.verify().unwrap().into_result().unwrap();
}

/// Records come and go, those with large values beside those without; nothing is left of what is deleted.
#[test]
fn compressed_pages_and_large_values_go_together() {
    let disk = SimDisk::new(8);
    let db = Database::open_on(disk.shared(), tiny(8)).unwrap();
    let options = LsmOptions::new().compression(Compression::Lz4 { levels: 8 });
    let tree = db.create_lsm("t", options).unwrap();
    let empty = db.stats().pages.live;
    let of = |i: u32| match i % 50 {
        0 => vec![i as u8; 6000],
        _ => value(i, 0),
    };
    for i in 0..4000u32 {
        tree.put(i.to_be_bytes(), of(i)).unwrap();
    }
    for i in 0..4000u32 {
        assert_eq!(tree.get(i.to_be_bytes()).unwrap(), Some(of(i)));
    }
    db.verify().unwrap().into_result().unwrap();
    for i in 0..4000u32 {
        tree.delete(i.to_be_bytes()).unwrap();
    }
    db.compact(terrace::CompactOptions::new()).unwrap();
    let left = db.stats().pages.live;
    assert!(left < empty + 40, "{left} pages, {empty} when it was empty");
    db.verify().unwrap().into_result().unwrap();
}

#[test]
fn what_cannot_be_compressed_is_an_error() {
    let disk = SimDisk::new(7);
    let db = Database::open_on(disk.shared(), tiny(7)).unwrap();
    let lz4 = MapOptions::new().compression(Compression::LZ4);
    let refused = |result: terrace::Result<Tree>, what: &str| match result {
        Err(e @ Error::Invalid { .. }) => assert!(e.to_string().contains(what), "{e}"),
        other => panic!("{:?}", other.map(|_| ())),
    };
    refused(db.tree_with("t", lz4), "cannot be compressed");
    db.tree_with("t", TreeOptions::new()).unwrap();
    refused(db.tree_with("t", lz4), "cannot be compressed");
    for levels in [0, 9] {
        let odd = MapOptions::new().compression(Compression::Lz4 { levels });
        refused(db.lsm_with("l", odd), "levels");
    }
}
