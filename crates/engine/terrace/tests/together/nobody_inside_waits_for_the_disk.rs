//! No thread calls the disk while inside the gate: a cut waits for those inside, and all other threads for the
//! cut. There are four exceptions, which are left out here. Batches bring in beforehand what they need, and
//! read under their write guard what has left memory again; a record that is longer than the log's buffer is
//! written while it is appended; a large value on its way down, which must not have two owners, waits
//! for its hot page if that has left memory; and so does the smallest step of an LSM-tree for frames and pages
//! of entries, where threads fight for a handful of frames.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{SHAPES, named, tiny};
use terrace::{Database, Disk, Durability, Kind, Map, MapOptions, Options};
use terrace_sim::{HookedDisk, Rng, SimDisk};

/// What was seen of calls of the disk.
#[derive(Default)]
struct Seen {
    calls: AtomicU64,
    inside: AtomicBool,
    /// Where the first call from inside came from.
    way: Mutex<Option<String>>,
}

/// With segments in which the longest record here is a small one, so that the log's buffer holds it.
fn options() -> Options {
    tiny(1).log_segment(256 << 10)
}

/// A database that notes calls from inside the gate.
fn watched(options: Options) -> (Database, Arc<Seen>) {
    watched_on(SimDisk::new(1).shared(), options)
}

fn watched_on(disk: Arc<dyn Disk>, options: Options) -> (Database, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let noted = seen.clone();
    let disk = HookedDisk::new(disk, move |_| {
        noted.calls.fetch_add(1, Ordering::Relaxed);
        if terrace_pages::is_inside() && !noted.inside.swap(true, Ordering::Relaxed) {
            let way = std::backtrace::Backtrace::force_capture();
            *noted.way.lock().unwrap() = Some(way.to_string());
        }
    });
    let db = Database::open_on(Arc::new(disk), options).unwrap();
    (db, seen)
}

/// Writes, reads, scans and deletes in a memory too small for it.
fn work(map: &Map, seed: u64, steps: u64) {
    let mut rng = Rng::new(seed);
    for step in 0..steps {
        let key = (rng.below(4000) as u32).to_be_bytes();
        match rng.below(20) {
            0..8 => map.put(key, rng.bytes(300)).unwrap(),
            8..10 => map.put_with(key, "durable", Durability::Sync).unwrap(),
            10..12 => map.delete(key).unwrap(),
            12 => drop(map.remove(key).unwrap()),
            13 if step % 50 == 0 => assert!(map.iter().unwrap().count() <= 4000),
            _ => drop(map.get(key).unwrap()),
        }
    }
}

/// How often at most another map passes through the frames.
const FLOODS: u32 = 40;

/// From here on what goes down finds its pages gone: between the look at them and the write another map passes
/// through the few frames, read by a thread that is not inside. Until a call from inside was seen.
fn flood(db: &Database, seen: &Arc<Seen>) {
    use terrace_tier::fault::{Point, hook};
    let options = MapOptions::new().tiers(terrace::Tiers::One);
    let other = db.create_map("other", Kind::Tree, options).unwrap();
    for n in 0..8000u32 {
        other.put(n.to_be_bytes(), [7; 300]).unwrap();
    }
    db.checkpoint().unwrap();
    let (seen, mut runs, mut floods) = (seen.clone(), 0, 0);
    hook(Some(Box::new(move |point| {
        if point != Point::Demoting || seen.inside.load(Ordering::Relaxed) {
            return;
        }
        runs += 1;
        if runs % 8 == 1 && floods < FLOODS {
            floods += 1;
            let count = || other.iter().unwrap().count();
            let counted = std::thread::scope(|scope| scope.spawn(count).join());
            assert_eq!(counted.unwrap(), 8000);
        }
    })));
}

