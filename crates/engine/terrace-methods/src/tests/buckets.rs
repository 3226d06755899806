//! What is the hash table's own: overflow pages, growth of the directory, readers during a split.

use std::cell::RefCell;
use std::rc::Rc;

use terrace_access::conformance::{
    Check, Effort, Failure, Fixture, KeyKind, Plain, Random, Subject, behaves_like_a_map,
    edits_keep_their_promises, large_values_are_kept, position, settled, sweeps_keep_every_record,
    threads_agree, windows_tile,
};
use terrace_access::{
    AccessMethod, Edge, Flags, NoRoom, Ordered, Plan, Retry, Sampled, Sweep, Touch, Value, Window,
};
use terrace_base::PageId;
use terrace_pages::Class;

use super::faults::Planted;
use super::fixture::{crowded_tables, tables};
use crate::HashTable;
use crate::fault::{Fault, Point, hook, plant};

pub(super) type Table = Subject<HashTable>;

/// Where a bucket's page has its bytes of garbage, and its next overflow page.
const GARBAGE: usize = 22;
const NEXT: usize = 48;

fn put(table: &Table, key: &[u8], value: &[u8]) {
    edit(table, key, Plan::Put(Value::Inline(value), Flags::NONE));
}

fn edit(table: &Table, key: &[u8], plan: Plan<'_>) {
    settled(&table.store, || {
        let door = table.store.enter()?;
        table
            .method
            .try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    })
    .unwrap();
}

pub(super) fn get(table: &Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = settled(&table.store, || {
        table.method.try_get(key, Touch::No, &mut value)
    });
    found.unwrap().map(|_| value)
}

/// Records, and whether the pages are all those that exist.
pub(super) fn census(table: &Table) -> (usize, Result<(), String>) {
    let (mut records, mut pages) = (0, Vec::new());
    let checked = table.method.verify(
        &mut |_, _, _| {
            records += 1;
            Ok(())
        },
        &mut |page| {
            pages.push(page);
            Ok(())
        },
    );
    let live = table.store.live_pages();
    let all = match checked {
        Err(e) => Err(e.to_string()),
        Ok(()) if pages.len() as u64 != live => Err(format!(
            "{live} pages exist, and the table has {}",
            pages.len()
        )),
        Ok(()) => Ok(()),
    };
    (records, all)
}

fn passed(what: &str, check: Check) {
    if let Err(Failure(why)) = check {
        panic!("{what}: {why}");
    }
}

#[test]
fn crowded_tables_conform() {
    let effort = Effort {
        operations: 1500,
        records: 800,
        page_sizes: &[4096],
        seed: 1,
    };
    for tier in [Class::Cold, Class::Hot] {
        let fixture = crowded_tables(tier);
        passed("edits", edits_keep_their_promises(&fixture, 4096));
        passed("large values", large_values_are_kept(&fixture, 4096));
        passed("windows", windows_tile(&fixture, 4096, effort));
        passed("sweeps", sweeps_keep_every_record(&fixture, 4096, effort));
        for kind in [KeyKind::Random, KeyKind::Long, KeyKind::Tiny] {
            let map = || Plain::create(&fixture, 4096, 900);
            passed("a map", behaves_like_a_map(&map, kind, effort));
        }
        passed("threads", threads_agree(&fixture, 4096, effort));
    }
}

/// Fills a few buckets to overflowing and takes nearly everything out again.
fn overflow_and_back() -> Result<(), String> {
    let table = crowded_tables(Class::Cold).create(4096, 600).unwrap();
    let key = |i: usize| KeyKind::Random.key(i, 0);
    for i in 0..900 {
        put(&table, &key(i), &[i as u8; 60]);
    }
    let (full, sound) = census(&table);
    sound?;
    let pages = table.store.live_pages();
    assert!(full == 900 && pages > 15, "{pages} pages");
    for i in 0..890 {
        edit(&table, &key(i), Plan::Erase);
    }
    let (left, sound) = census(&table);
    sound?;
    let fewer = table.store.live_pages();
    assert!(left == 10 && fewer < 5, "{fewer} pages are left of {pages}");
    Ok(())
}

