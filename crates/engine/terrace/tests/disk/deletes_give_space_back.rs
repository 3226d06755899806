//! Records that were deleted take neither memory nor disk for long, also where everything fits into
//! memory and nothing would ever have to make room.

use crate::common::{SHAPES, Shape, create, named};
use terrace::{CompactOptions, Database, Kind, LsmOptions, Map, MapOptions, Options, Rate, Tiers};
use terrace_sim::SimDisk;

const RECORDS: u32 = 20_000;

fn options() -> Options {
    Options::new()
        .memory(16 << 20)
        .page_size(4096)
        .log_limit(1 << 20)
        .foreground(true)
        .seed(1)
}

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

/// A structure that fits into memory.
fn filled(disk: &SimDisk, shape: Shape, options: Options) -> (Database, Map) {
    let db = Database::open_on(disk.shared(), options).unwrap();
    let map = create(&db, "map", shape, MapOptions::new()).unwrap();
    for i in 0..RECORDS {
        map.put(key(i), [7; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    (db, map)
}

#[test]
fn what_is_deleted_gives_its_pages_back_though_all_fits_into_memory() {
    for shape in SHAPES {
        let name = named(shape);
        let disk = SimDisk::new(1);
        let (db, map) = filled(&disk, shape, options());
        let before = db.stats().pages.live;
        for i in 0..RECORDS {
            map.delete(key(i)).unwrap();
        }
        for _ in 0..8 {
            db.checkpoint().unwrap();
        }
        let after = db.stats().pages.live;
        assert!(after * 10 < before, "{name}: {before} pages, then {after}");
        db.verify().unwrap().into_result().unwrap();
        assert_eq!(map.iter().unwrap().count(), 0);
    }
}

#[test]
fn a_range_that_goes_at_once_gives_its_pages_back() {
    for shape in SHAPES {
        if !matches!(shape.0, Kind::Tree | Kind::Lsm) {
            continue;
        }
        let name = named(shape);
        let disk = SimDisk::new(1);
        let (db, map) = filled(&disk, shape, options());
        for i in (0..RECORDS).step_by(500) {
            map.put(key(i), [7; 9000]).unwrap();
        }
        let before = db.stats().pages.live;
        let tree = map.as_tree().unwrap();
        tree.delete_range([0x08]..[0xF8]).unwrap();
        for _ in 0..8 {
            db.checkpoint().unwrap();
        }
        let after = db.stats().pages.live;
        assert!(after * 8 < before, "{name}: {before} pages, then {after}");
        db.verify().unwrap().into_result().unwrap();
        let left = (0..RECORDS).filter(|i| !(8..0xF8).contains(&key(*i)[0]));
        assert_eq!(map.iter().unwrap().count(), left.count(), "{name}");
    }
}

#[test]
fn what_is_left_among_deleted_records_stays_as_it_was() {
    for shape in SHAPES {
        let name = named(shape);
        let disk = SimDisk::new(2);
        let (db, map) = filled(&disk, shape, options());
        for i in (0..RECORDS).filter(|i| i % 8 > 0) {
            map.delete(key(i)).unwrap();
        }
        // Some come again, before and after their tombstones have gone.
        let again = |from: u32| (from..RECORDS).step_by(80);
        again(1).for_each(|i| map.put(key(i), [9; 50]).unwrap());
        db.checkpoint().unwrap();
        again(2).for_each(|i| map.put(key(i), [9; 50]).unwrap());
        // As a process that dies leaves it.
        let disk = disk.copy();
        let db = Database::open_on(disk.shared(), options()).unwrap();
        let map = db.map("map").unwrap();
        for i in 0..RECORDS {
            let expected = match i {
                i if i % 8 == 0 => Some(vec![7; 100]),
                i if i % 80 == 1 || i % 80 == 2 => Some(vec![9; 50]),
                _ => None,
            };
            assert_eq!(map.get(key(i)).unwrap(), expected, "{name}: {i}");
        }
        db.verify().unwrap().into_result().unwrap();
    }
}

#[test]
fn large_values_that_are_deleted_give_their_pages_back_among_many_records() {
    for shape in SHAPES {
        let name = named(shape);
        let disk = SimDisk::new(3);
        let (db, map) = filled(&disk, shape, options().memory(4 << 20));
        let long = |i: u32| [b"long".as_slice(), &key(i)].concat();
        for i in 0..1000 {
            map.put(long(i), vec![5; 20_000]).unwrap();
        }
        // They leave the hot tier.
        for i in 0..3 * RECORDS {
            map.put(key(RECORDS + i), [7; 100]).unwrap();
        }
        let before = db.stats().pages.live;
        (0..1000).for_each(|i| map.delete(long(i)).unwrap());
        for _ in 0..8 {
            db.checkpoint().unwrap();
        }
        let after = db.stats().pages.live;
        assert!(
            after + 3000 < before,
            "{name}: {before} pages, then {after}"
        );
    }
}

/// What gives back the pages of few large values, with this done in between.
fn few_give_their_pages_back(shape: Shape, is_reopened: bool, by: fn(&Database)) {
    let disk = SimDisk::new(5);
    let options = options().memory(4 << 20);
    let (db, map) = filled(&disk, shape, options.clone());
    let long = |i: u32| [b"long".as_slice(), &key(i)].concat();
    const FEW: u32 = 10;
    (0..FEW).for_each(|i| map.put(long(i), vec![5; 400_000]).unwrap());
    for i in 0..2 * RECORDS {
        map.put(key(RECORDS + i), [7; 100]).unwrap();
    }
    by(&db);
    let before = db.stats().pages.live;
    (0..FEW).for_each(|i| map.delete(long(i)).unwrap());
    drop(map);
    let db = match is_reopened {
        true => {
            db.close().unwrap();
            Database::open_on(disk.shared(), options).unwrap()
        }
        false => db,
    };
    by(&db);
    let after = db.stats().pages.live;
    assert!(
        after + 900 < before,
        "{}, reopened {is_reopened}: {before} pages, then {after}",
        named(shape)
    );
    let map = db.map("map").unwrap();
    assert!((0..FEW).all(|i| map.get(long(i)).unwrap().is_none()));
    db.verify().unwrap().into_result().unwrap();
}

/// However few they are, and whoever counted them.
#[test]
fn few_large_values_that_are_deleted_give_their_pages_back_and_those_of_before_an_opening() {
    for shape in SHAPES {
        for is_reopened in [false, true] {
            few_give_their_pages_back(shape, is_reopened, |db| {
                db.compact(CompactOptions::new().rate(Rate::Fast)).unwrap();
            });
            few_give_their_pages_back(shape, is_reopened, |db| {
                for _ in 0..2 {
                    db.checkpoint().unwrap();
                }
            });
        }
    }
}

/// No reader that looks for the first or the last record reads page after page of what is not there any more, from the
/// moment on at which the last delete has returned, without any thread that does it.
#[test]
fn what_was_deleted_from_an_lsm_tree_is_not_walked_over() {
    const MANY: u32 = 60_000;
    for tiers in [Tiers::One, Tiers::Two] {
        let disk = SimDisk::new(6);
        let db = Database::open_on(disk.shared(), options().memory(4 << 20)).unwrap();
        let made = LsmOptions::new().tiers(tiers);
        let map = db.lsm_with("map", made).unwrap();
        (0..MANY).for_each(|i| map.put(key(i), [7; 200]).unwrap());
        // In another order.
        let order = |i: u32| key(i * 7919 % MANY);
        (0..MANY).for_each(|i| map.delete(order(i)).unwrap());
        let before = db.stats().pages.reads;
        assert_eq!(map.first().unwrap(), None);
        assert_eq!(map.last().unwrap(), None);
        let reads = db.stats().pages.reads - before;
        assert!(reads < 200, "{tiers:?}: {reads} pages are read");
        let live = db.stats().pages.live;
        assert!(live < 500, "{tiers:?}: {live} pages");
    }
}

/// The order of keys is that of numbers here, so that the leaf that rots is in front of nearly all.
#[test]
fn a_leaf_that_cannot_be_read_is_no_bar_to_those_behind_it() {
    let in_order = |i: u32| i.to_be_bytes();
    let first = [0xA7; 100];
    let disk = SimDisk::new(4);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let in_file = MapOptions::new().hot_in_memory(false);
    let tree = create(&db, "map", (Kind::Tree, Tiers::Two, false), in_file).unwrap();
    for i in 0..RECORDS {
        let value = if i < 5 { first } else { [7; 100] };
        tree.put(in_order(i), value).unwrap();
    }
    drop(tree);
    db.close().unwrap();
    let mut data = disk.contents("data").unwrap();
    let mut rotten = 0;
    for page in data.chunks_mut(4096) {
        if page.windows(100).any(|bytes| bytes == first) {
            page[3000] ^= 0x55;
            rotten += 1;
        }
    }
    assert!(rotten > 0);
    disk.place("data", data);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let tree = db.tree("map").unwrap();
    tree.get(in_order(0)).unwrap_err();
    let pages = || db.stats().pages;
    let cold = || pages().live - pages().hot;
    let (before, cold_before) = (pages().live, cold());
    for i in RECORDS / 5..RECORDS {
        tree.delete(in_order(i)).unwrap();
    }
    for _ in 0..8 {
        db.checkpoint().unwrap();
    }
    let (after, cold_after) = (pages().live, cold());
    // Half of them; how full hot leaves are is a little by chance.
    assert!(after * 5 < before * 3, "{before} pages, then {after}");
    assert!(
        cold_after * 4 < cold_before,
        "{cold_before} cold pages, then {cold_after}"
    );
}
