//! Making and dropping indexes, and comparing those of a table with what a program expects.
//!
//! Invariants: an index is made while its table is closed to changes, and counts only once all its
//! entries are there: until then it is marked as unfinished, and the next opening drops it. A table
//! that is made with indexes is unfinished until all of them are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::lease::Lease;
use terrace_base::{Error, Result};
use terrace_tier::Change;

use super::options::{MAX_INDEXES, TableOptions, check_index, too_many};
use crate::catalog::opened::{IndexState, NewStructure, Open, TableState};
use crate::core::Core;
use crate::ddl::Logged;
use crate::index::definition::{Index, IndexEntry};
use crate::index::entry::encode;
use crate::kinds::Kind;
use crate::kinds::spec::Spec;
use crate::read::leased::parts;
use crate::state::checkpoints::Speed;
use crate::write::batch::{Batch, Wrote};
use crate::write::expected::Expected;
use crate::write::one::check_lengths;
use crate::write::rows::duplicate;

/// Entries that are written at a time while an index is made.
const STEP_ENTRIES: usize = 512;
/// Bytes of entries that are written at a time: a step must not hold up a checkpoint.
const STEP_BYTES: usize = 256 << 10;

/// Which row has each key of a new unique index, or that none has it, as far as what is gathered for a step says it.
type Holders = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn no_table(open: &Open) -> Error {
    Error::invalid(format!(
        "\"{}\" is a {}, and only tables have indexes",
        open.name(),
        open.spec.kind
    ))
}

/// The indexes of a table.
pub fn table_of(open: &Open) -> Result<&TableState> {
    open.table.as_ref().ok_or_else(|| no_table(open))
}

impl Core {
    /// Makes a table with its indexes, all or nothing.
    pub fn create_table(&self, name: &str, options: &TableOptions) -> Result<Arc<Open>> {
        options.check()?;
        let spec = options.map.spec(Kind::Table).check()?;
        if options.indexes.is_empty() {
            return self.create_structure(name, spec);
        }
        let new = NewStructure {
            spec,
            name,
            index: None,
            unfinished: true,
        };
        let mut dropped = false;
        let (table, finished) = {
            let _naming = self.definitions().hold_names();
            let table = self.log_create(&new)?.made;
            let finished = self.with_indexes(&table, options);
            if finished.is_err() {
                // If this fails too, the next opening drops it; until then others may be at work in it.
                dropped = self.log_drop(&table).is_ok();
            }
            (table, finished)
        };
        match finished {
            Ok(finished) => self.finish(finished).map(|()| table),
            Err(e) => {
                if dropped {
                    self.take_apart_with_indexes(&table);
                }
                Err(e)
            }
        }
    }

    /// The records are in the order in which they were appended, so the last one is as good as all.
    fn with_indexes(&self, table: &Arc<Open>, options: &TableOptions) -> Result<Logged<()>> {
        let mut indexes = Vec::new();
        for index in &options.indexes {
            let open = self.log_create_index(table, index, false)?.made;
            indexes.push(IndexState::new(open, index.function.clone()));
        }
        table_of(table)?.set(indexes);
        self.log_finish(table)
    }

    fn log_create_index(
        &self,
        table: &Arc<Open>,
        index: &Index,
        unfinished: bool,
    ) -> Result<Logged<Arc<Open>>> {
        let entry = IndexEntry {
            table: table.id(),
            unique: index.unique,
            source: index.source.clone(),
        };
        let spec = Spec {
            kind: Kind::Tree,
            hot_heap: false,
            expiring: false,
            ..table.spec
        };
        self.log_create(&NewStructure {
            spec: spec.chosen(),
            name: &index.name,
            index: Some(&entry),
            unfinished,
        })
    }

    /// Makes an index over the rows that are there, which `rows` gives as they are stored, those that have expired
    /// included: they have entries until they go. `progress` hears how many were looked at.
    pub fn create_index<R: Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>>(
        &self,
        table: &Arc<Open>,
        index: Index,
        rows: impl FnOnce() -> Result<R>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        check_index(&index)?;
        let state = table_of(table)?;
        let _closing = self.definitions().hold_tables();
        table.check()?;
        let mut indexes = state.snapshot().to_vec();
        if indexes.iter().any(|other| other.name == index.name) {
            return Err(Error::invalid(format!(
                "the table \"{}\" has an index \"{}\" already; drop it first, or choose another name",
                table.name(),
                index.name
            )));
        }
        if indexes.len() >= MAX_INDEXES {
            return Err(too_many());
        }
        let _closed = self.close_table(state);
        let open = {
            let _naming = self.definitions().hold_names();
            table.check()?;
            self.log_create_index(table, &index, true)?.made
        };
        let new = IndexState::new(open.clone(), index.function.clone());
        let filled = rows().and_then(|rows| self.fill(table, &new, rows, progress));
        let finished = filled.and_then(|()| {
            if !table.spec.logged {
                // Its entries are not in the log, and after a crash it would be there without them.
                self.checkpoint(Speed::Fast, false)?;
            }
            let _naming = self.definitions().hold_names();
            self.log_finish(&open)
        });
        match finished {
            Ok(finished) => {
                indexes.push(new);
                state.set(indexes);
                self.finish(finished)
            }
            Err(e) => {
                let dropped = {
                    let _naming = self.definitions().hold_names();
                    self.log_drop(&open)
                };
                // If not, its table was dropped with it, or the next opening drops it.
                if dropped.is_ok() {
                    self.take_apart(open.id());
                }
                Err(e)
            }
        }
    }

