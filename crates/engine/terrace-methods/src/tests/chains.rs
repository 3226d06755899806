//! Chains of large values that lead where they must not, and readers that meet a writer.

use terrace_access::conformance::{Fixture, settled};
use terrace_access::{AccessMethod, Flags, LargeRef, NoRoom, Plan, Retry, Value};
use terrace_base::{Error, PageId};
use terrace_pages::{Class, PageStore};

use super::fixture::trees;
use crate::overflow;

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
    let _guard = store.large_guard();
    let large = overflow::write(store, &[1; 20_000]).unwrap();
    settled(store, || {
        let mut put =
            |_: Option<(Flags, Value<'_>)>| Ok(Plan::Put(Value::Large(large), Flags::NONE));
        tree.try_edit(&store.enter()?, &[1], &mut put, &mut NoRoom, &mut || Ok(()))
    })
    .unwrap();
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
    assert!(matches!(read, Err(Retry::Conflict)), "{read:?}");
    // Pages that are no whole chain although no other thread was there are damage.
    let longer = LargeRef {
        len: large.len + 1,
        ..large
    };
    let read = overflow::read(store, longer, &mut value, &mut || Ok(true), &mut || {
        Ok(true)
    });
    assert!(matches!(read, Err(Retry::Fail(_))), "{read:?}");
}
