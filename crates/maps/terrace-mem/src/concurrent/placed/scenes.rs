//! Copies of hot entries under a randomised scheduler: in sets, and in a map that is written to, merged and
//! cleared meanwhile.

use super::copies::Copies;
use super::copies::tests::{hash, of_words, slots_come_back};
use super::table::{SLOTS, Table};
use crate::faults::{Fault, checked};
use crate::place::{Memory, Placement};
use crate::{ConcurrentHybridMap, Merging, Options};
use crossbeam_epoch as epoch;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

#[test]
fn slots_of_chunks_that_were_given_up_come_to_others() {
    let test = "concurrent::placed::scenes::slots_of_chunks_that_were_given_up_come_to_others";
    checked(test, Fault::OldSlot, || {
        shuttle::check_random(slots_come_back, 1);
    });
}

/// A table of sets of one record, in which all is written where key 1 lies.
fn narrow() -> Arc<Table> {
    let copies = Copies::new((1, of_words), 1, None).unwrap();
    let guard = epoch::pin();
    copies.fit(10_000 + SLOTS * 2, &guard);
    let mut table = copies.table(&guard).resized(1, &copies.home);
    table.shape.per_set = 1;
    Arc::new(table)
}

/// Two threads write two keys of one set while a third reads: what it finds is whole.
#[test]
fn no_copy_is_torn() {
    let scene = || {
        let table = narrow();
        let write = |key: u64| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                (0..5).for_each(|_| table.put(&[key], hash(1), &[key * 10]));
            })
        };
        let writers = [write(1), write(2)];
        for key in [1, 2, 1, 2, 1] {
            if let Some(hit) = table.find(&[key], hash(1)) {
                assert_eq!(hit.val[0], key * 10, "a copy is torn");
            }
        }
        writers.into_iter().for_each(|t| t.join().unwrap());
    };
    in_any_order("no_copy_is_torn", Fault::TornCopy, scene);
}

/// A thread takes a copy out, or changes it, while another one writes in the same set: it stays so.
#[test]
fn what_is_taken_out_does_not_come_back() {
    let scene = || {
        let mut table = narrow();
        Arc::get_mut(&mut table).unwrap().shape.per_set = 2;
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || {
            for val in 0..3 {
                other.put(&[2], hash(1), &[val]);
            }
        });
        let get = || table.find(&[1], hash(1)).map(|hit| hit.val[0]);
        for round in [10, 20] {
            table.put(&[1], hash(1), &[round]);
            table.change(&[1], hash(1), Some(&[round + 1]));
            assert!(get().is_none_or(|val| val == round + 1), "as it was before");
            table.change(&[1], hash(1), None);
            assert_eq!(get(), None, "came back");
        }
        writer.join().unwrap();
    };
    in_any_order(
        "what_is_taken_out_does_not_come_back",
        Fault::BlindUnlock,
        scene,
    );
}

/// A map whose few entries lie in slow memory, with room for copies: keys 0, 10, .. have the value 0.
fn placed(n: u64) -> Arc<ConcurrentHybridMap<u64, u64>> {
    let placement = Placement::two(Memory::Heap, Memory::Heap);
    let options = Options {
        segment_len: 16,
        merging: Merging::Manual,
        ..Options::default()
    };
    let options = options.placement(placement.fast_bytes(1 << 20).manual());
    let map = ConcurrentHybridMap::with_options(options.unwrap()).unwrap();
    (0..n).for_each(|i| assert_eq!(map.insert(&(i * 10), 0), None));
    map.merge_all();
    let guard = epoch::pin();
    let copies = map.shared.place.0.as_ref().unwrap();
    let copies = copies.copies.as_ref().unwrap();
    copies.fit(copies.least(&guard) + SLOTS * 2, &guard);
    Arc::new(map)
}

const LAST: u64 = 3;
/// The key that is looked up.
const HOT: u64 = 50;

