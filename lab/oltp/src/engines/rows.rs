//! Rows in memory (`terrace-rows`), with indexes of several kinds; all of them there, or those that are used.

use terrace_mem::Pair;
use terrace_rows::{Error, Handle, IndexKind, Options, Store, Transaction};

use crate::txn::{Ended, Engine, Figures, Key, Span, Stop, TableDef, Txn};

/// The maps under the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maps {
    /// The B+tree alone.
    BTree,
    /// Two stages as `terrace-mem` has them.
    Hybrid,
    /// B+tree and compact B+tree, all merged at once: the paper's own.
    Paper,
    /// The paper's own, with the static stage under lz4.
    Compressed,
    /// Masstree with its compact form.
    Masstree,
    /// ART with its compact form.
    Art,
}

impl Maps {
    /// All of them.
    pub const ALL: [Maps; 6] = [
        Maps::BTree,
        Maps::Hybrid,
        Maps::Paper,
        Maps::Compressed,
        Maps::Masstree,
        Maps::Art,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Maps::BTree => "B+tree",
            Maps::Hybrid => "hybrid",
            Maps::Paper => "hybrid, as the paper",
            Maps::Compressed => "hybrid-compressed",
            Maps::Masstree => "hybrid Masstree",
            Maps::Art => "hybrid ART",
        }
    }

    /// As options of maps.
    pub fn options(self) -> terrace_mem::Options {
        let usual = terrace_mem::Options::default();
        match self {
            Maps::BTree => terrace_mem::Options {
                pair: Pair::BTree,
                ..terrace_mem::Options::dynamic_only()
            },
            Maps::Hybrid => usual,
            Maps::Paper => terrace_mem::Options::paper(Pair::BTree),
            Maps::Compressed => terrace_mem::Options {
                stage: terrace_mem::Stage::Compressed,
                ..usual
            },
            Maps::Masstree => terrace_mem::Options {
                pair: Pair::Masstree,
                ..usual
            },
            Maps::Art => terrace_mem::Options {
                pair: Pair::Art,
                ..usual
            },
        }
    }
}

/// A store with the tables of a schema.
pub struct Rows {
    store: Store,
    tables: Vec<Handle>,
    schema: Vec<TableDef>,
}

impl Rows {
    /// All in memory. Keys are numbers of 8 bytes, or the same bytes as byte strings.
    ///
    /// # Errors
    /// Those of the store.
    pub fn in_memory(
        schema: Vec<TableDef>,
        maps: Maps,
        numbers: bool,
        partitions: usize,
    ) -> anyhow::Result<Rows> {
        let store = Store::with_options(
            Options::new()
                .partitions(partitions)
                .indexes(maps.options()),
        )?;
        Rows::over(store, schema, numbers)
    }

    /// Rows that leave memory for a database in this folder.
    ///
    /// # Errors
    /// Those of the store.
    pub fn spilling(
        folder: &std::path::Path,
        memory: u64,
        schema: Vec<TableDef>,
        maps: Maps,
        partitions: usize,
    ) -> anyhow::Result<Rows> {
        let options = Options::new()
            .partitions(partitions)
            .indexes(maps.options())
            .memory(memory);
        Rows::over(Store::open(folder, options)?, schema, true)
    }

    fn over(store: Store, schema: Vec<TableDef>, numbers: bool) -> anyhow::Result<Rows> {
        let mut tables = Vec::new();
        for table in &schema {
            let mut builder = store
                .table_of_bytes(table.name, numbers)
                .ranges_within(table.prefix);
            if table.resident {
                builder = builder.resident();
            }
            for index in table.indexes {
                let key = index.key;
                let kind = if index.unique {
                    IndexKind::Unique
                } else {
                    IndexKind::List
                };
                builder = builder.index_of_bytes(
                    index.name,
                    kind,
                    numbers && index.number,
                    move |row, out| {
                        out.extend_from_slice(&key(row));
                        true
                    },
                );
            }
            tables.push(*builder.create()?);
        }
        Ok(Rows {
            store,
            tables,
            schema,
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The handle of a table.
    pub fn handle(&self, table: usize) -> Handle {
        self.tables[table]
    }
}

struct Open<'a, 't> {
    t: &'a mut Transaction<'t>,
    of: &'a Rows,
    failed: Option<anyhow::Error>,
}

fn stop(error: Error) -> Stop {
    match error {
        Error::Cold => Stop::Again,
        error => Stop::Failed(error.into()),
    }
}

fn span<'a>(range: &Span<'a>) -> terrace_rows::Span<'a> {
    terrace_rows::Span {
        low: range.low,
        high: Some(range.high),
        back: range.back,
    }
}

impl Open<'_, '_> {
    fn handle(&self, table: usize) -> Handle {
        self.of.tables[table]
    }
}

impl Txn for Open<'_, '_> {
    fn on(&mut self, partition: usize) {
        if let Err(error) = self.t.on(partition) {
            self.failed = Some(error.into());
        }
    }

