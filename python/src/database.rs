//! The database: opening, closing, structures, figures.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use terrace::{
    Compression, Durability, HashOptions, LsmOptions, MapOptions, Options, TableOptions, Tiers,
};

use crate::batch::Batch;
use crate::changes::Changes;
use crate::data::size;
use crate::follow::Follower;
use crate::long::{Cancel, Long};
use crate::map::Map;
use crate::ordered::{Hash, Lsm, Ordered, Tree};
use crate::shared::{Shared, Slot};
use crate::snapshot::Snapshot;
use crate::table::{Table, parse};
use crate::transaction;

/// An open database.
#[pyclass(frozen, subclass, module = "terrace._terrace")]
pub struct Database {
    slot: Arc<Slot<terrace::Database>>,
    path: PathBuf,
}

fn durability(said: &str) -> PyResult<Durability> {
    match said {
        "buffered" => Ok(Durability::Buffered),
        "sync" => Ok(Durability::Sync),
        other => Err(PyValueError::new_err(format!(
            "durability is \"buffered\" or \"sync\", not {other:?}"
        ))),
    }
}

/// Options of a structure, as they were said.
fn options(
    tiers: Option<u8>,
    inclusive: Option<bool>,
    logged: Option<bool>,
    expiring: bool,
) -> PyResult<MapOptions> {
    let mut options = MapOptions::new();
    match tiers {
        None => {}
        Some(1) => options = options.tiers(Tiers::One),
        Some(2) => options = options.tiers(Tiers::Two),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "tiers are 1 or 2, not {other}"
            )));
        }
    }
    if let Some(inclusive) = inclusive {
        options = options.inclusive(inclusive);
    }
    if let Some(logged) = logged {
        options = options.logged(logged);
    }
    if expiring {
        options = options.expiring();
    }
    Ok(options)
}

/// How the pages of an LSM-tree are compressed: not at all, `"lz4"`, or with that so many levels.
fn compression(said: &Bound<'_, PyAny>) -> PyResult<Compression> {
    let said_so = || {
        PyValueError::new_err(
            "compression is \"none\", \"lz4\", or in how many levels there is lz4, counted from the last one",
        )
    };
    if let Ok(levels) = said.extract::<u8>() {
        return Ok(match levels {
            0 => Compression::None,
            levels => Compression::Lz4 { levels },
        });
    }
    match said.cast::<PyString>().map_err(|_| said_so())?.to_str()? {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::LZ4),
        _ => Err(said_so()),
    }
}

/// Seconds, as they are said of what `name` is.
fn seconds(name: &str, said: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(said)
        .map_err(|e| PyValueError::new_err(format!("{name} is in seconds: {e}")))
}

impl Database {
    fn structure(&self, map: terrace::Map) -> Map {
        Map {
            slot: self.slot.shared.slot(map),
        }
    }

    fn as_tree(&self, py: Python<'_>, map: terrace::Map) -> PyResult<Py<PyAny>> {
        let made = PyClassInitializer::from(self.structure(map))
            .add_subclass(Ordered)
            .add_subclass(Tree);
        Ok(Py::new(py, made)?.into_any())
    }

    fn as_lsm(&self, py: Python<'_>, map: terrace::Map) -> PyResult<Py<PyAny>> {
        let made = PyClassInitializer::from(self.structure(map))
            .add_subclass(Ordered)
            .add_subclass(Lsm);
        Ok(Py::new(py, made)?.into_any())
    }

    fn as_hash(&self, py: Python<'_>, map: terrace::Map) -> PyResult<Py<PyAny>> {
        let made = PyClassInitializer::from(self.structure(map)).add_subclass(Hash);
        Ok(Py::new(py, made)?.into_any())
    }

