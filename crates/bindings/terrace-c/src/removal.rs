//! Removing all records of a range.

use terrace_ffi::map::{Removed, remove_all};
use terrace_ffi::{Failure, Result};

use crate::cursor::{high, low};
use crate::options;
use crate::raw::{call, handle, key, some_out, terrace_slice};
use crate::status::{terrace_error, terrace_status};
use crate::structs::terrace_remove_options;
use crate::structure::terrace_map;

/// Removes the records whose keys are at least `from` and less than `to`; NULL is no bound. In steps of some hundred,
/// each a batch: others go on meanwhile, and whatever ends it early, what lies before a place is gone and the rest
/// is there. Not of a hash table. `options`, and `removed`, how many there were, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_remove_range(
    map: *mut terrace_map,
    from: *const terrace_slice,
    to: *const terrace_slice,
    options: *const terrace_remove_options,
    removed: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    removal(map, options, removed, error, || {
        Ok(Removed::Range(low(from)?, high(to)?))
    })
}

/// Removes the records whose keys begin so; as terrace_remove_range.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_remove_prefix(
    map: *mut terrace_map,
    prefix: terrace_slice,
    options: *const terrace_remove_options,
    removed: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    removal(map, options, removed, error, || {
        Ok(Removed::Prefix(key(prefix)?))
    })
}

fn removal<'k>(
    map: *mut terrace_map,
    options: *const terrace_remove_options,
    removed: *mut u64,
    error: *mut *mut terrace_error,
    which: impl FnOnce() -> Result<Removed<'k>>,
) -> terrace_status {
    call(error, || {
        let (given, rate) = options::removing(options)?;
        let number = u32::try_from(given.durability);
        let number = number.map_err(|_| Failure::invalid("this is no durability"))?;
        let durability = options::durability(number)?;
        let tell = options::tell_removed(given);
        let done = remove_all(handle(map), which()?, durability, rate, tell)?;
        if let Some(removed) = some_out(removed) {
            removed.set(done);
        }
        Ok(())
    })
}
