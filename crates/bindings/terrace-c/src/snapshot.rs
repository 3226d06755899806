//! Snapshots: everything as it was at one instant, for reading.
#![allow(non_camel_case_types)]

use std::ffi::c_char;
use std::time::{Duration, UNIX_EPOCH};

use terrace_ffi::{database, snapshot};

use crate::database::{answer, terrace_db};
use crate::raw::{call, handle, out, pointer, some_out, terrace_bytes, text};
use crate::status::{terrace_error, terrace_status};
use crate::structure::terrace_map;

/// Everything as it was at one instant.
pub struct terrace_snapshot {
    _never: [u8; 0],
}

/// The age of a snapshot that is made now. C has it in the tail of the header.
pub(crate) const TERRACE_NOW: u64 = 0;

/// A snapshot of now, or one that is at most this many milliseconds old, which costs less where there is one.
/// Give it back with terrace_release_snapshot: it keeps space.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_create_snapshot(
    db: *mut terrace_db,
    most_age_ms: u64,
    snapshot: *mut *mut terrace_snapshot,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let snapshot = out(snapshot, "the room for the snapshot")?;
        let age = (most_age_ms != TERRACE_NOW).then(|| Duration::from_millis(most_age_ms));
        snapshot.set(pointer(database::snapshot(handle(db), age)?));
        Ok(())
    })
}

/// Gives back a snapshot, with its structures and their cursors. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_release_snapshot(snapshot: *mut terrace_snapshot) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || snapshot::close(handle(snapshot)));
}

/// A structure as it was. Whatever reads structures takes it; writing to it is an error.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_snapshot_map(
    snapshot: *mut terrace_snapshot,
    name: *const c_char,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let map = out(map, "the room for the structure")?;
        let name = text(name, "the name of the structure")?;
        map.set(pointer(snapshot::structure(handle(snapshot), name)?));
        Ok(())
    })
}

/// What structures there were, as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_snapshot_structures(
    snapshot: *mut terrace_snapshot,
    json: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, json, || snapshot::structures_json(handle(snapshot)))
}

/// The instant that it shows, in milliseconds since 1970, and the number of the last logged change that it has.
/// Each may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_snapshot_instant(
    snapshot: *mut terrace_snapshot,
    time_ms: *mut u64,
    sequence: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let time = snapshot::time(handle(snapshot))?;
        let last = snapshot::sequence(handle(snapshot))?;
        if let Some(time_ms) = some_out(time_ms) {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            time_ms.set(since.as_millis() as u64);
        }
        if let Some(sequence) = some_out(sequence) {
            sequence.set(last);
        }
        Ok(())
    })
}
