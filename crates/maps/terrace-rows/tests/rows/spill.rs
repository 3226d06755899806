//! Rows that leave memory and come back, against the model; and what is planted is found.

use std::collections::BTreeMap;

use terrace_rows::{Error, Fault, Options, Span, Store, Table, plant};

use crate::{Model, Person};

/// Rounds of eight changes: enough for all rows to have left memory and come back.
const ROUNDS: u64 = 2600;

fn people(folder: &std::path::Path) -> (Store, Table<Person>) {
    let store = Store::open(folder, Options::new().memory(16 << 20)).unwrap();
    let table = store
        .table::<Person>("people")
        .index("city", |p| crate::city(p.city))
        .unique("badge", |p| p.badge)
        .create()
        .unwrap();
    (store, table)
}

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn person(id: u32, n: u64) -> Person {
    Person {
        id,
        city: (n % 200) as u8,
        badge: u64::from(id) + (n % 3) * 1_000_000,
        text: "x".repeat(1000 + (n % 900) as usize),
    }
}

/// Very many changes of more rows than memory holds, some taken back; what does not agree.
fn run(seed: u64, rounds: u64) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let (store, table) = people(&folder.path().join("store"));
    let (mut model, mut state) = (Model::new(), seed);
    let text = |e: Error| e.to_string();
    for round in 0..rounds {
        let mut changed: BTreeMap<u32, Option<Person>> = BTreeMap::new();
        for _ in 0..8 {
            let n = random(&mut state);
            let id = (random(&mut state) % 16_000) as u32;
            changed.insert(id, (!n.is_multiple_of(5)).then(|| person(id, n)));
        }
        let back = round % 7 == 3;
        let mut wrong = None;
        let done = store.transact(|t| {
            for (id, new) in &changed {
                let old = t.get(&table, id)?;
                if old.as_ref() != model.get(id) {
                    wrong = Some(format!(
                        "round {round}: {id} is {}",
                        if old.is_some() { "another" } else { "missing" }
                    ));
                }
                match new {
                    Some(new) => t.put(&table, new)?,
                    None => {
                        t.remove(&table, id)?;
                    }
                }
            }
            if back { Err(Error::Missing) } else { Ok(()) }
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        match done {
            Ok(()) => {
                for (id, new) in changed {
                    match new {
                        Some(new) => drop(model.insert(id, new)),
                        None => drop(model.remove(&id)),
                    }
                }
            }
            Err(Error::Missing) if back => {}
            Err(error) => return Err(text(error)),
        }
        if round % 200 == 199 {
            let id = (random(&mut state) % 16_000) as u32;
            let some: Vec<Person> = model.range(id..id + 300).map(|(_, p)| p.clone()).collect();
            let found = store
                .transact(|t| t.range(&table, id..id + 300))
                .map_err(text)?;
            if found != some {
                return Err(format!(
                    "round {round}: {} rows of {} in a range",
                    found.len(),
                    some.len()
                ));
            }
            let mut last = None;
            store
                .transact(|t| {
                    last = None;
                    t.each_bytes(
                        *table,
                        Span {
                            low: &[],
                            high: None,
                            back: true,
                        },
                        |_, row| {
                            last = Some(row.to_vec());
                            false
                        },
                    )
                })
                .map_err(text)?;
            if last
                .and_then(|row| <Person as terrace_rows::Row>::decode(&row))
                .as_ref()
                != model.values().next_back()
            {
                return Err(format!("round {round}: another row is the last one"));
            }
            for p in some.iter().take(20) {
                // Another person with the same badge is refused, wherever the row is.
                let other = Person {
                    id: 20_000,
                    badge: p.badge,
                    ..p.clone()
                };
                let done = store.transact(|t| t.put(&table, &other));
                if !matches!(done, Err(Error::Duplicate { .. })) {
                    return Err(format!(
                        "round {round}: badge {} was given twice: {done:?}",
                        p.badge
                    ));
                }
                let found = store
                    .transact(|t| t.index(&table, "badge", &p.badge))
                    .map_err(text)?;
                if found != [p.clone()] {
                    return Err(format!(
                        "round {round}: badge {} leads to {} rows",
                        p.badge,
                        found.len()
                    ));
                }
            }
        }
    }
    let stats = store.stats();
    if stats.evicted == 0 || stats.admitted == 0 || stats.misses == 0 {
        return Err(format!("nothing has moved: {stats:?}"));
    }
    if stats.memory() > (16 << 20) + (16 << 20) / 50 {
        return Err(format!("more memory than it may use: {stats:?}"));
    }
    for from in (0..16_000u32).step_by(400) {
        let some: Vec<Person> = model
            .range(from..from + 400)
            .map(|(_, p)| p.clone())
            .collect();
        if store
            .transact(|t| t.range(&table, from..from + 400))
            .map_err(text)?
            != some
        {
            return Err(format!("at the end other rows from {from} on"));
        }
    }
    for city in 0..5 {
        let wanted: Vec<u32> = model
            .values()
            .filter(|p| p.city == city)
            .map(|p| p.id)
            .collect();
        let found = store
            .transact(|t| t.index(&table, "city", &crate::city(city)))
            .map_err(text)?;
        let mut found: Vec<u32> = found.iter().map(|p| p.id).collect();
        found.sort_unstable();
        if found != wanted {
            return Err(format!(
                "at the end city {city} has {} rows of {}",
                found.len(),
                wanted.len()
            ));
        }
    }
    Ok(())
}

#[test]
fn rows_that_leave_memory_are_those_of_a_map() {
    for seed in 1..3 {
        assert_eq!(run(seed, ROUNDS), Ok(()), "seed {seed}");
    }
}

fn is_found(fault: Fault) -> bool {
    plant(Some(fault));
    let found = (1..3).any(|seed| run(seed, ROUNDS).is_err());
    plant(None);
    found
}

#[test]
fn a_deleted_row_that_comes_back_from_the_disk_is_found() {
    assert!(is_found(Fault::DeletedAndForgotten));
}

#[test]
fn a_filter_that_forgets_is_found() {
    assert!(is_found(Fault::FilterForgets));
    assert!(is_found(Fault::MadeAnewInPart));
}

#[test]
fn a_folder_of_something_else_is_not_emptied() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    assert!(matches!(
        Store::open(folder.path(), Options::new()),
        Err(Error::Options(_))
    ));
    assert!(folder.path().join("letter").exists());
    let own = folder.path().join("own");
    let open = Store::open(&own, Options::new()).unwrap();
    assert!(matches!(
        Store::open(&own, Options::new()),
        Err(Error::Options(_))
    ));
    drop(open);
    drop(Store::open(&own, Options::new()).unwrap());
    assert!(Store::open(&own, Options::new().memory(1)).is_err());
}
