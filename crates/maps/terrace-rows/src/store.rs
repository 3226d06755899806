//! The store: partitions, tables that are made, transactions that run.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_mem::IndexKey;

use crate::error::Error;
use crate::row::{KeyBytes, Row, with_bytes};
use crate::stats::{Stats, TableStats};
use crate::table::handle::{Handle, IndexKind, Table};
use crate::table::index::{Extract, Index};
use crate::table::key_map::KeyMap;
use crate::table::raw::RawTable;
use crate::txn::Transaction;
use crate::txn::partition::Partition;

/// How a store is to be.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is made with them"]
pub struct Options {
    partitions: usize,
    primary: terrace_mem::Options,
    secondary: terrace_mem::Options,
}

/// Most partitions.
const MOST_PARTITIONS: usize = 1024;

impl Default for Options {
    fn default() -> Options {
        let usual = terrace_mem::Options::default();
        Options {
            partitions: 1,
            primary: usual.clone(),
            secondary: usual,
        }
    }
}

impl Options {
    /// One partition, indexes as `terrace_mem` has them.
    pub fn new() -> Options {
        Options::default()
    }

    /// Parts that know nothing of each other: one transaction runs in each at a time.
    pub fn partitions(self, partitions: usize) -> Options {
        Options { partitions, ..self }
    }

    /// The maps of all indexes.
    pub fn indexes(self, options: terrace_mem::Options) -> Options {
        Options {
            primary: options.clone(),
            secondary: options,
            ..self
        }
    }
}

struct Inner {
    id: u64,
    options: Options,
    partitions: Box<[Mutex<Partition>]>,
    /// Names of the tables, by their numbers; who makes one holds it.
    names: Mutex<Vec<String>>,
}

/// Tables of rows in memory. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// A lock, also after a panic: what a panic left half done was taken back before the lock was free.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// A store with one partition.
    pub fn in_memory() -> Store {
        // One partition is allowed.
        Store::build(Options::new(), 1)
    }

    /// A store with options.
    ///
    /// # Errors
    /// Options that are not possible.
    pub fn with_options(options: Options) -> Result<Store, Error> {
        let partitions = options.partitions;
        if !(1..=MOST_PARTITIONS).contains(&partitions) {
            return Err(Error::Options(format!(
                "a store has 1 to {MOST_PARTITIONS} partitions, not {partitions}"
            )));
        }
        Ok(Store::build(options, partitions))
    }

    fn build(options: Options, partitions: usize) -> Store {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Store {
            inner: Arc::new(Inner {
                id: IDS.fetch_add(1, Ordering::Relaxed),
                options,
                partitions: (0..partitions).map(|_| Mutex::default()).collect(),
                names: Mutex::default(),
            }),
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.inner.partitions.len()
    }

    /// A table that is to be made, of rows of a type.
    pub fn table<R: Row>(&self, name: &str) -> TableBuilder<R> {
        TableBuilder {
            store: self.clone(),
            name: name.into(),
            number: <R::Key as IndexKey>::Family::NUMBER,
            indexes: Vec::new(),
            row: PhantomData,
        }
    }

    /// A table that is to be made, of rows that are bytes, as its keys are: of 8 bytes each if `number`.
    pub fn table_of_bytes(&self, name: &str, number: bool) -> TableBuilder<()> {
        TableBuilder {
            store: self.clone(),
            name: name.into(),
            number,
            indexes: Vec::new(),
            row: PhantomData,
        }
    }

    /// Runs a closure alone in the first partition. With an error, and with a panic, everything it did is taken back.
    ///
    /// # Errors
    /// Those of the closure; [`Error::Broken`].
    pub fn transact<T, E: From<Error>>(
        &self,
        f: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact_in(&[0], f)
    }

    /// Runs a closure alone in these partitions; it begins on the first one named ([`Transaction::on`]).
    ///
    /// # Errors
    /// Those of the closure; [`Error::NoSuchPartition`], [`Error::Broken`].
    pub fn transact_in<T, E: From<Error>>(
        &self,
        partitions: &[usize],
        mut f: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin(partitions)?;
        let answer = f(&mut transaction)?;
        transaction.commit();
        Ok(answer)
    }

    /// Takes the partitions in ascending order, so that no two transactions wait for each other.
    fn begin(&self, partitions: &[usize]) -> Result<Transaction<'_>, Error> {
        let (Some(&begin), all) = (partitions.first(), &self.inner.partitions) else {
            return Err(Error::Options("a transaction needs a partition".into()));
        };
        if let Some(&wrong) = partitions.iter().find(|&&number| number >= all.len()) {
            return Err(Error::NoSuchPartition(wrong));
        }
        let id = self.inner.id;
        if let [one] = partitions {
            return Transaction::new(id, (*one, lock(&all[*one])), std::iter::empty());
        }
        let mut order = partitions.to_vec();
        order.sort_unstable();
        order.dedup();
        let mut held = order.into_iter().map(|number| (number, lock(&all[number])));
        let Some(first) = held.next() else {
            return Err(Error::NoSuchPartition(begin));
        };
        let mut transaction = Transaction::new(id, first, held)?;
        transaction.on(begin)?;
        Ok(transaction)
    }

    /// Where the memory is. Takes each partition for a moment; O(entries in dynamic stages of lists).
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for partition in &self.inner.partitions {
            let partition = lock(partition);
            stats.undo_bytes += partition.undo.memory() as u64;
            for (number, table) in partition.tables.iter().enumerate() {
                let table = table.stats();
                if stats.tables.len() <= number {
                    stats.tables.push(TableStats {
                        name: table.name.clone(),
                        ..TableStats::default()
                    });
                }
                stats.tables[number].add(table);
            }
        }
        stats
    }

    /// Moves all entries of all indexes to their static stages. O(entries), while each partition waits.
    pub fn merge_all(&self) {
        for partition in &self.inner.partitions {
            lock(partition)
                .tables
                .iter_mut()
                .for_each(RawTable::merge_all);
        }
    }
}

