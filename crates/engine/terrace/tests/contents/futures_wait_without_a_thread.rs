//! Reads that wait for a page from the disk hold no thread: hundreds wait at the same time, each is told, whatever
//! becomes of the others, of their runtimes, of the disk and of the database.

use std::task::Poll;

use crate::common::waiting::{
    RECORDS, close_meanwhile, cold, database, everybody_who_waits_is_told, key, most_fail, opened,
    poll, read, told, until, value, waiting,
};
use crate::common::{SHAPES, create, named, tiny};
use terrace::fault::{has_loaded, reader_rests, waiting_for_pages};
use terrace::{Database, Error, Kind, MapOptions, Tiers, aio};
use terrace_sim::{Fault, Injection, Op, SimDisk};
use tokio::runtime::{Builder, Runtime};

/// As many as may wait with little memory.
const MANY: usize = 200;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

/// Enough that pages which were read stay for a while.
const ROOMY: u64 = 2 << 20;

/// A call that keeps the only place until what this returns is dropped.
fn held(runtime: &Runtime, db: &aio::Database) -> std::sync::mpsc::Sender<()> {
    let (hold, until) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = std::sync::mpsc::channel();
    let other = db.clone();
    runtime.spawn(async move {
        let waits = move |_: &Database| {
            begun.send(()).unwrap();
            let _ = until.recv();
            Ok(())
        };
        other.run(waits).await
    });
    begins.recv().unwrap();
    hold
}

#[test]
fn hundreds_wait_and_none_has_a_thread() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let (gate, db, tree) = database(&disk, ROOMY);
    let keys = cold(&tree, MANY);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    // No call that needs a thread would be answered.
    let hold = held(&runtime, &all);
    let _opens = gate.close();
    let all_reads = waiting(&gate, &db, &map, &keys);
    assert!(waiting_for_pages(&db) >= MANY / 2 - 64 / 2);
    gate.open();
    for (key, read) in all_reads {
        let found = runtime.block_on(read).unwrap();
        assert_eq!(found, Some(value(&key)));
    }
    // Other calls too, and for none of them the runtime matters.
    let (one, others) = cold(&tree, 20)
        .split_first()
        .map(|(a, b)| (a.clone(), b.to_vec()))
        .unwrap();
    assert!(runtime.block_on(map.contains_key(&one)).unwrap());
    let found = runtime.block_on(map.get_many(&others)).unwrap();
    assert!(
        found
            .iter()
            .zip(&others)
            .all(|(found, key)| *found == Some(value(key)))
    );
    drop(hold);
    runtime.block_on(all.close()).unwrap();
}

#[test]
fn who_waits_on_one_runtime_does_not_need_another() {
    let (one, two) = (runtime(), runtime());
    let disk = SimDisk::new(1);
    let (gate, db, tree) = database(&disk, ROOMY);
    let keys = cold(&tree, 100);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let _opens = gate.close();
    let of_one: Vec<_> = keys.iter().map(|key| one.spawn(read(&map, key))).collect();
    until(|| gate.is_waited_at());
    let of_two: Vec<_> = keys.iter().map(|key| two.spawn(read(&map, key))).collect();
    until(|| waiting_for_pages(&db) > 80);
    one.shutdown_background();
    gate.open();
    for (read, key) in of_two.into_iter().zip(&keys) {
        let found = two.block_on(read).unwrap();
        assert_eq!(found.unwrap(), Some(value(key)));
    }
    // But for those that found their page in memory.
    let ended = of_one
        .into_iter()
        .filter_map(|read| two.block_on(read).err());
    assert!(ended.filter(|e| e.is_cancelled()).count() > 50);
}

#[test]
fn a_future_that_is_dropped_costs_no_read() {
    const KEPT: usize = 20;
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    let (gate, db, tree) = database(&disk, ROOMY);
    let keys = cold(&tree, MANY - 4 * KEPT);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let _opens = gate.close();
    let mut all_reads = waiting(&gate, &db, &map, &keys[..KEPT]);
    let others = waiting(&gate, &db, &map, &keys);
    assert!(waiting_for_pages(&db) >= others.len());
    // Those are left that wait for pages which are being read.
    let is_read = |(key, _): &(Vec<u8>, _)| keys[..KEPT].contains(key);
    all_reads.extend(others.into_iter().filter(is_read));
    gate.open();
    for (key, read) in all_reads {
        assert_eq!(runtime.block_on(read).unwrap(), Some(value(&key)));
    }
    until(|| reader_rests(&db));
    // Those pages, a few on the way to them, and some that had left memory again.
    assert!(gate.reads() < 4 * KEPT as u64, "{}", gate.reads());
}

