//! Trees with the longest keys, of which an inner node has room for one or two: they must not grow by a
//! level with each leaf.

use terrace_access::conformance::{Fixture, Random, settled};
use terrace_access::{AccessMethod, Flags, NoRoom, Plan, Value};
use terrace_pages::Class;

use super::fixture::trees;

const RECORDS: u32 = 1500;
/// Levels of a tree with a leaf for each record and two children for each node.
const MOST: usize = 12;

/// A key of `len` bytes, of which only the first and the last four are not those of all.
fn key(group: u32, len: usize, number: u32) -> Vec<u8> {
    let mut key = vec![b'p'; len - 4];
    key[0] = group as u8;
    key.extend(number.to_be_bytes());
    key
}

/// The levels of the tree into which records with these keys and values of `value` bytes were put, one
/// after the other.
fn height_after(keys: impl Iterator<Item = Vec<u8>>, value: usize) -> usize {
    let subject = trees(Class::Cold).create(4096, 8000).unwrap();
    let (tree, value) = (&subject.method, vec![1; value]);
    let mut put = 0;
    for key in keys {
        let done = settled(&subject.store, || {
            let door = subject.store.enter()?;
            let plan = Plan::Put(Value::Inline(&value), Flags::NONE);
            tree.try_edit(&door, &key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
        });
        done.unwrap_or_else(|e| panic!("record {put}: {e}"));
        put += 1;
    }
    let mut found = 0;
    let mut count = |_: &[u8], _, _: Value<'_>| {
        found += 1;
        Ok(())
    };
    tree.verify(&mut count, &mut |_| Ok(())).unwrap();
    assert_eq!(found, put);
    settled(&subject.store, || tree.try_height()).unwrap()
}

/// Has all keys of each order put into a tree.
fn stays_low(orders: &[(&str, Box<dyn Fn(u32) -> (u32, u32)>)]) {
    for len in [780, 900, 1024] {
        for value in [4, 100, 900] {
            for (name, order) in orders {
                let keys = (0..RECORDS).map(|i| {
                    let (group, number) = order(i);
                    key(group, len, number)
                });
                let height = height_after(keys, value);
                assert!(
                    height <= MOST,
                    "{name}, keys of {len} bytes, values of {value}: {height} levels"
                );
            }
        }
    }
}

#[test]
fn a_tree_of_long_keys_stays_low_in_whatever_order_they_come() {
    let mut shuffled: Vec<u32> = (0..RECORDS).collect();
    let mut random = Random::new(3);
    for i in 1..shuffled.len() {
        shuffled.swap(i, random.below(i + 1));
    }
    let middle = RECORDS;
    stays_low(&[
        ("rising", Box::new(|i| (0, i))),
        ("falling", Box::new(|i| (0, RECORDS - i))),
        ("in no order", Box::new(move |i| (0, shuffled[i as usize]))),
        (
            "from the middle",
            Box::new(move |i| match i % 2 {
                0 => (0, middle + i),
                _ => (0, middle - i),
            }),
        ),
        (
            "to the middle",
            Box::new(|i| match i % 2 {
                0 => (0, i),
                _ => (0, 4 * RECORDS - i),
            }),
        ),
    ]);
}

/// An inner node whose fences begin differently stores its separators whole, besides both fences.
#[test]
fn a_tree_stays_low_where_long_keys_of_one_kind_come_beside_those_of_another() {
    stays_low(&[
        (
            "falling behind others",
            Box::new(|i| match i < 40 {
                true => (0, i),
                false => (1, RECORDS - i),
            }),
        ),
        (
            "rising before others",
            Box::new(|i| match i < 40 {
                true => (1, i),
                false => (0, i),
            }),
        ),
        (
            "falling between others",
            Box::new(|i| match i < 80 {
                true => (2 * (i % 2), i),
                false => (1, RECORDS - i),
            }),
        ),
        (
            "falling, one kind behind the other",
            Box::new(|i| (i / 250, RECORDS - i)),
        ),
        (
            "rising, one kind before the other",
            Box::new(|i| (8 - i / 250, i)),
        ),
        (
            "one kind rising, the other falling",
            Box::new(|i| match i % 2 {
                0 => (0, i),
                _ => (1, RECORDS - i),
            }),
        ),
    ]);
}