    /// Writes the entries of all rows, in bounded steps. The table is closed.
    fn fill(
        &self,
        table: &Arc<Open>,
        index: &IndexState,
        rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let unique = index.entry.unique;
        let (mut batch, mut holders) = (Batch::default(), Holders::new());
        let mut seen = 0;
        for row in rows {
            let (primary, row) = row?;
            let (lease, row) = parts(table, &row)?;
            seen += 1;
            let mut keys = index.keys_of(table, row)?;
            for key in &keys {
                check_lengths(self.longest_key(), &encode(unique, key, &primary).0, &[]).map_err(|e| {
                    Error::invalid(format!(
                        "the key of the row \"{}\" is too long for the index \"{}\" of the table \"{}\": {e}",
                        primary.escape_ascii(),
                        index.name,
                        table.name()
                    ))
                })?;
            }
            if unique
                && !self.makes_way(
                    (table, index),
                    &keys,
                    (&primary, lease),
                    &mut batch,
                    &mut holders,
                )?
            {
                keys.clear();
            }
            let mut stepped = false;
            for key in keys {
                let (entry, value) = encode(unique, &key, &primary);
                batch.change(&index.open, None, &entry, Change::Put(value));
                if unique {
                    holders.insert(key, Some(primary.clone()));
                }
                stepped |= self.step_if_full(&mut batch, &mut holders)?;
            }
            stepped |= self.step_if_full(&mut batch, &mut holders)?;
            if stepped {
                progress(seen);
            }
        }
        self.write_step(&mut batch)?;
        progress(seen);
        Ok(())
    }

    /// Has the keys of a row free in a new unique index: who has one and has expired goes. False if it is the row
    /// itself that goes, for it has. The table is closed.
    fn makes_way(
        &self,
        (table, index): (&Arc<Open>, &IndexState),
        keys: &[Vec<u8>],
        (primary, lease): (&[u8], Lease),
        batch: &mut Batch,
        holders: &mut Holders,
    ) -> Result<bool> {
        for key in keys {
            let Some(other) = self.holder(index, key, holders)? else {
                continue;
            };
            if lease.is_over(self.clock().now()) {
                self.take_out((table, index), primary, batch, holders)?;
                return Ok(false);
            }
            if !self.take_out((table, index), &other, batch, holders)? {
                return Err(duplicate(table, index, key, &other, primary));
            }
        }
        Ok(true)
    }

    /// Which row has a key of a new index, or will have it once what is gathered is written.
    fn holder(&self, index: &IndexState, key: &[u8], holders: &Holders) -> Result<Option<Vec<u8>>> {
        if let Some(known) = holders.get(key) {
            return Ok(known.clone());
        }
        let mut holder = Vec::new();
        let _pass = self.enter(&index.open)?;
        let found = index.open.structure.get(key, &mut holder);
        Ok(found.map_err(|e| self.failed(e))?.then_some(holder))
    }

    /// Adds the removal of a row that has expired to a batch, with its entries in the indexes that are there and in
    /// the new one; whether it has. The table is closed.
    fn take_out(
        &self,
        (table, new): (&Arc<Open>, &IndexState),
        primary: &[u8],
        batch: &mut Batch,
        holders: &mut Holders,
    ) -> Result<bool> {
        let mut row = Vec::new();
        let looked = {
            let _pass = self.enter(table)?;
            self.look(table, primary, &mut row)?
        };
        if !looked.found || looked.lease.is_some() {
            return Ok(!looked.found);
        }
        let (_, row) = parts(table, &row)?;
        batch.change(table, None, primary, Change::Delete);
        for index in table_of(table)?.snapshot().iter() {
            for key in index.keys_of(table, row)? {
                let (entry, _) = encode(index.entry.unique, &key, primary);
                batch.change(&index.open, None, &entry, Change::Delete);
            }
        }
        for key in new.keys_of(table, row)? {
            if self.holder(new, &key, holders)?.as_deref() == Some(primary) {
                batch.change(&new.open, None, &key, Change::Delete);
                holders.insert(key, None);
            }
        }
        Ok(true)
    }

