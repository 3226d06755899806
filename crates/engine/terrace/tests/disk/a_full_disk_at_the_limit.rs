//! The disk is full and what is kept for deletes is nearly used up: whatever is done then is done or
//! refused with `DiskFull`, never half done, and the database goes on and can be opened.

use crate::common::tiny;
use terrace::{Database, Durability, Kind, Map, MapOptions, Options, Tiers};
use terrace_sim::{Rng, SimDisk};

/// Leaves with records of 200 bytes; each leaf has a few.
const LEAVES: u32 = 400;

fn key(leaf: u32, record: u32) -> Vec<u8> {
    [leaf.to_be_bytes(), record.to_be_bytes()].concat()
}

/// With room in the log, and memory of `kib` KiB.
fn options(kib: u64) -> Options {
    tiny(1)
        .memory(kib << 10)
        .log_segment(8 << 20)
        .log_limit(64 << 20)
}

/// A database whose disk is full: not a page more than it has. One value in each leaf has `long` bytes.
fn full(options: Options, kind: Kind, long: usize) -> (SimDisk, Database, Map) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let map = db
        .create_map("t", kind, MapOptions::new().tiers(Tiers::One))
        .unwrap();
    for leaf in 0..LEAVES {
        for record in 0..18 {
            map.put(key(leaf, record), [7; 200]).unwrap();
        }
        if long > 0 {
            map.put(key(leaf, 99), vec![8; long]).unwrap();
        }
    }
    db.checkpoint().unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    (disk, db, map)
}

