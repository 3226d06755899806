//! Going through records: a window at a time crosses the border, one record at a time is handed out.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::data::data;
use crate::errors::Failure;
use crate::shared::{Shared, Slot};

/// A key with its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Records of the engine, in some order.
pub type Source = Box<dyn Iterator<Item = terrace::Result<Record>> + Send>;

/// Records of the first window; each has twice as many as the one before.
const FIRST_RECORDS: usize = 32;
/// Most records of a window.
const MOST_RECORDS: usize = 1024;
/// Bytes after which a window ends.
const MOST_BYTES: usize = 1 << 20;

/// What of a record comes out.
#[derive(Clone, Copy)]
pub enum What {
    Keys,
    Values,
    Items,
}

impl What {
    fn object(self, py: Python<'_>, (key, value): Record) -> PyResult<Py<PyAny>> {
        Ok(match self {
            What::Keys => PyBytes::new(py, &key).into_any().unbind(),
            What::Values => PyBytes::new(py, &value).into_any().unbind(),
            What::Items => (PyBytes::new(py, &key), PyBytes::new(py, &value))
                .into_pyobject(py)?
                .into_any()
                .unbind(),
        })
    }
}

/// An iterator over records.
#[pyclass(frozen, module = "terrace")]
pub struct Entries {
    source: Arc<Slot<Mutex<Source>>>,
    window: Mutex<Window>,
    what: What,
}

struct Window {
    records: VecDeque<Record>,
    /// What comes after the records.
    failed: Option<terrace::Error>,
    size: usize,
    ended: bool,
}

impl Entries {
    pub fn new(shared: &Arc<Shared>, source: Source, what: What) -> Entries {
        Entries {
            source: shared.slot(Mutex::new(source)),
            window: Mutex::new(Window {
                records: VecDeque::new(),
                failed: None,
                size: FIRST_RECORDS,
                ended: false,
            }),
            what,
        }
    }
}

#[pymethods]
impl Entries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            let size = {
                let mut window = self.window.lock();
                if let Some(record) = window.records.pop_front() {
                    drop(window);
                    return self.what.object(py, record).map(Some);
                }
                if let Some(error) = window.failed.take() {
                    return Err(Failure::Engine(error).into());
                }
                if window.ended {
                    return Ok(None);
                }
                window.size
            };
            let (records, failed, ended) = self.source.with(py, |source| {
                let mut source = source.lock();
                let (mut records, mut bytes) = (VecDeque::new(), 0);
                while records.len() < size && bytes < MOST_BYTES {
                    match source.next() {
                        Some(Ok(record)) => {
                            bytes += record.0.len() + record.1.len();
                            records.push_back(record);
                        }
                        Some(Err(error)) => return Ok((records, Some(error), true)),
                        None => return Ok((records, None, true)),
                    }
                }
                Ok((records, None, false))
            })?;
            let mut window = self.window.lock();
            window.records.extend(records);
            window.size = (size * 2).min(MOST_RECORDS);
            window.ended |= ended;
            if failed.is_some() {
                window.failed = failed;
            }
        }
    }
}

/// A structure, or what it was.
#[derive(Clone)]
pub enum Of {
    Map(Arc<Slot<terrace::Map>>),
    Snapshot(Arc<Slot<terrace::SnapshotMap>>),
}

impl Of {
    /// All records.
    pub fn all(&self, py: Python<'_>, what: What, reverse: bool) -> PyResult<Entries> {
        let (shared, range) = match self {
            Of::Map(map) => (&map.shared, map.with(py, terrace::Map::iter)?),
            Of::Snapshot(map) => (&map.shared, map.with(py, terrace::SnapshotMap::iter)?),
        };
        Ok(Entries::new(shared, either_way(range, reverse), what))
    }

    fn get(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        match self {
            Of::Map(map) => map.with(py, |map| map.get(key)),
            Of::Snapshot(map) => map.with(py, |map| map.get(key)),
        }
    }

    fn has_value(&self, py: Python<'_>, value: &[u8]) -> PyResult<bool> {
        let look = |range: terrace::Range| {
            for record in range {
                if record?.1 == value {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match self {
            Of::Map(map) => map.with_clone(py, |map| look(map.iter()?)),
            Of::Snapshot(map) => map.with_clone(py, |map| look(map.iter()?)),
        }
    }
}

/// What `keys()`, `values()` and `items()` answer: something to go through, from either end.
#[pyclass(frozen, module = "terrace")]
pub struct View {
    of: Of,
    what: What,
}

impl View {
    pub fn new(of: Of, what: What) -> View {
        View { of, what }
    }
}

/// From the first or from the last.
pub fn either_way(
    range: impl DoubleEndedIterator<Item = terrace::Result<Record>> + Send + 'static,
    reverse: bool,
) -> Source {
    if reverse {
        Box::new(range.rev())
    } else {
        Box::new(range)
    }
}

#[pymethods]
impl View {
    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of.all(py, self.what, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of.all(py, self.what, true)
    }

    fn __contains__(&self, py: Python<'_>, wanted: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.what {
            What::Keys => Ok(self.of.get(py, data(wanted)?.as_ref())?.is_some()),
            What::Items => {
                let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = wanted.extract()?;
                let (key, value) = (data(&key)?, data(&value)?);
                let found = self.of.get(py, key.as_ref())?;
                Ok(found.as_deref() == Some(value.as_ref()))
            }
            What::Values => self.of.has_value(py, data(wanted)?.as_ref()),
        }
    }
}
