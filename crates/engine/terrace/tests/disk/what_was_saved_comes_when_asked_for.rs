//! What was saved of hot tiers comes back into them after an opening: what is asked for at once, the rest by and by.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Database, Kind, MapOptions, Options, Tiers};
use terrace_sim::{Rng, SimDisk};

use crate::common::{create, tiny};

const KINDS: [Kind; 3] = [Kind::Tree, Kind::Hash, Kind::Lsm];
const RECORDS: u32 = 12_000;

fn options() -> Options {
    tiny(1).memory(4 << 20).log_limit(16 << 20)
}

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

/// A closed database with a structure of which all records are hot and dirty: each has this version.
fn closed(kind: Kind, version: u32) -> SimDisk {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = create(&db, "m", (kind, Tiers::Two, false), MapOptions::new()).unwrap();
    for i in 0..RECORDS {
        map.put(key(i), [i, version].map(u32::to_be_bytes).concat())
            .unwrap();
    }
    drop(map);
    db.close().unwrap();
    disk
}

/// The version of a record, which is that one.
fn version(i: u32, value: &[u8]) -> u32 {
    let (of, version) = value.split_at(4);
    assert_eq!(of, i.to_be_bytes());
    u32::from_be_bytes(version.try_into().unwrap())
}

#[test]
fn an_opening_reads_little_and_a_lookup_what_it_needs() {
    for kind in KINDS {
        let disk = closed(kind, 1);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let opened = db.stats().pages.reads;
        assert!(opened < 100, "{kind}: {opened}");
        let map = db.map("m").unwrap();
        let found = map.get(key(77)).unwrap().unwrap();
        assert_eq!(version(77, &found), 1, "{kind}");
        assert_eq!(map.get(b"no such record").unwrap(), None, "{kind}");
        let read = db.stats().pages.reads - opened;
        assert!(read < 20, "{kind}: {read}");
        // A checkpoint has all of it come before.
        db.checkpoint().unwrap();
        for i in 0..RECORDS {
            let found = map.get(key(i)).unwrap();
            assert_eq!(found.map(|found| version(i, &found)), Some(1), "{kind}");
        }
    }
}

/// Who looks without waiting reads nothing, however far away from all else that is loaded.
#[test]
fn a_look_that_waits_for_nothing_loads_nothing() {
    for kind in KINDS {
        let disk = closed(kind, 1);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = db.map("m").unwrap();
        let reads = || db.stats().pages.reads;
        let (mut value, mut resident) = (Vec::new(), 0);
        for i in 0..300 {
            let before = reads();
            let found = map.get_if_resident(key(i), &mut value).unwrap();
            assert_eq!(reads(), before, "{kind}: {i}");
            resident += u32::from(found.is_some());
            let found = map.get(key(i)).unwrap().unwrap();
            assert_eq!(version(i, &found), 1, "{kind}");
            let found = map.get_if_resident(key(i), &mut value).unwrap();
            assert_eq!(found, Some(true), "{kind}: {i}");
        }
        assert!(resident > 0, "{kind}");
    }
}

/// From either end, from the middle, and where nothing can be.
#[test]
fn a_scan_finds_what_was_saved() {
    for kind in [Kind::Tree, Kind::Lsm] {
        let disk = closed(kind, 1);
        let mut keys: Vec<_> = (0..RECORDS).map(key).collect();
        keys.sort_unstable();
        let found =
            |record: Option<terrace::Result<(Vec<u8>, Vec<u8>)>>| record.unwrap().unwrap().0;
        let nothing: &[u8] = &[];
        let opened = || Database::open_on(disk.shared(), options()).unwrap();
        let [first, last] = [keys[0], keys[keys.len() - 1]];
        let db = opened();
        let map = db.map("m").unwrap();
        let tree = map.as_tree().unwrap();
        assert!(tree.range(..nothing).unwrap().next_back().is_none());
        assert_eq!(found(tree.iter().unwrap().next_back()), last, "{kind}");
        assert_eq!(found(tree.iter().unwrap().next()), first, "{kind}");
        for at in [7, 5000, 4999, 11_000] {
            assert_eq!(found(tree.range(keys[at]..).unwrap().next()), keys[at]);
            let mut below = tree.range(..keys[at]).unwrap();
            assert_eq!(found(below.next_back()), keys[at - 1], "{kind}");
        }
        drop((map, db));
        for is_up in [true, false] {
            let db = opened();
            let map = db.map("m").unwrap();
            let tree = map.as_tree().unwrap();
            let all = tree.iter().unwrap();
            let seen: Vec<_> = match is_up {
                true => all.map(|record| record.unwrap().0).collect(),
                false => all.rev().map(|record| record.unwrap().0).collect(),
            };
            assert_eq!(seen.len(), keys.len(), "{kind}");
            let in_order = |(at, seen): (usize, &Vec<u8>)| match is_up {
                true => seen == &keys[at],
                false => seen == &keys[keys.len() - 1 - at],
            };
            assert!(seen.iter().enumerate().all(in_order), "{kind}");
        }
    }
}