#[test]
fn an_error_is_that_of_one_page_and_its_readers() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    let (_, db, tree) = database(&disk, ROOMY);
    // The first key is all zeros, and so is its value.
    let bad = cold(&tree, 2).remove(1);
    drop(tree);
    db.close().unwrap();
    // All pages where its record may lie.
    let flip = || {
        let (mut data, wanted) = (disk.contents("data").unwrap(), value(&bad));
        let places: Vec<usize> = (0..data.len() - wanted.len())
            .filter(|at| data[*at..].starts_with(&wanted))
            .collect();
        for at in &places {
            data[*at] ^= 0x55;
        }
        disk.place("data", data);
        places
    };
    let places = flip();
    assert!(!places.is_empty());
    let (gate, db) = opened(&disk, tiny(1).memory(ROOMY).foreground(false));
    // Before that a thread looks for whoever asks for a record of what is to come.
    until(|| has_loaded(&db));
    let tree = db.map("a").unwrap();
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let mut keys = cold(&tree, 50);
    keys.retain(|key| *key != bad);
    keys.insert(20, bad.clone());
    let _opens = gate.close();
    let all_reads = waiting(&gate, &db, &map, &keys);
    gate.open();
    let mut failed = 0;
    for (key, read) in all_reads {
        match runtime.block_on(read) {
            Ok(found) => assert_eq!(found, Some(value(&key))),
            Err(e) => {
                assert!(matches!(e, Error::Corrupt { .. }), "{e}");
                failed += 1;
            }
        }
    }
    // It, and those that lie on the same page.
    assert!((1..10).contains(&failed), "{failed}");
    assert!(runtime.block_on(map.get(&bad)).is_err());
    let mut data = disk.contents("data").unwrap();
    places.iter().for_each(|at| data[*at] ^= 0x55);
    disk.place("data", data);
    assert_eq!(runtime.block_on(map.get(&bad)).unwrap(), Some(value(&bad)));
}

#[test]
fn a_disk_that_fails_fails_those_who_wait_then_and_nobody_later() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let (gate, db, tree) = database(&disk, ROOMY);
    let keys = cold(&tree, 80);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let _opens = gate.close();
    let mut all_reads = waiting(&gate, &db, &map, &keys);
    disk.inject(Injection {
        forever: true,
        file: Some("data".into()),
        ..Injection::at(Op::Read, 1, Fault::Eio)
    });
    gate.open();
    most_fail(&db, &mut all_reads);
    disk.heal();
    for key in &keys {
        assert_eq!(runtime.block_on(map.get(key)).unwrap(), Some(value(key)));
    }
}

#[test]
fn all_who_wait_are_told_that_the_database_is_closed() {
    let disk = SimDisk::new(1);
    let (gate, db, tree) = database(&disk, ROOMY);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let _opens = gate.close();
    let mut all_reads = waiting(&gate, &db, &map, &cold(&tree, MANY));
    close_meanwhile(&db, &tree, &gate).unwrap();
    // Without being asked again: each was told before the call that closes had returned.
    for (_, read) in &mut all_reads {
        let error = told(read).unwrap_err();
        assert!(error.to_string().contains("has been closed"), "{error}");
    }
    drop((all_reads, map, all, db, tree));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    assert_eq!(
        db.map("a").unwrap().iter().unwrap().count(),
        RECORDS as usize
    );
}

/// The last handle goes with a future that waits: no thread waits for itself.
#[test]
fn the_last_handle_may_go_with_who_waits() {
    let disk = SimDisk::new(1);
    let (gate, db, tree) = database(&disk, ROOMY);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let key = cold(&tree, 1).remove(0);
    let _opens = gate.close();
    let (told, tells) = std::sync::mpsc::channel();
    let last = tree.clone();
    assert!(
        tree.when_resident(&key, move || {
            drop(last);
            told.send(()).unwrap();
        })
        .unwrap()
    );
    drop((map, all, db, tree));
    gate.open();
    tells.recv().unwrap();
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    assert_eq!(db.map("a").unwrap().get(&key).unwrap(), Some(value(&key)));
}

#[test]
fn a_panic_while_pages_are_read_leaves_nobody_waiting() {
    let disk = SimDisk::new(1);
    let (gate, db, tree) = database(&disk, ROOMY);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let map = all.map(&tree);
    let keys = cold(&tree, MANY);
    let _opens = gate.close();
    let mut all_reads = waiting(&gate, &db, &map, &keys);
    gate.panic();
    // It ends the thread, which has told all who wait by then.
    assert!(db.clone().close().is_err());
    for (_, read) in &mut all_reads {
        let error = told(read).unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    }
    let mut late = read(&map, &keys[0]);
    assert!(matches!(poll(&mut late), Poll::Ready(Err(_))));
}