    fn as_table(&self, py: Python<'_>, map: terrace::Map) -> PyResult<Py<PyAny>> {
        let made = PyClassInitializer::from(self.structure(map))
            .add_subclass(Ordered)
            .add_subclass(Table);
        Ok(Py::new(py, made)?.into_any())
    }
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (
        path, *, memory=None, create=true, durability="buffered", page_size=None, log_limit=None,
        direct_io=true, control=false, read_only=false, keep_changes=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory: Option<&Bound<'_, PyAny>>,
        create: bool,
        durability: &str,
        page_size: Option<&Bound<'_, PyAny>>,
        log_limit: Option<&Bound<'_, PyAny>>,
        direct_io: bool,
        control: bool,
        read_only: bool,
        keep_changes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Database> {
        let mut options = Options::new()
            .create(create)
            .durability(self::durability(durability)?)
            .direct_io(direct_io)
            .control(control);
        if let Some(bytes) = memory {
            options = options.memory(size(bytes)?);
        }
        if let Some(bytes) = page_size {
            options = options.page_size(usize::try_from(size(bytes)?)?);
        }
        if let Some(bytes) = log_limit {
            options = options.log_limit(size(bytes)?);
        }
        if let Some(bytes) = keep_changes {
            options = options.keep_changes(size(bytes)?);
        }
        let shared = Shared::new();
        let opened = shared.opened(py, || match read_only {
            true => terrace::Database::open_read_only(&path, options),
            false => terrace::Database::open(&path, options),
        })?;
        Ok(Database {
            slot: shared.slot(opened),
            path,
        })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Closes it, with all handles of its structures. Twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.shared.check_fork()?;
        let Some(db) = self.slot.peek() else {
            return Ok(());
        };
        let shared = self.slot.shared.clone();
        shared.clone().opened(py, move || {
            shared.empty();
            if shared.is_broken() {
                shared.give_up(db);
                return Ok(());
            }
            let closed = db.close();
            // Who waited is told by now, before the interpreter may end.
            shared.wakes.settle();
            closed
        })
    }

    /// For tests, and in nothing that is released: a call of the engine that panics.
    #[cfg(debug_assertions)]
    fn _panics(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.with(py, |_| panic!("planted"))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.slot.peek().is_none()
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<terrace database {:?}{closed}>", self.path)
    }

    #[pyo3(signature = (name, *, tiers=None, inclusive=None, logged=None, expiring=false))]
    fn tree(
        &self,
        py: Python<'_>,
        name: &str,
        tiers: Option<u8>,
        inclusive: Option<bool>,
        logged: Option<bool>,
        expiring: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = options(tiers, inclusive, logged, expiring)?;
        let tree = self.slot.with(py, |db| db.tree_with(name, options))?;
        self.as_tree(py, (*tree).clone())
    }

    #[pyo3(signature = (name, *, compression=None, tiers=None, inclusive=None, logged=None, expiring=false))]
    #[allow(clippy::too_many_arguments)]
    fn lsm(
        &self,
        py: Python<'_>,
        name: &str,
        compression: Option<&Bound<'_, PyAny>>,
        tiers: Option<u8>,
        inclusive: Option<bool>,
        logged: Option<bool>,
        expiring: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut options: LsmOptions = options(tiers, inclusive, logged, expiring)?;
        if let Some(said) = compression {
            options = options.compression(self::compression(said)?);
        }
        let lsm = self.slot.with(py, |db| db.lsm_with(name, options))?;
        self.as_lsm(py, (*lsm).clone())
    }

    #[pyo3(signature = (name, *, tiers=None, inclusive=None, logged=None, expiring=false))]
    fn hash(
        &self,
        py: Python<'_>,
        name: &str,
        tiers: Option<u8>,
        inclusive: Option<bool>,
        logged: Option<bool>,
        expiring: bool,
    ) -> PyResult<Py<PyAny>> {
        let options: HashOptions = options(tiers, inclusive, logged, expiring)?;
        let hash = self.slot.with(py, |db| db.hash_with(name, options))?;
        self.as_hash(py, (*hash).clone())
    }

    #[pyo3(signature = (name, *, indexes=None, tiers=None, inclusive=None, logged=None, expiring=false))]
    #[allow(clippy::too_many_arguments)]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        indexes: Option<&Bound<'_, PyDict>>,
        tiers: Option<u8>,
        inclusive: Option<bool>,
        logged: Option<bool>,
        expiring: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut wanted = TableOptions::from(options(tiers, inclusive, logged, expiring)?);
        for (index, source) in indexes.into_iter().flatten() {
            let (index, source): (String, String) = (index.extract()?, source.extract()?);
            let parsed = parse(&index, &source).map_err(crate::errors::Failure::Engine)?;
            wanted = wanted.index(parsed);
        }
        let said = indexes.is_some();
        let table = self.slot.with(py, |db| match db.map(name) {
            // Whoever says nothing of indexes takes them as they are.
            Ok(found) if !said => {
                let table = found.as_table();
                table.ok_or(()).or_else(|()| db.table_with(name, wanted))
            }
            _ => db.table_with(name, wanted),
        })?;
        self.as_table(py, (*table).clone())
    }

