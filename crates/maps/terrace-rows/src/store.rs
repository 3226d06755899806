//! The store: partitions, tables that are made, transactions that run.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use terrace::Database;
use terrace_mem::IndexKey;

use crate::error::Error;
use crate::faults::{Fault, let_go, planted};
use crate::row::{Extract, KeyBytes, Row, with_bytes};
use crate::span::Span;
use crate::spill::cold::{Cold, Trees};
use crate::spill::fetched::{Fetched, Want};
use crate::stats::{Stats, TableStats};
use crate::table::handle::{Handle, IndexKind, Table};
use crate::table::index::Index;
use crate::table::key_map::KeyMap;
use crate::table::raw::RawTable;
use crate::txn::Transaction;
use crate::txn::hand;
use crate::txn::partition::{Partition, lock, weight};

/// How a store is to be.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is made with them"]
pub struct Options {
    partitions: usize,
    primary: terrace_mem::Options,
    secondary: terrace_mem::Options,
    memory: u64,
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
            memory: 256 << 20,
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

    /// Bytes that a store that is opened in a folder may use for all that it keeps in memory; 256 MiB by default.
    pub fn memory(self, memory: u64) -> Options {
        Options { memory, ..self }
    }

    fn checked(&self) -> Result<usize, Error> {
        let partitions = self.partitions;
        if !(1..=MOST_PARTITIONS).contains(&partitions) {
            return Err(Error::Options(format!(
                "a store has 1 to {MOST_PARTITIONS} partitions, not {partitions}"
            )));
        }
        Ok(partitions)
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
    /// Of each partition: the hand has made a step.
    stepped: Box<[Condvar]>,
    /// Names of the tables, by their numbers; who makes one holds it.
    names: Mutex<Vec<String>>,
    disk: Option<Below>,
}

/// Where rows go that leave memory.
struct Below {
    db: Database,
    /// Bytes that each partition may use.
    share: usize,
    /// Locked as long as the folder is in use.
    _mark: std::fs::File,
}

/// One part in this many of the memory is the database's, but at least `DATABASE_LEAST` bytes.
const DATABASE_SHARE: u64 = 16;
const DATABASE_LEAST: u64 = 8 << 20;
/// Runs of a closure after which its partitions are held, also while what it asks for is read: so nothing changes any
/// more, and it comes to its end.
const HOLD_AFTER: u32 = 8;

/// Tables of rows in memory. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl Store {
    /// A store with one partition.
    pub fn in_memory() -> Store {
        // One partition is allowed.
        Store::build(Options::new(), 1, None)
    }

    /// A store whose rows leave memory where it does not do, for a database in this folder. The folder is emptied: what
    /// the store holds is gone when it is dropped.
    ///
    /// # Errors
    /// Options that are not possible; [`Error::Disk`].
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<Store, Error> {
        let folder = folder.as_ref();
        let least = DATABASE_LEAST * 2;
        if options.memory < least {
            return Err(Error::Options(format!(
                "a store in a folder needs {least} bytes of memory"
            )));
        }
        let partitions = options.checked()?;
        let failed = |e: std::io::Error| Error::Disk(e.to_string());
        std::fs::create_dir_all(folder).map_err(failed)?;
        // Only what a store has made: a folder of something else is not emptied, nor one that is in use.
        let mark = folder.join(MARK);
        let empty = std::fs::read_dir(folder).map_err(failed)?.next().is_none();
        if !mark.exists() && !empty {
            return Err(Error::Options(format!(
                "{} holds something else; name an empty folder",
                folder.display()
            )));
        }
        let mark = std::fs::File::create(mark).map_err(failed)?;
        if mark.try_lock().is_err() {
            return Err(Error::Options(format!(
                "{} is in use by another store; close it, or name another folder",
                folder.display()
            )));
        }
        let rows = folder.join("rows");
        if rows.exists() {
            std::fs::remove_dir_all(&rows).map_err(failed)?;
        }
        let below = (options.memory / DATABASE_SHARE).max(DATABASE_LEAST);
        let db = Database::open(rows, terrace::Options::new().memory(below))?;
        let share = (options.memory - below) as usize / partitions;
        let below = Below {
            db,
            share,
            _mark: mark,
        };
        Ok(Store::build(options, partitions, Some(below)))
    }

