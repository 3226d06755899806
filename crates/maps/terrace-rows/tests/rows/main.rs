//! The store against a model, under faults that are planted, and what its handles refuse.

mod faults;
mod memory;
mod model;
mod spill;
mod store;

use std::collections::BTreeMap;

use terrace_rows::{Error, Options, Row, Store, Table, Transaction};

/// A row with two indexes: any number of rows have a city, one has a badge.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    pub(crate) id: u32,
    pub(crate) city: u8,
    pub(crate) badge: u64,
    pub(crate) text: String,
}

impl Row for Person {
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.push(self.city);
        out.extend(self.badge.to_le_bytes());
        out.extend(self.text.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Person> {
        Some(Person {
            id: u32::from_le_bytes(*bytes.first_chunk()?),
            city: *bytes.get(4)?,
            badge: u64::from_le_bytes(*bytes.get(5..)?.first_chunk()?),
            text: String::from_utf8(bytes.get(13..)?.to_vec()).ok()?,
        })
    }
}

pub(crate) fn city(n: u8) -> String {
    format!("city {n}")
}

/// A store with the table.
pub fn people(options: Options) -> (Store, Table<Person>) {
    let store = Store::with_options(options).unwrap();
    let table = store
        .table::<Person>("people")
        .index("city", |p| city(p.city))
        .unique("badge", |p| p.badge)
        .create()
        .unwrap();
    (store, table)
}

/// What the table has to be.
pub type Model = BTreeMap<u32, Person>;

/// Whether rows and both indexes are as the model says.
pub fn agree(t: &mut Transaction<'_>, table: &Table<Person>, model: &Model) -> Result<(), String> {
    let rows = t.range(table, ..).map_err(|e| e.to_string())?;
    if rows != model.values().cloned().collect::<Vec<_>>() {
        return Err(format!(
            "{} rows, not the {} of the model",
            rows.len(),
            model.len()
        ));
    }
    let mut cities: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for p in model.values() {
        cities.entry(city(p.city)).or_default().push(p.id);
        let found = t
            .index(table, "badge", &p.badge)
            .map_err(|e| e.to_string())?;
        if found != [p.clone()] {
            return Err(format!("badge {} leads to {} rows", p.badge, found.len()));
        }
    }
    for n in 0..=u8::MAX {
        let found = t
            .index(table, "city", &city(n))
            .map_err(|e| e.to_string())?;
        let mut ids: Vec<u32> = found.iter().map(|p| p.id).collect();
        ids.sort_unstable();
        if ids != cities.get(&city(n)).cloned().unwrap_or_default() {
            return Err(format!("city {n} leads to {ids:?}"));
        }
    }
    let badges = t
        .index_range::<_, u64>(table, "badge", ..)
        .map_err(|e| e.to_string())?;
    if badges.len() != model.len() || !badges.is_sorted_by_key(|p| p.badge) {
        return Err(format!("{} badges in any order", badges.len()));
    }
    let by_city = t
        .index_range::<_, String>(table, "city", ..)
        .map_err(|e| e.to_string())?;
    if by_city.len() != model.len() || !by_city.is_sorted_by_key(|p| city(p.city)) {
        return Err(format!("{} rows by city", by_city.len()));
    }
    Ok(())
}

/// Why a closure ends.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    Engine(Error),
    Back,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}
