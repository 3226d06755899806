//! Structures without log: nothing of them is in the log but what a checkpoint needs that is being made, and after a
//! crash they stand at the last checkpoint, whole; a clean close is a checkpoint.

use crate::common::unlogged::{
    a_change_waits_for_a_page, a_snapshot_ends_beside_busy_threads, made_beside_a_checkpoint,
    they_are_not_among_the_changes, without_log,
};
use crate::common::{SHAPES, create, seeds, tiny};
use terrace::{Database, Durability, MapOptions};
use terrace_sim::{SimDisk, Survival};

#[test]
fn without_log_the_last_checkpoint_counts() {
    for shape in SHAPES {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let unlogged = MapOptions::new().logged(false);
        let off = create(&db, "off", shape, unlogged).unwrap();
        let on = create(&db, "on", shape, MapOptions::new()).unwrap();
        let logged = db.stats().log.bytes;
        for i in 0..500u32 {
            off.put(i.to_be_bytes(), [1; 50]).unwrap();
        }
        assert_eq!(db.stats().log.bytes, logged);
        db.checkpoint().unwrap();
        for i in 0..700u32 {
            off.put(i.to_be_bytes(), [2; 50]).unwrap();
        }
        let mut batch = db.batch();
        batch.delete(&off, 3u32.to_be_bytes()).put(&off, "new", "x");
        db.write(batch, Durability::Buffered).unwrap();
        on.put_with("k", "v", Durability::Sync).unwrap();
        let crashed = disk.crash_keeping(Survival::All);
        drop((off, on, db));

        let db = Database::open_on(crashed.shared(), tiny(2)).unwrap();
        let off = db.map("off").unwrap();
        assert!(!db.structures()[0].logged);
        let all: Vec<_> = off.iter().unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), 500);
        assert!(all.iter().all(|(_, value)| *value == [1; 50]));
        assert_eq!(db.map("on").unwrap().get("k").unwrap().unwrap(), b"v");
        off.put("kept", "by closing").unwrap();
        drop(off);
        db.close().unwrap();
        let db = Database::open_on(crashed.shared(), tiny(3)).unwrap();
        assert_eq!(
            db.map("off").unwrap().get("kept").unwrap().unwrap(),
            b"by closing"
        );
    }
}

#[test]
fn what_is_written_while_it_is_saved_is_of_one_instant() {
    for seed in seeds(8) {
        without_log(seed);
    }
}

#[test]
fn a_change_that_waits_for_a_page_is_in_the_next_checkpoint() {
    a_change_waits_for_a_page();
}

#[test]
fn what_is_in_the_log_for_a_while_is_no_change() {
    they_are_not_among_the_changes();
}

#[test]
fn what_is_made_beside_a_checkpoint_is_in_it_whole() {
    made_beside_a_checkpoint();
}

#[test]
fn a_snapshot_ends_while_threads_write_without_log() {
    a_snapshot_ends_beside_busy_threads();
}
