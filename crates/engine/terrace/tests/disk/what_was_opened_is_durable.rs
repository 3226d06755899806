//! A superblock can be read that is not durable: its sync failed, or the process ended before it. What is
//! opened by it stays there when the power is cut afterwards.

use crate::common::tiny;
use terrace::{Database, Durability, Options, Tree, TreeOptions};
use terrace_sim::{Fault, Injection, Op, SimDisk, Survival};

fn options() -> Options {
    tiny(1).log_limit(4 << 20)
}

fn put(db: &Database, tree: &Tree, keys: std::ops::Range<u32>) {
    for i in keys {
        let mut batch = db.batch();
        batch.put(tree, i.to_be_bytes(), [7; 50]);
        db.write(batch, Durability::Sync).unwrap();
    }
}

/// Opens, writes, cuts the power, and finds everything: what was there before, and what came.
fn goes_on(disk: &SimDisk, before: u32, what: &str) {
    {
        let db = Database::open_on(disk.shared(), options()).expect(what);
        let tree = match db.structures().is_empty() {
            true => db.create_tree("t", TreeOptions::new()).unwrap(),
            false => db.tree("t").unwrap(),
        };
        put(&db, &tree, before..before + 20);
        let cut = disk.crash_keeping(Survival::Nothing);
        let db = Database::open_on(cut.shared(), options()).expect(what);
        let tree = db.tree("t").unwrap();
        for i in 0..before + 20 {
            assert!(tree.get(i.to_be_bytes()).unwrap().is_some(), "{what}: {i}");
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn a_checkpoint_whose_sync_failed_is_durable_once_it_was_opened() {
    let mut failed = 0;
    for (forgets, nth) in [false, true]
        .into_iter()
        .flat_map(|f| (1..9).map(move |n| (f, n)))
    {
        let disk = SimDisk::new(nth);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let tree = db.create_tree("t", TreeOptions::new()).unwrap();
        put(&db, &tree, 0..50);
        db.checkpoint().unwrap();
        put(&db, &tree, 50..100);
        // A process that ends before the sync leaves the same behind as a sync that fails.
        disk.set_forgetful(forgets);
        disk.inject(Injection {
            file: Some("data".into()),
            ..Injection::at(Op::Sync, nth, Fault::Eio)
        });
        let checkpoint = db.checkpoint();
        disk.heal();
        failed += u32::from(checkpoint.is_err());
        drop((db, tree));
        disk.heal();
        goes_on(&disk, 100, &format!("sync {nth}, forgetful: {forgets}"));
    }
    assert!(failed >= 4, "only {failed} checkpoints failed");
}

#[test]
fn a_database_that_was_being_made_is_durable_once_it_was_opened() {
    for (forgets, nth) in [false, true]
        .into_iter()
        .flat_map(|f| (1..9).map(move |n| (f, n)))
    {
        let disk = SimDisk::new(nth);
        disk.set_forgetful(forgets);
        disk.inject(Injection {
            file: Some("data".into()),
            ..Injection::at(Op::Sync, nth, Fault::Eio)
        });
        let made = Database::open_on(disk.shared(), options());
        disk.heal();
        drop(made);
        goes_on(&disk, 0, &format!("sync {nth}, forgetful: {forgets}"));
    }
}
