//! Structures: looking up, writing one record, indexes. Reads take structures of snapshots too.

use std::cell::Cell;

use terrace::{Cancel, Durability, Index, IndexInfo, Map, Merge, Rate, RemoveOptions};

use crate::cursor::End;
use crate::database::json;
use crate::enter::{entered, map, map_clone};
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::Object;

/// A longer value does not leave its room behind.
const KEPT_BYTES: usize = 1 << 16;

thread_local! {
    /// Where a value is copied to on its way out.
    static VALUE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends room for a value.
#[inline]
pub(crate) fn lent<R>(call: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut value = VALUE.try_with(Cell::take).unwrap_or_default();
    let answer = call(&mut value);
    if value.capacity() <= KEPT_BYTES {
        // At the end of a thread there is nowhere to keep it.
        let _ = VALUE.try_with(|kept| kept.set(value));
    }
    answer
}

/// Replaces `value` by the value of a key; whether there is one.
///
/// # Errors
/// Those of [`Map::get`].
#[inline]
pub fn get_into(handle: u64, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(map.get_into(key, value).map_err(Failure::from)),
        Object::SnapshotMap(map) => Some(map.get_into(key, value).map_err(Failure::from)),
        _ => None,
    })
}

/// What `with` makes of the value of a key, which is called when nothing is held any more; none if there is
/// no value.
///
/// # Errors
/// Those of [`Map::get`].
#[inline]
pub fn get_with<R>(handle: u64, key: &[u8], with: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
    lent(|value| {
        let found = get_into(handle, key, value)?;
        Ok(found.then(|| with(value)))
    })
}

/// The value of a key.
///
/// # Errors
/// Those of [`Map::get`].
pub fn get(handle: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = Vec::new();
    Ok(get_into(handle, key, &mut value)?.then_some(value))
}

/// Whether there is a value.
///
/// # Errors
/// Those of [`Map::get`].
pub fn contains(handle: u64, key: &[u8]) -> Result<bool> {
    lent(|value| get_into(handle, key, value))
}

/// The values of keys, in their order.
///
/// # Errors
/// Those of [`Map::get_many`].
pub fn get_many<K: AsRef<[u8]>>(handle: u64, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(map.get_many(keys).map_err(Failure::from)),
        Object::SnapshotMap(map) => Some(map.get_many(keys).map_err(Failure::from)),
        _ => None,
    })
}

/// Stores a value, as durable as said, or as the database is.
///
/// # Errors
/// Those of [`Map::put`].
#[inline]
pub fn put(handle: u64, key: &[u8], value: &[u8], durability: Option<Durability>) -> Result<()> {
    map(handle, |map| match durability {
        None => map.put(key, value),
        Some(durability) => map.put_with(key, value, durability),
    })
}

/// Removes a key, whether it was there or not.
///
/// # Errors
/// Those of [`Map::delete`].
pub fn delete(handle: u64, key: &[u8], durability: Option<Durability>) -> Result<()> {
    map(handle, |map| match durability {
        None => map.delete(key),
        Some(durability) => map.delete_with(key, durability),
    })
}

/// Stores a value if the key is not there; whether it did.
///
/// # Errors
/// Those of [`Map::insert`].
pub fn insert(
    handle: u64,
    key: &[u8],
    value: &[u8],
    durability: Option<Durability>,
) -> Result<bool> {
    map(handle, |map| match durability {
        None => map.insert(key, value),
        Some(durability) => map.insert_with(key, value, durability),
    })
}

/// Removes a key; the value that it had.
///
/// # Errors
/// Those of [`Map::remove`].
pub fn remove(handle: u64, key: &[u8], durability: Option<Durability>) -> Result<Option<Vec<u8>>> {
    map(handle, |map| match durability {
        None => map.remove(key),
        Some(durability) => map.remove_with(key, durability),
    })
}

/// Changes a value by what is there, atomically; whether it was changed. Compare-and-set is
/// [`Merge::CompareAndSet`].
///
/// # Errors
/// Those of [`Map::merge`].
pub fn merge(
    handle: u64,
    key: &[u8],
    merge: Merge,
    durability: Option<Durability>,
) -> Result<bool> {
    map(handle, |map| match durability {
        None => map.merge(key, merge),
        Some(durability) => map.merge_with(key, merge, durability),
    })
}

/// Replaces the value of a key by what `change` makes of it; whether the key was there. `change` may be called
/// several times; it answers the new value, none for no value, or a failure, and then nothing is changed.
///
/// # Errors
/// Those of `change`, and of [`Map::update`].
pub fn update(
    handle: u64,
    key: &[u8],
    durability: Option<Durability>,
    mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>>,
) -> Result<bool> {
    let (map, shared) = map_clone(handle)?;
    shared.home.guarded(|| {
        loop {
            let old = map.get(key)?;
            let new = change(old.as_deref())?;
            let (there, gone) = (old.is_some(), new.is_none());
            if !there && gone {
                return Ok(false);
            }
            // If no other writer was faster. The value that is there may be the new one already.
            let set = Merge::CompareAndSet { expected: old, new };
            let set = match durability {
                None => map.merge(key, set)?,
                Some(durability) => map.merge_with(key, set, durability)?,
            };
            if set {
                return Ok(there);
            }
        }
    })
}

/// Which records are removed.
#[derive(Clone, Copy, Debug)]
pub enum Removed<'k> {
    /// Those with keys from one end to the other.
    Range(End<'k>, End<'k>),
    /// Those whose keys begin so.
    Prefix(&'k [u8]),
}

