//! With memory and processors to spare the log is replayed by several threads: changes of one key
//! stay in order, and changes of the catalog keep their place among all others.

use std::ops::Bound;

use crate::common::model::{Model, differences};
use crate::common::run::replace;
use crate::common::script::{Step, script};
use crate::common::{create, seeds};
use terrace::{Database, Durability, MapOptions, Options, TransactionOptions};
use terrace_sim::{SimDisk, Survival};

/// Enough memory for threads; one checkpoint at creation, so that everything is replayed.
fn options() -> Options {
    Options::new().memory(40 << 20).page_size(4096)
}

fn apply(db: &Database, step: &Step) {
    let map = |name: &str| db.map(name).unwrap();
    match step {
        Step::Write(changes, _) => {
            let mut batch = db.batch();
            for change in changes {
                let map = map(&change.structure);
                match &change.value {
                    Some(value) => batch.put(&map, &change.key, value),
                    None => batch.delete(&map, &change.key),
                };
            }
            db.write(batch, Durability::Buffered).unwrap();
        }
        Step::Insert(name, key, value) => {
            map(name).insert(key, value).unwrap();
        }
        Step::Append(name, key, more) => {
            let appended = |old: Option<&[u8]>| [old.unwrap_or_default(), more].concat();
            map(name).update(key, |old| Some(appended(old))).unwrap();
        }
        Step::DeleteRange(name, low, high, _) => {
            let tree = map(name).as_tree().unwrap();
            let high = high.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let range = (Bound::Included(low), high);
            tree.delete_range::<Vec<u8>>(range).unwrap();
        }
        Step::Replace(name, low, high, changes, _) => {
            let options = TransactionOptions::new();
            replace(db, options, (name, low, high.as_deref()), changes).unwrap();
        }
        Step::Create(name, shape) => {
            create(db, name, *shape, MapOptions::new()).unwrap();
        }
        Step::Drop(name) => db.drop_structure(name).unwrap(),
        Step::Rename(from, to) => db.rename_structure(from, to).unwrap(),
        Step::Read(..) | Step::Checkpoint | Step::Reopen => {}
    }
}

#[test]
fn replay_by_threads_matches_a_model() {
    for seed in seeds(2) {
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let mut model = Model::default();
        for step in script(seed, 4000) {
            apply(&db, &step);
            model.apply(&step);
        }
        let crashed = disk.crash_keeping(Survival::All);
        drop(db);
        let db = Database::open_on(crashed.shared(), options()).unwrap();
        assert!(db.stats().opening.replayed_operations > 4000);
        let got = Model::of(&db).unwrap();
        assert!(got == model, "seed {seed}: {}", differences(&got, &model));
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "seed {seed}: {report}");
    }
}