/// What is on the disk now can be opened while it is as full as it is.
fn opens(disk: &SimDisk, options: Options) {
    let copy = disk.copy();
    copy.set_capacity(Some(copy.used_bytes()));
    let db = Database::open_on(copy.shared(), options).unwrap();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn deletes_of_large_values_are_done_or_refused() {
    for kind in [Kind::Tree, Kind::Hash, Kind::Table] {
        let (disk, db, map) = full(options(4096), kind, 6000);
        let mut refused = 0;
        for leaf in 0..LEAVES {
            match map.delete(key(leaf, 99)) {
                Ok(()) => assert_eq!(map.get(key(leaf, 99)).unwrap(), None),
                Err(e) => {
                    assert!(e.is_disk_full(), "{kind}: {e}");
                    refused += 1;
                }
            }
            assert!(map.get(key(leaf, 1)).unwrap().is_some());
        }
        assert!(
            refused > 0 || kind != Kind::Tree,
            "the disk was not full enough"
        );
        opens(&disk, options(4096));
        // And there is a way out.
        db.checkpoint().unwrap();
        for leaf in 0..LEAVES {
            if map.delete(key(leaf, 99)).is_err() {
                db.checkpoint().unwrap();
            }
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn a_batch_with_a_large_value_is_written_or_refused() {
    for kib in [1024, 16384] {
        let (disk, db, map) = full(options(kib), Kind::Tree, 0);
        let mut batch = db.batch();
        batch.put(&map, b"long", vec![9; 3 << 20]);
        batch.put(&map, b"short", b"1");
        match db.write(batch, Durability::Buffered) {
            Ok(()) => panic!("there was space"),
            Err(e) => assert!(e.is_disk_full(), "{e}"),
        }
        assert_eq!(map.get(b"short").unwrap(), None);
        assert!(map.get(key(5, 5)).unwrap().is_some());
        map.delete(key(5, 5)).unwrap();
        db.checkpoint().unwrap();
        opens(&disk, options(kib));
    }
}

#[test]
fn a_batch_of_deletes_all_over_a_tree_leaves_a_way_out() {
    for step in [1, 4, 40] {
        let (disk, db, map) = full(options(8192), Kind::Tree, 0);
        let (mut done, mut refused) = (0, 0);
        for begin in 0..step.min(8) {
            let mut batch = db.batch();
            for leaf in (begin..LEAVES).step_by(step as usize) {
                batch.delete(&map, key(leaf, 3));
            }
            match db.write(batch, Durability::Buffered) {
                Ok(()) => done += 1,
                Err(e) => {
                    assert!(e.is_disk_full(), "{e}");
                    refused += 1;
                }
            }
            // However it ended.
            let made = db.checkpoint();
            made.unwrap_or_else(|e| panic!("{step} {begin}: {e}"));
        }
        assert!(
            if step < 40 { refused > 0 } else { done > 0 },
            "{step} {done}"
        );
        opens(&disk, options(8192));
        // A few at a time can be deleted.
        let mut batch = db.batch();
        (0..4).for_each(|record| {
            batch.delete(&map, key(9, record));
        });
        db.write(batch, Durability::Buffered).unwrap();
        assert_eq!(map.get(key(9, 0)).unwrap(), None);
    }
}

/// What a batch lets go of the hot tier on its way, inside the gate, takes no space that others were promised.
#[test]
fn batches_on_two_tiers_whose_memory_is_full_leave_a_way_out() {
    for (seed, deletes) in [(1, false), (2, true), (3, false), (4, true)] {
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), options(1024)).unwrap();
        let two = MapOptions::new().tiers(Tiers::Two);
        let map = db.create_map("t", Kind::Tree, two).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..6000 {
            let key = key(rng.below(400) as u32, rng.below(18) as u32);
            map.put(key, [7; 200]).unwrap();
        }
        db.checkpoint().unwrap();
        disk.set_capacity(Some(disk.used_bytes() + (1100 << 10)));
        let (mut done, mut refused) = (0, 0);
        for round in 0..24 {
            let mut batch = db.batch();
            for _ in 0..60 {
                let key = key(rng.below(400) as u32, rng.below(36) as u32);
                match deletes {
                    true => _ = batch.delete(&map, key),
                    false => _ = batch.put(&map, key, vec![8; 200]),
                }
            }
            match db.write(batch, Durability::Buffered) {
                Ok(()) => done += 1,
                Err(e) => {
                    assert!(e.is_disk_full(), "{seed} {round}: {e}");
                    refused += 1;
                    let made = db.checkpoint();
                    made.unwrap_or_else(|e| panic!("{seed} {round}: {e}"));
                }
            }
            if round % 4 == 0 {
                opens(&disk, options(1024));
            }
        }
        assert!(done > 0, "{seed}: {done} {refused}");
        assert!(deletes || refused > 0, "{seed}: {done} {refused}");
        db.checkpoint().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Deletes use up what is kept for them and the power is cut: what was accepted can be replayed.
#[test]
fn small_batches_of_deletes_up_to_the_limit_can_be_replayed() {
    // Of a different size at first, so that the last one is accepted with one slot more or less each time.
    for first in 1..=8 {
        let (disk, db, map) = full(options(8192), Kind::Tree, 0);
        let mut leaves = 0..LEAVES;
        let mut deletes = first;
        let refused = loop {
            let mut batch = db.batch();
            for leaf in leaves.by_ref().take(deletes) {
                batch.delete(&map, key(leaf, 3));
            }
            assert!(!batch.is_empty(), "the disk was not full enough");
            if let Err(e) = db.write(batch, Durability::Buffered) {
                break e;
            }
            deletes = 8;
        };
        assert!(refused.is_disk_full(), "{refused}");
        opens(&disk, options(8192));
        db.checkpoint().unwrap();
    }
}

/// Nothing is asked for but writes: a log that finds no space gets it by a checkpoint.
#[test]
fn a_log_without_space_gets_it_by_a_checkpoint() {
    let disk = SimDisk::new(1);
    let options = Options::new()
        .memory(4 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(64 << 20);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let map = db.create_map("t", Kind::Tree, MapOptions::new()).unwrap();
    let put = |i: u32| map.put((i % 50).to_be_bytes(), [1; 200]);
    (0..2000).for_each(|i| put(i).unwrap());
    disk.set_capacity(Some(disk.used_bytes() + (100 << 10)));
    let refused = (0..100_000).find_map(|i| put(i).err());
    assert!(refused.is_some_and(|e| e.is_disk_full()));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Err(e) = put(1) {
        assert!(e.is_disk_full(), "{e}");
        assert!(std::time::Instant::now() < deadline, "it stayed refused");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Closed when the disk was full, opened again: the log needs a new segment for whatever is written.
#[test]
fn deletes_go_on_when_a_full_disk_is_opened_again() {
    let long = || {
        Options::new()
            .memory(4 << 20)
            .page_size(4096)
            .log_segment(4 << 20)
            .log_limit(64 << 20)
    };
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), long()).unwrap();
    let map = db.create_map("t", Kind::Tree, MapOptions::new()).unwrap();
    for leaf in 0..LEAVES {
        for record in 0..18 {
            map.put(key(leaf, record), [7; 200]).unwrap();
        }
    }
    drop(map);
    db.close().unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let db = Database::open_on(disk.shared(), long()).unwrap();
    // Less than the shortest segment that serves all writes, whatever the opening has given back.
    disk.set_capacity(Some(disk.used_bytes() + (40 << 10)));
    let map = db.map("t").unwrap();
    let refused = map.put(key(1, 1), [9; 200]);
    assert!(refused.is_err_and(|e| e.is_disk_full()));
    for record in 0..18 {
        map.delete(key(3, record)).unwrap();
    }
    db.checkpoint().unwrap();
    assert_eq!(map.get(key(3, 3)).unwrap(), None);
    drop(map);
    db.close().unwrap();
    opens(&disk, long());
}
