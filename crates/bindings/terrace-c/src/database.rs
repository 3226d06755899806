//! Databases: opening, closing, what concerns all structures.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

use terrace_ffi::{Result, database};

use crate::options::{self, rate, tell};
use crate::raw::{call, handle, out, path, pointer, some_out, terrace_bytes, text};
use crate::status::{terrace_error, terrace_status};
use crate::structs::{terrace_options, terrace_progress};

/// An open database.
pub struct terrace_db {
    _never: [u8; 0],
}

/// Opens the database in the directory `path`, and makes both if they are missing and the options allow it.
/// `options` may be NULL. Close it with terrace_close.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_open(
    path: *const c_char,
    options: *const terrace_options,
    db: *mut *mut terrace_db,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let db = out(db, "the room for the database")?;
        let (options, read_only) = options::database(options)?;
        let path = self::path(path, "the path of the database")?;
        db.set(pointer(database::open(path, options, read_only)?));
        Ok(())
    })
}

/// Closes a database, and all that was opened through it: waits for calls that are under way and makes a last
/// checkpoint. If that fails it is closed all the same, and nothing is lost. Closing twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_close(
    db: *mut terrace_db,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || match db.is_null() {
        true => Ok(()),
        false => database::close(handle(db)),
    })
}

/// Makes everything durable that was written so far, structures without log excepted.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_sync(
    db: *mut terrace_db,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || database::sync(handle(db)))
}

/// Makes a checkpoint: the next opening has nothing to replay of what came before.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_checkpoint(
    db: *mut terrace_db,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || database::checkpoint(handle(db)))
}

/// The number of the last logged change.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_sequence(
    db: *mut terrace_db,
    sequence: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let sequence = out(sequence, "the room for the sequence")?;
        sequence.set(database::sequence(handle(db))?);
        Ok(())
    })
}

/// Marks this place in the order of changes, durably, so that a restore can go back to it. `sequence`, its
/// number, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_mark(
    db: *mut terrace_db,
    name: *const c_char,
    sequence: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let made = database::mark(handle(db), text(name, "the name of the mark")?)?;
        if let Some(sequence) = some_out(sequence) {
            sequence.set(made);
        }
        Ok(())
    })
}

/// An answer in text.
pub(crate) fn answer(
    error: *mut *mut terrace_error,
    to: *mut terrace_bytes,
    make: impl FnOnce() -> Result<String>,
) -> terrace_status {
    call(error, || {
        let to = out(to, "the room for the answer")?;
        to.set(terrace_bytes::of(make()?.as_bytes()));
        Ok(())
    })
}

/// Walks every page and every structure and checks every invariant; `report` is JSON, whose "problems" are empty
/// if all is well. Other calls wait meanwhile, and `progress`, which may be NULL, must not make any; it cannot
/// cancel.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_verify(
    db: *mut terrace_db,
    progress: terrace_progress,
    context: *mut c_void,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        let mut tell = tell(progress, context);
        database::verify_json(handle(db), |at| {
            tell(at);
        })
    })
}

/// Makes pages full and the file short, while others go on; `report` is JSON. `rate` is bytes a second, 0 for
/// gentle, or TERRACE_FAST. `progress` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_compact(
    db: *mut terrace_db,
    rate: u64,
    progress: terrace_progress,
    context: *mut c_void,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        database::compact_json(handle(db), self::rate(rate), &mut tell(progress, context))
    })
}

/// The figures as JSON: where the memory goes, what was read and written, what the tiers did.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stats(
    db: *mut terrace_db,
    json: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, json, || database::stats_json(handle(db), false))
}

/// The same, with about how many records there are and in which tier, from a sample: reads some dozen pages of
/// each structure.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_survey(
    db: *mut terrace_db,
    json: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, json, || database::stats_json(handle(db), true))
}

/// The figures as a table for people.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stats_table(
    db: *mut terrace_db,
    table: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, table, || database::stats_text(handle(db), true))
}

/// The figures as metrics: the Prometheus text format, or OpenMetrics.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_metrics(
    db: *mut terrace_db,
    openmetrics: bool,
    metrics: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, metrics, || {
        database::metrics(handle(db), openmetrics, false)
    })
}
