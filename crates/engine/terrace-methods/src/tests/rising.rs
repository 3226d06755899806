//! Structures to which records come in the order of their positions, as to a cold tier from the sweep
//! of a hot one.

use terrace_access::conformance::{Fixture, KeyKind, position, settled};
use terrace_access::{AccessMethod, Flags, NoRoom, Plan, Rising, Room, Value};
use terrace_pages::{Class, Pace};

use super::buckets::{Table, census, get};
use super::fixture::{Made, Method, heaps, info, tables, trees};

/// Bytes of a record of these tests, slot and all.
const RECORD: u64 = 74;

/// Puts a record where others come in order.
fn put(table: &Table, key: &[u8]) {
    settled(&table.store, || {
        let door = table.store.enter()?;
        let plan = Plan::Put(Value::Inline(&[1; 60]), Flags::NONE);
        table
            .method
            .try_edit(&door, key, &mut |_| Ok(plan), &mut Rising, &mut || Ok(()))
    })
    .unwrap();
}

/// `count` keys from the number `from` on, in the order of their hashes.
fn keys(table: &Table, from: usize, count: usize) -> Vec<Vec<u8>> {
    let keys = from..from + count;
    let mut keys: Vec<_> = keys.map(|i| KeyKind::Random.key(i, 0)).collect();
    keys.sort_by_cached_key(|key| position(table, key).unwrap());
    keys
}

fn buckets(table: &Table) -> u64 {
    settled(&table.store, || table.method.try_size()).unwrap().0
}

#[test]
fn records_that_come_in_order_leave_full_buckets_behind_in_every_pass() {
    let table = tables(Class::Cold).create(4096, 4000).unwrap();
    let all = 20_000;
    for (pass, least) in [(0, 0.85), (1, 0.7), (2, 0.7), (3, 0.7)] {
        for key in &keys(&table, pass * all / 4, all / 4) {
            put(&table, key);
        }
        let (records, sound) = census(&table);
        sound.unwrap();
        assert_eq!(records, (pass + 1) * all / 4);
        let fill = (records as u64 * RECORD) as f64 / (buckets(&table) * 4096) as f64;
        assert!(
            fill > least,
            "after pass {pass} buckets are filled to {fill}"
        );
    }
    for i in 0..all + all / 4 {
        let found = get(&table, &KeyKind::Random.key(i, 0));
        assert_eq!(found.is_some(), i < all, "record {i}");
    }
}

/// Nearly all partitions belong to the bucket that is split, and none of them must change hands: a split
/// that gave them away one by one cost as much as the table is large.
#[test]
fn a_split_of_the_last_bucket_changes_a_few_pages_of_the_directory_only() {
    let table = tables(Class::Cold).create(4096, 4000).unwrap();
    let keys = keys(&table, 0, 300_000);
    let (before, after) = keys[..8000].split_at(6000);
    before.iter().for_each(|key| put(&table, key));
    let (_, grains) = settled(&table.store, || table.method.try_size()).unwrap();
    assert!(grains > 20 * 512, "{grains} grains need many pages");
    let mut splits = 0;
    for key in after {
        if splits % 8 == 0 {
            table.store.checkpoint(Pace::Fast, &mut info).unwrap();
        }
        let had = (buckets(&table), table.store.stats().dirty_frames);
        put(&table, key);
        if buckets(&table) > had.0 {
            splits += 1;
            // Root, two buckets, two pages of the directory, and what else one record may touch.
            let dirty = table.store.stats().dirty_frames.saturating_sub(had.1);
            assert!(dirty < 10, "{dirty} pages were changed");
        }
    }
    census(&table).1.unwrap();
    assert!(splits > 20, "{splits} splits");
}

/// The buckets in front of the last one are narrower than it, and go into it.
#[test]
fn a_table_whose_last_bucket_has_nearly_all_grains_can_be_cleared_after_reopening() {
    let fixture = tables(Class::Cold);
    let table = fixture.create(4096, 4000).unwrap();
    let keys = keys(&table, 0, 300_000);
    keys[..3000].iter().for_each(|key| put(&table, key));
    let table = fixture.reopen(table).unwrap();
    // No more than a step for each page and a miss for each.
    let steps = 4 * table.store.live_pages();
    let done = (0..steps).any(|_| {
        let more = table
            .store
            .enter()
            .map(|door| table.method.try_clear_step(&door));
        match more.unwrap() {
            Ok(more) => !more,
            Err(interrupt) => {
                table.store.settle(interrupt).unwrap();
                false
            }
        }
    });
    assert!(done, "not cleared after {steps} steps");
    assert_eq!(table.store.live_pages(), 1, "the root");
}

