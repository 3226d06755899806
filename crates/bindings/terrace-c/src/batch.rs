//! Several changes as one.
#![allow(non_camel_case_types)]

use terrace_ffi::batch;

use crate::database::terrace_db;
use crate::options::durability;
use crate::raw::{array, bytes, call, handle, key, out, pointer, terrace_slice, value as value_of};
use crate::record::{compare_of, merge_of, terrace_merge_op};
use crate::status::{terrace_error, terrace_status};
use crate::structure::terrace_map;

/// Changes that are made together, all or none.
pub struct terrace_batch {
    _never: [u8; 0],
}

/// An empty batch. What is added does no more than is said here; what does not fit is told by terrace_write. Give
/// it back with terrace_batch_destroy.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_create(
    db: *mut terrace_db,
    batch: *mut *mut terrace_batch,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let batch = out(batch, "the room for the batch")?;
        batch.set(pointer(batch::begin(handle(db))?));
        Ok(())
    })
}

/// Adds a put.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_put(
    batch: *mut terrace_batch,
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, value) = (self::key(key)?, value_of(value)?);
        batch::put(handle(batch), handle(map), key, value)
    })
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_delete(
    batch: *mut terrace_batch,
    map: *mut terrace_map,
    key: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        batch::delete(handle(batch), handle(map), self::key(key)?)
    })
}

/// Adds a merge: it is worked out when the batch is written, in its order.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_merge(
    batch: *mut terrace_batch,
    map: *mut terrace_map,
    key: terrace_slice,
    op: *const terrace_merge_op,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        batch::merge(handle(batch), handle(map), self::key(key)?, merge_of(op)?)
    })
}

/// Adds a comparison: where the value is another one when the batch is written, this change alone is not made.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_compare_and_set(
    batch: *mut terrace_batch,
    map: *mut terrace_map,
    key: terrace_slice,
    expected: *const terrace_slice,
    new_value: *const terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let merge = compare_of(expected, new_value)?;
        batch::merge(handle(batch), handle(map), self::key(key)?, merge)
    })
}

/// How many changes it has.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_count(
    batch: *mut terrace_batch,
    count: *mut usize,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let count = out(count, "the room for the number")?;
        count.set(batch::len(handle(batch))?);
        Ok(())
    })
}

/// Forgets all changes.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_clear(
    batch: *mut terrace_batch,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || batch::clear(handle(batch)))
}

/// Makes all changes of a batch, or none, with a terrace_durability. The batch is empty then, and may be used
/// again.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_write(
    db: *mut terrace_db,
    batch: *mut terrace_batch,
    durability: u32,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        batch::commit(handle(db), handle(batch), self::durability(durability)?)
    })
}

/// The same with changes that are encoded in one piece, as the guide says; it names structures by their place in
/// `maps`. All of it is checked before anything is written.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_write_encoded(
    db: *mut terrace_db,
    maps: *const *mut terrace_map,
    map_count: usize,
    changes: terrace_slice,
    durability: u32,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let maps = array(maps, map_count, "the structures")?;
        let maps: Vec<u64> = maps.iter().map(|map| handle(*map)).collect();
        let changes = bytes(changes, "the changes")?;
        batch::write_encoded(handle(db), &maps, changes, self::durability(durability)?)
    })
}

/// Gives back a batch; what was not written is forgotten. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_destroy(batch: *mut terrace_batch) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || batch::close(handle(batch)));
}
