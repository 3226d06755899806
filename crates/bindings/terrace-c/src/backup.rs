//! Backup sets: making, following, restoring, what is in them. Reports are JSON.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

use terrace_ffi::backup;
use terrace_ffi::terrace::Options;

use crate::database::{answer, terrace_db};
use crate::options::{self, rate, restore_to, tell};
use crate::raw::{call, handle, out, path, pointer, some_out, some_text, terrace_bytes};
use crate::status::{terrace_error, terrace_status};
use crate::structs::{
    terrace_backup_options, terrace_follow_options, terrace_progress, terrace_restore_options,
};

/// Copies the log of a database to a backup set.
pub struct terrace_follower {
    _never: [u8; 0],
}

const SET: &str = "the folder of the backup set";

/// Adds a point to the backup set in the folder `set`, which is made if it is not there, while others go on.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_backup(
    db: *mut terrace_db,
    set: *const c_char,
    options: *const terrace_backup_options,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        let given = options::backup(options)?;
        let (set, mark) = (path(set, SET)?, some_text(given.mark, "the mark")?);
        let mut tell = tell(given.progress, given.context);
        let (full, rate) = (given.full != 0, rate(given.rate));
        backup::backup_json(handle(db), set, full, mark, rate, &mut tell)
    })
}

/// Makes a new database in the directory `to` of the backup set in the folder `set`. `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_restore(
    set: *const c_char,
    to: *const c_char,
    options: *const terrace_restore_options,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        let given = options::restore(options)?;
        let (set, to) = (path(set, SET)?, path(to, "the path of the new database")?);
        let structure = some_text(given.structure, "the name of the structure")?;
        let mut open = Options::new();
        if given.memory_bytes > 0 {
            open = open.memory(given.memory_bytes);
        }
        let mut tell = tell(given.progress, given.context);
        let (state, verify) = (restore_to(&given)?, given.unverified == 0);
        backup::restore_json(set, to, state, structure, open, verify, &mut tell)
    })
}

/// The points of a backup set.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_backup_list(
    set: *const c_char,
    points: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, points, || backup::list_json(path(set, SET)?))
}

/// Reads all of a backup set and checks it. `progress` may be NULL; it cannot cancel.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_backup_verify(
    set: *const c_char,
    progress: terrace_progress,
    context: *mut c_void,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        let mut tell = tell(progress, context);
        backup::verify_json(path(set, SET)?, |at| {
            tell(at);
        })
    })
}

/// Forgets all points of a backup set but the newest ones.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_backup_prune(
    set: *const c_char,
    newest: usize,
    report: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, report, || {
        backup::prune_json(path(set, SET)?, newest)
    })
}

/// Copies the log to the backup set in a folder until terrace_follower_stop, or terrace_close. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_follow(
    db: *mut terrace_db,
    set: *const c_char,
    options: *const terrace_follow_options,
    follower: *mut *mut terrace_follower,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let follower = out(follower, "the room for the follower")?;
        let options = options::follow(options)?;
        let begun = backup::follow(handle(db), path(set, SET)?, options)?;
        follower.set(pointer(begun));
        Ok(())
    })
}

/// Copies now what was written; `sequence`, the number of the last change that the set has, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_follower_archive(
    follower: *mut terrace_follower,
    sequence: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let last = backup::archive(handle(follower))?;
        if let Some(sequence) = some_out(sequence) {
            sequence.set(last);
        }
        Ok(())
    })
}

/// How far it is.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_follower_status(
    follower: *mut terrace_follower,
    status: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, status, || backup::status_json(handle(follower)))
}

/// Copies the rest, stops, and gives the follower back. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_follower_stop(
    follower: *mut terrace_follower,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || match follower.is_null() {
        true => Ok(()),
        false => backup::stop(handle(follower)).map(drop),
    })
}
