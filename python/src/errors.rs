//! Errors as exceptions: each kind has a class of its own in `terrace._errors`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// Why something failed, before the interpreter is asked for an exception.
pub enum Failure {
    /// The engine said so.
    Engine(terrace::Error),
    /// What is named was closed.
    Closed(&'static str),
    /// The handle was opened before a fork, in the parent.
    Forked,
    /// A panic, now or before.
    Defect(String),
}

impl From<terrace::Error> for Failure {
    fn from(error: terrace::Error) -> Failure {
        Failure::Engine(error)
    }
}

static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| exception(py, &failure).unwrap_or_else(|broken| broken))
    }
}

fn exception(py: Python<'_>, failure: &Failure) -> PyResult<PyErr> {
    let (kind, text) = match failure {
        Failure::Engine(error) => (error.kind(), error.to_string()),
        Failure::Closed(what) => ("closed", format!("{what} is closed; open it again")),
        Failure::Forked => (
            "forked",
            "the database was opened before a fork, and this is the child; open it here, after the \
             parent has closed it"
                .into(),
        ),
        Failure::Defect(text) => (
            "defect",
            format!("a defect of Terrace; please report it: {text}. Close the database and open it again"),
        ),
    };
    let classes = CLASSES.get_or_try_init(py, || {
        let module = py.import("terrace._errors")?;
        let classes = module.getattr("BY_KIND")?.cast_into::<PyDict>()?;
        PyResult::Ok(classes.unbind())
    })?;
    let class = classes.bind(py).get_item(kind)?;
    let Some(class) = class else {
        return Ok(PyRuntimeError::new_err(text));
    };
    let class = class.cast_into::<PyType>()?;
    Ok(match failure {
        Failure::Engine(terrace::Error::Io { source, .. }) => match source.raw_os_error() {
            Some(number) => PyErr::from_type(class, (number, text)),
            None => PyErr::from_type(class, text),
        },
        Failure::Engine(terrace::Error::DiskFull { .. }) => {
            let number = py.import("errno")?.getattr("ENOSPC")?.unbind();
            PyErr::from_type(class, (number, text))
        }
        _ => PyErr::from_type(class, text),
    })
}
