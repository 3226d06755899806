//! How fast a log is replayed and how fast a clean database opens. Run with
//! `cargo test --release -p terrace --test replay_is_fast -- --ignored --nocapture`.

use terrace::{Database, Durability, Options, Tiers, TreeOptions};

#[test]
#[ignore = "a measurement for optimised builds"]
fn replay_is_fast() {
    for tiers in [Tiers::One, Tiers::Two] {
        let dir = tempfile::tempdir().unwrap();
        let options = || Options::new().memory(256 << 20).log_limit(4 << 30);
        let db = Database::open(dir.path(), options()).unwrap();
        let tree = db
            .create_tree("t", TreeOptions::new().tiers(tiers))
            .unwrap();
        let records = 1_000_000u64;
        let start = std::time::Instant::now();
        let mut batch = db.batch();
        for i in 0..records {
            batch.put(
                &tree,
                i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(),
                [7; 120],
            );
            if batch.len() == 100 {
                db.write(
                    std::mem::replace(&mut batch, db.batch()),
                    Durability::Buffered,
                )
                .unwrap();
            }
        }
        println!(
            "{tiers:?}: loaded {records} in batches of 100 in {:?}",
            start.elapsed()
        );
        let start = std::time::Instant::now();
        for i in 0..records / 4 {
            tree.put(
                i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(),
                [8; 120],
            )
            .unwrap();
        }
        println!(
            "{tiers:?}: {} single buffered puts in {:?}",
            records / 4,
            start.elapsed()
        );
        // What a crash leaves: the files as they are.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let crashed = Database::open(copy.path(), options()).unwrap();
        let opening = crashed.stats().opening;
        let rate = opening.replayed_operations as f64 / opening.replay_seconds;
        println!("{tiers:?}: {opening:?}, {rate:.0} operations a second");
        assert_eq!(opening.replayed_operations, records + records / 4 + 1);
        drop(tree);
        let start = std::time::Instant::now();
        db.close().unwrap();
        println!("{tiers:?}: closed in {:?}", start.elapsed());
        let db = Database::open(dir.path(), options()).unwrap();
        println!("{tiers:?}: opened in {} s", db.stats().opening.seconds);
        assert!(rate > 500_000.0 && db.stats().opening.seconds < 1.0);
    }
}