/// Packs a bucket that has an overflow page still, but no more than a page of records.
fn pack_an_overflow_page_away() -> Result<(), String> {
    let table = crowded_tables(Class::Cold).create(4096, 600).unwrap();
    let hash = |i: usize| position(&table, &KeyKind::Random.key(i, 0)).unwrap()[0];
    let of = |top: u8| (0..).filter(move |&i| hash(i) == top);
    let (left, right): (Vec<_>, Vec<_>) = (of(0).take(30).collect(), of(0x20).take(58).collect());
    for &i in left.iter().chain(&right) {
        put(&table, &KeyKind::Random.key(i, 0), &[1; 60]);
    }
    assert_eq!(table.store.live_pages(), 4, "root, two buckets, overflow");
    for &i in left[1..].iter().chain(&right[50..]) {
        edit(&table, &KeyKind::Random.key(i, 0), Plan::Erase);
    }
    assert_eq!(table.store.live_pages(), 4);
    let freed = settled(&table.store, || {
        let door = table.store.enter()?;
        table.method.try_pack(&door, &[0x20], 0.95)
    });
    assert!(freed.unwrap());
    let (records, sound) = census(&table);
    assert_eq!(records, 51);
    sound
}

#[test]
fn overflow_pages_come_and_go() {
    overflow_and_back().unwrap();
    pack_an_overflow_page_away().unwrap();
    plant(Some(Fault::ForgottenOverflow));
    let planted = Planted;
    let found = pack_an_overflow_page_away();
    drop(planted);
    assert!(found.is_err(), "a forgotten overflow page was not found");
}

/// Whether a reader finds a record whose bucket is split while it reads.
fn read_during_a_split() -> bool {
    let table = Rc::new(tables(Class::Hot).create(4096, 600).unwrap());
    let key = |i: usize| KeyKind::Random.key(i, 0);
    put(&table, &key(0), b"here");
    // The records of a table of one bucket, so that every insert is to that of the key.
    let mut next = 1;
    for i in 1..12 {
        put(&table, &key(i), &[7; 200]);
        next = i + 1;
    }
    let before = settled(&table.store, || table.method.try_size()).unwrap().0;
    let splits = Rc::new(RefCell::new(0));
    let (inside, seen) = (table.clone(), splits.clone());
    hook(Some(Box::new(move |point| {
        if point == Point::Reading && *seen.borrow() < 3 {
            *seen.borrow_mut() += 1;
            for i in next..next + 40 {
                put(&inside, &key(i), &[8; 200]);
            }
            next += 40;
        }
    })));
    let found = (0..12).all(|i| get(&table, &key(i)).is_some());
    hook(None);
    let after = settled(&table.store, || table.method.try_size()).unwrap().0;
    let splits = *splits.borrow();
    assert!(
        after > before,
        "{before} buckets became {after} in {splits} rounds"
    );
    found
}

#[test]
fn a_reader_does_not_miss_a_record_whose_bucket_is_split() {
    assert!(read_during_a_split());
    plant(Some(Fault::UnvalidatedBucket));
    let planted = Planted;
    let found = read_during_a_split();
    drop(planted);
    assert!(!found, "reading without validation was not found out");
}

/// Different keys whose hashes begin with these six bits.
fn keys_of(table: &Table, grain: u8) -> impl Iterator<Item = Vec<u8>> {
    let keys = (0..).map(|i| KeyKind::Random.key(i, 0));
    keys.filter(move |key| position(table, key).unwrap()[0] >> 2 == grain)
}

