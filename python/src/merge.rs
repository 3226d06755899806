//! Merges: changes of a value that are worked out from the one that is there.

use pyo3::prelude::*;

use crate::data::owned;

/// What becomes of a value, given the one that is there.
#[pyclass(frozen, module = "terrace")]
pub struct Merge {
    pub merge: terrace::Merge,
}

fn made(merge: terrace::Merge) -> Merge {
    Merge { merge }
}

#[pymethods]
impl Merge {
    #[staticmethod]
    fn add(number: i64) -> Merge {
        made(terrace::Merge::Add(number))
    }

    #[staticmethod]
    fn min(value: &Bound<'_, PyAny>) -> PyResult<Merge> {
        Ok(made(terrace::Merge::Min(owned(value)?)))
    }

    #[staticmethod]
    fn max(value: &Bound<'_, PyAny>) -> PyResult<Merge> {
        Ok(made(terrace::Merge::Max(owned(value)?)))
    }

    #[staticmethod]
    #[pyo3(signature = (value, *, limit=terrace::MAX_VALUE_BYTES))]
    fn append(value: &Bound<'_, PyAny>, limit: usize) -> PyResult<Merge> {
        let bytes = owned(value)?;
        Ok(made(terrace::Merge::Append { bytes, limit }))
    }

    #[staticmethod]
    fn set_if_absent(value: &Bound<'_, PyAny>) -> PyResult<Merge> {
        Ok(made(terrace::Merge::SetIfAbsent(owned(value)?)))
    }

    #[staticmethod]
    fn compare_and_set(
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Merge> {
        let (expected, new) = (
            expected.map(owned).transpose()?,
            new.map(owned).transpose()?,
        );
        Ok(made(terrace::Merge::CompareAndSet { expected, new }))
    }

    fn __repr__(&self) -> String {
        format!("<terrace merge {:?}>", self.merge)
    }
}