/// Half of all records, then the others in runs, as the sweep of a hot tier brings them: after each run
/// its range is closed up.
fn passes_leave_full_leaves<M: Method>(fixture: &Made<M>, least: f64, with: bool) -> f64 {
    let made = fixture.create(4096, 4000).unwrap();
    let all = 40_000usize;
    for pass in 0..4 {
        let mut keys: Vec<_> = (pass * all / 4..(pass + 1) * all / 4)
            .map(|i| KeyKind::Random.key(i, 0))
            .collect();
        keys.sort();
        for run in keys.chunks(50) {
            for key in run {
                settled(&made.store, || {
                    let door = made.store.enter()?;
                    let plan = Plan::Put(Value::Inline(&[1; 20]), Flags::NONE);
                    // What is compared with splits alone.
                    let room: &mut dyn Room = if with { &mut Rising } else { &mut NoRoom };
                    made.method
                        .try_edit(&door, key, &mut |_| Ok(plan), room, &mut || Ok(()))
                })
                .unwrap();
            }
            let mut from = with.then(|| run[0].clone());
            while let Some(at) = from {
                from = settled(&made.store, || {
                    let door = made.store.enter()?;
                    made.method
                        .try_close_up(&door, &at, run.last().map(|k| &k[..]))
                })
                .unwrap();
            }
        }
    }
    let (mut records, mut bytes) = (0, 0);
    made.method
        .verify(
            &mut |key, _, value| {
                records += 1;
                if let Value::Inline(value) = value {
                    bytes += key.len() + value.len();
                }
                Ok(())
            },
            &mut |_| Ok(()),
        )
        .unwrap();
    assert_eq!(records, all);
    let per_page = bytes as f64 / (made.store.live_pages() * 4096) as f64;
    assert!(
        per_page > least,
        "{per_page} of the pages are keys and values"
    );
    per_page
}

#[test]
fn leaves_of_trees_and_indexes_that_are_closed_up_are_full_after_every_pass() {
    let tree = passes_leave_full_leaves(&trees(Class::Cold), 0.7, true);
    let loose = passes_leave_full_leaves(&trees(Class::Cold), 0.4, false);
    assert!(tree > loose * 1.2, "{tree} closed up, {loose} else");
    let heap = passes_leave_full_leaves(&heaps(Class::Cold), 0.4, true);
    let loose = passes_leave_full_leaves(&heaps(Class::Cold), 0.3, false);
    assert!(heap > loose * 1.05, "{heap} closed up, {loose} else");
}

/// Records come to where none came so far: that bucket has nearly all partitions, and half of them change hands.
#[test]
fn a_bucket_of_nearly_all_grains_is_divided_behind_several_doors() {
    let table = tables(Class::Cold).create(4096, 16_000).unwrap();
    let keys = keys(&table, 0, 300_000);
    keys[..8000].iter().for_each(|key| put(&table, key));
    let (had, grains) = settled(&table.store, || table.method.try_size()).unwrap();
    assert!(grains > 60 * 512, "{grains} grains need many pages");
    // From everywhere in it, one after the other.
    let new: Vec<_> = (0..500)
        .map(|i| &keys[8000 + i * 211 % 500 * 584])
        .collect();
    let mut most = 0;
    for key in &new {
        table.store.checkpoint(Pace::Fast, &mut info).unwrap();
        loop {
            let plan = Plan::Put(Value::Inline(&[1; 60]), Flags::NONE);
            let door = table.store.enter().unwrap();
            let before = table.store.stats().dirty_frames;
            let method = &table.method;
            let done = method.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()));
            let dirtied = table.store.stats().dirty_frames.saturating_sub(before);
            drop(door);
            most = most.max(dirtied);
            match done {
                Ok(_) => break,
                Err(interrupt) => table.store.settle(interrupt).unwrap(),
            }
        }
    }
    assert!(buckets(&table) > had, "none was divided");
    // Those of one page of the directory, in as many places as a hash has bits for them, and three buckets.
    assert!(most <= 20, "{most} pages became dirty behind one door");
    let (records, sound) = census(&table);
    sound.unwrap();
    assert_eq!(records, 8000 + new.len());
    assert!(new.iter().all(|key| get(&table, key).is_some()));
    // And all of it goes again, whatever it takes.
    let mut step = || table.method.try_clear_step(&table.store.enter()?);
    while settled(&table.store, &mut step).unwrap() {}
    assert_eq!(census(&table).0, 0);
}