#[test]
fn grains_may_be_united_while_two_buckets_are_divided_in_three() {
    let table = Rc::new(tables(Class::Hot).create(4096, 600).unwrap());
    settled(&table.store, || {
        table.method.make_first(&table.store.enter()?)?;
        table.method.grow(&table.store.enter()?, 64)
    })
    .unwrap();
    // The second bucket begins with partition 60. Three of about the same size would begin with partitions
    // 8, 61 and 62, and two cannot hold everything.
    let grains = [(8, 18), (60, 2), (61, 17), (62, 9)];
    let mut keys = Vec::new();
    for (grain, count) in grains {
        for key in keys_of(&table, grain).take(count) {
            put(&table, &key, &[1; 110]);
            keys.push(key);
        }
    }
    for key in keys.drain(..3) {
        edit(&table, &key, Plan::Erase);
    }
    assert_eq!(table.method.try_size().unwrap(), (2, 64));
    let inside = table.clone();
    let divided = Rc::new(RefCell::new(0));
    let seen = divided.clone();
    hook(Some(Box::new(move |point| {
        if point == Point::Dividing {
            *seen.borrow_mut() += 1;
            // Partitions 62 and 63, and 60 and 61.
            for _ in 0..2 {
                let door = inside.store.enter().unwrap();
                assert!(inside.method.unite(&door, &[]).unwrap().is_some());
            }
        }
    })));
    let key = keys_of(&table, 62).nth(9).unwrap();
    let spilled = settled(&table.store, || {
        let door = table.store.enter()?;
        let hash = position(&table, &key).unwrap();
        let hash = u64::from_be_bytes(hash[..8].try_into().unwrap());
        let value = Value::Inline(&[2; 900]);
        table.method.spill(&door, hash, &key, value)
    });
    hook(None);
    spilled.unwrap();
    assert!(*divided.borrow() > 0, "nothing was divided in three");
    let (records, sound) = census(&table);
    sound.unwrap();
    assert_eq!(records, keys.len());
    assert!(keys.iter().all(|key| get(&table, key).is_some()));
}

#[test]
fn a_directory_that_could_not_grow_can_still_be_emptied() {
    for room in 0..4 {
        let table = tables(Class::Hot).create(4096, 200).unwrap();
        let store = &table.store;
        let grow = |wanted| table.method.grow(&store.enter()?, wanted);
        settled(store, || {
            table.method.make_first(&store.enter()?)?;
            grow(512)
        })
        .unwrap();
        // Another level takes two pages, and there may be fewer.
        let door = store.enter().unwrap();
        let mut taken = Vec::new();
        while let Ok(page) = store.allocate(&door, Class::Hot) {
            taken.push(page);
        }
        taken.drain(..room).for_each(|page| page.free());
        assert_eq!(grow(513).is_ok(), room >= 2);
        taken.into_iter().for_each(|page| page.free());
        drop(door);
        census(&table).1.unwrap();
        settled(store, || grow(513)).unwrap();
        census(&table).1.unwrap();
        while settled(store, || table.method.try_clear_step(&store.enter()?)).unwrap() {}
        assert_eq!(store.live_pages(), 1);
        settled(store, || table.method.try_free_root(&store.enter()?)).unwrap();
        assert_eq!(store.live_pages(), 0);
    }
}

#[test]
fn a_directory_of_several_levels_grows_and_shrinks() {
    let table = tables(Class::Cold).create(4096, 3000).unwrap();
    let key = |i: usize| KeyKind::Random.key(i, 0);
    for i in 0..400 {
        put(&table, &key(i), &[1; 60]);
    }
    let buckets = settled(&table.store, || table.method.try_size()).unwrap().0;
    // More than 512 * 512 partitions, which 4 KiB pages hold in two levels below the root.
    let wanted = 300_000;
    loop {
        let grains = settled(&table.store, || {
            let door = table.store.enter()?;
            table.method.grow(&door, wanted)?;
            Ok(table.method.try_size()?.1)
        })
        .unwrap();
        if grains == wanted {
            break;
        }
    }
    let (records, sound) = census(&table);
    sound.unwrap();
    assert_eq!(records, 400);
    for i in 400..800 {
        put(&table, &key(i), &[2; 60]);
    }
    assert!((0..800).all(|i| get(&table, &key(i)).is_some()));
    // A bucket going makes the directory shrink, a little at a time.
    let mut rounds = 0;
    loop {
        let grains = settled(&table.store, || {
            let door = table.store.enter()?;
            table.method.contract(&door)?;
            Ok(table.method.try_size()?.1)
        })
        .unwrap();
        rounds += 1;
        if rounds % 1000 == 0 {
            census(&table).1.unwrap();
        }
        let now = settled(&table.store, || table.method.try_size()).unwrap().0;
        if grains <= 16 * now {
            break;
        }
        assert!(
            rounds < 20_000,
            "{grains} grains are left for {buckets} buckets"
        );
    }
    let (records, sound) = census(&table);
    sound.unwrap();
    assert_eq!(records, 800);
    for i in 0..800 {
        edit(&table, &key(i), Plan::Erase);
    }
    while settled(&table.store, || {
        let door = table.store.enter()?;
        table.method.try_clear_step(&door)
    })
    .unwrap()
    {}
    assert_eq!(table.store.live_pages(), 1);
}

