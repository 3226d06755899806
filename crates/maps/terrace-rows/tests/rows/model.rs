//! Any transactions, committed and taken back at any place, against a map of rows.

use proptest::prelude::*;
use terrace_rows::{Error, Options, Store, Table};

use crate::{Model, Person, Stop, agree, people};

#[derive(Clone, Debug)]
pub enum Operation {
    Put(Person),
    Insert(Person),
    Remove(u32),
}

fn person() -> impl Strategy<Value = Person> {
    // Few values, so that they meet; texts of all kinds of slots.
    let text = prop_oneof![Just(0usize), 0usize..40, 100usize..300, Just(5000usize)];
    (0u32..60, 0u8..4, 0u64..80, text).prop_map(|(id, city, badge, len)| Person {
        id,
        city,
        badge,
        text: "x".repeat(len),
    })
}

pub fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => person().prop_map(Operation::Put),
        2 => person().prop_map(Operation::Insert),
        2 => (0u32..60).prop_map(Operation::Remove),
    ]
}

/// Operations of a transaction, and whether it is taken back at its end.
pub type Script = Vec<(Vec<Operation>, bool)>;

pub fn script() -> impl Strategy<Value = Script> {
    prop::collection::vec(
        (
            prop::collection::vec(operation(), 1..12),
            prop::bool::weighted(0.4),
        ),
        1..25,
    )
}

fn takes_badge(model: &Model, p: &Person) -> bool {
    model
        .values()
        .any(|other| other.badge == p.badge && other.id != p.id)
}

/// Does the script to both; what does not agree.
pub fn run(store: &Store, table: &Table<Person>, script: &Script) -> Result<(), String> {
    let mut model = Model::new();
    for (operations, back) in script {
        let mut changed = model.clone();
        let mut wrong = None;
        let done = store.transact(|t| {
            for operation in operations {
                let (done, wanted) = match operation {
                    Operation::Put(p) => {
                        let duplicate = takes_badge(&changed, p);
                        if !duplicate {
                            changed.insert(p.id, p.clone());
                        }
                        (t.put(table, p), duplicate)
                    }
                    Operation::Insert(p) => {
                        let duplicate = changed.contains_key(&p.id) || takes_badge(&changed, p);
                        if !duplicate {
                            changed.insert(p.id, p.clone());
                        }
                        (t.insert(table, p), duplicate)
                    }
                    Operation::Remove(id) => {
                        let old = changed.remove(id);
                        if t.remove(table, id)? != old {
                            wrong = Some(format!("another row {id} was removed"));
                        }
                        (Ok(()), false)
                    }
                };
                // A duplicate is no end: the transaction goes on without it.
                if matches!(done, Err(Error::Duplicate { .. })) != wanted {
                    wrong = Some(format!("{operation:?}: {done:?}"));
                }
            }
            if wrong.is_none() {
                wrong = agree(t, table, &changed).err();
            }
            if *back { Err(Stop::Back) } else { Ok(()) }
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        match (done, back) {
            (Ok(()), false) => model = changed,
            (Err(Stop::Back), true) => {}
            (done, _) => return Err(format!("{done:?}")),
        }
        store
            .transact(|t| Ok::<_, Error>(agree(t, table, &model)))
            .map_err(|e| e.to_string())??;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_and_indexes_are_those_of_a_map_whatever_is_taken_back(script in script()) {
        // Merges as early as they can come, and none.
        let early = terrace_mem::Options { floor: 4, segment_len: 16, ..Default::default() };
        for indexes in [early, terrace_mem::Options::dynamic_only()] {
            let (store, table) = people(Options::new().indexes(indexes));
            prop_assert_eq!(run(&store, &table, &script), Ok(()));
        }
    }
}
