//! Transactions: reads and writes of one instant, or not at all.
//!
//! A transaction lies in a slot while Python has it: closing the database ends it. What is run again is lent to
//! Python for each attempt and taken back afterwards.

use std::collections::BTreeSet;
use std::ops::Bound as End;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};
use terrace::{Attempted, Error, TransactionOptions};

use crate::data::{data, keys, owned, values};
use crate::errors::Failure;
use crate::iterate::{Entries, Record, Source, What};
use crate::map::{Map, durability};
use crate::merge::Merge;
use crate::ordered::bounds;
use crate::shared::Slot;
use crate::times::in_seconds;

/// Labels that are told apart, as many as the engine has figures of.
const MOST_LABELS: usize = 64;
/// Records of a range that are read at once.
const WINDOW: usize = 256;

/// What a transaction has ended with is not said: only that it is over.
fn over() -> Error {
    Error::invalid("the transaction has ended; begin another one")
}

/// Labels are kept for good, so there is a number of them.
fn label(label: &str) -> Option<&'static str> {
    static LABELS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut labels = LABELS.lock();
    if !labels.contains(label) && labels.len() < MOST_LABELS {
        labels.insert(String::from(label).leak());
    }
    labels.get(label).copied()
}

/// Options, as they were said.
pub fn options(sync: Option<bool>, attempts: u32, labelled: Option<&str>) -> TransactionOptions {
    let mut options = TransactionOptions::new().attempts(attempts.max(1));
    if let Some(durability) = durability(sync) {
        options = options.durability(durability);
    }
    if let Some(label) = labelled.and_then(label) {
        options = options.label(label);
    }
    options
}

/// The transaction itself, while it goes on.
type Going = Mutex<Option<terrace::Transaction>>;

/// Reads of one instant.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct Reader {
    db: Arc<Slot<terrace::Database>>,
    going: Arc<Slot<Going>>,
    /// Whether Python commits it, and not the engine.
    by_hand: bool,
    savepoints: AtomicUsize,
}

/// Reads and writes of one instant.
#[pyclass(frozen, extends = Reader, module = "terrace")]
pub struct Transaction;

/// A place in a transaction to go back to.
#[pyclass(frozen, module = "terrace")]
pub struct Savepoint {
    savepoint: terrace::Savepoint,
    number: usize,
}

impl Reader {
    fn new(
        db: &Arc<Slot<terrace::Database>>,
        transaction: terrace::Transaction,
        by_hand: bool,
    ) -> Reader {
        Reader {
            db: db.clone(),
            by_hand,
            going: db.shared.slot(Mutex::new(Some(transaction))),
            savepoints: AtomicUsize::new(0),
        }
    }

    /// A transaction that is committed by hand.
    pub fn begin(
        py: Python<'_>,
        db: &Arc<Slot<terrace::Database>>,
        options: TransactionOptions,
    ) -> PyResult<Py<Transaction>> {
        let transaction = db.with(py, |db| Ok(db.begin(options)))?;
        let made =
            PyClassInitializer::from(Reader::new(db, transaction, true)).add_subclass(Transaction);
        Py::new(py, made)
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        map: &Map,
        call: impl FnOnce(&mut terrace::Transaction, &terrace::Map) -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        let map = map.slot.take_clone()?;
        self.with_all(py, |transaction| call(transaction, &map))
    }

    fn with_all<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut terrace::Transaction) -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        self.going
            .with(py, |going| call(going.lock().as_mut().ok_or_else(over)?))
    }

    /// The transaction, which is over for Python then.
    fn taken(&self, py: Python<'_>) -> PyResult<Option<terrace::Transaction>> {
        if !self.by_hand {
            return Err(PyTypeError::new_err(
                "this transaction is committed when its function returns, and ended without a trace when \
                 that raises; begin() is for those that are committed by hand",
            ));
        }
        self.going.with(py, |going| Ok(going.lock().take()))
    }

    fn find(&self, py: Python<'_>, map: &Map, key: &[u8]) -> PyResult<Option<Py<PyBytes>>> {
        let found = self.with(py, map, |t, map| t.get(map, key))?;
        Ok(found.map(|value| PyBytes::new(py, &value).unbind()))
    }

    fn records(
        &self,
        py: Python<'_>,
        map: &Map,
        range: (End<Vec<u8>>, End<Vec<u8>>),
        reverse: bool,
    ) -> PyResult<Entries> {
        let source = Windows {
            going: self.going.clone(),
            map: map.slot.take_clone()?,
            left: Some(range),
            reverse,
            window: Vec::new().into_iter(),
        };
        // The whole of it counts as read from now on.
        let (map, range) = (source.map.clone(), source.left.clone());
        self.with_all(py, |transaction| {
            let (low, high) = range.unwrap_or((End::Unbounded, End::Unbounded));
            transaction.range(&map, (low, high)).map(drop)
        })?;
        Ok(Entries::new(
            &self.going.shared,
            Box::new(source),
            What::Items,
        ))
    }
}

