//! Backup sets: restoring, and what is in them. Answers are JSON, which the package makes figures of.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use terrace::{Options, Rate, RestoreOptions, RestoreTo};

use crate::data::size;
use crate::long::{Cancel, Long};
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

/// Which state is meant, of what was said; one of them at most.
fn state(
    point: Option<u64>,
    time: Option<f64>,
    sequence: Option<u64>,
    mark: Option<String>,
) -> PyResult<RestoreTo> {
    Ok(match (point, time, sequence, mark) {
        (None, None, None, None) => RestoreTo::Latest,
        (Some(point), None, None, None) => RestoreTo::Point(point),
        (None, Some(seconds), None, None) => {
            let since = Duration::try_from_secs_f64(seconds).map_err(|e| {
                PyValueError::new_err(format!("the time is in seconds since 1970: {e}"))
            })?;
            RestoreTo::Time(UNIX_EPOCH + since)
        }
        (None, None, Some(sequence), None) => RestoreTo::Sequence(sequence),
        (None, None, None, Some(mark)) => RestoreTo::Mark(mark),
        _ => {
            return Err(PyValueError::new_err(
                "name one state: a point, a time, a sequence or a mark",
            ));
        }
    })
}

#[pyfunction]
#[pyo3(name = "_restore_json", signature = (
    set, to, *, point=None, time=None, sequence=None, mark=None, structure=None, memory=None, verify=true,
    cancel=None, progress=None
))]
#[allow(clippy::too_many_arguments)]
pub fn restore(
    py: Python<'_>,
    set: PathBuf,
    to: PathBuf,
    point: Option<u64>,
    time: Option<f64>,
    sequence: Option<u64>,
    mark: Option<String>,
    structure: Option<String>,
    memory: Option<&Bound<'_, PyAny>>,
    verify: bool,
    cancel: Option<&Cancel>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let memory = memory.map(size).transpose()?;
    let state = state(point, time, sequence, mark)?;
    let long = Long::new(cancel, progress);
    let shared = Shared::new();
    let work = || {
        let mut options = RestoreOptions::new()
            .to(state)
            .verify(verify)
            .cancel(&long.cancel)
            .progress(|progress| long.tell(progress));
        if let Some(name) = structure {
            options = options.structure(name);
        }
        if let Some(bytes) = memory {
            options = options.options(Options::new().memory(bytes));
        }
        json(&terrace::restore(set, to, options)?)
    };
    long.run(py, || Ok(shared.guarded(work)?))
}

#[pyfunction]
#[pyo3(name = "_list_backup_json")]
pub fn list_backup(py: Python<'_>, set: PathBuf) -> PyResult<String> {
    Shared::new().opened(py, || json(&terrace::list_backup(set)?))
}

#[pyfunction]
#[pyo3(name = "_verify_backup_json", signature = (set, *, progress=None))]
pub fn verify_backup(
    py: Python<'_>,
    set: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let long = Long::new(None, progress);
    let shared = Shared::new();
    let work = || {
        json(&terrace::verify_backup(set, |progress| {
            long.tell(progress)
        })?)
    };
    long.run(py, || Ok(shared.guarded(work)?))
}
