//! Scenarios of a full disk and hot tiers that lie in memory alone: what is dirty in them finds its slots when it is
//! saved, for a write is refused before a close would be.

use std::collections::BTreeMap;

use super::{Shape, create, tiny};
use terrace::{Database, Kind, Map, MapOptions, Options, Tiers};
use terrace_sim::{Rng, SimDisk};

const SHAPES: [Shape; 4] = [
    (Kind::Tree, Tiers::Two, false),
    (Kind::Hash, Tiers::Two, false),
    (Kind::Table, Tiers::Two, false),
    (Kind::Lsm, Tiers::Two, false),
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// With room in the log: no checkpoint is made but those that the test asks for.
fn options(seed: u64) -> Options {
    tiny(seed).log_segment(256 << 10).log_limit(64 << 20)
}

fn check(what: &str, map: &Map, model: &Model) {
    let found: Model = map.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(found.len(), model.len(), "{what}");
    assert!(found == *model, "{what}");
}

/// Fills a disk with writes of random keys, some of large values, until it refuses them.
fn filled(seed: u64, shape: Shape, logged: bool) -> (SimDisk, Database, Map, Model) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(seed);
    let db = Database::open_on(disk.shared(), options(seed)).unwrap();
    let options = MapOptions::new().hot_in_memory(true).logged(logged);
    let map = create(&db, "m", shape, options).unwrap();
    let mut model = Model::new();
    let keys = [3000, 20_000][rng.below(2) as usize];
    let large = [0, 50][rng.below(2) as usize];
    let write = |rng: &mut Rng, model: &mut Model| {
        let key = (rng.below(keys) as u32).to_be_bytes().to_vec();
        if rng.below(10) == 0 {
            return map.delete(&key).map(|()| drop(model.remove(&key)));
        }
        let len = match large > 0 && rng.below(large) == 0 {
            true => 5000,
            false => rng.below(200) as usize,
        };
        let value = rng.bytes(len);
        map.put(&key, &value)
            .map(|()| drop(model.insert(key, value)))
    };
    for _ in 0..3000 {
        write(&mut rng, &mut model).unwrap();
    }
    if rng.below(2) == 0 {
        db.checkpoint().unwrap();
    }
    disk.set_capacity(Some(disk.used_bytes() + rng.below(64) * 25_000));
    let mut refused = 0;
    while refused < 50 {
        match write(&mut rng, &mut model) {
            Ok(()) => {}
            Err(e) => {
                assert!(e.is_disk_full(), "{seed} {shape:?}: {e}");
                refused += 1;
                if refused == 20 && rng.below(2) == 0 {
                    // It gives back what the log has, and the disk fills up again.
                    let made = db.checkpoint();
                    made.unwrap_or_else(|e| panic!("{seed} {shape:?}: a checkpoint: {e}"));
                }
            }
        }
    }
    (disk, db, map, model)
}

/// A close is not refused, and has all.
pub fn closes_when_full(seed: u64, logged: bool) {
    for shape in SHAPES {
        let what = format!("{seed} {shape:?}, logged: {logged}");
        let (disk, db, map, model) = filled(seed, shape, logged);
        check(&what, &map, &model);
        drop(map);
        disk.set_capacity(Some(disk.used_bytes()));
        db.close().unwrap_or_else(|e| panic!("{what}: {e}"));
        let db = Database::open_on(disk.shared(), options(seed));
        let db = db.unwrap_or_else(|e| panic!("{what}, opened again: {e}"));
        check(&what, &db.map("m").unwrap(), &model);
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{what}: {report}");
    }
}

/// After a crash an opening finds the space that it needs.
pub fn opens_when_full(seed: u64) {
    for shape in SHAPES {
        let what = format!("{seed} {shape:?}");
        let (disk, _db, _map, model) = filled(seed, shape, true);
        let copy = disk.copy();
        copy.set_capacity(Some(copy.used_bytes()));
        let again = Database::open_on(copy.shared(), options(seed));
        let again = again.unwrap_or_else(|e| panic!("{what}: {e}"));
        check(&what, &again.map("m").unwrap(), &model);
        again
            .close()
            .unwrap_or_else(|e| panic!("{what}, closed: {e}"));
    }
}

/// What is dirty lies at other keys than what was saved before, and the disk has no room for both.
pub fn what_goes_makes_room(seed: u64) {
    const KEYS: u32 = 6000;
    const HOT: u32 = 2000;
    for shape in SHAPES {
        let what = format!("{seed} {shape:?}");
        let mut rng = Rng::new(seed);
        let options = options(seed).memory(4 << 20);
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), options.clone()).unwrap();
        let map = create(&db, "m", shape, MapOptions::new().hot_in_memory(true)).unwrap();
        let mut model = Model::new();
        let mut write = |key: u32| {
            let (key, value) = (key.to_be_bytes(), rng.bytes(900));
            map.put(key, &value)
                .map(|()| drop(model.insert(key.to_vec(), value)))
        };
        (0..KEYS).try_for_each(&mut write).unwrap();
        (0..3)
            .try_for_each(|_| (KEYS - HOT..KEYS).try_for_each(&mut write))
            .unwrap();
        db.checkpoint().unwrap();
        disk.set_capacity(Some(disk.used_bytes() + 2_000_000));
        let refused = (0..2).try_for_each(|_| (0..HOT).try_for_each(&mut write));
        if let Err(e) = refused {
            assert!(e.is_disk_full(), "{what}: {e}");
        }
        db.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
        db.close().unwrap_or_else(|e| panic!("{what}, closed: {e}"));
        let db = Database::open_on(disk.shared(), options).unwrap();
        check(&what, &db.map("m").unwrap(), &model);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Nothing was saved before, and all that is hot is dirty: a write is refused while there is room for it, so that a close
/// and an opening after a crash go on.
pub fn what_was_never_saved_finds_room(seed: u64) {
    for shape in SHAPES {
        let what = format!("{seed} {shape:?}");
        let mut rng = Rng::new(seed);
        let options = options(seed).memory(4 << 20);
        let disk = SimDisk::new(seed);
        disk.set_capacity(Some(12_000_000));
        let db = Database::open_on(disk.shared(), options.clone()).unwrap();
        let map = create(&db, "m", shape, MapOptions::new().hot_in_memory(true)).unwrap();
        let mut model = Model::new();
        for i in 0.. {
            let (key, value) = (u32::to_be_bytes(i), rng.bytes(300));
            match map.put(key, &value) {
                Ok(()) => drop(model.insert(key.to_vec(), value)),
                Err(e) if e.is_disk_full() => break,
                Err(e) => panic!("{what}: {e}"),
            }
        }
        let copy = disk.copy();
        db.close().unwrap_or_else(|e| panic!("{what}, closed: {e}"));
        for disk in [disk, copy] {
            let db = Database::open_on(disk.shared(), options.clone())
                .unwrap_or_else(|e| panic!("{what}, opened: {e}"));
            check(&what, &db.map("m").unwrap(), &model);
            db.close().unwrap_or_else(|e| panic!("{what}, closed: {e}"));
        }
    }
}