/// Whether there were calls from inside of the work of one thread, which does everything itself.
fn alone(shape: crate::common::Shape, is_flooded: bool) -> bool {
    let (db, seen) = watched(options());
    if is_flooded {
        flood(&db, &seen);
    }
    // Without indexes: these make a batch of each write.
    let options = MapOptions::new().tiers(shape.1);
    let map = db.create_map("map", shape.0, options).unwrap();
    for round in 0..4 {
        work(&map, round, 2500);
        db.checkpoint().unwrap();
        if seen.inside.load(Ordering::Relaxed) {
            break;
        }
    }
    terrace_tier::fault::hook(None);
    assert!(seen.calls.load(Ordering::Relaxed) > 1000);
    if let Some(way) = seen.way.lock().unwrap().take() {
        eprintln!("a call from inside: {way}");
    }
    seen.inside.load(Ordering::Relaxed)
}

#[test]
fn nobody_calls_the_disk_from_inside_the_gate() {
    for shape in SHAPES {
        assert!(!alone(shape, false), "{}", named(shape));
    }
}

#[test]
fn nor_does_any_of_many_threads() {
    let (db, seen) = watched(options().foreground(false));
    let shapes = SHAPES.into_iter().filter(|shape| shape.0 != Kind::Lsm);
    let maps: Vec<_> = shapes
        .map(|shape| {
            let options = MapOptions::new().tiers(shape.1).hot_heap(shape.2);
            db.create_map(&named(shape), shape.0, options).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for (seed, map) in (1..).zip(&maps) {
            scope.spawn(move || work(map, seed, 2500));
        }
    });
    db.checkpoint().unwrap();
    assert!(seen.calls.load(Ordering::Relaxed) > 1000);
    let way = seen.way.lock().unwrap().take();
    assert!(way.is_none(), "{}", way.unwrap_or_default());
}

/// A group of a loader is a batch, but it knows beforehand which pages it needs, in both tiers.
#[test]
fn nor_does_a_group_of_a_loader_whose_pages_fit_the_memory() {
    let keys = || (0..20_000u32).map(|n| n.wrapping_mul(0x9E37_79B9).to_be_bytes());
    let load = |map: &Map, byte: u8| {
        let mut loader = map.loader().unwrap();
        keys().for_each(|key| loader.put(key, [byte; 100]).unwrap());
        loader.finish().unwrap()
    };
    for (shape, hot) in SHAPES.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let disk = SimDisk::new(1);
        let options = || options().memory(8 << 20).log_limit(32 << 20);
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map_options = MapOptions::new().tiers(shape.1);
        let map = db.create_map("map", shape.0, map_options).unwrap();
        load(&map, 1);
        if hot {
            keys().for_each(|key| map.put(key, [1; 100]).unwrap());
        }
        drop(map);
        db.close().unwrap();
        // All pages are on the disk, and each group changes rows that are there.
        let (db, seen) = watched_on(disk.shared(), options());
        let map = db.map("map").unwrap();
        seen.inside.store(false, Ordering::Relaxed);
        assert_eq!(load(&map, 2), 20_000);
        assert!(keys().all(|key| map.get(key).unwrap().unwrap() == [2; 100]));
        let inside = seen.inside.load(Ordering::Relaxed);
        assert!(!inside, "{}, hot: {hot}", named(shape));
        assert!(seen.calls.load(Ordering::Relaxed) > 100);
    }
}

/// A demotion that waits for a page where it stands is noticed, and one that lets go first is none. Not of LSM-trees:
/// what goes down comes to their top, whose pages stay in memory.
#[test]
fn a_demotion_that_reads_from_inside_is_noticed() {
    use terrace_tier::fault::{Fault, plant};
    let two = |shape: &crate::common::Shape| shape.1 == terrace::Tiers::Two && shape.0 != Kind::Lsm;
    for shape in SHAPES.into_iter().filter(two) {
        assert!(!alone(shape, true), "{}: no fault", named(shape));
        plant(Some(Fault::WaitUnderLock));
        let noticed = alone(shape, true);
        plant(None);
        assert!(noticed, "{}", named(shape));
    }
}
