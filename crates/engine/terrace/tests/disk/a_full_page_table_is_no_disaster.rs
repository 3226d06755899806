//! There are no numbers for new pages any more: a batch is written or refused, never half done.

use crate::common::{SHAPES, Shape, create, factor, named, tiny};
use terrace::{
    CompactOptions, Database, Durability, Error, Kind, Map, MapOptions, Options, Rate, Tiers, Tree,
    TreeOptions,
};
use terrace_sim::SimDisk;

const RECORDS: u32 = 20_000;

fn options() -> Options {
    tiny(1).log_segment(4 << 20).log_limit(64 << 20)
}

/// So long that a few dozen of them fill a page.
fn key(i: u32) -> Vec<u8> {
    let mut key = i.to_be_bytes().to_vec();
    key.resize(100, 7);
    key
}

/// Records that are loaded into what is to fill up: nearly as many as there is room for.
fn loaded(kind: Kind) -> u32 {
    match kind {
        Kind::Lsm => 46_000,
        _ => 33_000,
    }
}

/// The keys of numbers that follow each other lie far apart.
fn in_no_order(i: u32) -> Vec<u8> {
    key(i.wrapping_mul(0x9E37_79B1))
}

/// Two tiers, the hot one with room in memory, and as many pages as the memory allows.
fn full(disk: &SimDisk) -> (Database, Tree) {
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let two = || TreeOptions::new().tiers(Tiers::Two);
    let tree = db.create_tree("two", two()).unwrap();
    (0..RECORDS).for_each(|i| tree.put(key(i), [1; 20]).unwrap());
    let other = db.create_tree("other", two()).unwrap();
    (0..RECORDS / 2).for_each(|i| other.put(key(i), [1; 20]).unwrap());
    drop(other);
    db.drop_structure("other").unwrap();
    db.checkpoint().unwrap();
    let one = TreeOptions::new().tiers(Tiers::One).logged(false);
    let one = db.create_tree("one", one).unwrap();
    let mut next = 0;
    for bytes in [200_000, 5000, 400, 10] {
        let value = vec![7; bytes];
        let error = loop {
            next += 1;
            if let Err(e) = one.put(u32::to_be_bytes(next), &value) {
                break e;
            }
        };
        assert!(matches!(error, Error::MemoryTooSmall { .. }), "{error}");
    }
    (db, tree)
}

fn delete(db: &Database, map: &Map, keys: std::ops::Range<u32>) -> Result<(), Error> {
    let mut batch = db.batch();
    keys.for_each(|i| {
        batch.delete(map, key(i));
    });
    db.write(batch, Durability::Buffered)
}

#[test]
fn batches_of_deletes_are_done_or_refused() {
    for each in [1000, 8] {
        let disk = SimDisk::new(1);
        let (db, tree) = full(&disk);
        let mut gone = 0;
        for begin in (1000..3000).step_by(each as usize) {
            match delete(&db, &tree, begin..begin + each) {
                Ok(()) => gone += each,
                Err(e) => assert!(matches!(e, Error::MemoryTooSmall { .. }), "{each}: {e}"),
            }
        }
        let left = (0..RECORDS).filter(|i| tree.get(key(*i)).unwrap().is_some());
        assert_eq!(left.count() as u32, RECORDS - gone);
        let found = Database::open_on(disk.copy().shared(), options()).unwrap();
        assert!(found.verify().unwrap().is_clean());
        db.checkpoint().unwrap();
    }
}

/// Deletes get out of it, whatever the structure: some numbers are kept back for what they leave behind, and for
/// merging.
#[test]
fn deletes_and_compaction_are_a_way_out() {
    // Most of those of one tier with a factor only: with two, what is below is the same.
    let is_tried = |shape: &Shape| shape.1 == Tiers::Two || shape.0 == Kind::Lsm || factor() > 1;
    for shape in SHAPES.into_iter().filter(is_tried) {
        let name = named(shape);
        let disk = SimDisk::new(2);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = create(&db, "map", shape, MapOptions::new()).unwrap();
        // Most of it at once: an LSM-tree that is much larger than memory takes long over puts.
        let loaded = loaded(shape.0);
        let mut keys: Vec<_> = (0..loaded).map(in_no_order).collect();
        keys.sort_unstable();
        let mut loader = map.loader().unwrap();
        keys.iter()
            .for_each(|key| loader.put(key, [7; 900]).unwrap());
        loader.finish().unwrap();
        let mut count = loaded;
        let full = loop {
            match map.put(in_no_order(count), [7; 900]) {
                Ok(()) => count += 1,
                Err(e) => break e,
            }
        };
        assert!(count > loaded + 100, "{name}: {count}");
        assert!(
            matches!(full, Error::MemoryTooSmall { .. }),
            "{name}: {full}"
        );
        let before = db.stats().pages.live;
        for i in 0..count {
            let refused = map.delete(in_no_order(i)).err();
            assert!(
                refused.is_none(),
                "{name}, {i} of {count}: {}",
                refused.unwrap()
            );
        }
        db.compact(CompactOptions::new().rate(Rate::Fast)).unwrap();
        let after = db.stats().pages.live;
        assert!(after < before / 10, "{name}: {before} pages, then {after}");
        map.put("x", "y").unwrap();
        assert_eq!(map.iter_unordered().unwrap().count(), 1);
        db.verify().unwrap().into_result().unwrap();
    }
}
