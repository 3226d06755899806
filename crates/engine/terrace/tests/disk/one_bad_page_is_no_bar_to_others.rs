//! A page that cannot be read fails those who need what is on it, and no other call: not a batch that makes
//! room in the hot tier, not a put of another structure, not a row that would find room there, not an
//! opening.

use std::collections::BTreeSet;

use crate::common::saving::{
    rotten_saved_page_is_an_error_of_its_keys, rotten_saved_page_is_made_anew,
};
use crate::common::tiny;
use terrace::{Database, Durability, Kind, Map, MapOptions, Options, Tiers};
use terrace_sim::{SimDisk, Survival};

/// Records of the structure that is damaged.
const RECORDS: u32 = 12_000;
/// Records that lie on the page that is damaged, among others.
const BAD: std::ops::Range<u32> = 700..720;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn options() -> Options {
    tiny(1).log_segment(256 << 10).log_limit(64 << 20)
}

/// A structure with two tiers of which a cold page is damaged, with changes in the hot tier that belong to
/// that page.
fn damaged() -> (SimDisk, Database, Map) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db
        .create_map("a", Kind::Tree, MapOptions::new().tiers(Tiers::Two))
        .unwrap();
    let value = |i: u32| format!("{i:06} of the first load, {:060}", i).into_bytes();
    for i in 0..RECORDS {
        map.put(key(i), value(i)).unwrap();
    }
    // What is cold now goes out, and what was hot comes to be something else.
    for round in 0..3 {
        for i in RECORDS / 2..RECORDS {
            map.put(key(i), value(round)).unwrap();
        }
    }
    drop(map);
    db.close().unwrap();
    let mut data = disk.contents("data").unwrap();
    let mut rotten = 0;
    for i in BAD {
        let wanted = value(i);
        while let Some(at) = data.windows(wanted.len()).position(|w| w == wanted) {
            data[at] ^= 0x55;
            rotten += 1;
        }
    }
    assert!(rotten > 0);
    disk.place("data", data);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db.map("a").unwrap();
    let error = map.get(key(BAD.start)).unwrap_err();
    assert!(error.to_string().contains("page"), "{error}");
    // A put needs no cold page.
    for i in BAD {
        map.put(key(i), b"new").unwrap();
    }
    (disk, db, map)
}

#[test]
fn what_was_saved_of_a_hot_tier_is_made_anew() {
    rotten_saved_page_is_made_anew();
}

#[test]
fn a_page_of_what_was_saved_that_rots_while_closed_is_an_error_of_its_keys() {
    rotten_saved_page_is_an_error_of_its_keys();
}

/// Keys of the same structure that lie elsewhere.
fn elsewhere(i: u32) -> [u8; 4] {
    key(2000 + i.wrapping_mul(7919) % (RECORDS - 2000))
}