    /// Writes what is gathered if it is enough for a step; whether it was.
    fn step_if_full(&self, batch: &mut Batch, holders: &mut Holders) -> Result<bool> {
        let full = batch.len() >= STEP_ENTRIES || batch.bytes() >= STEP_BYTES;
        if full {
            self.write_step(batch)?;
            holders.clear();
        }
        Ok(full)
    }

    fn write_step(&self, batch: &mut Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        loop {
            let pass = self.passes().enter()?;
            let logged = batch.logged(self)?;
            let wrote = self.write_batch_inside(batch, logged, &Expected::default())?;
            drop(pass);
            let Wrote::Claimed(claim) = wrote else { break };
            claim.wait();
        }
        batch.clear();
        Ok(())
    }

    /// Drops an index.
    pub fn drop_index(&self, table: &Arc<Open>, name: &str) -> Result<()> {
        let _closing = self.definitions().hold_tables();
        self.drop_index_alone(table, name)
    }

    /// The same for who holds the tables.
    fn drop_index_alone(&self, table: &Arc<Open>, name: &str) -> Result<()> {
        let state = table_of(table)?;
        table.check()?;
        let mut indexes = state.snapshot().to_vec();
        let at = indexes.iter().position(|index| index.name == name);
        let at = at.ok_or_else(|| no_index(table, name))?;
        let index = indexes.remove(at);
        let (id, dropped) = {
            let _closed = self.close_table(state);
            let dropped = {
                let _naming = self.definitions().hold_names();
                self.log_drop(&index.open)?
            };
            state.set(indexes);
            (index.open.id(), dropped)
        };
        let finished = self.finish(dropped);
        self.take_apart(id);
        finished
    }

    /// Compares the indexes of a table with what a program says they are, and takes in its
    /// functions.
    pub fn expect_indexes(&self, table: &Arc<Open>, options: &TableOptions) -> Result<()> {
        options.check()?;
        let state = table_of(table)?;
        if options.indexes.is_empty() && state.snapshot().is_empty() {
            return Ok(());
        }
        let _closing = self.definitions().hold_tables();
        let named = |name: &str| options.indexes.iter().find(|index| index.name == name);
        let stored = state.snapshot();
        if options.indexes.is_empty() && !options.drop_missing {
            let unknown: Vec<_> = stored
                .iter()
                .filter(|index| index.extract.is_none())
                .map(|index| format!("\"{}\"", index.name))
                .collect();
            if unknown.is_empty() {
                return Ok(());
            }
            return Err(Error::invalid(format!(
                "the table \"{}\" has indexes by functions of the program: {}. Name all of its indexes in TableOptions, \
                 or drop those that are not named with TableOptions::drop_missing_indexes(true)",
                table.name(),
                unknown.join(", ")
            )));
        }
        let (mut differs, mut missing) = (Vec::new(), Vec::new());
        for index in stored.iter() {
            match named(&index.name) {
                Some(expected) if expected.kind() == index.kind() => {}
                Some(expected) => differs.push(format!(
                    "\"{}\" is {}, and was named {}",
                    index.name,
                    index.kind(),
                    expected.kind()
                )),
                None if options.drop_missing => missing.push(index.name.clone()),
                None => differs.push(format!(
                    "\"{}\" ({}) is there and was not named",
                    index.name,
                    index.kind()
                )),
            }
        }
        for index in &options.indexes {
            if !stored.iter().any(|other| other.name == index.name) {
                differs.push(format!(
                    "\"{}\" ({}) was named and is not there",
                    index.name,
                    index.kind()
                ));
            }
        }
        if !differs.is_empty() {
            return Err(Error::invalid(format!(
                "the table \"{}\" has other indexes than it was opened with: {}. Name those that it has; open it with those and call \
                 Table::create_index for one that is to be made; Table::drop_index or TableOptions::drop_missing_indexes(true) \
                 drop one that is not wanted",
                table.name(),
                differs.join("; ")
            )));
        }
        missing
            .iter()
            .try_for_each(|name| self.drop_index_alone(table, name))?;
        let indexes = state.snapshot();
        if indexes.iter().any(|index| index.extract.is_none()) {
            let with_function = |index: &IndexState| match &index.extract {
                Some(_) => index.clone(),
                None => {
                    let function = named(&index.name).and_then(|named| named.function.clone());
                    IndexState::new(index.open.clone(), function)
                }
            };
            state.set(indexes.iter().map(with_function).collect());
        }
        Ok(())
    }
}

/// The table has no such index.
pub fn no_index(table: &Open, name: &str) -> Error {
    let infos = table
        .table
        .as_ref()
        .map_or_else(Vec::new, TableState::infos);
    let names: Vec<_> = infos.iter().map(|i| format!("\"{}\"", i.name)).collect();
    let there = match names.len() {
        0 => "it has none".into(),
        _ => format!("it has {}", names.join(", ")),
    };
    Error::invalid(format!(
        "the table \"{}\" has no index \"{name}\"; {there}",
        table.name()
    ))
}
