//! Sorted loads.

use terrace_access::conformance::{Fixture, KeyKind, Random, settled};
use terrace_access::{AccessMethod, Flags, Interrupt, LargeRef, NoRoom, Plan, Touch, Value};
use terrace_base::{Error, PageId};
use terrace_pages::{Class, PageStore};

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
fn a_load_that_fails_leaves_no_large_values_behind() {
    for count in [1, 3, 40] {
        let subject = trees(Class::Cold).create(4096, 400).unwrap();
        let tree = &subject.method;
        let records = records(KeyKind::Sorted, count, 40_000);
        let bad = (0..3).map(|bad| match bad {
            0 => Err(Error::invalid("the input ends")),
            1 => Ok((vec![0xFF; 1025], vec![])),
            _ => Ok((vec![], vec![])),
        });
        for bad in bad {
            let input = records.iter().cloned().map(Ok).chain([bad]);
            assert!(tree.bulk_load(input, Flags::NONE, 1.0).is_err());
            let (mut linked, mut pages) = (0, 0);
            let checked = tree.verify(
                &mut |_, _, _| {
                    linked += 1;
                    Ok(())
                },
                &mut |_| {
                    pages += 1;
                    Ok(())
                },
            );
            checked.unwrap();
            assert_eq!(subject.store.live_pages(), pages, "{linked} of {count}");
            while settled(&subject.store, || {
                tree.try_clear_step(&subject.store.enter()?)
            })
            .unwrap()
            {}
        }
    }
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

/// Writes the number of a page over the link of another, of a large value.
fn cross(store: &PageStore, page: PageId, next: PageId) {
    settled(store, || {
        let door = store.enter()?;
        let mut page = store.exclusive(page, &door)?;
        page.change(24, 8)?.copy_from_slice(&next.0.to_le_bytes());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_chain_that_leads_into_another_is_freed_up_to_there() {
    let len = 20_000;
    let next = |store: &PageStore, page: PageId| {
        let page = settled(store, || store.shared(page)).unwrap();
        PageId(page.view().u64(24).unwrap())
    };
    for inside in [false, true] {
        let subject = trees(Class::Cold).create(4096, 400).unwrap();
        let store = &subject.store;
        let _guard = store.large_guard();
        let [a, b] = [1, 2].map(|n| overflow::write(store, &vec![n; len]).unwrap());
        // The second page of one value is named by the first one of both.
        cross(store, a.head, next(store, b.head));
        match inside {
            false => overflow::free(store, a).unwrap(),
            true => overflow::free_inside(store, &store.enter().unwrap(), a).unwrap(),
        }
        assert!(!store.exists(a.head));
        let mut value = Vec::new();
        settled(store, || {
            overflow::read(store, b, &mut value, &mut || Ok(true), &mut || Ok(true))
        })
        .unwrap();
        assert_eq!(value, vec![2; len]);
    }
}

#[test]
fn a_cleared_record_does_not_take_pages_of_another_value() {
    let subject = trees(Class::Cold).create(4096, 400).unwrap();
    let (tree, store) = (&subject.method, &subject.store);
    let records = vec![(vec![1], vec![1; 20_000])];
    load(tree, &records, 1.0).unwrap();
    let _guard = store.large_guard();
    let other = overflow::write(store, &[2; 20_000]).unwrap();
    let mut found = None;
    let checked = tree.verify(
        &mut |_, _, value| {
            if let Value::Large(large) = value {
                found = Some(large.head);
            }
            Ok(())
        },
        &mut |_| Ok(()),
    );
    checked.unwrap();
    cross(store, found.unwrap(), other.head);
    let cleared = settled(store, || tree.try_clear_step(&store.enter()?));
    assert!(matches!(cleared, Err(Error::Corrupt { .. })), "{cleared:?}");
    let mut value = Vec::new();
    settled(store, || {
        overflow::read(store, other, &mut value, &mut || Ok(true), &mut || Ok(true))
    })
    .unwrap();
    assert_eq!(value, [2; 20_000]);
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
