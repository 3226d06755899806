//! Structures: what all have in common.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PySlice, PyTuple};
use terrace::{Durability, Expires};

use crate::data::{Data, data, owned, pair};
use crate::iterate::{Entries, Of, View, What};
use crate::long::{Ear, Long};
use crate::merge::Merge;
use crate::shared::Slot;
use crate::times::{in_seconds, seconds};
use crate::wake::Wake;

/// Changes that `update` writes at once, and bytes: what holds nobody else up.
const GROUP_CHANGES: usize = 10_000;
const GROUP_BYTES: usize = 4 << 20;
/// Records handed to a loader at once.
const LOADED_AT_ONCE: usize = 4096;
/// Keys that are looked up at once.
const READ_AT_ONCE: usize = 512;
/// A longer value does not leave its room behind.
const KEPT_BYTES: usize = 1 << 16;

thread_local! {
    /// Where a value is copied to on its way out.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A structure of records by key.
#[pyclass(frozen, subclass, mapping, module = "terrace")]
pub struct Map {
    pub slot: Arc<Slot<terrace::Map>>,
}

/// The value that was found.
fn take_value(py: Python<'_>) -> Py<PyBytes> {
    VALUE.with_borrow_mut(|value| {
        let object = PyBytes::new(py, value).unbind();
        if value.capacity() > KEPT_BYTES {
            *value = Vec::new();
        }
        object
    })
}

/// What a write promises, if it was said.
pub fn durability(sync: Option<bool>) -> Option<Durability> {
    sync.map(|sync| {
        if sync {
            Durability::Sync
        } else {
            Durability::Buffered
        }
    })
}

impl Map {
    fn of(&self) -> Of {
        Of::Map(self.slot.clone())
    }

    fn find(&self, py: Python<'_>, key: &Data<'_>) -> PyResult<Option<Py<PyBytes>>> {
        let found = self.slot.with(py, |map| {
            VALUE.with_borrow_mut(|value| map.get_into(key.as_ref(), value))
        })?;
        Ok(found.then(|| take_value(py)))
    }

    fn write_group(
        &self,
        py: Python<'_>,
        group: &mut Vec<(Vec<u8>, Vec<u8>)>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let group = std::mem::take(group);
        self.slot.with(py, |map| {
            let db = map.database();
            let mut batch = db.batch();
            for (key, value) in &group {
                batch.put(map, key, value);
            }
            db.write(batch, durability(sync))
        })
    }

    fn write_all<'py>(
        &self,
        py: Python<'py>,
        pairs: impl Iterator<Item = PyResult<(Vec<u8>, Vec<u8>)>>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut ear = Ear::new();
        for next in pairs {
            ear.listen(py)?;
            let (key, value) = next?;
            bytes += key.len() + value.len();
            group.push((key, value));
            if group.len() >= GROUP_CHANGES || bytes >= GROUP_BYTES {
                self.write_group(py, &mut group, sync)?;
                bytes = 0;
            }
        }
        if group.is_empty() {
            return Ok(());
        }
        self.write_group(py, &mut group, sync)
    }

    /// Reads, lets `change` answer, and writes if nobody else was faster.
    fn read_and_change(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        change: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let key = owned(key)?;
        loop {
            let old = self.find(py, &Data::Borrowed(&key))?;
            let answer = change.call1((&old,))?;
            let new = (!answer.is_none()).then(|| owned(&answer)).transpose()?;
            let expected = old.map(|old| old.as_bytes(py).to_vec());
            let there = expected.is_some();
            if new.is_none() && !there {
                return Ok(false);
            }
            let set = terrace::Merge::CompareAndSet { expected, new };
            let done = self.slot.with(py, |map| match durability(sync) {
                Some(durability) => map.merge_with(&key, set, durability),
                None => map.merge(&key, set),
            })?;
            if done {
                return Ok(there);
            }
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Map {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.slot.with(py, |map| Ok(map.name()))
    }

    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.slot.with(py, |map| Ok(kind(map)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.with(py, |map| Ok((map.name(), kind(map)))) {
            Ok((name, kind)) => format!("<terrace {kind} {name:?}>"),
            Err(_) => "<terrace structure of a closed database>".into(),
        }
    }

    /// Handles of one structure are equal.
    fn __richcmp__(
        &self,
        other: &Bound<'_, PyAny>,
        how: CompareOp,
        py: Python<'_>,
    ) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Map>() else {
            return Ok(py.NotImplemented());
        };
        let (one, other) = (&self.slot, &other.get().slot);
        let same =
            Arc::ptr_eq(one, other) || one.peek().is_some_and(|map| Some(map) == other.peek());
        Ok(match how {
            CompareOp::Eq => same.into_pyobject(py)?.to_owned().into_any().unbind(),
            CompareOp::Ne => (!same).into_pyobject(py)?.to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        })
    }

    /// Of one database all have the same, as it has to stay when a structure gets another name or is closed.
    fn __hash__(&self) -> usize {
        self.slot.shared.number()
    }

    fn __len__(&self) -> PyResult<usize> {
        Err(PyTypeError::new_err(
            "how many records there are is not known exactly, as put and delete do not look whether a key \
             is there: use estimated_len(), or count what items() gives",
        ))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.is_empty(py)?)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = data(key)?;
        self.slot.with(py, |map| map.contains_key(key.as_ref()))
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyBytes>> {
        let found = self.find(py, &data(key)?)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(range) = key.cast::<PySlice>() {
            return crate::removal::remove_slice(py, &self.slot, range);
        }
        match self.remove(py, key, None)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of().all(py, What::Keys, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.of().all(py, What::Keys, true)
    }

    fn keys(&self) -> View {
        View::new(self.of(), What::Keys)
    }

    fn values(&self) -> View {
        View::new(self.of(), What::Values)
    }

    fn items(&self) -> View {
        View::new(self.of(), What::Items)
    }

    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let found = self.find(py, &data(key)?)?;
        Ok(found.map(Py::into_any).or(default))
    }

    /// For event loops: the value if memory has it, False if there is none, None if a page is missing. `missed` pages were
    /// brought in before.
    fn _look(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        missed: u32,
    ) -> PyResult<Option<Py<PyAny>>> {
        let key = data(key)?;
        let found = self.slot.with(py, |map| {
            VALUE.with_borrow_mut(|value| map.get_if_resident_after(key.as_ref(), value, missed))
        })?;
        Ok(found.map(|found| match found {
            true => take_value(py).into_any(),
            false => PyBool::new(py, false).to_owned().into_any().unbind(),
        }))
    }

    /// The same of many keys: an answer for each, in their order.
    fn _look_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        missed: u32,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = crate::data::keys(keys)?;
        let found = self.slot.with(py, |map| {
            let look = |key: &Vec<u8>| {
                let mut value = Vec::new();
                let found = map.get_if_resident_after(key, &mut value, missed)?;
                Ok(found.map(|found| found.then_some(value)))
            };
            keys.iter().map(look).collect::<terrace::Result<Vec<_>>>()
        })?;
        let objects = found.into_iter().map(|found| match found {
            Some(Some(value)) => PyBytes::new(py, &value).into_any(),
            Some(None) => PyBool::new(py, false).to_owned().into_any(),
            None => py.None().into_bound(py),
        });
        PyList::new(py, objects.collect::<Vec<_>>())
    }

    /// The same of whether there is a value.
    fn _has(&self, py: Python<'_>, key: &Bound<'_, PyAny>, missed: u32) -> PyResult<Option<bool>> {
        let key = data(key)?;
        self.slot.with(py, |map| {
            map.get_if_resident_after(key.as_ref(), &mut Vec::new(), missed)
        })
    }

    /// Has a missing page brought in, and `then` called from another thread; False where only a call that waits
    /// is left.
    fn _when_resident(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        then: Py<PyAny>,
    ) -> PyResult<bool> {
        let key = data(key)?;
        self.slot.with(py, |map| {
            let Some(wakes) = self.slot.shared.wakes.sender() else {
                return Ok(false);
            };
            map.when_resident(key.as_ref(), move || {
                let _ = wakes.send(Wake::Call(then));
            })
        })
    }

    #[pyo3(signature = (keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = crate::data::keys(keys)?;
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(READ_AT_ONCE) {
            found.extend(self.slot.with(py, |map| map.get_many(keys))?);
            py.check_signals()?;
        }
        crate::data::values(py, found, default)
    }

    #[pyo3(signature = (key, value, *, expire=None, sync=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<f64>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let (key, value) = (data(key)?, data(value)?);
        if let Some(seconds) = expire {
            let expires = in_seconds(&self.slot.take_clone()?, seconds)?;
            let (key, value) = (key.as_ref(), value.as_ref());
            return self.slot.with(py, |map| match durability(sync) {
                Some(sync) => map.put_expiring_with(key, value, expires, sync),
                None => map.put_expiring(key, value, expires),
            });
        }
        self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.put_with(key.as_ref(), value.as_ref(), durability),
            None => map.put(key.as_ref(), value.as_ref()),
        })
    }

    /// Has a record expire in so many seconds, or never; whether it is there.
    #[pyo3(signature = (key, expire=None, *, sync=None))]
    fn touch(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expire: Option<f64>,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let key = data(key)?;
        let expires = match expire {
            Some(seconds) => in_seconds(&self.slot.take_clone()?, seconds)?,
            None => Expires::Never,
        };
        self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.expire_with(key.as_ref(), expires, durability),
            None => map.expire(key.as_ref(), expires),
        })
    }

    /// Until when a record is there, in seconds since 1970; None if it stays.
    fn expires(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let bytes = data(key)?;
        let found = self.slot.with(py, |map| map.expires(bytes.as_ref()))?;
        let found = found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
        Ok(found.at().map(seconds))
    }

    #[pyo3(signature = (key, *, sync=None))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, sync: Option<bool>) -> PyResult<()> {
        let key = data(key)?;
        self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.delete_with(key.as_ref(), durability),
            None => map.delete(key.as_ref()),
        })
    }

    #[pyo3(signature = (key, value, *, sync=None))]
    fn insert(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let (key, value) = (data(key)?, data(value)?);
        self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.insert_with(key.as_ref(), value.as_ref(), durability),
            None => map.insert(key.as_ref(), value.as_ref()),
        })
    }

    #[pyo3(signature = (key, *, sync=None))]
    fn remove(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<Option<Py<PyBytes>>> {
        let key = data(key)?;
        let removed = self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.remove_with(key.as_ref(), durability),
            None => map.remove(key.as_ref()),
        })?;
        Ok(removed.map(|value| PyBytes::new(py, &value).unbind()))
    }

    #[pyo3(signature = (key, merge, *, sync=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        merge: &Merge,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let key = data(key)?;
        let merge = merge.merge.clone();
        self.slot.with(py, |map| match durability(sync) {
            Some(durability) => map.merge_with(key.as_ref(), merge, durability),
            None => map.merge(key.as_ref(), merge),
        })
    }

    #[pyo3(signature = (key, *default))]
    fn pop(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err(
                "pop expects a key and at most one default",
            ));
        }
        match (self.remove(py, key, None)?, default.get_item(0)) {
            (Some(value), _) => Ok(value.into_any()),
            (None, Ok(default)) => Ok(default.unbind()),
            (None, Err(_)) => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// The last record of an ordered structure, and one or another of a hash table.
    fn popitem<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let popped = self.slot.with(py, |map| popped(map, false))?;
        match popped {
            Some((key, value)) => Ok((PyBytes::new(py, &key), PyBytes::new(py, &value))),
            None => Err(PyKeyError::new_err("popitem(): there is no record")),
        }
    }

    #[pyo3(signature = (key, default))]
    fn setdefault(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyBytes>> {
        let value = data(default)?;
        let key = data(key)?;
        loop {
            if let Some(found) = self.find(py, &key)? {
                return Ok(found);
            }
            let made = self
                .slot
                .with(py, |map| map.insert(key.as_ref(), value.as_ref()))?;
            if made {
                return Ok(PyBytes::new(py, value.as_ref()).unbind());
            }
        }
    }

    #[pyo3(signature = (other=None, change=None, /, *, sync=None, **named))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        other: Option<&Bound<'py, PyAny>>,
        change: Option<&Bound<'py, PyAny>>,
        sync: Option<bool>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<bool>> {
        if let (Some(key), Some(change)) = (other, change) {
            if !change.is_callable() {
                return Err(PyTypeError::new_err(
                    "update takes a mapping or pairs; or a key and a function that makes the new value of \
                     the old one",
                ));
            }
            return self.read_and_change(py, key, change, sync).map(Some);
        }
        if let Some(other) = other {
            if other.is_instance_of::<PyDict>() {
                // By its own iterator, which says so where others change it while a group is written.
                let items = other.call_method0("items")?;
                self.write_all(py, items.try_iter()?.map(|next| pair(&next?)), sync)?;
            } else if other.hasattr("keys")? {
                let keys = other.call_method0("keys")?;
                let pairs = keys.try_iter()?.map(|key| {
                    let key = key?;
                    Ok((owned(&key)?, owned(&other.get_item(&key)?)?))
                });
                self.write_all(py, pairs, sync)?;
            } else {
                self.write_all(py, other.try_iter()?.map(|next| pair(&next?)), sync)?;
            }
        }
        if let Some(named) = named {
            let pairs = named
                .iter()
                .map(|(key, value)| Ok((owned(&key)?, owned(&value)?)));
            self.write_all(py, pairs, sync)?;
        }
        Ok(None)
    }

    /// Deletes all records that are there, in groups.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let long = Long::new(None, None);
        long.run_with(py, &self.slot, |map| {
            let db = map.database().clone();
            let mut batch = db.batch();
            for record in map.iter()? {
                if long.cancel.is_cancelled() {
                    return Ok(());
                }
                batch.delete(&map, record?.0);
                if batch.len() >= GROUP_CHANGES || batch.bytes() >= GROUP_BYTES {
                    db.write(std::mem::replace(&mut batch, db.batch()), None)?;
                }
            }
            db.write(batch, None)
        })
    }

    fn is_empty(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.with(py, terrace::Map::is_empty)
    }

    fn estimated_len(&self, py: Python<'_>) -> PyResult<u64> {
        self.slot.with(py, terrace::Map::estimated_len)
    }

    /// Sorts records first and writes each page once: for many at a time.
    fn load(&self, py: Python<'_>, records: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut loader = self.slot.with(py, terrace::Map::loader)?;
        let mut all = records.try_iter()?;
        let mut ear = Ear::new();
        loop {
            let take = |next: PyResult<Bound<'_, PyAny>>| {
                ear.listen(py)?;
                pair(&next?)
            };
            let group = all.by_ref().take(LOADED_AT_ONCE).map(take);
            let group: Vec<_> = group.collect::<PyResult<_>>()?;
            let (last, given) = (group.len() < LOADED_AT_ONCE, &mut loader);
            self.slot.with(py, move |_| {
                group
                    .iter()
                    .try_for_each(|(key, value)| given.put(key, value))
            })?;
            if last {
                let long = Long::new(None, None);
                loader.cancel(&long.cancel);
                return long.run_with(py, &self.slot, move |_| loader.finish());
            }
        }
    }
}

/// The kind as it is said.
pub fn kind(map: &terrace::Map) -> &'static str {
    kind_name(map.kind())
}

/// The same of a kind.
pub fn kind_name(kind: terrace::Kind) -> &'static str {
    match kind {
        terrace::Kind::Tree => "tree",
        terrace::Kind::Hash => "hash",
        terrace::Kind::Table => "table",
        terrace::Kind::Lsm => "lsm",
        _ => "structure",
    }
}

/// Takes the first or the last record out.
pub fn popped(map: &terrace::Map, first: bool) -> terrace::Result<Option<(Vec<u8>, Vec<u8>)>> {
    loop {
        let mut all = map.iter()?;
        let next = if first { all.next() } else { all.next_back() };
        let Some((key, _)) = next.transpose()? else {
            return Ok(None);
        };
        // Unless another thread was faster.
        if let Some(value) = map.remove(&key)? {
            return Ok(Some((key, value)));
        }
    }
}