/// A range of a transaction, read some records at a time: it is not borrowed in between.
struct Windows {
    going: Arc<Slot<Going>>,
    map: terrace::Map,
    /// What is to be read yet.
    left: Option<(End<Vec<u8>>, End<Vec<u8>>)>,
    reverse: bool,
    window: std::vec::IntoIter<Record>,
}

impl Windows {
    fn read(&mut self) -> terrace::Result<()> {
        let Some((low, high)) = self.left.take() else {
            return Ok(());
        };
        let read = self.going.within(|going| {
            let mut going = going.lock();
            let transaction = going.as_mut().ok_or_else(over)?;
            let range = transaction.range(&self.map, (low.clone(), high.clone()))?;
            if self.reverse {
                range.rev().take(WINDOW).collect()
            } else {
                range.take(WINDOW).collect::<terrace::Result<Vec<_>>>()
            }
        });
        let records = read.map_err(|failure| match failure {
            Failure::Engine(error) => error,
            // Whoever goes through it is told by its own slot.
            _ => over(),
        })?;
        if records.len() == WINDOW
            && let Some((last, _)) = records.last()
        {
            let last = End::Excluded(last.clone());
            self.left = Some(if self.reverse {
                (low, last)
            } else {
                (last, high)
            });
        }
        self.window = records.into_iter();
        Ok(())
    }
}

impl Iterator for Windows {
    type Item = terrace::Result<Record>;

    fn next(&mut self) -> Option<terrace::Result<Record>> {
        loop {
            if let Some(record) = self.window.next() {
                return Some(Ok(record));
            }
            self.left.as_ref()?;
            if let Err(error) = self.read() {
                return Some(Err(error));
            }
        }
    }
}

/// Of all records that were asked for at once.
fn collected(records: Vec<Record>) -> Source {
    Box::new(records.into_iter().map(Ok))
}

/// Runs a transaction as often as it takes. The engine waits for nothing while the function runs.
pub fn run(
    py: Python<'_>,
    db: &Arc<Slot<terrace::Database>>,
    options: TransactionOptions,
    call: &Bound<'_, PyAny>,
    reads_only: bool,
) -> PyResult<Py<PyAny>> {
    let (mut attempts, mut transaction) = db.with(py, |db| Ok(db.attempts(options)))?;
    loop {
        (attempts, transaction) = db.with_clone(py, move |_| {
            attempts.begin(&mut transaction);
            Ok((attempts, transaction))
        })?;
        // Lent to Python for this attempt.
        let reader = Reader::new(db, transaction, false);
        let going = reader.going.clone();
        let object = if reads_only {
            Py::new(py, reader)?.into_any()
        } else {
            let made = PyClassInitializer::from(reader).add_subclass(Transaction);
            Py::new(py, made)?.into_any()
        };
        let answer = call.call1((object,));
        let lent = going.with(py, |going| going.lock().take().ok_or_else(over))?;
        // What is no Exception wants to end the program, or a part of it: that is not tried again.
        if let Err(error) = &answer
            && !error.is_instance_of::<PyException>(py)
        {
            drop(lent);
            return answer.map(Bound::unbind);
        }
        transaction = lent;
        let commit = answer.is_ok();
        let ended;
        (ended, attempts, transaction) = db.with_clone(py, move |_| {
            let ended = attempts.end(&mut transaction, commit)?;
            Ok((ended, attempts, transaction))
        })?;
        match ended {
            Attempted::Committed(_) | Attempted::Ended => return answer.map(Bound::unbind),
            Attempted::Again => py.check_signals()?,
        }
    }
}

