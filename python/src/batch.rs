//! Several changes as one.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use terrace::{Durability, Expires};

use crate::data::owned;
use crate::long::Long;
use crate::map::{Map, durability};
use crate::merge::Merge;
use crate::shared::Slot;
use crate::times::in_seconds;

/// A batch of more changes may wait so often for the disk that Ctrl-C is to be heard meanwhile.
const LONG: usize = 256;

/// A change that is to be made.
struct Change {
    map: Arc<Slot<terrace::Map>>,
    key: Vec<u8>,
    to: To,
}

/// What becomes of a key.
enum To {
    Put(Vec<u8>, Option<Expires>),
    Delete,
    Merge(terrace::Merge),
}

/// Changes that are made together when the block ends, all or none.
#[pyclass(frozen, module = "terrace")]
pub struct Batch {
    db: Arc<Slot<terrace::Database>>,
    durability: Option<Durability>,
    changes: Mutex<Option<Vec<Change>>>,
}

impl Batch {
    pub fn new(db: Arc<Slot<terrace::Database>>, sync: Option<bool>) -> Batch {
        Batch {
            db,
            durability: durability(sync),
            changes: Mutex::new(Some(Vec::new())),
        }
    }

    fn add(&self, change: Change) -> PyResult<()> {
        match &mut *self.changes.lock() {
            Some(changes) => {
                changes.push(change);
                Ok(())
            }
            None => Err(PyRuntimeError::new_err(
                "the batch was written already; begin another one",
            )),
        }
    }
}

#[pymethods]
impl Batch {
    #[pyo3(signature = (map, key, value, *, expire=None))]
    fn put(
        &self,
        map: &Map,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<f64>,
    ) -> PyResult<()> {
        let expires = match expire {
            Some(seconds) => Some(in_seconds(&map.slot.take_clone()?, seconds)?),
            None => None,
        };
        self.add(Change {
            map: map.slot.clone(),
            key: owned(key)?,
            to: To::Put(owned(value)?, expires),
        })
    }

    fn delete(&self, map: &Map, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(Change {
            map: map.slot.clone(),
            key: owned(key)?,
            to: To::Delete,
        })
    }

    fn merge(&self, map: &Map, key: &Bound<'_, PyAny>, merge: &Merge) -> PyResult<()> {
        self.add(Change {
            map: map.slot.clone(),
            key: owned(key)?,
            to: To::Merge(merge.merge.clone()),
        })
    }

    fn __len__(&self) -> usize {
        self.changes.lock().as_ref().map_or(0, Vec::len)
    }

    /// Makes the changes now.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.changes.lock().take();
        let Some(changes) = taken else {
            return Err(PyRuntimeError::new_err("the batch was written already"));
        };
        let maps = changes
            .iter()
            .map(|change| change.map.take_clone())
            .collect::<PyResult<Vec<_>>>()?;
        let durability = self.durability;
        let is_long = changes.len() > LONG;
        let long = Long::new(None, None);
        let cancel = long.cancel.clone();
        let write = move |db: terrace::Database| {
            let mut batch = db.batch();
            batch.cancel(&cancel);
            for (change, map) in changes.iter().zip(&maps) {
                match &change.to {
                    To::Put(value, None) => batch.put(map, &change.key, value),
                    To::Put(value, Some(expires)) => {
                        batch.put_expiring(map, &change.key, value, *expires)
                    }
                    To::Delete => batch.delete(map, &change.key),
                    To::Merge(merge) => batch.merge(map, &change.key, merge.clone()),
                };
            }
            drop(maps);
            db.write(batch, durability)
        };
        match is_long {
            true => long.run_with(py, &self.db, write),
            false => self.db.with_clone(py, write),
        }
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        raised: Option<&Bound<'_, PyType>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        if raised.is_some() {
            drop(self.changes.lock().take());
        } else if self.changes.lock().is_some() {
            self.write(py)?;
        }
        Ok(false)
    }
}