/// Removes all records of a range, in steps that are a batch each; how many there were. `tell` hears after each
/// step how many are gone, and answers whether it goes on.
///
/// # Errors
/// [`crate::Kind::Invalid`] for a hash table; [`crate::Kind::Cancelled`]: what was removed by then is; those of
/// [`terrace::Tree::remove_range`].
pub fn remove_all(
    handle: u64,
    which: Removed<'_>,
    durability: Option<Durability>,
    rate: Rate,
    mut tell: impl FnMut(u64) -> bool,
) -> Result<u64> {
    let (map, shared) = map_clone(handle)?;
    let cancel = Cancel::new();
    let mut options = RemoveOptions::new().rate(rate).cancel(&cancel);
    if let Some(durability) = durability {
        options = options.durability(durability);
    }
    let options = options.progress(|removed| {
        if !tell(removed) {
            cancel.cancel();
        }
    });
    shared.home.guarded(|| {
        Ok(match (map.as_tree(), map.as_table(), which) {
            (Some(tree), _, Removed::Range(low, high)) => {
                tree.remove_range::<&[u8]>((low, high), options)?
            }
            (Some(tree), _, Removed::Prefix(prefix)) => tree.remove_prefix(prefix, options)?,
            (_, Some(table), Removed::Range(low, high)) => {
                table.remove_range::<&[u8]>((low, high), options)?
            }
            (_, Some(table), Removed::Prefix(prefix)) => table.remove_prefix(prefix, options)?,
            _ => {
                return Err(Failure::invalid(
                    "a hash table has no order of keys, so no ranges to remove; delete its keys one by one, or \
                     drop it",
                ));
            }
        })
    })
}

/// About how many records there are.
///
/// # Errors
/// Those of [`Map::estimated_len`].
pub fn estimated_len(handle: u64) -> Result<u64> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(map.estimated_len().map_err(Failure::from)),
        Object::SnapshotMap(map) => Some(map.estimated_len().map_err(Failure::from)),
        _ => None,
    })
}

/// Whether there is no record.
///
/// # Errors
/// Those of [`Map::is_empty`].
pub fn is_empty(handle: u64) -> Result<bool> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(map.is_empty().map_err(Failure::from)),
        Object::SnapshotMap(map) => Some(map.is_empty().map_err(Failure::from)),
        _ => None,
    })
}

/// Its name now.
///
/// # Errors
/// When it is closed.
pub fn name(handle: u64) -> Result<String> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(Ok(map.name())),
        Object::SnapshotMap(map) => Some(Ok(map.name())),
        _ => None,
    })
}

/// Its kind.
///
/// # Errors
/// When it is closed.
pub fn kind(handle: u64) -> Result<terrace::Kind> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(Ok(map.kind())),
        Object::SnapshotMap(map) => Some(Ok(map.kind())),
        _ => None,
    })
}

fn table(map: &Map) -> Result<terrace::Table> {
    map.as_table()
        .ok_or_else(|| Failure::invalid("this is no table, so it has no indexes"))
}

/// An index of a table, for reading.
///
/// # Errors
/// Those of [`terrace::Table::index`].
pub fn index(handle: u64, name: &str) -> Result<u64> {
    let (index, shared) = entered(handle, "structure", |entry| {
        let index = match &entry.object {
            Object::Map(map) => table(map).and_then(|table| Ok(table.index(name)?)),
            Object::SnapshotMap(map) => map.index(name).map_err(Failure::from),
            _ => return None,
        };
        Some(index.map(|index| (index, entry.shared.clone())))
    })?;
    handles::add(&shared, Object::Index(index))
}

/// The indexes of a table, as a JSON array of [`terrace::IndexInfo`].
///
/// # Errors
/// When it is closed, or no table.
pub fn indexes_json(handle: u64) -> Result<String> {
    let indexes: Vec<IndexInfo> = entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(table(map).map(|table| table.indexes())),
        Object::SnapshotMap(map) => Some(Ok(map.indexes())),
        _ => None,
    })?;
    json(&indexes)
}

/// Makes an index over all rows, as `city=json:/city`, `mail=unique:csv:2` or `part=bytes:0..4`.
///
/// # Errors
/// Those of [`terrace::Table::create_index`].
pub fn create_index(handle: u64, index: &str) -> Result<()> {
    let (map, shared) = map_clone(handle)?;
    shared.home.guarded(|| {
        let index: Index = index.parse()?;
        Ok(table(&map)?.create_index(index)?)
    })
}

/// Drops an index.
///
/// # Errors
/// Those of [`terrace::Table::drop_index`].
pub fn drop_index(handle: u64, name: &str) -> Result<()> {
    let (map, shared) = map_clone(handle)?;
    shared.home.guarded(|| Ok(table(&map)?.drop_index(name)?))
}

/// Gives back the handle of a structure, of a snapshot or not. The structure stays. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(handle: u64) -> Result<()> {
    let is_map = |object: &Object| matches!(object, Object::Map(_) | Object::SnapshotMap(_));
    handles::remove(handle, "structure", is_map).map(drop)
}

/// Gives back the handle of an index.
///
/// # Errors
/// When it is the handle of something else.
pub fn close_index(handle: u64) -> Result<()> {
    let is_index = |object: &Object| matches!(object, Object::Index(_));
    handles::remove(handle, "index", is_index).map(drop)
}
