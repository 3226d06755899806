//! Transactions: by hand, or as a function that runs again while others are faster.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

use terrace_ffi::{Failure, Kind, Result, transaction};

use crate::cursor::{high, low, opened, terrace_cursor};
use crate::database::terrace_db;
use crate::options::of_transaction;
use crate::raw::{
    array, call, handle, key, out, pointer, some_out, terrace_bytes, terrace_slice, text,
    value as value_of,
};
use crate::record::{compare_of, merge_of, terrace_merge_op};
use crate::status::{terrace_error, terrace_status};
use crate::structs::terrace_transaction_options;
use crate::structure::terrace_map;

/// Reads and writes of one instant, or none. Nothing is held while it goes on.
pub struct terrace_transaction {
    _never: [u8; 0],
}

/// What terrace_transact and terrace_read run, perhaps several times. It answers 0 (TERRACE_OK) to go on to the
/// commit, or a terrace_status: then nothing is changed, and that is the answer. It must not unwind or longjmp,
/// and not use the transaction after it has returned.
pub type terrace_transaction_function =
    Option<extern "C" fn(transaction: *mut terrace_transaction, context: *mut c_void) -> u32>;

/// Begins a transaction. End it with terrace_commit or terrace_abort. `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_begin(
    db: *mut terrace_db,
    options: *const terrace_transaction_options,
    transaction: *mut *mut terrace_transaction,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let transaction = out(transaction, "the room for the transaction")?;
        let options = of_transaction(options)?;
        transaction.set(pointer(transaction::begin(handle(db), options)?));
        Ok(())
    })
}

/// Commits a transaction, which is over then, whatever comes of it. TERRACE_CONFLICT: others changed what it had
/// read, nothing was done, begin it again. `sequence`, its number in the order of changes, 0 if it changed
/// nothing that is logged, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_commit(
    transaction: *mut terrace_transaction,
    sequence: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let committed = transaction::commit(handle(transaction))?;
        if let Some(sequence) = some_out(sequence) {
            sequence.set(committed.unwrap_or(0));
        }
        Ok(())
    })
}

/// Ends a transaction without a trace. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_abort(transaction: *mut terrace_transaction) {
    // What is none has nothing to end.
    let _ = call(std::ptr::null_mut(), || {
        transaction::abort(handle(transaction))
    });
}

/// Runs a transaction: `function` with the transaction and `context`, again while others are faster, and commits
/// what it did. `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transact(
    db: *mut terrace_db,
    options: *const terrace_transaction_options,
    function: terrace_transaction_function,
    context: *mut c_void,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (options, run) = (of_transaction(options)?, running(function, context)?);
        transaction::run(handle(db), options, run)
    })
}

/// The same with a transaction that only reads: all that it reads is of one instant.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_read(
    db: *mut terrace_db,
    options: *const terrace_transaction_options,
    function: terrace_transaction_function,
    context: *mut c_void,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (options, run) = (of_transaction(options)?, running(function, context)?);
        transaction::read(handle(db), options, run)
    })
}

fn running(
    function: terrace_transaction_function,
    context: *mut c_void,
) -> Result<impl FnMut(u64) -> Result<()>> {
    let function = function.ok_or_else(|| Failure::invalid("the function is NULL; give one"))?;
    Ok(move |going| match function(pointer(going), context) {
        0 => Ok(()),
        status => Err(Failure::new(
            Kind::of_number(status).unwrap_or(Kind::Aborted),
            format!("the function of the transaction answered {status}, so nothing was changed"),
        )),
    })
}

/// The value of a key, with the transaction's own changes; as terrace_get.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_get(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    value: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let value = out(value, "the room for the value")?;
        let found = transaction::get(handle(transaction), handle(map), self::key(key)?)?;
        value.set(terrace_bytes::some(found.as_deref()));
        Ok(())
    })
}

/// The same without looking at the commit whether it is still so.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_get_unchecked(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    value: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let value = out(value, "the room for the value")?;
        let found = transaction::get_unchecked(handle(transaction), handle(map), self::key(key)?)?;
        value.set(terrace_bytes::some(found.as_deref()));
        Ok(())
    })
}

/// The values of keys; as terrace_get_many.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_get_many(
    transaction: *mut terrace_transaction,
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
        let found = transaction::get_many(handle(transaction), handle(map), &keys)?;
        for (i, value) in found.iter().enumerate() {
            if let Some(place) = some_out(values.wrapping_add(i)) {
                place.set(terrace_bytes::some(value.as_deref()));
            }
        }
        Ok(())
    })
}

/// Stores a value.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_put(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, value) = (self::key(key)?, value_of(value)?);
        transaction::put(handle(transaction), handle(map), key, value)
    })
}

/// Removes a key, whether it is there or not.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_delete(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        transaction::delete(handle(transaction), handle(map), self::key(key)?)
    })
}

/// Stores a value if the key is not there. `inserted` says whether; it may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_insert(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    inserted: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, value) = (self::key(key)?, value_of(value)?);
        let done = transaction::insert(handle(transaction), handle(map), key, value)?;
        if let Some(inserted) = some_out(inserted) {
            inserted.set(done);
        }
        Ok(())
    })
}

/// Removes a key; `value` is the one that it had, as terrace_get says it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_remove(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    value: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let value = out(value, "the room for the value")?;
        let removed = transaction::remove(handle(transaction), handle(map), self::key(key)?)?;
        value.set(terrace_bytes::some(removed.as_deref()));
        Ok(())
    })
}

/// Changes a value by what is there at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_merge(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    op: *const terrace_merge_op,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, merge) = (self::key(key)?, merge_of(op)?);
        transaction::merge(handle(transaction), handle(map), key, merge)
    })
}

/// Stores `new_value` at the commit if the value is `expected` then; else this change alone is not made.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_compare_and_set(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    key: terrace_slice,
    expected: *const terrace_slice,
    new_value: *const terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, merge) = (self::key(key)?, compare_of(expected, new_value)?);
        transaction::merge(handle(transaction), handle(map), key, merge)
    })
}

/// A cursor over a range, as terrace_range, with the transaction's own changes. All of the range counts as read.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_range(
    transaction: *mut terrace_transaction,
    map: *mut terrace_map,
    from: *const terrace_slice,
    to: *const terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        let (from, to) = (low(from)?, high(to)?);
        transaction::range(handle(transaction), handle(map), from, to, reverse)
    })
}

/// A cursor over rows by an index of a table, as terrace_index_range; they are read at once.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_transaction_index_range(
    transaction: *mut terrace_transaction,
    table: *mut terrace_map,
    index: *const c_char,
    from: *const terrace_slice,
    to: *const terrace_slice,
    reverse: bool,
    cursor: *mut *mut terrace_cursor,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, cursor, || {
        let index = text(index, "the name of the index")?;
        let (from, to) = (low(from)?, high(to)?);
        transaction::index_range(handle(transaction), handle(table), index, from, to, reverse)
    })
}