#[test]
fn records_spread_over_buckets_as_they_should() {
    // The fill of a table under random inserts, and what estimates make of it.
    let table = tables(Class::Cold).create(16384, 2000).unwrap();
    let count = 40_000;
    for i in 0..count {
        put(&table, &KeyKind::Random.key(i, 0), &[1; 100]);
    }
    let (buckets, grains) = settled(&table.store, || table.method.try_size()).unwrap();
    let fill = (count * 114) as f64 / (buckets * 16384) as f64;
    assert!((0.6..0.85).contains(&fill), "buckets are filled to {fill}");
    let ratio = grains as f64 / buckets as f64;
    assert!(
        (3.9..9.0).contains(&ratio),
        "{ratio} grains for each bucket"
    );
    let mut random = Random::new(1);
    let mut sum = 0.0;
    let mut window = terrace_access::Window::new();
    for _ in 0..100 {
        settled(&table.store, || {
            let (weight, position) = table.method.try_random(&mut || random.bits() as u32)?;
            let edge = terrace_access::Edge::From(&position);
            table.method.try_window(edge, &mut window)?;
            sum += weight * window.len() as f64;
            Ok(())
        })
        .unwrap();
    }
    let estimate = sum / 100.0;
    let off = (estimate / count as f64 - 1.0).abs();
    assert!(off < 0.1, "estimated at {estimate}");
}

#[test]
fn records_that_come_in_the_order_of_hashes_need_no_overflow_pages() {
    let table = tables(Class::Cold).create(4096, 4000).unwrap();
    let mut keys: Vec<_> = (0..20_000).map(|i| KeyKind::Random.key(i, 0)).collect();
    keys.sort_by_cached_key(|key| position(&table, key).unwrap());
    for key in &keys[..6000] {
        put(&table, key, &[1; 60]);
    }
    let (buckets, grains) = settled(&table.store, || table.method.try_size()).unwrap();
    let pages = table.store.live_pages();
    let (records, sound) = census(&table);
    sound.unwrap();
    assert_eq!(records, 6000);
    // The root, the directory, the buckets, and hardly anything else.
    let most = 1 + grains / 512 + 1 + buckets + buckets / 50;
    assert!(
        pages <= most,
        "{pages} pages, {buckets} buckets, {grains} grains"
    );
    assert!(buckets < 6000 * 74 / 4096 * 5 / 2, "{buckets} buckets");
}

#[test]
fn one_record_makes_the_directory_grow_by_a_few_pages_only() {
    let table = tables(Class::Cold).create(4096, 4000).unwrap();
    // All in one of so many partitions that the directory would need many pages for them.
    let keys = (0..).map(|i| KeyKind::Random.key(i, 0));
    let crowded = |key: &Vec<u8>| {
        let at = position(&table, key).unwrap();
        at[0] == 0x51 && at[1] < 0x10
    };
    let mut before = 1;
    let mut most = 0;
    for key in keys.filter(crowded).take(40) {
        let mut done = false;
        while !done {
            done = settled(&table.store, || {
                let door = table.store.enter()?;
                let plan = Plan::Put(Value::Inline(&[1; 200]), Flags::NONE);
                let edited =
                    table
                        .method
                        .try_edit(&door, &key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()));
                match edited {
                    Ok(_) => Ok(true),
                    Err(Retry::Conflict) => Ok(false),
                    Err(other) => Err(other),
                }
            })
            .unwrap();
            let grains = settled(&table.store, || table.method.try_size()).unwrap().1;
            most = most.max(grains - before);
            before = grains;
        }
    }
    census(&table).1.unwrap();
    assert!(before > 4 * 512, "{before} grains");
    assert!(most <= 2 * 512, "{most} grains at once");
}

