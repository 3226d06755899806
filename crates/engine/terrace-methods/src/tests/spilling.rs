//! Full leaves of a hot tree: split while there are pages, and spilt into their neighbours once
//! pages run out.

use terrace_access::conformance::{Fixture, KeyKind, settled};
use terrace_access::{AccessMethod, Flags, NoRoom, Plan, Value};
use terrace_pages::Class;

use super::fixture::trees;

const PAGE: usize = 4096;

/// Puts `records` records, in random order, into a hot tree in a store with `frames` frames; how many
/// pages it has then, and whether hot pages run out.
fn pages_of(records: usize, frames: usize) -> (u64, bool) {
    let made = trees(Class::Hot).create(PAGE, frames).unwrap();
    for i in 0..records {
        settled(&made.store, || {
            let door = made.store.enter()?;
            let plan = Plan::Put(Value::Inline(&[1; 60]), Flags::NONE);
            let key = KeyKind::Random.key(i, 0);
            made.method
                .try_edit(&door, &key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
        })
        .unwrap();
    }
    (made.store.live_pages(), made.store.hot_pages_run_out())
}

#[test]
fn leaves_are_split_while_there_are_pages_and_filled_once_they_run_out() {
    let (ample, scarce) = (pages_of(6000, 4000), pages_of(6000, 100));
    assert!(!ample.1 && scarce.1, "{ample:?} {scarce:?}");
    assert!(ample.0 * 12 > scarce.0 * 13, "{ample:?} {scarce:?}");
}
