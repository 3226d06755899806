//! Drops: the name is free at once, the pages come back in the background, whoever is at work on
//! the structure gets an error and nothing else, and a drop that was cut off goes on.

use std::time::{Duration, Instant};

use crate::common::{SHAPES, create, named, tiny};
use terrace::{Database, Durability, Error, Map, MapOptions, Options, TreeOptions};
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

fn options() -> Options {
    Options::new()
        .memory(2 << 20)
        .page_size(4096)
        .log_segment(256 << 10)
        .log_limit(1 << 20)
}

/// Records of all sizes, some read so that they are hot and clean.
fn fill(tree: &Map, records: u32) {
    let mut rng = Rng::new(u64::from(records));
    for i in 0..records {
        let len = if i % 20 == 0 {
            9000
        } else {
            rng.below(300) as usize
        };
        tree.put(i.to_be_bytes(), rng.bytes(len)).unwrap();
    }
    for _ in 0..records {
        tree.get((rng.below(u64::from(records)) as u32).to_be_bytes())
            .unwrap();
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    // Only so that a failure ends; how long it takes does not matter.
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_clean(db: &Database) -> terrace::VerifyReport {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report}");
    report
}

#[test]
fn a_database_that_has_shrunk_opens_although_the_space_is_somebody_elses_by_now() {
    let disk = SimDisk::new(1);
    let length = |disk: &SimDisk| disk.contents("data").map_or(0, |data| data.len());
    let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
    let kept = db.tree("kept").unwrap();
    kept.put("a", "1").unwrap();
    fill(&db.tree("t").unwrap(), 20_000);
    db.checkpoint().unwrap();
    let before = length(&disk);
    db.drop_structure("t").unwrap();
    drop(kept);
    // Space is free once the second checkpoint has replaced what the first one names. The one that cuts
    // the file has said before how long it was.
    let cut = (0..20).any(|_| {
        db.checkpoint().unwrap();
        length(&disk) < before
    });
    assert!(cut, "{before} bytes");
    // As a process that dies leaves it.
    let disk = disk.copy();
    let after = length(&disk);
    disk.set_capacity(Some(disk.used_bytes()));
    let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
    assert_eq!(length(&disk), after);
    assert_eq!(
        db.tree("kept").unwrap().get("a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let _ = assert_clean(&db);
}

#[test]
fn a_dropped_structure_gives_its_pages_back() {
    for shape in SHAPES {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let empty = db.stats().pages.live;
        let tree = create(&db, "t", shape, MapOptions::new()).unwrap();
        fill(&tree, 4000);
        let _ = assert_clean(&db);
        assert!(db.stats().pages.live > empty + 300);
        db.drop_structure("t").unwrap();
        assert!(matches!(tree.get("x"), Err(Error::NoSuchStructure { .. })));
        let again = db.create_tree("t", TreeOptions::new()).unwrap();
        again.put("k", "v").unwrap();
        // The old handle is still there, which keeps nothing from going.
        wait_until("giving the pages back", || {
            db.stats().pages.live <= empty + 3
        });
        assert!(tree.iter().is_err());
        assert_eq!(again.get("k").unwrap().unwrap(), b"v");
        let _ = assert_clean(&db);
        assert_eq!(db.structures().len(), 1);
    }
}

/// A long value goes over many steps, and verification may come between any two.
#[test]
fn a_drop_that_ended_within_a_long_value_is_no_damage() {
    for shape in SHAPES {
        for n in [40, 100, 300] {
            let disk = SimDisk::new(1);
            let options = || options().foreground(true);
            let db = Database::open_on(disk.shared(), options()).unwrap();
            let tree = create(&db, "t", shape, MapOptions::new()).unwrap();
            tree.put("a", vec![7; 4 << 20]).unwrap();
            // Others, for which it leaves memory.
            fill(&tree, 6000);
            let before = db.stats().pages.live;
            disk.inject(Injection::at(Op::Read, n, Fault::Eio));
            db.drop_structure("t").unwrap();
            assert!(!assert_clean(&db).structures.is_empty());
            assert!(db.stats().pages.live < before);
            db.close().unwrap();
            let db = Database::open_on(disk.shared(), options()).unwrap();
            assert!(assert_clean(&db).structures.is_empty());
        }
    }
}

#[test]
fn a_page_that_cannot_be_read_is_in_the_way_of_no_other_drop() {
    let disk = SimDisk::new(1);
    let one_tier = TreeOptions::new().tiers(terrace::Tiers::One);
    let empty = {
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let empty = db.stats().pages.live;
        for (name, value) in [("first", b'a'), ("second", b'b')] {
            let tree = db.create_tree(name, one_tier).unwrap();
            for i in 0..2000u32 {
                tree.put(i.to_be_bytes(), [value; 200]).unwrap();
            }
        }
        db.close().unwrap();
        empty
    };
    let mut bytes = disk.contents("data").unwrap();
    let inside = |run: &[u8]| run.iter().all(|&b| b == b'a');
    let at = bytes.windows(64).rposition(inside).unwrap();
    bytes[at] ^= 1;
    disk.place("data", bytes);
    // The second time the drop of the first is found unfinished at opening.
    for name in ["second", "third"] {
        let db = Database::open_on(disk.shared(), options()).unwrap();
        if name == "second" {
            db.drop_structure("first").unwrap();
        } else {
            let third = db.create_tree(name, one_tier).unwrap();
            fill(&third, 2000);
        }
        wait_until("meeting the page", || db.stats().drops.stuck == 1);
        let full = db.stats().pages.live;
        db.drop_structure(name).unwrap();
        wait_until("giving the pages of the other back", || {
            db.stats().pages.live <= full - 90
        });
        wait_until("the end of the other drop", || {
            let report = db.verify().unwrap();
            report.structures.iter().filter(|s| s.dropping).count() == 1
        });
        let drops = db.stats().drops;
        assert_eq!(drops.stuck, 1);
        assert!(drops.last_error.is_some_and(|e| e.contains("data")));
        assert!(db.stats().to_string().contains("not done"));
        assert!(db.stats().pages.live > empty);
        db.close().unwrap();
    }
}

#[test]
fn work_on_a_structure_that_is_dropped_ends_with_an_error() {
    let disk = SimDisk::new(2);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let other = db.tree("other").unwrap();
    for round in 0..8u64 {
        let name = format!("t{round}");
        let shape = SHAPES[round as usize % SHAPES.len()];
        let tree = create(&db, &name, shape, MapOptions::new()).unwrap();
        fill(&tree, 600);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (db, tree, other) = (&db, &tree, &other);
                scope.spawn(move || {
                    let mut rng = Rng::new(round * 10 + thread);
                    loop {
                        let key = (rng.below(1000) as u32).to_be_bytes();
                        let done = match rng.below(5) {
                            0 => tree.get(key).map(|_| ()),
                            1 => tree.put(key, rng.bytes(100)),
                            2 => tree.update(key, |old| old.map(<[u8]>::to_vec)).map(|_| ()),
                            3 => tree.iter().and_then(|mut range| {
                                range.try_for_each(|entry| entry.map(|_| ()))
                            }),
                            _ => {
                                let mut batch = db.batch();
                                batch.put(tree, key, "1").put(other, key, "2");
                                db.write(batch, Durability::Buffered)
                            }
                        };
                        match done {
                            Ok(()) => {}
                            Err(Error::NoSuchStructure { .. }) => break,
                            Err(e) => panic!("{e}"),
                        }
                    }
                });
            }
            let (db, name) = (&db, &name);
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                db.drop_structure(name).unwrap();
            });
        });
    }
    wait_until("taking the structures apart", || {
        assert_clean(&db).structures.iter().all(|s| !s.dropping)
    });
    drop(other);
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), options()).unwrap();
    assert_eq!(assert_clean(&db).structures.len(), 1);
}