#[test]
fn a_window_holds_no_more_records_than_it_is_to() {
    let table = tables(Class::Cold).create(4096, 600).unwrap();
    let mut places = Vec::new();
    for i in 0..500 {
        let key = KeyKind::Random.key(i, 0);
        put(&table, &key, &[1; 60]);
        places.push(position(&table, &key).unwrap());
    }
    places.sort();
    let mut window = Window::new();
    window.set_limit(3);
    let all = places.len();
    for i in 0..all {
        let mut look = |edge| {
            settled(&table.store, || table.method.try_window(edge, &mut window)).unwrap();
            let seen: Vec<_> = (0..window.len()).map(|i| window.key(i).to_vec()).collect();
            let covers = |place: &Vec<u8>| {
                *place >= window.low && window.high.as_ref().is_none_or(|high| place < high)
            };
            let covered: Vec<_> = places.iter().filter(|place| covers(place)).collect();
            assert!(seen.len() <= 3 && seen.iter().eq(covered), "{edge:?}");
            seen
        };
        let up = look(Edge::From(&places[i]));
        assert!(!up.is_empty() && places[i..].starts_with(&up));
        let down = look(Edge::Below(&places[i]));
        assert!(places[..i].ends_with(&down));
    }
}

/// Overwrites bytes of a page.
fn overwrite(table: &Table, page: PageId, at: usize, bytes: &[u8]) {
    settled(&table.store, || {
        let door = table.store.enter()?;
        let mut page = table.store.exclusive(page, &door)?;
        page.change_all()?[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    })
    .unwrap();
}

/// Pages in the order in which verification comes to them.
fn pages(table: &Table) -> Vec<PageId> {
    let mut pages = Vec::new();
    let checked = table.method.verify(&mut |_, _, _| Ok(()), &mut |page| {
        pages.push(page);
        Ok(())
    });
    checked.unwrap();
    pages
}

#[test]
fn roots_that_contradict_themselves_are_damaged() {
    // Height and level: too high for an index of 64 bits, and too low for its partitions.
    for (height, level) in [(6, 44), (0, 20)] {
        let table = tables(Class::Cold).create(16384, 600).unwrap();
        put(&table, b"key", b"value");
        overwrite(&table, table.method.root(), 17, &[height, level]);
        // One that has not seen where the bucket is.
        let fresh = HashTable::open(table.store.clone(), table.method.root(), Class::Cold);
        let got = settled(&table.store, || {
            fresh.try_get(b"key", Touch::No, &mut Vec::new())
        });
        assert!(got.is_err());
    }
}

#[test]
fn a_chain_into_a_bucket_that_is_held_is_not_waited_for() {
    let table = tables(Class::Cold).create(4096, 600).unwrap();
    for i in 0..40 {
        put(&table, &KeyKind::Random.key(i, 0), &[1; 90]);
    }
    let [_, left, right] = pages(&table)[..] else {
        panic!("there are other than two buckets");
    };
    overwrite(&table, left, NEXT, &right.0.to_le_bytes());
    let packed = settled(&table.store, || {
        let door = table.store.enter()?;
        table.method.try_pack(&door, &[0xFF; 8], 0.95)
    });
    assert!(packed.is_err());
}

#[test]
fn overflow_pages_in_a_circle_are_followed_once() {
    let table = crowded_tables(Class::Cold).create(4096, 600).unwrap();
    let keys = (0..).map(|i| KeyKind::Random.key(i, 0));
    let first = |key: &Vec<u8>| position(&table, key).unwrap()[0] == 0;
    for key in keys.filter(first).take(150) {
        put(&table, &key, &[1; 90]);
    }
    let pages = pages(&table);
    let [_, _, first, .., last] = pages[..] else {
        panic!("there are no overflow pages");
    };
    overwrite(&table, last, NEXT, &first.0.to_le_bytes());
    let mut window = Window::new();
    let copied = settled(&table.store, || {
        table.method.try_window(Edge::From(&[0; 8]), &mut window)
    });
    assert!(copied.is_err());
    assert!(window.len() < 1000, "{} records were copied", window.len());
    assert!(census(&table).1.is_err());
}

#[test]
fn what_cannot_be_done_is_not_committed() {
    let table = tables(Class::Cold).create(4096, 600).unwrap();
    put(&table, b"key", b"value");
    let page = pages(&table)[1];
    // More garbage than there can be beside the record.
    overwrite(&table, page, GARBAGE, &[9, 0]);
    for plan in [Plan::Erase, Plan::Put(Value::Inline(&[1; 50]), Flags::NONE)] {
        let mut committed = false;
        let edited = settled(&table.store, || {
            let door = table.store.enter()?;
            let mut commit = || {
                committed = true;
                Ok(())
            };
            table
                .method
                .try_edit(&door, b"key", &mut |_| Ok(plan), &mut NoRoom, &mut commit)
        });
        assert!(edited.is_err() && !committed);
    }
}
