//! Single records: looking up, writing, changing.
#![allow(non_camel_case_types)]

use terrace_ffi::terrace::{MAX_VALUE_BYTES, Merge};
use terrace_ffi::{Failure, Result, map};

use crate::options::durability;
use crate::raw::{
    self, array, borrowed, call, copied, handle, key, out, some_out, terrace_bytes, terrace_slice,
};
use crate::status::{terrace_error, terrace_status};
use crate::structure::terrace_map;

/// The length of no value. C has it in the tail of the header.
pub(crate) const TERRACE_NONE: usize = usize::MAX;

/// Ways to change a value by what is there.
#[allow(dead_code, reason = "C says it in numbers")]
#[repr(C)]
pub enum terrace_merge_kind {
    /// Adds `number` to a number of eight bytes in which the highest bit is turned around, big-endian, so that
    /// bytes compare as numbers do; none counts as 0.
    TERRACE_ADD = 1,
    /// Adds `number` to a big-endian number of eight bytes without sign.
    TERRACE_ADD_UNSIGNED = 2,
    /// Keeps the lower one of the two, as bytes compare.
    TERRACE_MIN = 3,
    /// Keeps the higher one of the two, as bytes compare.
    TERRACE_MAX = 4,
    /// Appends `value`; more than `limit` bytes in all are an error, 0 is the longest value that there is.
    TERRACE_APPEND = 5,
    /// Stores `value` if there is none.
    TERRACE_SET_IF_ABSENT = 6,
}

/// A change of a value by what is there. Fields that its kind has no use for are not looked at.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_merge_op {
    /// A terrace_merge_kind.
    pub kind: u32,
    /// What is added.
    pub number: i64,
    /// What is compared, appended or stored.
    pub value: terrace_slice,
    /// Most bytes that the value may have.
    pub limit: u64,
}

/// A merge of C's.
pub(crate) fn merge_of(op: *const terrace_merge_op) -> Result<Merge> {
    let op = borrowed(op).ok_or_else(|| Failure::invalid("the merge is NULL; give one"))?;
    let value = || Ok::<_, Failure>(raw::value(op.value)?.to_vec());
    Ok(match op.kind {
        1 => Merge::Add(op.number),
        2 => Merge::AddUnsigned(op.number),
        3 => Merge::Min(value()?),
        4 => Merge::Max(value()?),
        5 => Merge::Append {
            bytes: value()?,
            limit: match op.limit {
                0 => MAX_VALUE_BYTES,
                limit => usize::try_from(limit).unwrap_or(MAX_VALUE_BYTES),
            },
        },
        6 => Merge::SetIfAbsent(value()?),
        other => {
            return Err(Failure::invalid(format!(
                "{other} is no kind of merge; use what the header names"
            )));
        }
    })
}

/// A comparison of C's: NULL is no value.
pub(crate) fn compare_of(
    expected: *const terrace_slice,
    new: *const terrace_slice,
) -> Result<Merge> {
    let value = |slice: *const terrace_slice| {
        borrowed(slice)
            .map(|slice| Ok::<_, Failure>(raw::value(*slice)?.to_vec()))
            .transpose()
    };
    let (expected, new) = (value(expected)?, value(new)?);
    Ok(Merge::CompareAndSet { expected, new })
}

/// The value of a key. `value->data` is NULL if there is none; else give it back with terrace_bytes_free.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_get(
    map: *mut terrace_map,
    key: terrace_slice,
    value: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let value = out(value, "the room for the value")?;
        let found = map::get_with(handle(map), self::key(key)?, terrace_bytes::of)?;
        value.set(found.unwrap_or(terrace_bytes::NONE));
        Ok(())
    })
}

/// Copies the value of a key to `buffer` if it fits into `capacity` bytes, all of it or nothing. `len` says how
/// long it is, TERRACE_NONE if there is none; so more than `capacity` means that a larger buffer is needed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_get_into(
    map: *mut terrace_map,
    key: terrace_slice,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let len = out(len, "the room for the length")?;
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::invalid("the buffer is NULL; give one"));
        }
        let found = map::get_with(handle(map), self::key(key)?, |value| {
            copied(value, buffer, capacity);
            value.len()
        })?;
        len.set(found.unwrap_or(TERRACE_NONE));
        Ok(())
    })
}