struct Wanted {
    name: String,
    kind: IndexKind,
    number: bool,
    extract: Extract,
}

/// A table that is to be made.
#[must_use = "it is a table only once it is created"]
pub struct TableBuilder<R> {
    store: Store,
    name: String,
    number: bool,
    indexes: Vec<Wanted>,
    row: PhantomData<fn() -> R>,
}

impl<R: Row + 'static> TableBuilder<R> {
    /// With an index whose keys any number of rows may have.
    pub fn index<K: IndexKey<Family: KeyBytes>>(
        self,
        name: &str,
        key: impl Fn(&R) -> K + Send + Sync + 'static,
    ) -> Self {
        self.with(name, IndexKind::List, key)
    }

    /// With an index whose keys one row may have.
    pub fn unique<K: IndexKey<Family: KeyBytes>>(
        self,
        name: &str,
        key: impl Fn(&R) -> K + Send + Sync + 'static,
    ) -> Self {
        self.with(name, IndexKind::Unique, key)
    }

    fn with<K: IndexKey<Family: KeyBytes>>(
        self,
        name: &str,
        kind: IndexKind,
        key: impl Fn(&R) -> K + Send + Sync + 'static,
    ) -> Self {
        let extract = move |row: &[u8], out: &mut Vec<u8>| match R::decode(row) {
            None => false,
            Some(row) => {
                with_bytes(&key(&row), |bytes| out.extend_from_slice(bytes));
                true
            }
        };
        self.index_of_bytes(name, kind, K::Family::NUMBER, extract)
    }
}

impl<R> TableBuilder<R> {
    /// With an index that appends the key of a row's bytes to a buffer, and answers whether it could: of 8 bytes each
    /// if `number`.
    pub fn index_of_bytes(
        mut self,
        name: &str,
        kind: IndexKind,
        number: bool,
        key: impl Fn(&[u8], &mut Vec<u8>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.indexes.push(Wanted {
            name: name.into(),
            kind,
            number,
            extract: Arc::new(key),
        });
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// [`Error::TableExists`]; options of maps that do not go together; an index that is named twice.
    pub fn create(self) -> Result<Table<R>, Error> {
        let inner = &self.store.inner;
        let mut names = lock(&inner.names);
        if names.contains(&self.name) {
            return Err(Error::TableExists(self.name));
        }
        for (i, index) in self.indexes.iter().enumerate() {
            if self.indexes[..i]
                .iter()
                .any(|other| other.name == index.name)
            {
                return Err(Error::Options(format!(
                    "the index \"{}\" is named twice",
                    index.name
                )));
            }
        }
        let no = |error: terrace_mem::OptionsError| Error::Options(error.to_string());
        let mut tables = Vec::new();
        for _ in &inner.partitions {
            let primary = KeyMap::new(self.number, &inner.options.primary).map_err(no)?;
            let mut indexes = Vec::new();
            for index in &self.indexes {
                let unique = index.kind == IndexKind::Unique;
                let (name, extract) = (index.name.clone(), index.extract.clone());
                indexes.push(
                    Index::new(
                        name,
                        unique,
                        index.number,
                        extract,
                        &inner.options.secondary,
                    )
                    .map_err(no)?,
                );
            }
            tables.push(RawTable::new(
                self.name.clone(),
                self.number,
                primary,
                indexes,
            ));
        }
        for (partition, table) in inner.partitions.iter().zip(tables) {
            lock(partition).tables.push(table);
        }
        let handle = Handle {
            store: inner.id,
            table: names.len() as u32,
        };
        names.push(self.name.clone());
        Ok(Table {
            handle,
            name: self.name.into(),
            row: PhantomData,
        })
    }
}
