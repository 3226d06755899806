//! The order of a write: first the gate, then the record locks in ascending order, then the log, then the
//! pages. Whoever waits at the gate holds nothing and has logged nothing, so a checkpoint's cut has either
//! both the record in the log and the change of the pages before it, or both behind it; and two batches
//! never wait for each other. Each step is shown to matter by a fault that takes it out of its order.
//!
//! A thread says where it has come to wait, so nothing here depends on timing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use crate::common::{SHAPES, Shape, create, named, tiny};
use terrace::fault::{Fault, Point, hook, lock_of, locks, plant, store};
use terrace::{Database, Durability, Map, MapOptions};
use terrace_sim::{SimDisk, Survival};

/// How a change is written.
#[derive(Clone, Copy, Debug)]
enum Way {
    Put,
    Batch,
}

fn write(map: &Map, way: Way) {
    let db = map.database();
    match way {
        Way::Put => map.put_with("k", "new", Durability::Sync).unwrap(),
        Way::Batch => {
            let mut batch = db.batch();
            batch.put(map, "k", "new").put(map, "l", "new");
            db.write(batch, Durability::Sync).unwrap();
        }
    }
}

/// A thread writes while the gate is closed for the cut of a checkpoint. What is acknowledged is there
/// after a power cut, whether it is in the cut or in the log behind it; and who waits holds nothing.
fn a_write_at_the_closed_gate(shape: Shape, way: Way) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    // Where the hot tier lies in memory alone replay begins before the cut, and has what is in the log twice.
    let in_file = MapOptions::new().hot_in_memory(false);
    let map = create(&db, "a", shape, in_file).unwrap();
    map.put("k", "old").unwrap();
    let name = named(shape);
    let at_gate = std::thread::scope(|scope| {
        let ((found, is_found), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let checkpoint = scope.spawn(|| {
            // From here on it closes the gate for the cut alone.
            hook(Some(Box::new(move |point| {
                if point == Point::UnloggedFound {
                    found.send(()).unwrap();
                    let _ = goes_on.recv();
                }
            })));
            let made = db.checkpoint().map(|_| ());
            hook(None);
            made
        });
        is_found.recv().unwrap();
        // As long as this thread is inside, the checkpoint waits with the gate closed.
        let inside = store(&db).enter().unwrap();
        drop(go_on);
        while store(&db).try_enter().is_some() {
            std::thread::yield_now();
        }
        let (waits, has_come) = mpsc::channel();
        let writer = scope.spawn(|| {
            terrace_pages::hook(Some(Box::new(move |point| {
                if point == terrace_pages::Point::AtGate {
                    let _ = waits.send(());
                }
            })));
            write(&map, way);
            terrace_pages::hook(None);
        });
        has_come.recv().unwrap();
        let held = locks(&db).read(lock_of(&map, b"k")).is_none();
        drop(inside);
        writer.join().unwrap();
        checkpoint.join().unwrap().unwrap();
        held
    });
    assert!(!at_gate, "{name}, {way:?}: a record is locked at the gate");
    let found = disk.crash_keeping(Survival::Nothing);
    drop((map, db));
    let db = Database::open_on(found.shared(), tiny(2)).unwrap();
    let value = db.map("a").unwrap().get("k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"new"[..]), "{name}, {way:?}");
}

/// A batch waits for the lower of two locks and must not have the higher one yet.
fn a_batch_whose_first_lock_is_held(shape: Shape) {
    let disk = SimDisk::new(2);
    let db = Database::open_on(disk.shared(), tiny(3)).unwrap();
    let map = create(&db, "a", shape, MapOptions::new()).unwrap();
    let (mut low, mut high) = ("k", "l");
    if lock_of(&map, low.as_bytes()) > lock_of(&map, high.as_bytes()) {
        std::mem::swap(&mut low, &mut high);
    }
    let slots = [low, high].map(|key| lock_of(&map, key.as_bytes()));
    assert!(slots[0] < slots[1]);
    let has_high = std::thread::scope(|scope| {
        let held = locks(&db).lock(slots[0]);
        let (waits, has_come) = mpsc::channel();
        let (db, map) = (&db, &map);
        let writer = scope.spawn(move || {
            terrace_tier::fault::hook(Some(Box::new(move |point| {
                if point == terrace_tier::fault::Point::Waiting {
                    let _ = waits.send(());
                }
            })));
            let mut batch = db.batch();
            batch.put(map, high, "new").put(map, low, "new");
            db.write(batch, Durability::Buffered).unwrap();
            terrace_tier::fault::hook(None);
        });
        has_come.recv().unwrap();
        let has_high = locks(db).read(slots[1]).is_none();
        held.release_unchanged();
        writer.join().unwrap();
        has_high
    });
    assert!(!has_high, "a lock was taken before a lower one");
}

fn all() {
    // Tables with indexes have a way of their own, which ends in a batch.
    for shape in SHAPES {
        for way in [Way::Put, Way::Batch] {
            a_write_at_the_closed_gate(shape, way);
        }
        a_batch_whose_first_lock_is_held(shape);
    }
}

fn caught_by(fault: Fault) -> Vec<fn()> {
    match fault {
        Fault::AppendedBeforeGate => vec![
            || a_write_at_the_closed_gate(SHAPES[0], Way::Put),
            || a_write_at_the_closed_gate(SHAPES[1], Way::Put),
            || a_write_at_the_closed_gate(SHAPES[1], Way::Batch),
        ],
        Fault::LockedBeforeGate => vec![|| a_write_at_the_closed_gate(SHAPES[1], Way::Batch)],
        Fault::LocksInAnyOrder => vec![|| a_batch_whose_first_lock_is_held(SHAPES[1])],
        other => panic!("{other:?} is not of the order of a write"),
    }
}

#[test]
fn the_order_of_a_write_is_kept() {
    if !terrace_sim::alone!() {
        return;
    }
    all();
    let of_panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for fault in Fault::OF_THE_ORDER {
        for (i, scenario) in caught_by(fault).into_iter().enumerate() {
            plant(Some(fault));
            let noticed = catch_unwind(AssertUnwindSafe(scenario)).is_err();
            plant(None);
            if !noticed {
                missed.push((fault, i));
            }
        }
    }
    std::panic::set_hook(of_panics);
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
