//! Loading many records: they are sorted first, and each page is written once.
#![allow(non_camel_case_types)]

use terrace_ffi::load;
use terrace_ffi::terrace::Durability;

use crate::options::durability;
use crate::raw::{call, handle, key, out, pointer, some_out, terrace_slice, value as value_of};
use crate::status::{terrace_error, terrace_status};
use crate::structure::terrace_map;

/// Loads many records into a structure.
pub struct terrace_loader {
    _never: [u8; 0],
}

/// Begins to load. End it with terrace_loader_finish or terrace_loader_destroy.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_loader_create(
    map: *mut terrace_map,
    loader: *mut *mut terrace_loader,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let loader = out(loader, "the room for the loader")?;
        loader.set(pointer(load::begin(handle(map))?));
        Ok(())
    })
}

/// Adds a record, in any order.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_loader_put(
    loader: *mut terrace_loader,
    key: terrace_slice,
    value: terrace_slice,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        load::put(handle(loader), self::key(key)?, value_of(value)?)
    })
}

/// Writes what was added, with a terrace_durability, and gives the loader back. `records` says how many, each key
/// counted once; it may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_loader_finish(
    loader: *mut terrace_loader,
    durability: u32,
    records: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let durability = self::durability(durability)?.unwrap_or(Durability::Buffered);
        let written = load::finish(handle(loader), durability, |_| ())?;
        if let Some(records) = some_out(records) {
            records.set(written);
        }
        Ok(())
    })
}

/// Gives back a loader; what was added is forgotten, but for what was written already. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_loader_destroy(loader: *mut terrace_loader) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || load::close(handle(loader)));
}