#[pymethods]
impl Reader {
    #[pyo3(signature = (map, key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let found = self.find(py, map, data(key)?.as_ref())?;
        Ok(found.map(Py::into_any).or(default))
    }

    #[pyo3(signature = (map, keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        map: &Map,
        keys: &Bound<'py, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = self::keys(keys)?;
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(WINDOW) {
            found.extend(self.with(py, map, |t, map| t.get_many(map, keys))?);
            py.check_signals()?;
        }
        values(py, found, default)
    }

    /// Reads without looking at the commit whether it is still so.
    #[pyo3(signature = (map, key, default=None))]
    fn get_unchecked(
        &self,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let key = data(key)?;
        let found = self.with(py, map, |t, map| t.get_unchecked(map, key.as_ref()))?;
        Ok(found
            .map(|value| PyBytes::new(py, &value).unbind().into_any())
            .or(default))
    }

    fn contains(&self, py: Python<'_>, map: &Map, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = data(key)?;
        self.with(py, map, |t, map| t.contains_key(map, key.as_ref()))
    }

    #[pyo3(signature = (map, start=None, stop=None, *, reverse=false))]
    fn range(
        &self,
        py: Python<'_>,
        map: &Map,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.records(py, map, bounds(start, stop)?, reverse)
    }

    #[pyo3(signature = (map, prefix, *, reverse=false))]
    fn prefix(
        &self,
        py: Python<'_>,
        map: &Map,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let prefix = owned(prefix)?;
        let high = match prefix.iter().rposition(|byte| *byte != u8::MAX) {
            None => End::Unbounded,
            Some(last) => {
                let mut high = prefix[..=last].to_vec();
                high[last] += 1;
                End::Excluded(high)
            }
        };
        self.records(py, map, (End::Included(prefix), high), reverse)
    }

    /// All records; those of a hash table are read at once.
    #[pyo3(signature = (map, *, reverse=false))]
    fn items(&self, py: Python<'_>, map: &Map, reverse: bool) -> PyResult<Entries> {
        let hashed = map.slot.with(py, |map| Ok(map.as_hash().is_some()))?;
        if !hashed {
            return self.records(py, map, (End::Unbounded, End::Unbounded), reverse);
        }
        let mut records = self.with(py, map, |t, map| {
            t.iter(map)?.collect::<terrace::Result<Vec<_>>>()
        })?;
        if reverse {
            records.reverse();
        }
        Ok(Entries::new(
            &self.going.shared,
            collected(records),
            What::Items,
        ))
    }

    /// Rows by an index of a table, read at once.
    #[pyo3(signature = (table, index, start=None, stop=None, *, reverse=false))]
    #[allow(clippy::too_many_arguments)]
    fn index_range(
        &self,
        py: Python<'_>,
        table: &Map,
        index: &str,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.rows(py, table, index, bounds(start, stop)?, reverse)
    }

    /// Rows with one key of an index.
    fn index_get(
        &self,
        py: Python<'_>,
        table: &Map,
        index: &str,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Entries> {
        let key = owned(key)?;
        let range = (End::Included(key.clone()), End::Included(key));
        self.rows(py, table, index, range, false)
    }
}

impl Reader {
    fn rows(
        &self,
        py: Python<'_>,
        table: &Map,
        index: &str,
        range: (End<Vec<u8>>, End<Vec<u8>>),
        reverse: bool,
    ) -> PyResult<Entries> {
        let mut records = self.with(py, table, |t, map| {
            let table = crate::table::table(map)?;
            t.index(&table, index)?
                .range(range)?
                .collect::<terrace::Result<Vec<_>>>()
        })?;
        if reverse {
            records.reverse();
        }
        Ok(Entries::new(
            &self.going.shared,
            collected(records),
            What::Items,
        ))
    }
}

#[pymethods]
impl Transaction {
    #[pyo3(signature = (map, key, value, *, expire=None))]
    fn put(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<f64>,
    ) -> PyResult<()> {
        let (key, value) = (data(key)?, data(value)?);
        if let Some(seconds) = expire {
            let expires = in_seconds(&map.slot.take_clone()?, seconds)?;
            return this.as_super().with(py, map, |t, map| {
                t.put_expiring(map, key.as_ref(), value.as_ref(), expires)
            });
        }
        this.as_super()
            .with(py, map, |t, map| t.put(map, key.as_ref(), value.as_ref()))
    }