#[test]
fn a_drop_that_was_cut_off_goes_on() {
    let start = SimDisk::new(3);
    {
        let db = Database::open_on(start.shared(), tiny(3)).unwrap();
        for shape in SHAPES {
            let tree = create(&db, &named(shape), shape, MapOptions::new()).unwrap();
            fill(&tree, 800);
        }
        db.create_tree("stays", TreeOptions::new())
            .unwrap()
            .put("k", "v")
            .unwrap();
        db.close().unwrap();
    }
    let mut n = 1;
    loop {
        let disk = start.copy();
        let db = Database::open_on(disk.shared(), tiny(4)).unwrap();
        disk.inject(Injection::at(Op::Write, n, Fault::PowerCut));
        // Durable marks, checkpoints that find the structures in every state of dissolution.
        let two = named(SHAPES[1]);
        let dropped = db
            .drop_structure(&two)
            .and_then(|()| db.drop_structure(&named(SHAPES[3])))
            .and_then(|()| db.checkpoint())
            .is_ok();
        let _ = db
            .drop_structure(&named(SHAPES[0]))
            .and_then(|()| db.drop_structure(&named(SHAPES[2])))
            .and_then(|()| db.sync());
        drop(db);
        let powered = disk.is_powered();
        let disk = disk.crash(n);
        eprintln!("power cut at write {n}");
        let db = Database::open_on(disk.shared(), tiny(5)).unwrap();
        let report = assert_clean(&db);
        assert!(report.structures.iter().all(|s| !s.dropping), "{report}");
        let names: Vec<_> = db.structures().into_iter().map(|s| s.name).collect();
        assert!(!dropped || !names.contains(&two));
        assert_eq!(db.tree("stays").unwrap().get("k").unwrap().unwrap(), b"v");
        for name in names.iter().filter(|name| *name != "stays") {
            assert_eq!(db.map(name).unwrap().iter().unwrap().count(), 800);
        }
        db.close().unwrap();
        let db = Database::open_on(disk.shared(), tiny(6)).unwrap();
        let _ = assert_clean(&db);
        if powered {
            break;
        }
        n += 1 + n / 10;
    }
    assert!(n > 10);
}
