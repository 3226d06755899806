//! Backup sets: restoring, and what is in them. Answers are JSON, which the package makes figures of.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use terrace::{Options, Rate, RestoreOptions, RestoreTo};

use crate::data::size;
use crate::shared::Shared;

/// As JSON.
pub fn json(of: &impl serde::Serialize) -> terrace::Result<String> {
    serde_json::to_string(of).map_err(|e| terrace::Error::invalid(e.to_string()))
}

/// How fast it goes: none or `"gentle"`, `"fast"`, bytes a second.
pub fn rate(said: Option<&Bound<'_, PyAny>>) -> PyResult<Rate> {
    let Some(said) = said else {
        return Ok(Rate::Gentle);
    };
    if let Ok(text) = said.cast::<PyString>() {
        match text.to_str()? {
            "gentle" => return Ok(Rate::Gentle),
            "fast" => return Ok(Rate::Fast),
            _ => {}
        }
    }
    match size(said) {
        Ok(bytes) => Ok(Rate::BytesPerSecond(bytes)),
        Err(_) => Err(PyValueError::new_err(
            "the rate is \"gentle\", \"fast\", or bytes a second as 16777216 or \"16MiB\"",
        )),
    }
}

#[pyfunction]
#[pyo3(name = "_restore_json", signature = (set, to, *, point=None, structure=None, memory=None, verify=true))]
pub fn restore(
    py: Python<'_>,
    set: PathBuf,
    to: PathBuf,
    point: Option<u64>,
    structure: Option<String>,
    memory: Option<&Bound<'_, PyAny>>,
    verify: bool,
) -> PyResult<String> {
    let memory = memory.map(size).transpose()?;
    Shared::new().opened(py, || {
        let mut options = RestoreOptions::new()
            .to(point.map_or(RestoreTo::Latest, RestoreTo::Point))
            .verify(verify);
        if let Some(name) = structure {
            options = options.structure(name);
        }
        if let Some(bytes) = memory {
            options = options.options(Options::new().memory(bytes));
        }
        json(&terrace::restore(set, to, options)?)
    })
}

#[pyfunction]
#[pyo3(name = "_list_backup_json")]
pub fn list_backup(py: Python<'_>, set: PathBuf) -> PyResult<String> {
    Shared::new().opened(py, || json(&terrace::list_backup(set)?))
}

#[pyfunction]
#[pyo3(name = "_verify_backup_json")]
pub fn verify_backup(py: Python<'_>, set: PathBuf) -> PyResult<String> {
    Shared::new().opened(py, || json(&terrace::verify_backup(set, |_| ())?))
}
