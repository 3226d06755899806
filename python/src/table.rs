//! Tables: rows by a primary key, and their indexes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data::data;
use crate::iterate::{Entries, What, either_way};
use crate::map::Map;
use crate::ordered::{Ordered, bounds};
use crate::shared::Slot;

/// Rows by a primary key, with indexes.
#[pyclass(frozen, extends = Ordered, module = "terrace")]
pub struct Table;

/// The structure as a table.
pub fn table(map: &terrace::Map) -> terrace::Result<terrace::Table> {
    map.as_table()
        .ok_or_else(|| terrace::Error::invalid("this is no table, so it has no indexes"))
}

fn slot(this: &PyRef<'_, Table>) -> Arc<Slot<terrace::Map>> {
    let ordered: &Ordered = this.as_super();
    let _ = ordered;
    let map: &PyRef<'_, Map> = this.as_super().as_super();
    map.slot.clone()
}

/// An index from what is said of it: `"json:/city"`, `"unique:csv:2"`, `"bytes:0..4"`.
pub fn parse(name: &str, source: &str) -> terrace::Result<terrace::Index> {
    format!("{name}={source}").parse()
}

/// Indexes, by name with what they are of.
pub fn indexes(py: Python<'_>, infos: Vec<terrace::IndexInfo>) -> PyResult<Bound<'_, PyDict>> {
    let indexes = PyDict::new(py);
    for info in infos {
        let unique = if info.unique { "unique:" } else { "" };
        indexes.set_item(info.name, format!("{unique}{}", info.source))?;
    }
    Ok(indexes)
}

#[pymethods]
impl Table {
    fn index(this: PyRef<'_, Self>, py: Python<'_>, name: &str) -> PyResult<Index> {
        let slot = slot(&this);
        let index = slot.with(py, |map| table(map)?.index(name))?;
        Ok(Index {
            slot: slot.shared.slot(index),
        })
    }

    fn indexes<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        indexes(py, slot(&this).with(py, |map| Ok(table(map)?.indexes()))?)
    }

    fn create_index(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        name: &str,
        source: &str,
    ) -> PyResult<()> {
        slot(&this).with_clone(py, |map| table(&map)?.create_index(parse(name, source)?))
    }

    fn drop_index(this: PyRef<'_, Self>, py: Python<'_>, name: &str) -> PyResult<()> {
        slot(&this).with_clone(py, |map| table(&map)?.drop_index(name))
    }
}

/// An index of a table, for reading: records are primary keys with their rows.
#[pyclass(frozen, module = "terrace")]
pub struct Index {
    pub slot: Arc<Slot<terrace::IndexHandle>>,
}

#[pymethods]
impl Index {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.slot.with(py, |index| Ok(index.name()))
    }

    #[getter]
    fn unique(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.with(py, |index| Ok(index.is_unique()))
    }

    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Entries> {
        let key = data(key)?;
        let rows = self.slot.with(py, |index| index.get(key.as_ref()))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(rows, false),
            What::Items,
        ))
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
        let rows = self.slot.with(py, |index| index.range(range))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(rows, reverse),
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
        let prefix = data(prefix)?;
        let rows = self.slot.with(py, |index| index.prefix(prefix.as_ref()))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(rows, reverse),
            What::Items,
        ))
    }

    /// Keys of the index, each with a primary key.
    #[pyo3(signature = (start=None, stop=None, *, reverse=false))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let range = bounds(start, stop)?;
        let keys = self.slot.with(py, |index| index.keys(range))?;
        Ok(Entries::new(
            &self.slot.shared,
            either_way(keys, reverse),
            What::Items,
        ))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.range(py, None, None, false)
    }
}
