//! Hot tiers lie in memory alone: what is dirty in them is saved before a checkpoint, while others write.

use std::time::Duration;

use crate::common::saving::{InMemory, bounded_rest, dirty, of_one_instant, saving};
use crate::common::{SHAPES, create, factor, seeds, tiny};
use terrace::fault::{gentle_checkpoint, passes};
use terrace::{Database, Kind, MapOptions, Tiers};
use terrace_sim::{SimDisk, Survival};
use terrace_tier::fault::{Point, hook};

#[test]
fn whatever_is_written_while_hot_tiers_are_saved_is_there_afterwards() {
    for seed in seeds(4) {
        saving(seed);
    }
}

/// No page of a hot tier is ever written, whatever is done.
#[test]
fn pages_of_hot_tiers_are_not_written() {
    let _in_memory = InMemory::by_default();
    // One that is a heap has its pages in the file.
    for shape in SHAPES.into_iter().filter(|shape| !shape.2) {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let map = create(&db, "m", shape, MapOptions::new()).unwrap();
        for round in 0..4u32 {
            for n in 0..3000u32 {
                let key = n.wrapping_mul(2_654_435_761) % 3000;
                match n % 3 {
                    0 => map.put((key % 300).to_be_bytes(), [7; 60]).unwrap(),
                    1 => map.put(key.to_be_bytes(), [round as u8; 60]).unwrap(),
                    _ => drop(map.get((key % 300).to_be_bytes()).unwrap()),
                }
            }
            db.checkpoint().unwrap();
        }
        let stats = db.stats();
        assert!(stats.pages.hot > 0 || shape.1 == Tiers::One, "{shape:?}");
        assert_eq!(stats.checkpoints.hot_pages, 0, "{shape:?}");
    }
}

#[test]
fn a_snapshot_is_of_one_instant_while_threads_write() {
    of_one_instant(10 * factor());
}

/// How often a gentle pass rests beside writers that put `beside` records for each leaf that it saves.
fn rests(limit: u64, beside: u32) -> u64 {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let options = tiny(1).memory(8 << 20).log_limit(limit);
    let (db, map) = dirty(&disk, options, 20_000);
    let mut i = 0u32;
    hook(Some(Box::new(move |point| {
        if point == Point::Saved {
            for _ in 0..beside {
                map.put((i % 20_000).to_be_bytes(), [2; 60]).unwrap();
                i = i.wrapping_add(7919);
            }
        }
    })));
    let made = gentle_checkpoint(&db);
    hook(None);
    made.unwrap();
    passes(&db).0
}

#[test]
fn a_gentle_pass_goes_faster_as_the_log_grows() {
    let calm = rests(2500 << 10, 0);
    assert!(calm > 20, "{calm}");
    // It rests until its part of the limit is used up.
    let busy = rests(2500 << 10, 100);
    assert!(busy > 0 && busy * 4 < calm * 3, "{busy} of {calm}");
    // Where each leaf comes with an eighth of what a piece has time for it does not rest at all.
    assert_eq!(rests(2500 << 10, 200), 0);
    // The log is too long when it begins.
    let pressed = rests(1 << 20, 100);
    assert!(pressed * 8 < calm, "{pressed} of {calm}");
}

/// What is replayed after a crash at any time.
#[test]
fn what_is_replayed_stays_within_the_limit() {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let (limit, segment) = (16 << 20, 1 << 20);
    let options = tiny(1).memory(8 << 20).foreground(false);
    let options = options.log_limit(limit).log_segment(segment);
    let (db, map) = dirty(&disk, options, 20_000);
    let (mut i, mut most, mut written) = (0u32, 0, 0);
    while written < 4 * limit {
        for _ in 0..50 {
            map.put((i % 20_000).to_be_bytes(), [2; 60]).unwrap();
            i = i.wrapping_add(7919);
        }
        written += 50 * 70;
        // So that the thread in the background gets on, however few cores there are.
        std::thread::sleep(Duration::from_micros(600));
        most = most.max(db.stats().log.bytes_since_checkpoint);
    }
    assert!(db.stats().checkpoints.completed > 5);
    assert!(most <= limit + segment, "{most} of {limit}");
}

#[test]
fn a_snapshot_keeps_calls_waiting_for_a_bounded_rest() {
    bounded_rest();
}

/// Replay begins before the cut for what is in memory alone. What the image has as it was at the cut is not changed once
/// more: that would take slots.
#[test]
fn what_the_image_has_is_not_replayed() {
    let _in_memory = InMemory::by_default();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let hot = db.tree("hot").unwrap();
    let plain = MapOptions::new().tiers(Tiers::One);
    let one = db.create_map("one", Kind::Tree, plain).unwrap();
    let in_file = MapOptions::new().hot_in_memory(false);
    let two = db.create_map("two", Kind::Tree, in_file).unwrap();
    hot.put("a", "1").unwrap();
    db.checkpoint().unwrap();
    hot.put("b", "2").unwrap();
    for map in [&one, &two] {
        (0..500u32).for_each(|i| map.put(i.to_be_bytes(), "before").unwrap());
        let tree = map.as_tree().unwrap();
        tree.delete_range(10u32.to_be_bytes()..20u32.to_be_bytes())
            .unwrap();
    }
    gentle_checkpoint(&db).unwrap();
    for map in [&one, &two] {
        (0..3u32).for_each(|i| map.put(i.to_be_bytes(), "behind").unwrap());
    }
    db.sync().unwrap();
    let found = disk.crash_keeping(Survival::All);
    drop((hot, one, two, db));
    let db = Database::open_on(found.shared(), tiny(1)).unwrap();
    assert!(db.stats().opening.replayed_records > 1000);
    let writes: Vec<u64> = db.stats().structures.iter().map(|of| of.writes).collect();
    assert_eq!(writes[1..], [3, 3]);
    assert_eq!(db.tree("hot").unwrap().get("b").unwrap().unwrap(), b"2");
    for name in ["one", "two"] {
        let map = db.map(name).unwrap();
        assert_eq!(map.iter().unwrap().count(), 490);
        let behind = |i: u32| map.get(i.to_be_bytes()).unwrap().unwrap() == b"behind";
        assert!(behind(2) && !behind(3), "{name}");
    }
}
