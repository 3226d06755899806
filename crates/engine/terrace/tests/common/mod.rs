//! What several tests share: scripts of operations, a model of what they do, and runs of a script
//! on a simulated disk whose outcome is compared with the model.
#![allow(dead_code)]

pub mod anomalies;
pub mod brought_over;
pub mod chains;
pub mod changes;
pub mod clock;
pub mod expiry;
pub mod expiry_scenarios;
pub mod lists;
pub mod model;
pub mod ranges;
pub mod run;
pub mod saving;
pub mod script;
pub mod slots;
pub mod tables;
pub mod transactions;
pub mod unlogged;
pub mod waiting;

use terrace::{
    BackupOptions, Database, Index, KeySource, Kind, Map, MapOptions, Options, Rate,
    RestoreOptions, RestoreTo, Result, TableOptions, Tiers, TreeOptions, restore_on,
};
use terrace_sim::SimDisk;

/// A database as small as it gets, so that pages leave memory, segments fill and hot tiers are at
/// their cap after a few hundred records; without threads, so that a run is a function of its seed.
pub fn tiny(seed: u64) -> Options {
    Options::new()
        .memory(1 << 20)
        .page_size(4096)
        .log_segment(16 << 10)
        .log_limit(64 << 10)
        .foreground(true)
        .seed(seed)
}

/// Kind and tiers of a structure, and whether there is a heap above.
pub type Shape = (Kind, Tiers, bool);

/// What all tests run over.
pub const SHAPES: [Shape; 9] = [
    (Kind::Tree, Tiers::One, false),
    (Kind::Tree, Tiers::Two, false),
    (Kind::Hash, Tiers::One, false),
    (Kind::Hash, Tiers::Two, false),
    (Kind::Table, Tiers::One, false),
    (Kind::Table, Tiers::Two, false),
    (Kind::Table, Tiers::Two, true),
    (Kind::Lsm, Tiers::One, false),
    (Kind::Lsm, Tiers::Two, false),
];

/// A name for a structure of this shape.
pub fn named((kind, tiers, hot_heap): Shape) -> String {
    let heap = if hot_heap { ", a heap above" } else { "" };
    format!("{kind}, {tiers:?}{heap}")
}

/// A new structure. Tables have indexes, so that all that is done to them is done to indexes too;
/// those with one tier and some of the names have none.
pub fn create(db: &Database, name: &str, shape: Shape, options: MapOptions) -> Result<Map> {
    let (kind, tiers, hot_heap) = shape;
    let options = options.hot_heap(hot_heap);
    let odd = name.bytes().next().is_some_and(|b| b % 2 == 1);
    if kind != Kind::Table || (tiers == Tiers::One && !odd) {
        return db.create_map(name, kind, options.tiers(tiers));
    }
    let table = db.create_table(
        name,
        TableOptions::from(options.tiers(tiers))
            .index(Index::on("first", KeySource::bytes(0..1)))
            .index(Index::on("later", KeySource::bytes(1..30))),
    )?;
    Ok((*table).clone())
}

/// The structures of all shapes, made if they are missing.
pub fn all_shapes(db: &Database) -> Result<Vec<Map>> {
    let map = |shape: &Shape| {
        let name = named(*shape);
        match db.map(&name) {
            Err(terrace::Error::NoSuchStructure { .. }) => {
                create(db, &name, *shape, MapOptions::new())
            }
            other => other,
        }
    };
    SHAPES.iter().map(map).collect()
}

/// How much longer than usual to test: the number in `TERRACE_TEST_FACTOR`.
pub fn factor() -> u64 {
    std::env::var("TERRACE_TEST_FACTOR")
        .ok()
        .and_then(|f| f.parse().ok())
        .unwrap_or(1)
}

/// How far apart the calls are at which a test lets the disk fail, one in each run: `usual` calls usually, fewer with a
/// factor, down to each of them.
pub fn stride(usual: u64) -> u64 {
    (usual / factor()).max(1)
}

/// Seeds to try: a few usually, more with a factor, only the one in `TERRACE_TEST_SEED` if set.
pub fn seeds(usual: u64) -> Vec<u64> {
    match std::env::var("TERRACE_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (1..=usual * factor()).collect(),
    }
}

/// A small tree that is backed up again and again, with any number of checkpoints in between: pages come to
/// lie where they lay before. Each point must be restored as it was.
pub fn backups(seed: u64) {
    let (disk, set) = (SimDisk::new(seed), SimDisk::new(seed + 1));
    let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
    let options = TreeOptions::new().tiers(Tiers::One);
    let tree = db.tree_with("t", options).unwrap();
    for round in 0..8u64 {
        for checkpoint in 0..(seed + round) % 4 {
            let value = format!("{round}-{checkpoint}");
            (0..60).for_each(|i| tree.put(format!("{i:03}"), value.repeat(30)).unwrap());
            db.checkpoint().unwrap();
        }
        let options = BackupOptions::new().rate(Rate::Fast);
        db.backup_on(set.shared(), options).unwrap();
        let to = SimDisk::new(3);
        let options = RestoreOptions::new().options(tiny(seed + 500));
        restore_on(set.shared(), to.shared(), options).unwrap();
        let again = Database::open_on(to.shared(), tiny(seed + 600)).unwrap();
        let found = again.tree_with("t", TreeOptions::new()).unwrap();
        let all =
            |tree: &terrace::Tree| -> Vec<_> { tree.iter().unwrap().map(Result::unwrap).collect() };
        assert!(all(&found) == all(&tree), "seed {seed}, round {round}");
    }
    // What is archived behind the last point is restored up to the change that is asked for, and no further.
    let follower = db.follow_on(set.shared(), Default::default()).unwrap();
    tree.put("000", "first").unwrap();
    let first = db.sequence().unwrap();
    tree.put("000", "second").unwrap();
    follower.stop().unwrap();
    let to = SimDisk::new(4);
    let options = RestoreOptions::new().to(RestoreTo::Sequence(first));
    restore_on(set.shared(), to.shared(), options.options(tiny(seed + 700))).unwrap();
    let again = Database::open_on(to.shared(), tiny(seed + 800)).unwrap();
    let found = again.tree_with("t", TreeOptions::new()).unwrap();
    let found = found.get("000").unwrap();
    assert_eq!(found.as_deref(), Some(&b"first"[..]), "seed {seed}");
}