/// Threads look a key up again and again, while another one counts it up and does something with the map. No
/// lookup finds what was there before it began.
fn counted(map: Arc<ConcurrentHybridMap<u64, u64>>, act: fn(&ConcurrentHybridMap<u64, u64>, u64)) {
    let done = Arc::new(AtomicU64::new(0));
    let readers = (0..2).map(|_| {
        let (map, done) = (Arc::clone(&map), Arc::clone(&done));
        thread::spawn(move || {
            for _ in 0..5 {
                let before = done.load(Ordering::SeqCst);
                let found = map.get(&HOT);
                assert!(
                    found.is_some_and(|now| now >= before),
                    "{found:?} is older than {before}"
                );
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for val in 1..=LAST {
        map.insert(&HOT, val);
        done.store(val, Ordering::SeqCst);
        act(&map, val);
    }
    readers.into_iter().for_each(|t| t.join().unwrap());
    (0..2).for_each(|_| assert_eq!(map.get(&HOT), Some(LAST)));
}

fn merged() {
    counted(placed(8), |map, _| map.merge_all());
}

/// An entry that has a copy is looked up while its part is replaced by several.
fn split() {
    let map = placed(8);
    (0..2).for_each(|_| assert_eq!(map.get(&HOT), Some(0)));
    (0..20).for_each(|i| assert_eq!(map.insert(&(i * 10 + 1), 0), None));
    map.insert(&HOT, LAST);
    let reader = {
        let map = Arc::clone(&map);
        thread::spawn(move || assert_eq!(map.get(&HOT), Some(LAST), "a copy is older"))
    };
    map.merge_all();
    reader.join().unwrap();
    assert_eq!(map.get(&HOT), Some(LAST), "a copy is older");
}

/// A copy is made for the first time while the entry is merged with another value, along with some new
/// neighbours.
fn first(neighbours: u64) {
    let map = placed(6);
    (0..neighbours).for_each(|i| assert_eq!(map.insert(&(i * 10 + 1), 0), None));
    let reader = {
        let map = Arc::clone(&map);
        thread::spawn(move || assert!(map.get(&HOT).is_some()))
    };
    map.insert(&HOT, LAST);
    map.merge_all();
    reader.join().unwrap();
    assert_eq!(map.get(&HOT), Some(LAST), "a copy is older");
}

/// All entries go at one moment, and with them their copies.
fn cleared() {
    let map = placed(8);
    let gone = Arc::new(AtomicU64::new(0));
    let reader = {
        let (map, gone) = (Arc::clone(&map), Arc::clone(&gone));
        thread::spawn(move || {
            for _ in 0..6 {
                let before = gone.load(Ordering::SeqCst);
                let found = map.get(&HOT);
                assert!(before == 0 || found.is_none(), "{found:?} is gone");
            }
        })
    };
    (0..2).for_each(|_| assert_eq!(map.get(&HOT), Some(0)));
    map.clear();
    gone.store(1, Ordering::SeqCst);
    map.insert(&10, 1);
    map.merge_all();
    assert_eq!(map.get(&HOT), None);
    reader.join().unwrap();
    assert_eq!(map.get(&HOT), None);
}

/// A scene of a test of this file, with any order of the steps of its threads.
fn in_any_order(test: &str, fault: Fault, scene: fn()) {
    let test = format!("concurrent::placed::scenes::{test}");
    checked(&test, fault, move || {
        shuttle::check_random(scene, 2000);
        shuttle::check_pct(scene, 2000, 3);
    });
}

#[test]
fn copies_change_with_their_entries() {
    let test = "copies_change_with_their_entries";
    in_any_order(test, Fault::StaleCopy, merged);
}

#[test]
fn copies_change_with_their_entries_where_a_part_is_split() {
    let test = "copies_change_with_their_entries_where_a_part_is_split";
    in_any_order(test, Fault::StaleCopy, split);
}

#[test]
fn no_copy_is_made_of_a_segment_that_is_gone() {
    let test = "no_copy_is_made_of_a_segment_that_is_gone";
    in_any_order(test, Fault::LateCopy, || first(0));
}

#[test]
fn no_copy_is_made_of_a_segment_whose_part_is_gone() {
    let test = "no_copy_is_made_of_a_segment_whose_part_is_gone";
    in_any_order(test, Fault::LateCopy, || first(20));
}

#[test]
fn copies_are_gone_when_the_map_is_cleared() {
    let test = "copies_are_gone_when_the_map_is_cleared";
    in_any_order(test, Fault::KeptTable, cleared);
}
