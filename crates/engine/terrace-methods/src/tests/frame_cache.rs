//! Lookups of a hash table that go where its bucket was lately.

use terrace_access::conformance::{Fixture, Subject, settled};
use terrace_access::{AccessMethod, Flags, NoRoom, Plan, Touch, Value};
use terrace_pages::Class;

use super::fixture::tables;
use crate::HashTable;
use crate::hash::Secret;

const PAGE: usize = 4096;
/// The same for both tables, so that a key has one hash.
const SECRET: Secret = Secret([5, 6]);
const KEY: &[u8] = b"key";

fn put(table: &HashTable, key: &[u8], value: &[u8]) {
    settled(table.store(), || {
        let door = table.store().enter()?;
        let plan = Plan::Put(Value::Inline(value), Flags::NONE);
        table.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    })
    .unwrap();
}

fn get(table: &HashTable, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = settled(table.store(), || table.try_get(key, Touch::No, &mut value));
    found.unwrap().map(|_| value)
}

fn made(subject: &Subject<HashTable>) -> HashTable {
    settled(&subject.store, || {
        let door = subject.store.enter()?;
        HashTable::create(&subject.store, &door, Class::Cold, SECRET)
    })
    .unwrap()
}

fn clear(table: &HashTable) {
    while settled(table.store(), || {
        table.try_clear_step(&table.store().enter()?)
    })
    .unwrap()
    {}
}

#[test]
fn a_page_that_another_table_has_by_now_is_not_taken_for_a_bucket() {
    let subject = tables(Class::Cold).create(PAGE, 600).unwrap();
    let (ours, theirs) = (made(&subject), made(&subject));
    put(&ours, KEY, b"ours");
    assert_eq!(get(&ours, KEY).as_deref(), Some(&b"ours"[..]));
    clear(&ours);
    put(&theirs, KEY, b"theirs");
    assert_eq!(get(&theirs, KEY).as_deref(), Some(&b"theirs"[..]));
    // It has the page that ours had, in the same frame.
    let places = [&ours, &theirs].map(|table| table.known_place(KEY).unwrap());
    assert_eq!(places[0], places[1]);
    assert_eq!(get(&ours, KEY), None);
}

#[test]
fn a_bucket_that_has_given_a_record_away_is_not_asked_for_it() {
    let subject = tables(Class::Cold).create(PAGE, 600).unwrap();
    let table = made(&subject);
    let key = |i: u32| i.to_le_bytes();
    for i in 0..1000 {
        put(&table, &key(i), &[7; 100]);
        // Where all records were before the next one split or merged something.
        (0..=i)
            .step_by(17)
            .for_each(|i| assert!(get(&table, &key(i)).is_some(), "{i}"));
        assert_eq!(get(&table, &key(i + 1)), None);
    }
    // And nearly all of these go straight there, in a table that has long grown past its first list.
    let known = (0..1000).filter(|&i| {
        assert!(get(&table, &key(i)).is_some());
        table.is_cached(&key(i))
    });
    assert_eq!(known.count(), 1000);
    let straight = (0..1000).filter(|&i| table.is_cached(&key(i))).count();
    assert!(straight > 700, "{straight}");
}

#[test]
fn the_memory_of_what_is_known_is_counted_and_given_back() {
    let subject = tables(Class::Cold).create(PAGE, 600).unwrap();
    let before = subject.store.dynamic_bytes();
    let table = made(&subject);
    put(&table, KEY, b"value");
    assert!(get(&table, KEY).is_some());
    assert!(subject.store.dynamic_bytes() >= before + 64 * 8);
    let others: Vec<HashTable> = (0..100).map(|_| made(&subject)).collect();
    for other in &others {
        put(other, KEY, b"value");
    }
    // All of them together have a small part of the memory.
    let taken = subject.store.dynamic_bytes() - before;
    assert!(
        taken <= subject.store.frames() * (PAGE as u64) / 100,
        "{taken}"
    );
    let with_all = subject.store.dynamic_bytes();
    drop((table, others));
    assert!(subject.store.dynamic_bytes() < with_all);
}
