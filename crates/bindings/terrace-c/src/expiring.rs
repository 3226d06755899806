//! Records that expire, in structures that are made for it.
#![allow(non_camel_case_types)]

use terrace_ffi::{batch, expiring};

use crate::batch::terrace_batch;
use crate::options::durability;
use crate::raw::{self, call, handle, out, some_out, terrace_slice};
use crate::status::{terrace_error, terrace_status};
use crate::structure::terrace_map;

/// Stores a value that is there for this many milliseconds: from then on no reader sees it, and its space comes back by
/// and by. The structure has to be made with `expiring`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_put_for(
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    ms: u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        expiring::put_for(handle(map), raw::key(key)?, raw::value(value)?, ms)
    })
}

/// Stores a value that is there until a time, in milliseconds since 1970, or TERRACE_FOREVER, with a
/// terrace_durability. A time that has passed removes the key.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_put_until(
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    time_ms: u64,
    durability: u32,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, value) = (raw::key(key)?, raw::value(value)?);
        expiring::put_until(
            handle(map),
            key,
            value,
            time_ms,
            self::durability(durability)?,
        )
    })
}

/// Has a record expire in this many milliseconds, or never (TERRACE_FOREVER). `there` says whether it is; it may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_expire_in(
    map: *mut terrace_map,
    key: terrace_slice,
    ms: u64,
    there: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let found = expiring::expire_in(handle(map), raw::key(key)?, ms)?;
        if let Some(there) = some_out(there) {
            there.set(found);
        }
        Ok(())
    })
}

/// Has a record expire at a time, in milliseconds since 1970, or never (TERRACE_FOREVER); as terrace_expire_in.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_expire_at(
    map: *mut terrace_map,
    key: terrace_slice,
    time_ms: u64,
    there: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let found = expiring::expire_at(handle(map), raw::key(key)?, time_ms)?;
        if let Some(there) = some_out(there) {
            there.set(found);
        }
        Ok(())
    })
}

/// Until when a record is there: milliseconds since 1970, TERRACE_FOREVER, or 0 if it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_expires(
    map: *mut terrace_map,
    key: terrace_slice,
    time_ms: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let time_ms = out(time_ms, "the room for the time")?;
        time_ms.set(expiring::expires(handle(map), raw::key(key)?)?.unwrap_or(0));
        Ok(())
    })
}

/// Adds a put that expires at a time, in milliseconds since 1970, or TERRACE_FOREVER.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_batch_put_until(
    batch: *mut terrace_batch,
    map: *mut terrace_map,
    key: terrace_slice,
    value: terrace_slice,
    time_ms: u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let (key, value) = (raw::key(key)?, raw::value(value)?);
        batch::put_until(handle(batch), handle(map), key, value, time_ms)
    })
}