#[test]
fn what_does_not_fit_any_more_goes_down() {
    for kind in KINDS {
        let disk = closed(kind, 1);
        for memory in [1 << 20, 2 << 20] {
            let db = Database::open_on(disk.shared(), options().memory(memory)).unwrap();
            let map = db.map("m").unwrap();
            for i in (0..RECORDS).rev() {
                let found = map.get(key(i)).unwrap();
                assert_eq!(found.map(|found| version(i, &found)), Some(1), "{kind}");
            }
            drop(map);
            let report = db.verify().unwrap();
            assert!(report.is_clean(), "{kind}: {report}");
            db.close().unwrap();
        }
    }
}

/// Each of these threads has records of its own, that it reads, changes, deletes and goes through from the opening on.
#[test]
fn threads_find_all_of_it_while_it_comes() {
    const THREADS: u32 = 3;
    const AT_ONCE: u32 = 300;
    for (n, kind) in KINDS.into_iter().enumerate() {
        let mut disk = closed(kind, 1);
        let mut model = vec![Some(1u32); RECORDS as usize];
        for round in 0..6u32 {
            let db = Database::open_on(disk.shared(), options().foreground(false)).unwrap();
            let map = db.map("m").unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for (thread, part) in (0..).zip(model.chunks_mut((RECORDS / THREADS) as usize)) {
                    let (db, map, stop) = (&db, &map, &stop);
                    scope.spawn(move || {
                        let first = thread * (RECORDS / THREADS);
                        let mut rng = Rng::new(u64::from(round * THREADS + thread) + n as u64);
                        for step in 0..AT_ONCE {
                            let at = rng.below(part.len() as u64) as usize;
                            let i = first + at as u32;
                            let written = [i, step + 2].map(u32::to_be_bytes).concat();
                            match rng.below(6) {
                                0 => {
                                    map.put(key(i), &written).unwrap();
                                    part[at] = Some(step + 2);
                                }
                                1 => {
                                    map.delete(key(i)).unwrap();
                                    part[at] = None;
                                }
                                2 => {
                                    let mut batch = db.batch();
                                    batch.put(map, key(i), &written);
                                    db.write(batch, terrace::Durability::Buffered).unwrap();
                                    part[at] = Some(step + 2);
                                }
                                3 => {
                                    let done = db.transaction(|transaction| {
                                        let before = transaction.get(map, key(i))?;
                                        transaction.put(map, key(i), &written)?;
                                        Ok::<_, terrace::Error>(before)
                                    });
                                    let before = done.unwrap();
                                    assert_eq!(before.map(|v| version(i, &v)), part[at]);
                                    part[at] = Some(step + 2);
                                }
                                4 if map.as_tree().is_some() => {
                                    let mut all = map.as_tree().unwrap().range(key(i)..).unwrap();
                                    let next = all.next().transpose().unwrap();
                                    let found = next.filter(|(found, _)| *found == key(i));
                                    let found = found.map(|(_, value)| version(i, &value));
                                    assert_eq!(found, part[at], "{kind}, round {round}");
                                }
                                _ => {
                                    let found = map.get(key(i)).unwrap();
                                    let found = found.map(|value| version(i, &value));
                                    assert_eq!(found, part[at], "{kind}, round {round}");
                                }
                            }
                        }
                        stop.store(true, Ordering::Relaxed);
                    });
                }
                // A piece, and a cut, in between.
                while round % 3 == 1 && !stop.load(Ordering::Relaxed) {
                    db.checkpoint().unwrap();
                }
            });
            drop(map);
            match round % 2 {
                0 => db.close().unwrap(),
                _ => {
                    db.sync().unwrap();
                    disk = disk.crash(u64::from(round));
                }
            }
        }
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = db.map("m").unwrap();
        for (i, then) in (0..).zip(&model) {
            let found = map.get(key(i)).unwrap();
            assert_eq!(found.map(|value| version(i, &value)), *then, "{kind}, {i}");
        }
        let there = model.iter().flatten().count();
        assert_eq!(map.iter().unwrap().count(), there, "{kind}");
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{kind}: {report}");
    }
}
