//! Going through records in one direction: a window of them at a time crosses the border.

use std::ops::Bound;

use terrace::Map;
use terrace_base::sync::Mutex;

use crate::enter::entered;
use crate::failure::{Failure, Result};
use crate::handles::{self, Entry};
use crate::object::Object;
use crate::window::{Cursor, Record, Source};

pub use crate::window::{MOST_BYTES, MOST_RECORDS};

/// From the first or from the last.
fn either_way(
    range: impl DoubleEndedIterator<Item = terrace::Result<Record>> + Send + 'static,
    reverse: bool,
) -> Source {
    if reverse {
        Box::new(range.rev().map(|record| Ok(record?)))
    } else {
        Box::new(range.map(|record| Ok(record?)))
    }
}

/// A handle for a source of something.
pub(crate) fn of_source(of: &Entry, source: Source) -> Result<u64> {
    let cursor = Box::new(Mutex::new(Cursor::new(source)));
    handles::add(&of.shared, Object::Cursor(cursor))
}

/// A key at an end of a range.
pub type End<'k> = Bound<&'k [u8]>;

fn range_of(map: &Map, range: (End<'_>, End<'_>)) -> Result<terrace::Range> {
    if let Some(tree) = map.as_tree() {
        return Ok(tree.range::<&[u8]>(range)?);
    }
    if let Some(table) = map.as_table() {
        return Ok(table.range::<&[u8]>(range)?);
    }
    match range {
        (Bound::Unbounded, Bound::Unbounded) => Ok(map.iter()?),
        _ => Err(Failure::invalid(
            "a hash table has no order of keys, so no ranges; go through all of it",
        )),
    }
}

fn prefix_of(map: &Map, prefix: &[u8]) -> Result<terrace::Range> {
    if let Some(tree) = map.as_tree() {
        return Ok(tree.prefix(prefix)?);
    }
    if let Some(table) = map.as_table() {
        return Ok(table.prefix(prefix)?);
    }
    Err(Failure::invalid(
        "a hash table has no order of keys, so no prefixes; go through all of it",
    ))
}

/// Records of a structure, of a snapshot or not, whose keys are in a range, in the order of the keys or
/// against it. All records of a hash table come in an order of their own, if the range has no ends.
///
/// # Errors
/// [`crate::Kind::Invalid`] for a range of a hash table; those of [`terrace::Tree::range`].
pub fn range(handle: u64, low: End<'_>, high: End<'_>, reverse: bool) -> Result<u64> {
    entered(handle, "structure", |entry| {
        let range = match &entry.object {
            Object::Map(map) => range_of(map, (low, high)),
            Object::SnapshotMap(map) => match (low, high) {
                (Bound::Unbounded, Bound::Unbounded) => map.iter().map_err(Failure::from),
                ends => map.range::<&[u8]>(ends).map_err(Failure::from),
            },
            _ => return None,
        };
        Some(range.and_then(|range| of_source(entry, either_way(range, reverse))))
    })
}

/// Records whose keys begin so.
///
/// # Errors
/// As [`range`].
pub fn prefix(handle: u64, prefix: &[u8], reverse: bool) -> Result<u64> {
    entered(handle, "structure", |entry| {
        let range = match &entry.object {
            Object::Map(map) => prefix_of(map, prefix),
            Object::SnapshotMap(map) => map.prefix(prefix).map_err(Failure::from),
            _ => return None,
        };
        Some(range.and_then(|range| of_source(entry, either_way(range, reverse))))
    })
}

/// All records, in whatever order takes the fewest reads.
///
/// # Errors
/// As [`range`].
pub fn unordered(handle: u64) -> Result<u64> {
    entered(handle, "structure", |entry| {
        let all = match &entry.object {
            Object::Map(map) => map.iter_unordered(),
            Object::SnapshotMap(map) => map.iter_unordered(),
            _ => return None,
        };
        let source =
            |all: terrace::Unordered| of_source(entry, Box::new(all.map(|record| Ok(record?))));
        Some(all.map_err(Failure::from).and_then(source))
    })
}

/// Rows whose keys in an index are in a range, each with its primary key.
///
/// # Errors
/// Those of [`terrace::IndexHandle::range`].
pub fn index_range(index: u64, low: End<'_>, high: End<'_>, reverse: bool) -> Result<u64> {
    of_index(index, |index| {
        Ok(either_way(index.range::<&[u8]>((low, high))?, reverse))
    })
}

/// Rows with this key in an index.
///
/// # Errors
/// Those of [`terrace::IndexHandle::get`].
pub fn index_get(index: u64, key: &[u8]) -> Result<u64> {
    of_index(index, |index| Ok(either_way(index.get(key)?, false)))
}

/// Rows whose keys in an index begin so.
///
/// # Errors
/// Those of [`terrace::IndexHandle::prefix`].
pub fn index_prefix(index: u64, prefix: &[u8], reverse: bool) -> Result<u64> {
    of_index(index, |index| {
        Ok(either_way(index.prefix(prefix)?, reverse))
    })
}

/// Keys of an index in a range, each with a primary key as its value.
///
/// # Errors
/// Those of [`terrace::IndexHandle::keys`].
pub fn index_keys(index: u64, low: End<'_>, high: End<'_>, reverse: bool) -> Result<u64> {
    of_index(index, |index| {
        Ok(either_way(index.keys::<&[u8]>((low, high))?, reverse))
    })
}

fn of_index(
    handle: u64,
    source: impl FnOnce(&terrace::IndexHandle) -> terrace::Result<Source>,
) -> Result<u64> {
    entered(handle, "index", |entry| match &entry.object {
        Object::Index(index) => Some(
            source(index)
                .map_err(Failure::from)
                .and_then(|source| of_source(entry, source)),
        ),
        _ => None,
    })
}

/// Replaces `out` by the next window, which [`crate::encoding`] describes, and says how many records it has:
/// none at the end. It has at most [`MOST_RECORDS`] of them and `most_bytes` bytes, but one record at least;
/// [`MOST_BYTES`] is a good number. Threads may share a cursor so: each window goes to one of them.
///
/// # Errors
/// Those of the engine, behind the records before.
pub fn window(cursor: u64, most_bytes: usize, out: &mut Vec<u8>) -> Result<usize> {
    with(cursor, |cursor| {
        cursor.lock().window(most_bytes.min(MOST_BYTES), out)
    })
}

/// What `with` makes of the next record; none at the end. `with` must not call this cursor. The bytes stay where
/// they are until this cursor is called the next time.
///
/// # Errors
/// [`crate::Kind::Invalid`] while another thread is in this cursor; as [`window`].
#[inline]
pub fn next<R>(cursor: u64, with: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
    self::with(cursor, |cursor| {
        let Some(mut cursor) = cursor.try_lock() else {
            return Err(Failure::invalid(
                "another thread is in this cursor; give each thread one of its own",
            ));
        };
        let record = cursor.next()?;
        Ok(record.map(|(key, value)| with(key, value)))
    })
}

fn with<R>(cursor: u64, call: impl FnOnce(&Mutex<Cursor>) -> Result<R>) -> Result<R> {
    entered(cursor, "cursor", |entry| match &entry.object {
        Object::Cursor(cursor) => Some(call(cursor)),
        _ => None,
    })
}

/// Gives it back. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(cursor: u64) -> Result<()> {
    let is_cursor = |object: &Object| matches!(object, Object::Cursor(_));
    handles::remove(cursor, "cursor", is_cursor).map(drop)
}
