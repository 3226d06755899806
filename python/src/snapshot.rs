//! Snapshots: everything as it was at one instant, for reading.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyType};

use crate::data::{data, owned};
use crate::iterate::{Entries, Of, View, What, either_way};
use crate::long::Long;
use crate::map::kind_name;
use crate::ordered::bounds;
use crate::shared::{Shared, Slot};
use crate::table::{Index, indexes};

/// A state of the database, kept until it is closed.
#[pyclass(frozen, module = "terrace")]
pub struct Snapshot {
    /// Of what belongs to the snapshot alone.
    shared: Arc<Shared>,
    slot: Arc<Slot<terrace::Snapshot>>,
}

impl Snapshot {
    pub fn new(of: &Arc<Shared>, snapshot: terrace::Snapshot) -> Snapshot {
        let shared = of.part("the snapshot");
        let slot = shared.slot(snapshot);
        Snapshot { shared, slot }
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<f64> {
        let time = self.slot.with(py, |snapshot| Ok(snapshot.time()))?;
        Ok(time
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64())
    }

    #[getter]
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.slot.with(py, |snapshot| Ok(snapshot.sequence()))
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.slot.with(py, |snapshot| {
            Ok(snapshot.structures().into_iter().map(|s| s.name).collect())
        })
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<SnapshotMap> {
        let map = self.slot.with(py, |snapshot| snapshot.map(name))?;
        Ok(SnapshotMap {
            slot: self.shared.slot(map),
        })
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.names(py)?.iter().any(|known| known == name))
    }

    /// What is wrong, one line each.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let long = Long::new(None, None);
        long.run_with(py, &self.slot, |snapshot| {
            Ok(snapshot.verify_until(&long.cancel, |_| ())?.problems)
        })
    }

    /// Gives it back. Twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_fork()?;
        let shared = self.shared.clone();
        py.detach(|| shared.empty());
        Ok(())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.slot.peek().is_none()
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _raised: Option<&Bound<'_, PyType>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> &'static str {
        if self.closed() {
            "<terrace snapshot, closed>"
        } else {
            "<terrace snapshot>"
        }
    }
}

/// A structure of a snapshot, with the manners of a mapping that nobody changes.
#[pyclass(frozen, mapping, module = "terrace")]
pub struct SnapshotMap {
    slot: Arc<Slot<terrace::SnapshotMap>>,
}

impl SnapshotMap {
    fn of(&self) -> Of {
        Of::Snapshot(self.slot.clone())
    }

    fn find(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyBytes>>> {
        let key = data(key)?;
        let found = self.slot.with(py, |map| map.get(key.as_ref()))?;
        Ok(found.map(|value| PyBytes::new(py, &value).unbind()))
    }
}

#[pymethods]
impl SnapshotMap {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.slot.with(py, |map| Ok(map.name()))
    }

    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.slot.with(py, |map| Ok(kind_name(map.kind())))
    }

    fn __len__(&self) -> PyResult<usize> {
        Err(PyTypeError::new_err(
            "how many records there are is not known exactly: use estimated_len(), or count what items() \
             gives",
        ))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.is_empty(py)?)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = data(key)?;
        self.slot.with(py, |map| map.contains_key(key.as_ref()))
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyBytes>> {
        let found = self.find(py, key)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(py, key)?.map(Py::into_any).or(default))
    }

    #[pyo3(signature = (keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = crate::data::keys(keys)?;
        let found = self.slot.with(py, |map| map.get_many(&keys))?;
        crate::data::values(py, found, default)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of().all(py, What::Keys, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of().all(py, What::Keys, true)
    }

    fn keys(&self) -> View {
        View::new(self.of(), What::Keys)
    }

    fn values(&self) -> View {
        View::new(self.of(), What::Values)
    }

    fn items(&self) -> View {
        View::new(self.of(), What::Items)
    }

    #[pyo3(signature = (start=None, stop=None, *, reverse=false))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let range = bounds(start, stop)?;
        let range = self.slot.with(py, |map| map.range(range))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(range, reverse),
            What::Items,
        ))
    }

    #[pyo3(signature = (prefix, *, reverse=false))]
    fn prefix(
        &self,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let prefix = owned(prefix)?;
        let range = self.slot.with(py, |map| map.prefix(&prefix))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(range, reverse),
            What::Items,
        ))
    }

    fn is_empty(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.with(py, terrace::SnapshotMap::is_empty)
    }

    fn estimated_len(&self, py: Python<'_>) -> PyResult<u64> {
        self.slot.with(py, terrace::SnapshotMap::estimated_len)
    }

    fn index(&self, py: Python<'_>, name: &str) -> PyResult<Index> {
        let index = self.slot.with(py, |map| map.index(name))?;
        Ok(Index {
            slot: self.slot.shared.slot(index),
        })
    }

    fn indexes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        indexes(py, self.slot.with(py, |map| Ok(map.indexes()))?)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self
            .slot
            .with(py, |map| Ok((map.name(), kind_name(map.kind()))))
        {
            Ok((name, kind)) => format!("<terrace {kind} {name:?} of a snapshot>"),
            Err(_) => "<terrace structure of a closed snapshot>".into(),
        }
    }
}
