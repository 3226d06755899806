//! Going through records: of structures, of indexes, of transactions.
#![allow(non_camel_case_types)]

use std::ops::Bound;

use terrace_ffi::cursor::{self, End, MOST_BYTES};
use terrace_ffi::{Result, encoding};

use crate::raw::{
    borrowed, bytes, call, handle, key, out, pointer, some_out, terrace_bytes, terrace_slice,
};
use crate::status::{terrace_error, terrace_status};
use crate::structure::{terrace_index, terrace_map};

/// Goes through records in one direction.
pub struct terrace_cursor {
    _never: [u8; 0],
}

pub(crate) fn low<'a>(end: *const terrace_slice) -> Result<End<'a>> {
    let end = borrowed(end).map(|end| key(*end)).transpose()?;
    Ok(end.map_or(Bound::Unbounded, Bound::Included))
}

pub(crate) fn high<'a>(end: *const terrace_slice) -> Result<End<'a>> {
    let end = borrowed(end).map(|end| key(*end)).transpose()?;
    Ok(end.map_or(Bound::Unbounded, Bound::Excluded))
}

pub(crate) fn opened(
    error: *mut *mut terrace_error,
    cursor: *mut *mut terrace_cursor,
    open: impl FnOnce() -> Result<u64>,
) -> terrace_status {
    call(error, || {
        let cursor = out(cursor, "the room for the cursor")?;
        cursor.set(pointer(open()?));
        Ok(())
    })
}

/// A cursor over the records whose keys are at least `from` and less than `to`, by key, or against it if
/// `reverse`; NULL is no bound. All of a hash table comes in an order of its own. Each record that is there all
/// the while comes once; what comes or goes meanwhile may or may not. Close it with terrace_cursor_close.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_range(
    map: *mut terrace_map,
    from: *const terrace_slice,
    to: *const terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::range(handle(map), low(from)?, high(to)?, reverse)
    })
}

/// A cursor over the records whose keys begin so.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_prefix(
    map: *mut terrace_map,
    prefix: terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::prefix(handle(map), key(prefix)?, reverse)
    })
}

/// A cursor over all records, in whatever order takes the fewest reads.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_unordered(
    map: *mut terrace_map,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || cursor::unordered(handle(map)))
}

/// A cursor over the rows whose keys in an index are at least `from` and less than `to`: primary keys with rows.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_range(
    index: *mut terrace_index,
    from: *const terrace_slice,
    to: *const terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::index_range(handle(index), low(from)?, high(to)?, reverse)
    })
}

/// A cursor over the rows whose keys in an index begin so.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_prefix(
    index: *mut terrace_index,
    prefix: terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::index_prefix(handle(index), key(prefix)?, reverse)
    })
}

/// A cursor over the rows with this key in an index.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_get(
    index: *mut terrace_index,
    index_key: terrace_slice,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::index_get(handle(index), key(index_key)?)
    })
}

/// A cursor over the keys of an index in a range, each with a primary key as its value.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_keys(
    index: *mut terrace_index,
    from: *const terrace_slice,
    to: *const terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        cursor::index_keys(handle(index), low(from)?, high(to)?, reverse)
    })
}

/// The next record; `key->data` is NULL at the end. What it says lives until this cursor is called the next time,
/// or closed. `value` may be NULL. One thread at a time: another one that calls meanwhile gets an error.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_cursor_next(
    cursor: *mut terrace_cursor,
    key: *mut terrace_slice,
    value: *mut terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let key = out(key, "the room for the key")?;
        let slices = |key: &[u8], value: &[u8]| (terrace_slice::of(key), terrace_slice::of(value));
        let found = cursor::next(handle(cursor), slices)?;
        let found = found.unwrap_or((terrace_slice::NONE, terrace_slice::NONE));
        key.set(found.0);
        if let Some(value) = some_out(value) {
            value.set(found.1);
        }
        Ok(())
    })
}

/// The next records in one piece, at most `most_bytes` of it, or a single longer one; 0 is a mebibyte, which is
/// the most. `records` says how many, 0 at the end. Go through them with terrace_window_next, beginning at
/// TERRACE_WINDOW_HEAD, and give the window back with terrace_bytes_free. Threads may share a cursor so.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_cursor_window(
    cursor: *mut terrace_cursor,
    most_bytes: usize,
    window: *mut terrace_bytes,
    records: *mut usize,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let window = out(window, "the room for the window")?;
        let most_bytes = match most_bytes {
            0 => MOST_BYTES,
            most => most,
        };
        let mut bytes = Vec::new();
        let count = cursor::window(handle(cursor), most_bytes, &mut bytes)?;
        window.set(terrace_bytes::of(&bytes));
        if let Some(records) = some_out(records) {
            records.set(count);
        }
        Ok(())
    })
}

/// The record at `*at` of a window, which moves on; false at the end. What it says lives as long as the window.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_window_next(
    window: terrace_slice,
    at: *mut usize,
    key: *mut terrace_slice,
    value: *mut terrace_slice,
) -> bool {
    let (Some(place), Some(key), Some(value)) =
        (borrowed(at).copied(), some_out(key), some_out(value))
    else {
        return false;
    };
    let found = bytes(window, "the window").ok();
    let found = found.and_then(|window| encoding::record_at(window, place));
    let Some((key_bytes, value_bytes, next)) = found else {
        return false;
    };
    key.set(terrace_slice::of(key_bytes));
    value.set(terrace_slice::of(value_bytes));
    if let Some(at) = some_out(at) {
        at.set(next);
    }
    true
}

/// Gives back a cursor. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_cursor_close(cursor: *mut terrace_cursor) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || cursor::close(handle(cursor)));
}
