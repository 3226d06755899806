//! Runs of records are put by one way down, where they can.

use terrace_access::conformance::{
    Effort, Fixture, Subject, position, runs_are_as_one_by_one, settled,
};
use terrace_access::{Flags, NoRoom, Plan, Runs, Value, Window};
use terrace_pages::Class;

use super::fixture::{Made, Method, crowded_tables, heaps, push, tables, trees};

const LEN: usize = 100;

fn key(i: usize) -> [u8; 8] {
    (i as u64).to_be_bytes()
}

fn put<M: Method>(subject: &Subject<M>, i: usize) {
    let mut plan =
        |_: Option<(Flags, Value<'_>)>| Ok(Plan::Put(Value::Inline(&[1; LEN]), Flags::NONE));
    settled(&subject.store, || {
        let door = subject.store.enter()?;
        subject
            .method
            .try_edit(&door, &key(i), &mut plan, &mut NoRoom, &mut || Ok(()))
    })
    .unwrap();
}

fn run_of(records: impl Iterator<Item = usize>) -> Window {
    let mut window = Window::new();
    for i in records {
        push(&mut window, &key(i), Flags::DIRTY, &[2; LEN]);
    }
    window
}

/// How many times it takes to put a run of new records between others, and one over these.
fn rounds<M: Method>(made: &Made<M>) -> usize {
    let subject = made.create(16384, 600).unwrap();
    (0..600).step_by(6).for_each(|i| put(&subject, i * 8));
    let mut rounds = 0;
    for run in [(0..600).step_by(8), (0..600).step_by(6)] {
        let window = run_of(run.map(|i| i * 8));
        let which: Vec<usize> = (0..window.len()).collect();
        let mut done = 0;
        while done < which.len() {
            done +=
                subject
                    .method
                    .put_run(&subject.store.enter().unwrap(), &window, &which[done..]);
            rounds += 1;
            if let Some(&i) = which.get(done) {
                let key: [u8; 8] = window.key(i).try_into().unwrap();
                put(&subject, u64::from_be_bytes(key) as usize);
                done += 1;
            }
        }
    }
    rounds
}

#[test]
fn a_tree_takes_runs_as_far_as_a_leaf_has_room() {
    // 25,000 bytes of records, in leaves of 16 KiB.
    let rounds = rounds(&trees(Class::Cold));
    assert!(rounds <= 8, "175 records took {rounds} ways down");
}

#[test]
fn a_heap_takes_runs_as_far_as_a_page_of_rows_has_room() {
    let rounds = rounds(&heaps(Class::Cold));
    assert!(rounds <= 8, "175 rows took {rounds} ways down");
}

#[test]
fn a_hash_table_takes_runs_as_far_as_a_bucket_has_room() {
    let subject = tables(Class::Cold).create(16384, 600).unwrap();
    (0..60).for_each(|i| put(&subject, i));
    let mut positions: Vec<Vec<u8>> = (0..90)
        .map(|i| position(&subject, &key(i)).unwrap())
        .collect();
    positions.sort();
    let mut window = Window::new();
    for position in &positions {
        push(&mut window, position, Flags::DIRTY, &[2; LEN]);
    }
    let which: Vec<usize> = (0..window.len()).collect();
    let done = subject
        .method
        .put_run(&subject.store.enter().unwrap(), &window, &which);
    assert_eq!(
        done, 90,
        "of a run of 90 records that fit into the only bucket"
    );
}

/// Buckets with overflow pages, whose records are in the order of their hashes page by page alone.
#[test]
fn runs_go_through_buckets_of_several_pages() {
    for tier in [Class::Hot, Class::Cold] {
        let checked = runs_are_as_one_by_one(&crowded_tables(tier), 4096, Effort::SHORT);
        if let Err(failure) = checked {
            panic!("{}", failure.0);
        }
    }
}
