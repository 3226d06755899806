//! The model finds what is planted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use terrace_rows::{Error, Fault, Options, plant};

use crate::model::{run, script};
use crate::{Model, Person, agree, people};

fn is_found(fault: Fault) -> bool {
    let mut runner = TestRunner::deterministic();
    plant(Some(fault));
    let found = (0..40).any(|_| {
        let script = script().new_tree(&mut runner).unwrap().current();
        let (store, table) = people(Options::new());
        // What leads to a row that is gone may also end in a panic.
        let run = AssertUnwindSafe(|| run(&store, &table, &script));
        !matches!(catch_unwind(run), Ok(Ok(())))
    });
    plant(None);
    found
}

#[test]
fn undo_that_forgets_indexes_is_found() {
    assert!(is_found(Fault::UndoForgetsIndexes));
}

#[test]
fn undo_that_goes_forward_is_found() {
    assert!(is_found(Fault::UndoForward));
}

#[test]
fn an_index_that_keeps_an_old_place_is_found() {
    assert!(is_found(Fault::IndexKeepsOldPlace));
}

#[test]
fn a_duplicate_that_is_seen_late_is_found() {
    assert!(is_found(Fault::DuplicateSeenLate));
}

/// Many rows of one city: the list becomes a set, and a short one again.
fn long_list() -> Result<(), String> {
    let (store, table) = people(Options::new());
    let person = |id: u32| Person {
        id,
        city: id.is_multiple_of(7) as u8,
        badge: u64::from(id),
        text: String::new(),
    };
    let mut model = Model::new();
    for id in 0..3000 {
        model.insert(id, person(id));
    }
    let done = store.transact(|t| {
        (0..3000).try_for_each(|id| t.put(&table, &person(id)))?;
        Ok::<_, Error>(agree(t, &table, &model))
    });
    done.map_err(|e| e.to_string())??;
    for id in 0..2990 {
        model.remove(&id);
        store
            .transact(|t| t.remove(&table, &id))
            .map_err(|e| e.to_string())?;
    }
    store
        .transact(|t| Ok::<_, Error>(agree(t, &table, &model)))
        .map_err(|e| e.to_string())?
}

#[test]
fn long_lists_are_found_and_a_forgotten_one_is_noticed() {
    assert_eq!(long_list(), Ok(()));
    plant(Some(Fault::LongListForgotten));
    let found = long_list();
    plant(None);
    assert!(found.is_err());
}