    /// A structure that is there, of whatever kind.
    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let map = self.slot.with(py, |db| db.map(name))?;
        match map.kind() {
            terrace::Kind::Tree => self.as_tree(py, map),
            terrace::Kind::Lsm => self.as_lsm(py, map),
            terrace::Kind::Hash => self.as_hash(py, map),
            terrace::Kind::Table => self.as_table(py, map),
            other => Err(PyTypeError::new_err(format!(
                "{name:?} is a {other}, which this version of the package does not know"
            ))),
        }
    }

    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.slot.with(py, |db| db.drop_structure(name))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.names(py)?.iter().any(|known| known == name))
    }

    /// The names of the structures.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.slot.with(py, |db| {
            Ok(db.structures().into_iter().map(|s| s.name).collect())
        })
    }

    fn rename(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        self.slot.with(py, |db| db.rename_structure(old, new))
    }

    fn drop(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.__delitem__(py, name)
    }

    #[pyo3(signature = (*, sync=None))]
    fn batch(&self, sync: Option<bool>) -> PyResult<Batch> {
        self.slot.take_clone()?;
        Ok(Batch::new(self.slot.clone(), sync))
    }

    /// Runs a function with a transaction, again while others are faster.
    #[pyo3(signature = (call, *, sync=None, attempts=100, label=None))]
    fn transaction(
        &self,
        py: Python<'_>,
        call: &Bound<'_, PyAny>,
        sync: Option<bool>,
        attempts: u32,
        label: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        transaction::run(
            py,
            &self.slot,
            transaction::options(sync, attempts, label),
            call,
            false,
        )
    }

    /// The same with one that only reads.
    #[pyo3(signature = (call, *, attempts=100, label=None))]
    fn read(
        &self,
        py: Python<'_>,
        call: &Bound<'_, PyAny>,
        attempts: u32,
        label: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        transaction::run(
            py,
            &self.slot,
            transaction::options(None, attempts, label),
            call,
            true,
        )
    }

    /// A transaction that is committed by hand.
    #[pyo3(signature = (*, sync=None, label=None))]
    fn begin(
        &self,
        py: Python<'_>,
        sync: Option<bool>,
        label: Option<&str>,
    ) -> PyResult<Py<transaction::Transaction>> {
        transaction::Reader::begin(py, &self.slot, transaction::options(sync, 1, label))
    }

    /// Everything as it is now, or was at most so many seconds ago.
    #[pyo3(signature = (*, max_age=None))]
    fn snapshot(&self, py: Python<'_>, max_age: Option<f64>) -> PyResult<Snapshot> {
        let max_age = max_age.map(|age| seconds("max_age", age)).transpose()?;
        let taken = self.slot.with_clone(py, |db| match max_age {
            Some(age) => db.snapshot_at_most(age),
            None => db.snapshot(),
        })?;
        Ok(Snapshot::new(&self.slot.shared, taken))
    }

    /// Every commit from a place on, or from now on.
    #[pyo3(signature = (*, place=None, until_now=false, snapshot=false))]
    fn changes(
        &self,
        py: Python<'_>,
        place: Option<&str>,
        until_now: bool,
        snapshot: bool,
    ) -> PyResult<(Changes, Option<Snapshot>)> {
        let place = place.map(str::to_owned);
        let (changes, taken) = self.slot.with_clone(py, move |db| {
            let mut options = terrace::ChangesOptions::new();
            if let Some(place) = &place {
                options = options.from(place.parse()?);
            }
            if until_now {
                options = options.until_now();
            }
            match snapshot {
                true => db
                    .changes_and_snapshot(options)
                    .map(|(changes, taken)| (changes, Some(taken))),
                false => Ok((db.changes(options)?, None)),
            }
        })?;
        let shared = &self.slot.shared;
        let taken = taken.map(|taken| Snapshot::new(shared, taken));
        Ok((Changes::new(shared, changes), taken))
    }

    /// Adds a point to a backup set, and says what that came to as JSON.
    #[pyo3(signature = (set, *, full=false, mark=None, rate=None, cancel=None, progress=None))]
    #[allow(clippy::too_many_arguments)]
    fn backup_json(
        &self,
        py: Python<'_>,
        set: PathBuf,
        full: bool,
        mark: Option<String>,
        rate: Option<&Bound<'_, PyAny>>,
        cancel: Option<&Cancel>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let rate = crate::backup::rate(rate)?;
        let long = Long::new(cancel, progress);
        long.run_with(py, &self.slot, |db| {
            let mut options = terrace::BackupOptions::new()
                .full(full)
                .rate(rate)
                .cancel(&long.cancel)
                .progress(|progress| long.tell(progress));
            if let Some(mark) = mark {
                options = options.mark(mark);
            }
            crate::backup::json(&db.backup(set, options)?)
        })
    }

    /// Fills pages and shortens the file, and says what that came to as JSON.
    #[pyo3(signature = (*, fill=None, rate=None, cancel=None, progress=None))]
    fn compact_json(
        &self,
        py: Python<'_>,
        fill: Option<f64>,
        rate: Option<&Bound<'_, PyAny>>,
        cancel: Option<&Cancel>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let rate = crate::backup::rate(rate)?;
        let long = Long::new(cancel, progress);
        long.run_with(py, &self.slot, |db| {
            let mut options = terrace::CompactOptions::new()
                .rate(rate)
                .cancel(&long.cancel)
                .progress(|progress| long.tell(progress));
            if let Some(fill) = fill {
                options = options.fill(fill);
            }
            crate::backup::json(&db.compact(options)?)
        })
    }

    /// Copies the log to a backup set from now on.
    #[pyo3(signature = (set, *, every=None, point_after=None, rate=None))]
    fn follow(
        &self,
        py: Python<'_>,
        set: PathBuf,
        every: Option<f64>,
        point_after: Option<&Bound<'_, PyAny>>,
        rate: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Follower> {
        let mut options = terrace::FollowOptions::new().rate(crate::backup::rate(rate)?);
        if let Some(every) = every {
            options = options.every(seconds("every", every)?);
        }
        if let Some(bytes) = point_after {
            options = options.point_after(size(bytes)?);
        }
        let long = Long::new(None, None);
        let follower = long.run_with(py, &self.slot, |db| db.follow(set, options))?;
        Ok(Follower::new(&self.slot, follower))
    }

    /// Names this instant: its place in the order of changes, and its time in seconds since 1970.
    fn mark_json(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        self.slot
            .with_clone(py, |db| crate::backup::json(&db.mark(name)?))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.with_clone(py, |db| db.sync())
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.with_clone(py, |db| db.checkpoint().map(drop))
    }

    /// What is wrong, one line each.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let long = Long::new(None, None);
        long.run_with(py, &self.slot, |db| {
            Ok(db.verify_until(&long.cancel, |_| ())?.problems)
        })
    }

    /// The figures as JSON.
    #[pyo3(signature = (*, survey=false))]
    fn stats_json(&self, py: Python<'_>, survey: bool) -> PyResult<String> {
        self.slot.with_clone(py, |db| {
            let stats = if survey { db.survey()? } else { db.stats() };
            serde_json::to_string(&stats).map_err(|e| terrace::Error::invalid(e.to_string()))
        })
    }

    /// The figures as a table.
    fn stats_text(&self, py: Python<'_>) -> PyResult<String> {
        self.slot.with_clone(py, |db| Ok(db.survey()?.to_string()))
    }

    /// The figures as metrics.
    #[pyo3(signature = (*, openmetrics=false, survey=false))]
    fn metrics(&self, py: Python<'_>, openmetrics: bool, survey: bool) -> PyResult<String> {
        let format = if openmetrics {
            terrace_metrics::Format::OpenMetrics
        } else {
            terrace_metrics::Format::Prometheus
        };
        self.slot.with_clone(py, |db| {
            let stats = if survey { db.survey()? } else { db.stats() };
            Ok(terrace_metrics::render(&stats, format))
        })
    }
}
