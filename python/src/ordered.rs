//! Structures with an order, and each kind as Python sees it.

use std::ops::Bound as End;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::data::{data, owned};
use crate::iterate::{Entries, What, either_way};
use crate::map::{Map, popped};

/// A structure whose records are in the order of their keys.
#[pyclass(frozen, subclass, extends = Map, module = "terrace")]
pub struct Ordered;

fn low(key: Option<Vec<u8>>) -> End<Vec<u8>> {
    key.map_or(End::Unbounded, End::Included)
}

fn high(key: Option<Vec<u8>>) -> End<Vec<u8>> {
    key.map_or(End::Unbounded, End::Excluded)
}

/// Bounds of a range, from what was given.
pub fn bounds(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
) -> PyResult<(End<Vec<u8>>, End<Vec<u8>>)> {
    Ok((
        low(start.map(owned).transpose()?),
        high(stop.map(owned).transpose()?),
    ))
}

fn range_of(
    map: &terrace::Map,
    range: (End<Vec<u8>>, End<Vec<u8>>),
) -> terrace::Result<terrace::Range> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.range(range),
        (_, Some(table)) => table.range(range),
        _ => map.iter(),
    }
}

/// A record on its way out.
type Record<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn prefix_of(map: &terrace::Map, prefix: &[u8]) -> terrace::Result<terrace::Range> {
    match (map.as_tree(), map.as_table()) {
        (Some(tree), _) => tree.prefix(prefix),
        (_, Some(table)) => table.prefix(prefix),
        _ => map.iter(),
    }
}

#[pymethods]
impl Ordered {
    #[pyo3(signature = (start=None, stop=None, *, reverse=false))]
    fn range(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let range = bounds(start, stop)?;
        let slot = &this.as_super().slot;
        let range = slot.with(py, |map| range_of(map, range))?;
        Ok(Entries::new(
            &slot.shared,
            either_way(range, reverse),
            What::Items,
        ))
    }

    #[pyo3(signature = (prefix, *, reverse=false))]
    fn prefix(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        prefix: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> PyResult<Entries> {
        let prefix = data(prefix)?;
        let slot = &this.as_super().slot;
        let range = slot.with(py, |map| prefix_of(map, prefix.as_ref()))?;
        Ok(Entries::new(
            &slot.shared,
            either_way(range, reverse),
            What::Items,
        ))
    }

    fn first<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let found = this
            .as_super()
            .slot
            .with(py, |map| map.iter()?.next().transpose())?;
        Ok(found.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    /// Takes the record with the lowest key out: a queue.
    fn pop_first<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Option<Record<'py>>> {
        let popped = this.as_super().slot.with(py, |map| popped(map, true))?;
        Ok(popped.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    /// Takes the record with the highest key out: a stack.
    fn pop_last<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Option<Record<'py>>> {
        let popped = this.as_super().slot.with(py, |map| popped(map, false))?;
        Ok(popped.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }

    fn last<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let found = this
            .as_super()
            .slot
            .with(py, |map| map.iter()?.next_back().transpose())?;
        Ok(found.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))))
    }
}

/// An ordered map.
#[pyclass(frozen, extends = Ordered, module = "terrace")]
pub struct Tree;

/// An ordered map whose cold records lie in levels of packed pages.
#[pyclass(frozen, extends = Ordered, module = "terrace")]
pub struct Lsm;

/// A map without order.
#[pyclass(frozen, extends = Map, module = "terrace")]
pub struct Hash;

#[pymethods]
impl Tree {}

#[pymethods]
impl Lsm {}

#[pymethods]
impl Hash {}