    /// Has a record expire in so many seconds, or never; whether it is there.
    #[pyo3(signature = (map, key, expire=None))]
    fn touch(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        expire: Option<f64>,
    ) -> PyResult<bool> {
        let key = data(key)?;
        let expires = match expire {
            Some(seconds) => in_seconds(&map.slot.take_clone()?, seconds)?,
            None => terrace::Expires::Never,
        };
        this.as_super()
            .with(py, map, |t, map| t.expire(map, key.as_ref(), expires))
    }

    fn delete(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let key = data(key)?;
        this.as_super()
            .with(py, map, |t, map| t.delete(map, key.as_ref()))
    }

    fn insert(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (data(key)?, data(value)?);
        this.as_super().with(py, map, |t, map| {
            t.insert(map, key.as_ref(), value.as_ref())
        })
    }

    fn remove(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyBytes>>> {
        let key = data(key)?;
        let removed = this
            .as_super()
            .with(py, map, |t, map| t.remove(map, key.as_ref()))?;
        Ok(removed.map(|value| PyBytes::new(py, &value).unbind()))
    }

    /// Replaces a value by what `change` makes of it; says whether there was one.
    fn update(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        change: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let reader = this.as_super();
        let key = owned(key)?;
        let old = reader.find(py, map, &key)?;
        let there = old.is_some();
        let answer = change.call1((old,))?;
        if !answer.is_none() {
            let value = data(&answer)?;
            reader.with(py, map, |t, map| t.put(map, &key, value.as_ref()))?;
        } else if there {
            reader.with(py, map, |t, map| t.delete(map, &key))?;
        }
        Ok(there)
    }

    fn merge(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        map: &Map,
        key: &Bound<'_, PyAny>,
        merge: &Merge,
    ) -> PyResult<()> {
        let key = data(key)?;
        let merge = merge.merge.clone();
        this.as_super()
            .with(py, map, |t, map| t.merge(map, key.as_ref(), merge))
    }

    /// Takes the record with the lowest key out: a queue.
    fn pop_first<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
        map: &Map,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let popped = this.as_super().with(py, map, |t, map| t.pop_first(map))?;
        Ok(popped.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    /// Takes the record with the highest key out: a stack.
    fn pop_last<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
        map: &Map,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let popped = this.as_super().with(py, map, |t, map| t.pop_last(map))?;
        Ok(popped.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    fn savepoint(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Savepoint> {
        let reader = this.as_super();
        let savepoint = reader.with_all(py, |t| Ok(t.savepoint()))?;
        let number = reader.savepoints.fetch_add(1, Ordering::Relaxed);
        Ok(Savepoint { savepoint, number })
    }

    fn rollback_to(this: PyRef<'_, Self>, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        this.as_super()
            .with_all(py, |t| t.rollback_to(&savepoint.savepoint))
    }

    /// Commits; answers the place in the order of commits, if there is one.
    fn commit(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Option<u64>> {
        let reader = this.as_super();
        let Some(transaction) = reader.taken(py)? else {
            return Err(Failure::Engine(over()).into());
        };
        reader.db.with_clone(py, move |db| {
            let committed = transaction.commit();
            drop(db);
            Ok(committed?.sequence)
        })
    }

    /// Ends it, and nothing of it is done. Twice is nothing.
    fn abort(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        drop(this.as_super().taken(py)?);
        Ok(())
    }

    fn __enter__<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<PyRef<'py, Self>> {
        this.as_super().with_all(py, |_| Ok(()))?;
        Ok(this)
    }

    fn __exit__(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        raised: Option<&Bound<'_, PyType>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let going = this
            .as_super()
            .going
            .with(py, |going| Ok(going.lock().is_some()));
        if raised.is_some() {
            // What was raised is what is told, even if the database was closed in the block.
            if going.is_ok() {
                Self::abort(this, py)?;
            }
        } else if going? {
            Self::commit(this, py)?;
        }
        Ok(false)
    }
}

#[pymethods]
impl Savepoint {
    fn __repr__(&self) -> String {
        format!("<terrace savepoint {}>", self.number)
    }
}
