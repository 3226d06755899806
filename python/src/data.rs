//! Keys and values on their way in: bytes, text as UTF-8, and whatever has a buffer of bytes.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};

use crate::long::Ear;

/// A key or a value, borrowed where it cannot change.
pub enum Data<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Data<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Data::Borrowed(bytes) => bytes,
            Data::Owned(bytes) => bytes,
        }
    }
}

/// What was given, if it can be a key or a value.
pub fn data<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<Data<'a>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Data::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Data::Borrowed(text.to_str()?.as_bytes()));
    }
    // What has a buffer may change under us, so it is copied.
    if let Ok(buffer) = PyBuffer::<u8>::get(given) {
        return Ok(Data::Owned(buffer.to_vec(given.py())?));
    }
    // Numbers of an array lie in the order of this machine, which a key is not to have by mistake.
    if let Ok(view) = PyMemoryView::from(given) {
        let (format, size) = (view.getattr("format")?, view.getattr("itemsize")?);
        return Err(PyTypeError::new_err(format!(
            "a key or value is bytes, str, bytearray or memoryview of bytes, not items of the format {} and {size} bytes \
             each: memoryview(it).cast(\"B\") gives their bytes as they lie, int_key and pack_int those of numbers",
            format.repr()?
        )));
    }
    Err(PyTypeError::new_err(format!(
        "a key or value is bytes, str, bytearray or memoryview, not {}",
        given.get_type().name()?
    )))
}

/// The same for good.
pub fn owned(given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(match data(given)? {
        Data::Borrowed(bytes) => bytes.to_vec(),
        Data::Owned(bytes) => bytes,
    })
}

/// A key with its value, of two that come as a pair.
pub fn pair(given: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<u8>)> {
    let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = given.extract()?;
    Ok((owned(&key)?, owned(&value)?))
}

/// Keys, from whatever one can go through. One key is none: its letters would be taken for keys.
pub fn keys(given: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if given.is_instance_of::<PyString>() || PyBuffer::<u8>::get(given).is_ok() {
        return Err(PyTypeError::new_err(
            "get_many takes many keys, and this is one; use get, or put it in a list",
        ));
    }
    let mut ear = Ear::new();
    let take = |key: PyResult<Bound<'_, PyAny>>| {
        ear.listen(given.py())?;
        owned(&key?)
    };
    given.try_iter()?.map(take).collect()
}

/// Values as a list, with `default` where there is none.
pub fn values<'py>(
    py: Python<'py>,
    found: Vec<Option<Vec<u8>>>,
    default: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let default = default.unwrap_or_else(|| py.None());
    let objects = found.into_iter().map(|value| match value {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.bind(py).clone(),
    });
    PyList::new(py, objects.collect::<Vec<_>>())
}

/// A number of bytes: an integer, or text as `"256MiB"`.
pub fn size(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    let Ok(text) = given.cast::<PyString>() else {
        return given.extract();
    };
    let text = text.to_str()?;
    parse_size(text).ok_or_else(|| {
        pyo3::exceptions::PyValueError::new_err(format!(
            "{text:?} is no number of bytes; write it as 1073741824, \"512MiB\", \"1GiB\" or \"64k\""
        ))
    })
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
