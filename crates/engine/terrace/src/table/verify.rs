//! Whether the indexes of a table agree with its rows.
//!
//! Both ways: every row is looked up in every index, every entry has a row with its key, and there
//! are as many entries as the rows call for. Nothing is changed meanwhile.

use std::sync::Arc;

use terrace_access::Window;
use terrace_base::Result;

use crate::catalog::opened::{IndexState, Open, Snapshot};
use crate::index::entry::{decode, encode};
use crate::read::leased::parts;

/// Problems of one index that are named; the rest is counted.
const MOST_NAMED: usize = 5;

/// What an index was found to be.
#[derive(Default)]
struct Found {
    /// Entries that the rows call for.
    wanted: u64,
    problems: Vec<String>,
    more: u64,
}

impl Found {
    fn problem(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < MOST_NAMED {
            self.problems.push(problem());
        } else {
            self.more += 1;
        }
    }
}

/// Calls `each` with the key of every record of a structure. No thread writes meanwhile.
fn for_each(open: &Open, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let prefix = open.structure.position_prefix();
    let (mut window, mut from) = (Window::new(), Vec::new());
    loop {
        open.structure.scan_up(&from, &mut window)?;
        for i in 0..window.len() {
            each(window.key(i).get(prefix..).unwrap_or_default())?;
        }
        match window.high.take() {
            Some(high) => from = high,
            None => return Ok(()),
        }
    }
}

/// Who hears of a check.
pub struct Listener<'l> {
    /// What is wrong.
    pub problem: &'l mut dyn FnMut(String),
    /// What of an index could not be checked.
    pub note: &'l mut dyn FnMut(&Open, String),
    /// One more row or entry was looked at.
    pub looked_at: &'l mut dyn FnMut() -> Result<()>,
}

/// Checks all indexes of a table that no thread uses.
pub fn check_indexes(
    table: &Arc<Open>,
    snapshot: &Snapshot,
    listener: &mut Listener<'_>,
) -> Result<()> {
    let mut found: Vec<Found> = snapshot.iter().map(|_| Found::default()).collect();
    let (mut row, mut value) = (Vec::new(), Vec::new());
    let mut rows = 0u64;
    for_each(table, &mut |primary| {
        rows += 1;
        (listener.looked_at)()?;
        if !table.structure.get(primary, &mut row)? {
            (listener.problem)(format!(
                "\"{}\": the row \"{}\" comes out of a scan and is not found",
                table.name(),
                primary.escape_ascii()
            ));
            return Ok(());
        }
        for (index, found) in snapshot.iter().zip(&mut found) {
            if index.extract.is_some() {
                check_row(table, index, primary, &row, &mut value, found)?;
            }
        }
        Ok(())
    })?;
    for (index, mut found) in snapshot.iter().zip(found) {
        check_entries(table, index, rows, &mut found, listener.looked_at)?;
        if index.extract.is_none() {
            (listener.note)(
                &index.open,
                "its keys are found by a function that this program has not named, so only its entries were checked".into(),
            );
        }
        let name = format!("\"{}\", index \"{}\"", table.name(), index.name);
        for what in &found.problems {
            (listener.problem)(format!("{name}: {what}"));
        }
        if found.more > 0 {
            (listener.problem)(format!("{name}: {} more such problems", found.more));
        }
    }
    Ok(())
}

/// Whether the entries of a row are there.
fn check_row(
    table: &Open,
    index: &IndexState,
    primary: &[u8],
    row: &[u8],
    value: &mut Vec<u8>,
    found: &mut Found,
) -> Result<()> {
    let shown = || primary.escape_ascii();
    let keys = parts(table, row).and_then(|(_, row)| index.keys_of(table, row));
    let keys = match keys {
        Ok(keys) => keys,
        Err(e) => {
            found.problem(|| format!("the row \"{}\": {e}", shown()));
            return Ok(());
        }
    };
    for key in keys {
        found.wanted += 1;
        let (entry, expected) = encode(index.entry.unique, &key, primary);
        if !index.open.structure.get(&entry, value)? {
            found.problem(|| {
                format!(
                    "the row \"{}\" has the key \"{}\", and no entry",
                    shown(),
                    key.escape_ascii()
                )
            });
        } else if value != expected {
            found.problem(|| {
                format!(
                    "the row \"{}\" has the key \"{}\", whose entry names \"{}\"",
                    shown(),
                    key.escape_ascii(),
                    value.escape_ascii()
                )
            });
        }
    }
    Ok(())
}

/// Whether every entry has its row, which has the key, as far as that can be said.
fn check_entries(
    table: &Open,
    index: &IndexState,
    rows: u64,
    found: &mut Found,
    looked_at: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let (mut value, mut row) = (Vec::new(), Vec::new());
    let mut entries = 0u64;
    for_each(&index.open, &mut |entry| {
        entries += 1;
        looked_at()?;
        let there = index.open.structure.get(entry, &mut value)?;
        let decoded = decode(index.entry.unique, entry, &value).filter(|_| there);
        let Some((key, primary)) = decoded else {
            found.problem(|| format!("the entry \"{}\" makes no sense", entry.escape_ascii()));
            return Ok(());
        };
        if !table.structure.get(&primary, &mut row)? {
            found.problem(|| {
                format!(
                    "the key \"{}\" names the row \"{}\", which does not exist",
                    key.escape_ascii(),
                    primary.escape_ascii()
                )
            });
            return Ok(());
        }
        let keys = parts(table, &row).and_then(|(_, row)| index.keys_of(table, row));
        let has = |keys: Vec<Vec<u8>>| keys.contains(&key);
        if index.extract.is_some() && !keys.is_ok_and(has) {
            found.problem(|| {
                format!(
                    "the row \"{}\" does not have the key of its entry \"{}\"",
                    primary.escape_ascii(),
                    entry.escape_ascii()
                )
            });
        }
        Ok(())
    })?;
    let (wanted, exact) = match index.extract {
        Some(_) => (found.wanted, true),
        None if index.entry.source.is_of_many() => (u64::MAX, false),
        None => (rows, false),
    };
    if entries > wanted || (exact && entries != wanted) {
        found.problem(|| format!("it has {entries} entries, and the rows call for {wanted}"));
    }
    Ok(())
}