    fn get(&mut self, table: usize, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        let handle = self.handle(table);
        Ok(self.t.bytes(handle, key).map_err(stop)?.map(<[u8]>::to_vec))
    }

    fn get_many(&mut self, table: usize, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        let (handle, all) = (
            self.handle(table),
            keys.iter().map(|key| &key[..]).collect::<Vec<_>>(),
        );
        self.t.ask_bytes(handle, &all).map_err(stop)?;
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    fn put(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<(), Stop> {
        let handle = self.handle(table);
        self.t.put_bytes(handle, key, row).map_err(stop)
    }

    fn insert(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<bool, Stop> {
        let handle = self.handle(table);
        if self.t.bytes(handle, key).map_err(stop)?.is_some() {
            return Ok(false);
        }
        self.put(table, key, row)?;
        Ok(true)
    }

    fn delete(&mut self, table: usize, key: &Key) -> Result<(), Stop> {
        let handle = self.handle(table);
        self.t.delete_bytes(handle, key).map_err(stop)
    }

    fn range(&mut self, table: usize, range: Span<'_>) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let (handle, mut rows) = (self.handle(table), Vec::new());
        let see = |key: &[u8], row: &[u8]| {
            rows.push((key.try_into().unwrap_or_default(), row.to_vec()));
            rows.len() < range.limit
        };
        self.t.each_bytes(handle, span(&range), see).map_err(stop)?;
        Ok(rows)
    }

    fn index(&mut self, table: usize, index: usize, range: Span<'_>) -> Result<Vec<Vec<u8>>, Stop> {
        let (handle, mut rows) = (self.handle(table), Vec::new());
        let name = self.of.schema[table].indexes[index].name;
        let see = |_: &[u8], row: &[u8]| {
            rows.push(row.to_vec());
            rows.len() < range.limit
        };
        self.t
            .each_by_index(handle, name, span(&range), see)
            .map_err(stop)?;
        Ok(rows)
    }
}

/// What a closure ended with.
enum Way {
    Stop(Stop),
    Store(Error),
}

impl From<Error> for Way {
    fn from(error: Error) -> Way {
        Way::Store(error)
    }
}

impl Engine for Rows {
    fn partitions(&self) -> usize {
        self.store.partitions()
    }

    fn transact(
        &self,
        partitions: &[usize],
        f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>,
    ) -> anyhow::Result<Ended> {
        let done = self.store.transact_in(partitions, |t| {
            let mut open = Open {
                t,
                of: self,
                failed: None,
            };
            let answer = f(&mut open);
            match open.failed {
                Some(failed) => Err(Way::Stop(Stop::Failed(failed))),
                // The store knows what was asked for, and runs it again.
                None => answer.map_err(|stop| match stop {
                    Stop::Again => Way::Store(Error::Cold),
                    stop => Way::Stop(stop),
                }),
            }
        });
        match done {
            Ok(()) => Ok(Ended::Committed),
            Err(Way::Stop(Stop::Rollback)) => Ok(Ended::RolledBack),
            Err(Way::Stop(Stop::Failed(error))) => Err(error),
            Err(Way::Stop(Stop::Again)) => anyhow::bail!("rows in memory run nothing again"),
            Err(Way::Store(error)) => Err(error.into()),
        }
    }

    fn figures(&self) -> Figures {
        let stats = self.store.stats();
        Figures {
            rows: stats.row_bytes(),
            indexes: stats.index_bytes(),
            other: stats.memory() - stats.row_bytes() - stats.index_bytes(),
            restarts: stats.restarts,
            misses: stats.misses,
            reads: stats.pages_read,
            read_bytes: stats.pages_read * stats.page_bytes,
            written_bytes: stats.pages_written * stats.page_bytes,
            evicted: stats.evicted,
        }
    }
}