/// The values of `count` keys, which `values` has room for; those that are not there have NULL as their data. Give
/// back each with terrace_bytes_free. Cold ones are read together. On an error there are none.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_get_many(
    map: *mut terrace_map,
    keys: *const terrace_slice,
    count: usize,
    values: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let keys = array(keys, count, "the keys")?;
        let keys = keys.iter().map(|key| self::key(*key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if count > 0 {
            out(values, "the room for the values")?;
        }
        let found = map::get_many(handle(map), &keys)?;
        for (i, value) in found.iter().enumerate() {
            if let Some(place) = some_out(values.wrapping_add(i)) {
                place.set(terrace_bytes::some(value.as_deref()));
            }
        }
        Ok(())
    })
}

/// Whether there is a value.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_contains(
    map: *mut terrace_map,
    key: terrace_slice,
    found: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let found = out(found, "the room for the answer")?;
        found.set(map::contains(handle(map), self::key(key)?)?);
        Ok(())
    })
}

/// Stores a value, whether the key was there or not.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_put(
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    terrace_put_with(map, key, value, 0, error)
}

/// terrace_put with a terrace_durability.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_put_with(
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    durability: u32,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let durability = self::durability(durability)?;
        map::put(handle(map), self::key(key)?, raw::value(value)?, durability)
    })
}

/// Removes a key, whether it was there or not.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_delete(
    map: *mut terrace_map,
    key: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    terrace_delete_with(map, key, 0, error)
}

/// terrace_delete with a terrace_durability.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_delete_with(
    map: *mut terrace_map,
    key: terrace_slice,
    durability: u32,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        map::delete(handle(map), self::key(key)?, self::durability(durability)?)
    })
}

/// Stores a value if the key is not there. `inserted` says whether it did; it may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_insert(
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    durability: u32,
    inserted: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let durability = self::durability(durability)?;
        let done = map::insert(handle(map), self::key(key)?, raw::value(value)?, durability)?;
        if let Some(inserted) = some_out(inserted) {
            inserted.set(done);
        }
        Ok(())
    })
}

/// Removes a key. `value` is the one that it had, as terrace_get says it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_remove(
    map: *mut terrace_map,
    key: terrace_slice,
    durability: u32,
    value: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let value = out(value, "the room for the value")?;
        let removed = map::remove(handle(map), self::key(key)?, self::durability(durability)?)?;
        value.set(terrace_bytes::some(removed.as_deref()));
        Ok(())
    })
}

/// Changes a value by what is there, atomically. `changed` says whether that changed anything; it may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_merge(
    map: *mut terrace_map,
    key: terrace_slice,
    op: *const terrace_merge_op,
    durability: u32,
    changed: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    merged(error, map, key, durability, changed, || merge_of(op))
}

/// Stores `new_value` if the value is `expected`, atomically. NULL is no value, for both. `set` says whether it
/// was so; it may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_compare_and_set(
    map: *mut terrace_map,
    key: terrace_slice,
    expected: *const terrace_slice,
    new_value: *const terrace_slice,
    durability: u32,
    set: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    merged(error, map, key, durability, set, || {
        compare_of(expected, new_value)
    })
}

fn merged(
    error: *mut *mut terrace_error,
    map: *mut terrace_map,
    key: terrace_slice,
    durability: u32,
    changed: *mut bool,
    merge: impl FnOnce() -> Result<Merge>,
) -> terrace_status {
    call(error, || {
        let (key, durability) = (raw::key(key)?, self::durability(durability)?);
        let done = map::merge(handle(map), key, merge()?, durability)?;
        if let Some(changed) = some_out(changed) {
            changed.set(done);
        }
        Ok(())
    })
}
