//! A scenario of a database whose hot tiers lie in the file, and which is opened by a version that keeps them in memory.

use std::collections::BTreeMap;

use terrace::{Database, Map, MapOptions, Options, Tiers};
use terrace_sim::{Rng, SimDisk};

use super::{SHAPES, create, tiny};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn options(seed: u64) -> Options {
    tiny(seed).log_segment(64 << 10).log_limit(1 << 20)
}

/// Puts and deletes; of fifty values one is long, if any is to be.
fn write(rng: &mut Rng, map: &Map, model: &mut Model, long: bool, many: u32) {
    for _ in 0..many {
        let key = (rng.below(2000) as u32).to_be_bytes().to_vec();
        if rng.below(8) == 0 {
            map.delete(&key).unwrap();
            model.remove(&key);
            continue;
        }
        let len = match long && rng.below(50) == 0 {
            true => 6000,
            false => rng.below(300) as usize,
        };
        let value = rng.bytes(len);
        map.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

fn check(what: &str, db: &Database, name: &str, model: &Model) {
    let map = db.map(name).unwrap();
    let found: Model = map.iter().unwrap().map(Result::unwrap).collect();
    assert!(found == *model, "{what}");
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{what}: {report}");
}

pub fn is_in_memory(db: &Database) -> bool {
    let all = db.structures();
    let first = all[0].hot_in_memory;
    assert!(all.iter().all(|info| info.hot_in_memory == first));
    first
}

/// One that an earlier version left behind is brought over, changed, and opened again in each state on the way.
pub fn brought_over(seed: u64) {
    [true, false]
        .into_iter()
        .for_each(|logged| brought_over_of(seed, logged));
}

fn brought_over_of(seed: u64, logged: bool) {
    // Without log the last checkpoint is what counts.
    let make_durable = |db: &Database| match logged {
        true => db.sync().unwrap(),
        false => drop(db.checkpoint().unwrap()),
    };
    let two = SHAPES.iter().filter(|shape| shape.1 == Tiers::Two);
    for (shape, long) in two.flat_map(|shape| [(*shape, false), (*shape, true)]) {
        let what = format!("{seed} {shape:?}, long values: {long}, logged: {logged}");
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let (mut model, mut late) = (Model::new(), Model::new());
        {
            terrace::fault::keep_hot_in_memory(Some(false));
            let db = Database::open_on(disk.shared(), options(seed)).unwrap();
            let map = create(&db, "m", shape, MapOptions::new().logged(logged)).unwrap();
            write(&mut rng, &map, &mut model, long, 6000);
            db.checkpoint().unwrap();
            write(&mut rng, &map, &mut model, long, 500);
            make_durable(&db);
            assert!(!is_in_memory(&db));
            if logged {
                // It is in the log alone.
                let map = create(&db, "late", shape, MapOptions::new()).unwrap();
                write(&mut rng, &map, &mut late, long, 500);
                make_durable(&db);
            }
        }
        let left = disk.copy();
        terrace::fault::keep_hot_in_memory(Some(true));
        let db = Database::open_on(left.shared(), options(seed)).unwrap();
        // A heap stays one.
        assert!(is_in_memory(&db) != shape.2, "{what}");
        check(&what, &db, "m", &model);
        if logged {
            check(&what, &db, "late", &late);
        }
        for round in 0..3 {
            let map = db.map("m").unwrap();
            write(&mut rng, &map, &mut model, long, 700);
            make_durable(&db);
            let again = left.copy();
            let again = Database::open_on(again.shared(), options(seed)).unwrap();
            check(
                &format!("{what}, opened in round {round}"),
                &again,
                "m",
                &model,
            );
            again.close().unwrap();
            if round > 0 {
                db.checkpoint().unwrap();
            }
        }
        db.close().unwrap();
        let db = Database::open_on(left.shared(), options(seed)).unwrap();
        check(&what, &db, "m", &model);
        if logged {
            check(&what, &db, "late", &late);
        }
    }
    terrace::fault::keep_hot_in_memory(None);
}
