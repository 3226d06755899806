//! `del tree[from:to]`: removing the records of a range.

use std::ops::Bound as End;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PySlice;
use terrace::{Cancel, RemoveOptions};

use crate::data::owned;
use crate::shared::Slot;

/// Removes what is in the slice, in steps; Ctrl-C ends it between two of them.
pub fn remove_slice(
    py: Python<'_>,
    slot: &Slot<terrace::Map>,
    slice: &Bound<'_, PySlice>,
) -> PyResult<()> {
    if !slice.getattr("step")?.is_none() {
        return Err(PyValueError::new_err("a range of keys has no step"));
    }
    let end = |name: &str| -> PyResult<Option<Vec<u8>>> {
        let end = slice.getattr(name)?;
        if end.is_none() { Ok(None) } else { owned(&end).map(Some) }
    };
    let low = end("start")?.map_or(End::Unbounded, End::Included);
    let high = end("stop")?.map_or(End::Unbounded, End::Excluded);
    let mut raised = None;
    let removed = slot.with_clone(py, |map| {
        let cancel = Cancel::new();
        let options = RemoveOptions::new().cancel(&cancel).progress(|_| {
            let heard = Python::attach(|py| py.check_signals());
            if let Err(error) = heard {
                raised = Some(error);
                cancel.cancel();
            }
        });
        let range = (low, high);
        match (map.as_tree(), map.as_table()) {
            (Some(tree), _) => tree.remove_range(range, options).map(Some),
            (_, Some(table)) => table.remove_range(range, options).map(Some),
            _ => Ok(None),
        }
    });
    if let Some(error) = raised {
        return Err(error);
    }
    match removed? {
        Some(_) => Ok(()),
        None => Err(PyTypeError::new_err(
            "a hash table has no ranges: its keys have no order",
        )),
    }
}
