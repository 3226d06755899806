//! One stream of random operations goes to a tree, a hash table and a table, with one tier and with two,
//! and to an ordered map: each answers as the map does, and after every opening, whether the database was
//! closed or its process killed, all of them hold the same.

use std::collections::BTreeMap;

use crate::common::{SHAPES, all_shapes, named, seeds, tiny};
use terrace::{Database, Durability, Map, Result};
use terrace_sim::{Rng, SimDisk, Survival};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const OPENINGS: u64 = 6;
const STEPS: u64 = 600;

/// Some keys are asked for most of the time; some are long, one is empty.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => Vec::new(),
        1 => [vec![b'l'; 500], vec![rng.below(9) as u8]].concat(),
        2..=9 => (rng.below(60) as u32 * 50).to_be_bytes().to_vec(),
        _ => (rng.below(3000) as u32).to_be_bytes().to_vec(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(60) {
        0 => 0,
        1 => rng.below(30_000),
        _ => rng.below(500),
    };
    rng.bytes(len as usize)
}

/// Does one thing to all of them, and compares the answers.
fn step(db: &Database, maps: &[Map], model: &mut Model, rng: &mut Rng) -> Result<()> {
    let (key, value) = (key(rng), value(rng));
    match rng.below(100) {
        0..30 => {
            for map in maps {
                map.put(&key, &value)?;
            }
            model.insert(key, value);
        }
        30..40 => {
            for map in maps {
                map.delete(&key)?;
            }
            model.remove(&key);
        }
        40..48 => {
            for map in maps {
                assert_eq!(map.insert(&key, &value)?, !model.contains_key(&key));
            }
            model.entry(key).or_insert(value);
        }
        48..54 => {
            for map in maps {
                assert_eq!(map.remove(&key)?.as_ref(), model.get(&key));
            }
            model.remove(&key);
        }
        54..60 => {
            for map in maps {
                map.update(&key, |old| Some([old.unwrap_or_default(), b"+"].concat()))?;
            }
            model.entry(key).or_default().push(b'+');
        }
        60..66 => {
            // One batch for all of them.
            let mut batch = db.batch();
            for _ in 0..1 + rng.below(8) {
                let (key, value) = (self::key(rng), self::value(rng));
                let deletes = rng.percent(30);
                for map in maps {
                    match deletes {
                        true => batch.delete(map, &key),
                        false => batch.put(map, &key, &value),
                    };
                }
                match deletes {
                    true => model.remove(&key),
                    false => model.insert(key, value),
                };
            }
            db.write(batch, Durability::Buffered)?;
        }
        66 => {
            db.checkpoint()?;
        }
        _ => {
            for map in maps {
                assert_eq!(map.get(&key)?.as_ref(), model.get(&key), "{}", map.name());
            }
        }
    }
    Ok(())
}

/// All of them hold what the model holds, from both ends, and nothing is wrong inside.
fn compare(db: &Database, maps: &[Map], model: &Model, when: &str) {
    for (map, shape) in maps.iter().zip(SHAPES) {
        let name = named(shape);
        let up: Result<Vec<_>> = map.iter().unwrap().collect();
        let up = up.unwrap();
        let mut down: Vec<_> = map.iter().unwrap().rev().map(Result::unwrap).collect();
        down.reverse();
        assert_eq!(up, down, "{name}, {when}: upwards and downwards");
        assert_eq!(up.len(), model.len(), "{name}, {when}: records");
        if map.as_hash().is_none() {
            assert!(up.is_sorted(), "{name}, {when}: the order of keys");
        }
        assert!(Model::from_iter(up) == *model, "{name}, {when}: contents");
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{when}: {report}");
}

#[test]
fn all_structures_answer_alike_after_every_opening() {
    for seed in seeds(2) {
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        let mut disk = SimDisk::new(seed);
        for opening in 0..OPENINGS {
            let db = Database::open_on(disk.shared(), tiny(seed * 100 + opening)).unwrap();
            let maps = all_shapes(&db).unwrap();
            let when = format!("seed {seed}, opening {opening}");
            compare(&db, &maps, &model, &when);
            for _ in 0..STEPS {
                step(&db, &maps, &mut model, &mut rng).unwrap();
            }
            if opening % 2 == 0 {
                drop(maps);
                db.close().unwrap();
                disk = disk.restart(opening);
            } else {
                // As a process that is killed leaves it: all that was acknowledged has been written.
                disk = disk.crash_keeping(Survival::All);
            }
        }
    }
}
