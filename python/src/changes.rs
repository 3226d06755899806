//! Reading the changes, commit by commit.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::shared::{Shared, Slot};
use crate::times::seconds;

/// So soon Ctrl-C is heard.
const SLICE: Duration = Duration::from_millis(50);

/// An iterator over commits.
#[pyclass(frozen, module = "terrace")]
pub struct Changes {
    slot: Arc<Slot<Mutex<terrace::Changes>>>,
}

impl Changes {
    pub fn new(shared: &Arc<Shared>, changes: terrace::Changes) -> Changes {
        Changes {
            slot: shared.slot(Mutex::new(changes)),
        }
    }
}

#[pymethods]
impl Changes {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Commit>> {
        loop {
            let (commit, ended) = self.slot.with(py, |changes| {
                let mut changes = changes.lock();
                Ok((changes.next_within(SLICE)?, changes.is_at_end()))
            })?;
            if let Some(commit) = commit {
                return Commit::of(py, &commit).map(Some);
            }
            if ended {
                return Ok(None);
            }
            py.check_signals()?;
        }
    }

    /// The place behind what was given out so far.
    #[getter]
    fn place(&self, py: Python<'_>) -> PyResult<String> {
        self.slot
            .with(py, |changes| Ok(changes.lock().place().to_string()))
    }
}

/// What was changed at one instant.
#[pyclass(frozen, get_all, module = "terrace")]
pub struct Commit {
    sequence: u64,
    place: String,
    changes: Vec<Py<Change>>,
}

impl Commit {
    fn of(py: Python<'_>, commit: &terrace::Commit) -> PyResult<Commit> {
        let changes = commit.changes();
        Ok(Commit {
            sequence: commit.sequence(),
            place: commit.place().to_string(),
            changes: changes
                .map(|change| Py::new(py, Change::of(py, change)))
                .collect::<PyResult<_>>()?,
        })
    }
}

#[pymethods]
impl Commit {
    fn __repr__(&self) -> String {
        let (sequence, many) = (self.sequence, self.changes.len());
        format!("<terrace commit {sequence}, {many} changes>")
    }
}

/// One of its changes.
#[pyclass(frozen, get_all, module = "terrace")]
pub struct Change {
    /// `put`, `delete`, `created`, `dropped`, `renamed` or `marked`.
    op: &'static str,
    structure: Option<String>,
    id: Option<u32>,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    /// When the record expires, in seconds since 1970.
    expires: Option<f64>,
    /// The name of a mark, and when it was made.
    mark: Option<String>,
    time: Option<f64>,
}

impl Change {
    fn of(py: Python<'_>, change: terrace::Change<'_>) -> Change {
        let bytes = |bytes: &[u8]| Some(PyBytes::new(py, bytes).unbind());
        let of = |op: &'static str, structure: &terrace::ChangedStructure| Change {
            op,
            structure: structure.name.clone(),
            id: Some(structure.id),
            key: None,
            value: None,
            expires: None,
            mark: None,
            time: None,
        };
        match change {
            terrace::Change::Put {
                structure,
                key,
                value,
                expires,
                ..
            } => Change {
                key: bytes(key),
                value: bytes(value),
                expires: expires.map(seconds),
                ..of("put", structure)
            },
            terrace::Change::Delete { structure, key } => Change {
                key: bytes(key),
                ..of("delete", structure)
            },
            // The key is the first one, the value the first one behind the range; none at the end.
            terrace::Change::DeleteRange {
                structure,
                low,
                high,
            } => Change {
                key: bytes(low),
                value: high.and_then(bytes),
                ..of("delete_range", structure)
            },
            terrace::Change::Created { structure } => of("created", structure),
            terrace::Change::Dropped { structure } => of("dropped", structure),
            terrace::Change::Renamed { structure } => of("renamed", structure),
            terrace::Change::Marked { name, time } => Change {
                op: "marked",
                structure: None,
                id: None,
                key: None,
                value: None,
                expires: None,
                mark: Some(name.to_owned()),
                time: Some(seconds(time)),
            },
            // Of a kind that a later engine has.
            _ => Change {
                op: "other",
                structure: None,
                id: None,
                key: None,
                value: None,
                expires: None,
                mark: None,
                time: None,
            },
        }
    }
}

#[pymethods]
impl Change {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = format!("<terrace {}", self.op);
        if let Some(name) = self.structure.as_ref().or(self.mark.as_ref()) {
            text += &format!(" {name:?}");
        }
        if let Some(key) = &self.key {
            text += &format!(" {}", key.bind(py).repr()?);
        }
        Ok(text + ">")
    }
}
