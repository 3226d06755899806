//! Sorted loads.

use terrace_access::conformance::{Fixture, KeyKind, Random, settled};
use terrace_access::{AccessMethod, Flags, Interrupt, LargeRef, NoRoom, Plan, Touch, Value};
use terrace_base::Error;
use terrace_pages::Class;

use super::fixture::trees;
use crate::{BTree, overflow};

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Records with keys of this kind, sorted, with values of all sizes up to `longest`.
fn records(kind: KeyKind, count: usize, longest: usize) -> Records {
    let mut random = Random::new(11);
    let mut keys: Vec<_> = (0..count).map(|i| kind.key(i, count)).collect();
    keys.sort();
    keys.dedup();
    let mut value = |key: Vec<u8>| {
        let len = random.below(longest);
        (key, random.bytes(len))
    };
    keys.into_iter().map(&mut value).collect()
}

fn load(tree: &BTree, records: &Records, fill: f64) -> terrace_base::Result<u64> {
    tree.bulk_load(records.iter().map(|(k, v)| Ok((k, v))), Flags::NONE, fill)
}

/// Every record is there, and nothing else; returns the number of pages.
fn check(tree: &BTree, records: &Records) -> usize {
    let (mut expected, mut large, mut pages) = (records.iter(), Vec::new(), 0);
    tree.verify(
        &mut |key, _, value| {
            let (k, v) = expected.next().expect("no more records than were loaded");
            assert_eq!(key, *k);
            match value {
                Value::Inline(value) => assert_eq!(value, *v),
                Value::Large(reference) => {
                    settled(tree.store(), || {
                        overflow::read(
                            tree.store(),
                            reference,
                            &mut large,
                            &mut || Ok(true),
                            &mut || Ok(false),
                        )
                    })?;
                    assert_eq!(large, *v);
                }
            }
            Ok(())
        },
        &mut |_| {
            pages += 1;
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(expected.next(), None);
    pages
}

#[test]
fn a_load_fills_leaves_whatever_the_keys_are() {
    for kind in KeyKind::ALL {
        for page_bytes in [4096, 16384] {
            let count = if kind == KeyKind::Long { 800 } else { 9000 };
            let records = records(kind, count, 150);
            let subject = trees(Class::Cold).create(page_bytes, 300).unwrap();
            assert_eq!(
                load(&subject.method, &records, 1.0).unwrap(),
                records.len() as u64
            );
            let pages = check(&subject.method, &records);
            let bytes: usize = records.iter().map(|(k, v)| k.len() + v.len() + 6).sum();
            // Prefixes are left out, so more than everything may fit.
            let fill = bytes as f64 / (pages * page_bytes) as f64;
            let least = if kind == KeyKind::Long { 0.6 } else { 0.93 };
            assert!(fill > least, "{kind:?}, pages of {page_bytes}: {fill}");
        }
    }
}

#[test]
fn a_loaded_tree_of_many_levels_takes_changes() {
    let subject = trees(Class::Cold).create(4096, 300).unwrap();
    let records = records(KeyKind::Long, 6000, 80);
    load(&subject.method, &records, 0.95).unwrap();
    assert!(settled(&subject.store, || subject.method.try_height()).unwrap() >= 3);
    for (key, _) in records.iter().step_by(3) {
        settled(&subject.store, || {
            let door = subject.store.enter()?;
            let plan = Plan::Put(Value::Inline(&[1; 200]), Flags::NONE);
            subject
                .method
                .try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
        })
        .unwrap();
    }
    subject
        .method
        .verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()))
        .unwrap();
    let mut value = Vec::new();
    for (i, (key, _)) in records.iter().enumerate() {
        let found = settled(&subject.store, || {
            subject.method.try_get(key, Touch::No, &mut value)
        });
        assert!(found.unwrap().is_some() && (i % 3 != 0 || value == [1; 200]));
    }
}

#[test]
fn large_values_are_loaded_as_chains() {
    let subject = trees(Class::Cold).create(4096, 400).unwrap();
    let records = records(KeyKind::Sorted, 300, 9000);
    load(&subject.method, &records, 1.0).unwrap();
    check(&subject.method, &records);
}

#[test]
fn a_load_refuses_what_is_not_sorted_and_a_tree_that_is_not_empty() {
    let subject = trees(Class::Cold).create(4096, 300).unwrap();
    let tree = &subject.method;
    let unsorted = vec![(vec![2], vec![]), (vec![1], vec![])];
    assert!(matches!(
        load(tree, &unsorted, 1.0),
        Err(Error::Invalid { .. })
    ));
    let twice = vec![(vec![2], vec![]), (vec![2], vec![])];
    assert!(matches!(
        load(tree, &twice, 1.0),
        Err(Error::Invalid { .. })
    ));
    let long = vec![(vec![2; 1025], vec![])];
    assert!(matches!(
        load(tree, &long, 1.0),
        Err(Error::KeyTooLong { .. })
    ));
    assert_eq!(load(tree, &Vec::new(), 1.0).unwrap(), 0);
    let some = records(KeyKind::Random, 500, 100);
    load(tree, &some, 1.0).unwrap();
    assert!(matches!(load(tree, &some, 1.0), Err(Error::Invalid { .. })));
    check(tree, &some);
}

#[test]
fn a_reader_of_a_large_value_that_met_its_writer_is_not_told_of_damage() {
    let subject = trees(Class::Cold).create(4096, 300).unwrap();
    let store = &subject.store;
    let large = overflow::write(store, &[7; 20_000]).unwrap();
    let mut value = Vec::new();
    // The writer holds the record when the first page is seen, changes nothing and lets go.
    let read = overflow::read(store, large, &mut value, &mut || Ok(false), &mut || {
        Ok(true)
    });
    assert!(matches!(read, Err(Interrupt::Conflict)), "{read:?}");
    // Pages that are no whole chain although nobody was there are damage.
    let longer = LargeRef {
        len: large.len + 1,
        ..large
    };
    let read = overflow::read(store, longer, &mut value, &mut || Ok(true), &mut || {
        Ok(true)
    });
    assert!(matches!(read, Err(Interrupt::Fail(_))), "{read:?}");
}