#[test]
fn more_pages_than_there_are_frames_come_and_go() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let (_, db, tree) = database(&disk, 1 << 20);
    let all = aio::Database::with_threads(db, 2).unwrap();
    let map = all.map(&tree);
    let keys: Vec<Vec<u8>> = (0..RECORDS).step_by(10).map(key).collect();
    let tasks: Vec<_> = keys
        .iter()
        .map(|key| runtime.spawn(read(&map, key)))
        .collect();
    for (task, key) in tasks.into_iter().zip(&keys) {
        let found = runtime.block_on(task).unwrap().unwrap();
        assert_eq!(found, Some(value(key)));
    }
    let found = runtime.block_on(map.get_many(&keys)).unwrap();
    assert!(
        found
            .iter()
            .zip(&keys)
            .all(|(found, key)| *found == Some(value(key)))
    );
    assert_eq!(runtime.block_on(map.get(b"none")).unwrap(), None);
    runtime.block_on(all.close()).unwrap();
}

/// Each kind of structure, and records come up to the hot tier as by calls that wait on a thread.
#[test]
fn records_are_promoted_as_by_calls() {
    let runtime = runtime();
    for shape in SHAPES {
        let promoted = [false, true].map(|as_futures| {
            let (disk, name) = (SimDisk::new(1), named(shape));
            let open = || opened(&disk, tiny(1).memory(ROOMY).foreground(false)).1;
            let db = open();
            // Of one in memory a thread brings up what was hot before.
            let in_file = MapOptions::new().hot_in_memory(false);
            let map = create(&db, "map", shape, in_file).unwrap();
            (0..RECORDS).for_each(|i| map.put(key(i), value(&key(i))).unwrap());
            drop(map);
            db.close().unwrap();
            let db = open();
            let map = db.map("map").unwrap();
            let all = aio::Database::with_threads(db.clone(), 1).unwrap();
            let futures = all.map(&map);
            for _ in 0..4 {
                for i in (0..RECORDS).step_by(11) {
                    let found = match as_futures {
                        true => runtime.block_on(futures.get(key(i))).unwrap(),
                        false => map.get(key(i)).unwrap(),
                    };
                    assert_eq!(found, Some(value(&key(i))), "{name}");
                }
            }
            db.stats().structures[0].promotions
        });
        println!("{}: {promoted:?}", named(shape));
        let [by_calls, by_futures] = promoted;
        assert_eq!(by_calls > 0, shape.1 == Tiers::Two, "{}", named(shape));
        let alike = by_futures * 3 >= by_calls * 2 && by_calls * 3 >= by_futures * 2;
        assert!(alike, "{}: {promoted:?}", named(shape));
    }
}

/// The page of a record whose value has pages of its own is waited for so; these a thread reads, in order.
#[test]
fn a_long_value_keeps_no_runtime_waiting() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    for tiers in [Tiers::One, Tiers::Two] {
        let name = format!("long, {tiers:?}");
        let (_, db, tree) = database(&disk, ROOMY);
        let options = MapOptions::new().tiers(tiers);
        let long = db.create_map(&name, Kind::Tree, options).unwrap();
        let values = [4, 40].map(|pages: usize| (pages, vec![pages as u8; pages * 4096]));
        for (pages, value) in &values {
            long.put([*pages as u8], value).unwrap();
        }
        db.checkpoint().unwrap();
        // All of it leaves memory.
        (0..RECORDS).for_each(|i| tree.put(key(i), value(&key(i))).unwrap());
        db.checkpoint().unwrap();
        tree.iter()
            .unwrap()
            .for_each(|record| drop(record.unwrap()));
        let all = aio::Database::with_threads(db.clone(), 1).unwrap();
        let map = all.map(&long);
        for (pages, value) in &values {
            let resident = long.get_if_resident([*pages as u8], &mut Vec::new());
            assert_eq!(resident.unwrap(), None, "{name}, {pages}");
            let hold = held(&runtime, &all);
            let mut read = read(&map, &[*pages as u8]);
            assert!(poll(&mut read).is_pending());
            drop(hold);
            assert_eq!(runtime.block_on(read).unwrap().as_ref(), Some(value));
        }
        drop((map, all, long, tree));
        db.close().unwrap();
    }
}

#[test]
fn without_threads_in_the_background_a_thread_reads() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    let options = tiny(1);
    let (_, db) = opened(&disk, options);
    let tree = db.tree("a").unwrap();
    (0..RECORDS).for_each(|i| tree.put(key(i), value(&key(i))).unwrap());
    let key = cold(&tree, 1).remove(0);
    assert!(!tree.when_resident(&key, || ()).unwrap());
    let all = aio::Database::with_threads(db, 1).unwrap();
    let map = all.map(&tree);
    let hold = held(&runtime, &all);
    let mut read = read(&map, &key);
    assert!(poll(&mut read).is_pending());
    drop(hold);
    assert_eq!(runtime.block_on(read).unwrap(), Some(value(&key)));
}

#[test]
fn nobody_is_lost_where_reads_fail_or_the_database_is_closed() {
    everybody_who_waits_is_told();
}