    /// A store with options.
    ///
    /// # Errors
    /// Options that are not possible.
    pub fn with_options(options: Options) -> Result<Store, Error> {
        let partitions = options.checked()?;
        Ok(Store::build(options, partitions, None))
    }

    fn build(options: Options, partitions: usize, disk: Option<Below>) -> Store {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Store {
            inner: Arc::new(Inner {
                id: IDS.fetch_add(1, Ordering::Relaxed),
                options,
                partitions: (0..partitions).map(|_| Mutex::default()).collect(),
                stepped: (0..partitions).map(|_| Condvar::new()).collect(),
                names: Mutex::default(),
                disk,
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
            resident: false,
            prefix: 0,
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
            resident: false,
            prefix: 0,
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
        let done = self.run(partitions, &mut f);
        // Also where it failed: rows may have come into memory.
        if let Some(below) = &self.inner.disk
            && (done.is_ok() || !planted(Fault::RoomOnlyOnSuccess))
        {
            for &number in partitions {
                if let Some(of) = self.inner.partitions.get(number) {
                    hand::make_room(of, &self.inner.stepped[number], below.share);
                }
            }
        }
        done
    }

    fn run<T, E: From<Error>>(
        &self,
        partitions: &[usize],
        f: &mut impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut fetched, mut jobs, mut runs) = (Fetched::default(), Vec::new(), 0);
        loop {
            read(&mut fetched, std::mem::take(&mut jobs))?;
            let mut transaction = self.begin(partitions)?;
            loop {
                if runs > 0 {
                    self.admit(&mut transaction, &fetched);
                    fetched.settle();
                }
                transaction.fetched = std::mem::take(&mut fetched);
                let answer = f(&mut transaction);
                let wants = std::mem::take(&mut transaction.fetched.wants);
                if wants.is_empty() {
                    let changed = answer?;
                    transaction.commit();
                    return Ok(changed);
                }
                // It has not seen all that it asked for, so whatever it answered does not count.
                runs += 1;
                transaction.take_back();
                transaction.usable()?;
                jobs = note(&mut transaction, wants);
                fetched = std::mem::take(&mut transaction.fetched);
                let misses = std::mem::take(&mut fetched.misses);
                if let Some((_, partition)) = transaction.partitions().next() {
                    partition.counts.misses += misses;
                    partition.counts.restarts += 1;
                }
                if runs < HOLD_AFTER || planted(Fault::LetsGo) {
                    break;
                }
                // What was read stays as it is from here on, so each run comes further than the one before.
                read(&mut fetched, std::mem::take(&mut jobs))?;
            }
            drop(transaction);
            let_go();
        }
    }

    /// Takes what was read into memory, as far as it is asked for often.
    fn admit(&self, transaction: &mut Transaction<'_>, fetched: &Fetched) {
        let Some(below) = &self.inner.disk else {
            return;
        };
        for (number, partition) in transaction.partitions() {
            let mut mine = fetched.rows().filter(|row| row.0 == number).peekable();
            if mine.peek().is_none() {
                continue;
            }
            let room = partition.used() + below.share / 64 < below.share;
            for (_, table, key, row, version) in mine {
                if partition.tables[table as usize].admit(key, row, version, room) {
                    partition.counts.admitted += 1;
                    partition.changed += weight(key, row);
                }
            }
        }
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
        if let Some(below) = &self.inner.disk {
            let of = below.db.stats();
            stats.database_bytes = of.memory.used();
            (stats.pages_read, stats.pages_written) = (of.pages.reads, of.pages.writes);
            stats.page_bytes = of.pages.page_bytes;
        }
        for partition in &self.inner.partitions {
            let partition = lock(partition);
            stats.undo_bytes += partition.undo.memory() as u64;
            stats.misses += partition.counts.misses;
            stats.evicted += partition.counts.evicted;
            stats.admitted += partition.counts.admitted;
            stats.restarts += partition.counts.restarts;
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

/// The file that says that a folder is a store's.
const MARK: &str = "terrace-rows";

/// Something to read, and what says afterwards whether it is still so.
struct Job {
    want: Want,
    trees: Trees,
    stamp: u64,
}

/// Notes what is wanted as it is now.
fn note(transaction: &mut Transaction<'_>, wants: Vec<Want>) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, partition) in transaction.partitions() {
        for want in &wants {
            let (Want::Row {
                partition: of,
                table,
                ..
            }
            | Want::Range {
                partition: of,
                table,
                ..
            }) = want;
            if *of != number {
                continue;
            }
            if let Some(cold) = &partition.tables[*table as usize].cold {
                let stamp = match want {
                    Want::Row { key, .. } => u64::from(cold.version(key)),
                    Want::Range { .. } => cold.moves,
                };
                jobs.push(Job {
                    want: want.clone(),
                    trees: cold.trees.clone(),
                    stamp,
                });
            }
        }
    }
    jobs
}

/// Reads from the disk.
fn read(fetched: &mut Fetched, jobs: Vec<Job>) -> Result<(), Error> {
    for Job { want, trees, stamp } in jobs {
        match &want {
            Want::Row {
                partition,
                table,
                key,
            } => {
                let row = trees.get(key)?;
                fetched.keep_row(*partition, *table, key.clone(), row, stamp as u32);
            }
            Want::Range {
                index,
                low,
                high,
                back,
                limit,
                ..
            } => {
                let span = Span {
                    low,
                    high: high.as_deref(),
                    back: *back,
                };
                let (found, complete) = trees.range(*index, span, *limit)?;
                fetched.keep_range(want, found, complete, stamp);
            }
        }
    }
    Ok(())
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
    resident: bool,
    prefix: usize,
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

    /// Its rows never leave memory: for tables that are small, or whose ranges are read all the time.
    pub fn resident(self) -> Self {
        TableBuilder {
            resident: true,
            ..self
        }
    }

    /// Ranges that are read lie within keys that begin with the same `prefix` bytes: then memory knows which of them
    /// have anything on the disk.
    pub fn ranges_within(self, prefix: usize) -> Self {
        TableBuilder { prefix, ..self }
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
        let mut made = Vec::new();
        let tables = match self.tables(&mut made) {
            Ok(tables) => tables,
            Err(error) => {
                if let Some(below) = &inner.disk
                    && !planted(Fault::HalfATable)
                {
                    // One that stays takes its name, and nothing else: the folder is emptied at the next opening.
                    made.iter()
                        .for_each(|tree| drop(below.db.drop_structure(tree)));
                }
                return Err(error);
            }
        };
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

    /// The table of each partition; the names of the trees that it makes go into `made`.
    fn tables(&self, made: &mut Vec<String>) -> Result<Vec<RawTable>, Error> {
        let inner = &self.store.inner;
        let no = |error: terrace_mem::OptionsError| Error::Options(error.to_string());
        let mut tables = Vec::new();
        for number in 0..inner.partitions.len() {
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
            let cold = match &inner.disk {
                Some(below) if !self.resident => {
                    let extract = self
                        .indexes
                        .iter()
                        .map(|index| (index.name.clone(), index.extract.clone()))
                        .collect();
                    let trees = Trees::make(&below.db, &self.name, number, extract, made)?;
                    let unique = self
                        .indexes
                        .iter()
                        .map(|index| index.kind == IndexKind::Unique)
                        .collect();
                    Some(Cold::new(trees, self.prefix, unique, below.share / 512))
                }
                _ => None,
            };
            tables.push(RawTable::new(
                self.name.clone(),
                self.number,
                primary,
                indexes,
                cold,
            ));
        }
        Ok(tables)
    }
}