#[test]
fn batches_make_room_in_spite_of_it() {
    let (_, db, map) = damaged();
    for i in 0..3000 {
        let mut batch = db.batch();
        for j in 0..10 {
            batch.put(&map, elsewhere(10 * i + j), [3; 60]);
        }
        let written = db.write(batch, Durability::Buffered);
        written.unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    assert_eq!(map.get(elsewhere(29_999)).unwrap().unwrap(), [3; 60]);
    assert_eq!(map.get(key(BAD.start)).unwrap().unwrap(), b"new");
}

/// A long value goes to the cold page: who cannot read it is told so before anything is logged.
#[test]
fn a_batch_with_a_long_value_for_it_fails_and_nothing_else() {
    let (disk, db, map) = damaged();
    let mut batch = db.batch();
    batch
        .put(&map, elsewhere(1), "beside it")
        .put(&map, key(BAD.start), [6; 30_000]);
    let error = db.write(batch, Durability::Sync).unwrap_err();
    assert!(error.to_string().contains("page"), "{error}");
    map.put_with(elsewhere(2), "later", Durability::Sync)
        .unwrap();
    let found = disk.crash_keeping(Survival::All);
    drop((map, db));
    let db = Database::open_on(found.shared(), options()).unwrap();
    let map = db.map("a").unwrap();
    assert_eq!(map.get(key(BAD.start)).unwrap().unwrap(), b"new");
    assert_ne!(map.get(elsewhere(1)).unwrap().unwrap(), b"beside it");
    assert_eq!(map.get(elsewhere(2)).unwrap().unwrap(), b"later");
}

#[test]
fn puts_make_room_in_spite_of_it_and_so_does_replay() {
    let (disk, db, map) = damaged();
    for i in 0..30_000 {
        let put = map.put(elsewhere(i), [4; 60]);
        put.unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    let other = db
        .create_map("b", Kind::Tree, MapOptions::new().tiers(Tiers::Two))
        .unwrap();
    for i in 0..200 {
        let put = other.put(key(i), [5; 60]);
        put.unwrap_or_else(|e| panic!("{i} of another structure: {e}"));
    }
    let copy = disk.copy();
    let again = Database::open_on(copy.shared(), options()).unwrap();
    let map = again.map("a").unwrap();
    assert_eq!(map.get(elsewhere(29_999)).unwrap().unwrap(), [4; 60]);
    assert_eq!(
        again.map("b").unwrap().get(key(7)).unwrap().unwrap(),
        [5; 60]
    );
}

/// Rows of a table in their first pages, of which all but a few go. That leaves room there.
const LEFT: std::ops::Range<u32> = 900..905;

/// Pages of the file that `rots` chooses, with one byte changed.
fn rot(disk: &SimDisk, rots: impl Fn(&[u8]) -> bool) {
    let mut data = disk.contents("data").unwrap();
    let mut rotten = 0;
    for page in data.chunks_mut(4096).filter(|page| rots(page)) {
        page[2000] ^= 0x55;
        rotten += 1;
    }
    assert!(rotten > 0);
    disk.place("data", data);
}

fn row(i: u32) -> Vec<u8> {
    format!("{i:06} of the first load, {:060}", i).into_bytes()
}

/// A table that was closed with `rows` rows and few in the pages with [`LEFT`], in which pages rot then.
fn damaged_table(
    tiers: Tiers,
    rows: u32,
    rots: impl Fn(&[u8]) -> bool,
) -> (SimDisk, Database, Map) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db
        .create_map("a", Kind::Table, MapOptions::new().tiers(tiers))
        .unwrap();
    for i in 0..rows {
        map.put(key(i), row(i)).unwrap();
    }
    for i in (500..1500).filter(|i| !LEFT.contains(i)) {
        map.delete(key(i)).unwrap();
    }
    // So that two tiers have written all of that to the lower one.
    for i in 0..10_000 * u32::from(tiers == Tiers::Two) {
        map.put(key(1500 + i % 3000), row(i)).unwrap();
    }
    drop(map);
    db.close().unwrap();
    rot(&disk, rots);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db.map("a").unwrap();
    (disk, db, map)
}

/// New rows come in all the same, one by one or many in a batch, and the next opening is one.
fn takes_new_rows(tiers: Tiers, in_batches: bool, rows: u32, rots: impl Fn(&[u8]) -> bool) {
    let (disk, db, map) = damaged_table(tiers, rows, rots);
    let new = |i: u32| key(1_000_000 + i);
    for i in 0..3000 {
        if in_batches {
            let mut batch = db.batch();
            batch
                .put(&map, new(2 * i), [3; 60])
                .put(&map, new(2 * i + 1), [3; 60]);
            let written = db.write(batch, Durability::Buffered);
            written.unwrap_or_else(|e| panic!("batch {i}: {e}"));
        } else {
            let put = map.put(new(i), [3; 60]);
            put.unwrap_or_else(|e| panic!("{i}: {e}"));
        }
    }
    let disk = disk.copy();
    let again = Database::open_on(disk.shared(), options()).unwrap();
    assert!(again.stats().opening.replayed_operations > 0);
    assert_eq!(
        again.map("a").unwrap().get(new(2999)).unwrap().unwrap(),
        [3; 60]
    );
}

#[test]
fn rows_find_room_elsewhere_than_on_it() {
    let bad = |page: &[u8]| {
        let wanted = row(LEFT.start);
        page.windows(wanted.len()).any(|w| w == wanted)
    };
    for tiers in [Tiers::One, Tiers::Two] {
        for in_batches in [false, true] {
            takes_new_rows(tiers, in_batches, 12_000, bad);
        }
    }
    let (_, _, map) = damaged_table(Tiers::One, 12_000, bad);
    for i in 0..100 {
        map.put(key(1_000_000 + i), row(i)).unwrap();
    }
    let error = map.get(key(LEFT.start)).unwrap_err();
    assert!(error.to_string().contains("page"), "{error}");
    // Who needs it has an error, and not only at first.
    assert!(map.put(key(LEFT.start), "new").is_err());
    assert!(map.put(key(LEFT.start), "new").is_err());
}

/// A heap lists its pages in a chain of others, whose tag is 0xB8.
#[test]
fn rows_come_to_new_pages_although_a_list_of_pages_is_rotten() {
    let list = |page: &[u8]| page[16] == 0xB8;
    for in_batches in [false, true] {
        takes_new_rows(Tiers::One, in_batches, 45_000, list);
    }
}

/// A hash table finds its buckets by pages with the tag 0xB5. The more records there are, the more parts
/// the hashes are divided in, one after the other, those too whose page is rotten.
#[test]
fn a_hash_table_grows_although_a_page_of_its_directory_is_rotten() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db
        .create_map("a", Kind::Hash, MapOptions::new().tiers(Tiers::One))
        .unwrap();
    for i in 0..24_000 {
        map.put(key(i), row(i)).unwrap();
    }
    drop(map);
    db.close().unwrap();
    // All versions of one of them: the number of a page is in front.
    let is_one = |page: &[u8]| page[16] == 0xB5 && page[17] == 0;
    let data = disk.contents("data").unwrap();
    let pages = data.chunks(4096).filter(|page| is_one(page));
    let numbers: BTreeSet<&[u8]> = pages.map(|page| &page[8..13]).collect();
    assert!(numbers.len() > 2, "{} pages of a directory", numbers.len());
    let number = numbers.first().unwrap();
    rot(&disk, |page| is_one(page) && page[8..13] == **number);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let map = db.map("a").unwrap();
    let mut put = Vec::new();
    for i in 24_000..48_000 {
        // Whose bucket the rotten page names is lost, for writers at least: a lookup may know a bucket that
        // another page names as well.
        if map.delete(key(i)).is_err() {
            continue;
        }
        let written = if i % 2 == 0 {
            map.put(key(i), row(i))
        } else {
            let mut batch = db.batch();
            batch.put(&map, key(i), row(i));
            db.write(batch, Durability::Buffered)
        };
        written.unwrap_or_else(|e| panic!("{i}: {e}"));
        put.push(i);
    }
    assert!((5000..23_500).contains(&put.len()), "{} records", put.len());
    let again = Database::open_on(disk.copy().shared(), options()).unwrap();
    assert!(again.stats().opening.replayed_operations > 0);
    for map in [map, again.map("a").unwrap()] {
        for &i in &put {
            assert_eq!(map.get(key(i)).unwrap().unwrap(), row(i), "{i}");
        }
    }
}
