//! The engine's own tables, with its transactions: optimistic, any number of threads, durable.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{Database, Error, Index, Options, Table, TableOptions, Tiers, Transaction};

use crate::txn::{Ended, Engine, Figures, Key, Span, Stop, TableDef, Txn};

/// A database with the tables of a schema.
pub struct Tables {
    db: Database,
    tables: Vec<Table>,
    schema: Vec<TableDef>,
    restarts: AtomicU64,
}

impl Tables {
    /// Opens the folder, or makes it; with one tier instead of two where it is asked for.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(
        path: &std::path::Path,
        memory: u64,
        schema: Vec<TableDef>,
        tiers: Tiers,
    ) -> anyhow::Result<Tables> {
        let db = Database::open(path, Options::new().memory(memory))?;
        let mut tables = Vec::new();
        for table in &schema {
            let mut options = TableOptions::new().tiers(tiers);
            for index in table.indexes {
                let key = index.key;
                let made = Index::by(index.name, move |row| Ok(Some(key(row))));
                options = options.index(if index.unique { made.unique() } else { made });
            }
            tables.push(db.table_with(table.name, options)?);
        }
        Ok(Tables {
            db,
            tables,
            schema,
            restarts: AtomicU64::new(0),
        })
    }

    /// The database, to close it or ask it.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// A table, to use it without the trait.
    pub fn table(&self, number: usize) -> &Table {
        &self.tables[number]
    }
}

/// One transaction, behind the trait.
struct Open<'t> {
    t: &'t mut Transaction,
    of: &'t Tables,
}

fn stop(error: Error) -> Stop {
    match error {
        Error::Conflict { .. } => Stop::Again,
        error => Stop::Failed(error.into()),
    }
}

fn eight(key: Vec<u8>) -> Result<Key, Stop> {
    Key::try_from(key).map_err(|_| Stop::Failed(anyhow::anyhow!("a key that has not 8 bytes")))
}

impl Txn for Open<'_> {
    fn on(&mut self, _: usize) {}

    fn get(&mut self, table: usize, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        self.t.get(&self.of.tables[table], key).map_err(stop)
    }

    fn get_many(&mut self, table: usize, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        self.t.get_many(&self.of.tables[table], keys).map_err(stop)
    }

    fn put(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<(), Stop> {
        self.t.put(&self.of.tables[table], key, row).map_err(stop)
    }

    fn insert(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<bool, Stop> {
        self.t
            .insert(&self.of.tables[table], key, row)
            .map_err(stop)
    }

    fn delete(&mut self, table: usize, key: &Key) -> Result<(), Stop> {
        self.t.delete(&self.of.tables[table], key).map_err(stop)
    }

    fn range(&mut self, table: usize, range: Span<'_>) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let mut found = self
            .t
            .range(&self.of.tables[table], range.low..range.high)
            .map_err(stop)?;
        let mut rows = Vec::new();
        while rows.len() < range.limit {
            let next = if range.back {
                found.next_back()
            } else {
                found.next()
            };
            let Some(row) = next else { break };
            let (key, row) = row.map_err(stop)?;
            rows.push((eight(key)?, row));
        }
        Ok(rows)
    }

    fn index(&mut self, table: usize, index: usize, range: Span<'_>) -> Result<Vec<Vec<u8>>, Stop> {
        let name = self.of.schema[table].indexes[index].name;
        let index = self.t.index(&self.of.tables[table], name).map_err(stop)?;
        let mut found = index.range(range.low..range.high).map_err(stop)?;
        let mut rows = Vec::new();
        while rows.len() < range.limit {
            let next = if range.back {
                found.next_back()
            } else {
                found.next()
            };
            let Some(row) = next else { break };
            rows.push(row.map_err(stop)?.1);
        }
        Ok(rows)
    }
}

/// What the closure ended with, for the database's own loop: it runs again after a conflict.
enum Way {
    RolledBack,
    Failed(anyhow::Error),
    Database(Error),
}

impl From<Error> for Way {
    fn from(error: Error) -> Way {
        Way::Database(error)
    }
}

impl Engine for Tables {
    fn partitions(&self) -> usize {
        1
    }

    fn transact(
        &self,
        _: &[usize],
        f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>,
    ) -> anyhow::Result<Ended> {
        let mut runs = 0;
        let done = self.db.transaction(|t| {
            runs += 1;
            match f(&mut Open { t, of: self }) {
                Ok(()) => Ok(()),
                Err(Stop::Rollback) => Err(Way::RolledBack),
                Err(Stop::Failed(error)) => Err(Way::Failed(error)),
                // The transaction has noted the conflict by itself; what is said here does not matter.
                Err(Stop::Again) => Err(Way::RolledBack),
            }
        });
        self.restarts.fetch_add(runs - 1, Ordering::Relaxed);
        match done {
            Ok(()) => Ok(Ended::Committed),
            Err(Way::RolledBack) => Ok(Ended::RolledBack),
            Err(Way::Failed(error)) => Err(error),
            Err(Way::Database(error)) => Err(error.into()),
        }
    }

    fn figures(&self) -> Figures {
        let stats = self.db.stats();
        Figures {
            other: stats.memory.used(),
            restarts: self.restarts.load(Ordering::Relaxed),
            reads: stats.pages.reads,
            written_bytes: stats.pages.writes * stats.pages.page_bytes,
            read_bytes: stats.pages.reads * stats.pages.page_bytes,
            ..Figures::default()
        }
    }
}
