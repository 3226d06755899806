//! A database that is not closed: when the last of its handles is dropped, whatever that is a handle of, it
//! is closed; and if that fails, what was acknowledged is in the log.

use crate::common::{SHAPES, create, named, tiny};
use terrace::{Database, Durability, Map, MapOptions, Options};
use terrace_sim::{Fault, Injection, SimDisk};

/// With threads in the background, and without.
fn options() -> [Options; 2] {
    [tiny(1).foreground(false), tiny(1)].map(|options| options.log_limit(4 << 20))
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// A database with structures of all shapes, each with log and without, and the latter as of a checkpoint
/// of earlier.
fn filled(disk: &SimDisk, options: Options) -> (Database, Vec<Map>) {
    let db = Database::open_on(disk.shared(), options).unwrap();
    let make = |&shape| {
        [true, false].map(|logged| {
            let name = format!("{} {logged}", named(shape));
            create(&db, &name, shape, MapOptions::new().logged(logged)).unwrap()
        })
    };
    let maps: Vec<Map> = SHAPES.iter().flat_map(make).collect();
    for round in 0..2 {
        for map in &maps {
            (0..300).for_each(|i| map.put(key(i), [round; 60]).unwrap());
            map.put("long", vec![round; 20_000]).unwrap();
        }
        if round == 0 {
            db.checkpoint().unwrap();
        }
    }
    (db, maps)
}

/// What was put last is in all maps, or in those without log what the checkpoint found.
fn check(db: &Database, unlogged: u8) {
    let structures = db.structures();
    assert_eq!(structures.len(), 2 * SHAPES.len());
    for structure in structures {
        let map = db.map(&structure.name).unwrap();
        let round = if structure.logged { 1 } else { unlogged };
        for i in 0..300 {
            let found = map.get(key(i)).unwrap();
            assert_eq!(found.unwrap(), [round; 60], "{} of {}", i, structure.name);
        }
        assert_eq!(map.get("long").unwrap().unwrap(), vec![round; 20_000]);
        assert_eq!(map.iter().unwrap().count(), 301);
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn the_last_handle_that_is_dropped_closes_the_database() {
    for options in options() {
        let disk = SimDisk::new(1);
        let (db, maps) = filled(&disk, options.clone());
        drop(maps);
        drop(db);
        let db = Database::open_on(disk.shared(), options).unwrap();
        assert_eq!(db.stats().opening.replayed_operations, 0);
        check(&db, 1);
    }
}

#[test]
fn a_handle_of_a_structure_keeps_the_database_open() {
    for options in options() {
        let disk = SimDisk::new(2);
        let (db, mut maps) = filled(&disk, options.clone());
        drop(db);
        let last = maps.pop().unwrap();
        drop(maps);
        last.put("after", "the database").unwrap();
        let mut range = last.iter().unwrap();
        assert_eq!(range.next().unwrap().unwrap().0, key(0));
        let name = last.name();
        drop(last);
        // What is under way is a handle, too.
        assert_eq!(range.next().unwrap().unwrap().0, key(1));
        drop(range);
        let db = Database::open_on(disk.shared(), options).unwrap();
        assert_eq!(db.stats().opening.replayed_operations, 0);
        let map = db.map(&name).unwrap();
        assert_eq!(map.get("after").unwrap().unwrap(), b"the database");
        map.delete("after").unwrap();
        check(&db, 1);
    }
}

/// No caller hears of that checkpoint. The log has what was acknowledged, synced or not; a structure without
/// log stands where the last good one left it.
#[test]
fn a_checkpoint_that_fails_when_the_last_handle_is_dropped_costs_nothing_acknowledged() {
    for options in options() {
        for file in ["data", "map"] {
            let disk = SimDisk::new(3);
            let (db, maps) = filled(&disk, options.clone());
            maps[0].put_with(key(0), [1; 60], Durability::Sync).unwrap();
            disk.inject(Injection {
                op: None,
                file: Some(file.into()),
                nth: 1,
                fault: Fault::Eio,
                forever: true,
            });
            drop((db, maps));
            disk.heal();
            let db = Database::open_on(disk.shared(), options.clone()).unwrap();
            assert!(db.stats().opening.replayed_operations > 0, "{file}");
            check(&db, 0);
        }
    }
}

/// Whoever closes is told whether it is closed, also when another did it.
#[test]
fn everybody_who_closes_is_told_what_came_of_it() {
    for options in options() {
        let disk = SimDisk::new(5);
        let (db, maps) = filled(&disk, options);
        let others = [db.clone(), db.clone()];
        maps[0].put(key(1), "x").unwrap();
        disk.inject(Injection {
            forever: true,
            ..Injection::any(1, Fault::Eio)
        });
        let mut errors = others
            .map(|db| db.close().unwrap_err().to_string())
            .to_vec();
        disk.heal();
        errors.push(db.close().unwrap_err().to_string());
        errors.dedup();
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}
