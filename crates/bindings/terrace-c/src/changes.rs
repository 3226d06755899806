//! The changes of a database, commit by commit, and what a commit says.
#![allow(non_camel_case_types)]

use std::ffi::c_char;
use std::time::Duration;

use terrace_ffi::changes::{self, Next};
use terrace_ffi::encoding::{COMMIT_HEAD, COMMIT_PLACE, PLACE_DIGITS, change_at, commit_sequence};

use crate::database::{answer, terrace_db};
use crate::options;
use crate::raw::{
    borrowed, bytes, call, handle, out, pointer, some_out, terrace_bytes, terrace_slice,
};
use crate::snapshot::terrace_snapshot;
use crate::status::{terrace_error, terrace_status};
use crate::structs::{TERRACE_FOREVER, terrace_changes_options};

/// Reads the changes of a database.
pub struct terrace_changes {
    _never: [u8; 0],
}

/// The tail of the header has it as a number.
const _: () = assert!(COMMIT_HEAD == 77);

/// What a change is.
#[allow(dead_code, reason = "C says it in numbers")]
#[repr(C)]
pub enum terrace_change_kind {
    /// Of a kind that this library does not know.
    TERRACE_CHANGE_OTHER = 0,
    /// The key has this value from now on.
    TERRACE_CHANGE_PUT = 1,
    /// The key is not there from now on; it may not have been there before.
    TERRACE_CHANGE_DELETE = 2,
    /// The structure is there from now on.
    TERRACE_CHANGE_CREATED = 3,
    /// The structure is gone, with all that is in it.
    TERRACE_CHANGE_DROPPED = 4,
    /// The structure has this name from now on.
    TERRACE_CHANGE_RENAMED = 5,
    /// The application has marked this place, see terrace_mark.
    TERRACE_CHANGE_MARKED = 6,
    /// No key of a range is there from now on: from `key` to before `value`, or to the end where `value.data` is NULL.
    TERRACE_CHANGE_DELETE_RANGE = 7,
}

/// A change of a commit. What it lends lives as long as the commit; `data` is NULL where there is nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_change {
    /// A terrace_change_kind.
    pub what: u32,
    /// The terrace_kind of the structure, 0 if it is not known.
    pub kind: u32,
    /// The number of the structure, which stays when it is renamed.
    pub structure: u32,
    /// When a mark was made, or a put expires, in milliseconds since 1970; 0 of others.
    pub time_ms: u64,
    /// The name of the structure as it was then, or of the mark.
    pub name: terrace_slice,
    /// The key.
    pub key: terrace_slice,
    /// The value.
    pub value: terrace_slice,
}

/// Reads every commit from now on, or from where `options` say, which may be NULL: each once, in the order in which
/// they happened, and none that a power cut could take back. Give the reader back with terrace_changes_close: it
/// keeps log. TERRACE_CHANGES_GONE if the log from that place on is not there any more.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_changes_begin(
    db: *mut terrace_db,
    options: *const terrace_changes_options,
    changes: *mut *mut terrace_changes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let changes = out(changes, "the room for the reader of changes")?;
        let options = options::changes(options)?;
        changes.set(pointer(changes::begin(handle(db), options)?));
        Ok(())
    })
}

/// To begin something that is kept beside the database: everything as it is now, and a reader of every commit from
/// there on. No commit is in both, none in neither. `from` of the options is not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_changes_with_snapshot(
    db: *mut terrace_db,
    options: *const terrace_changes_options,
    changes: *mut *mut terrace_changes,
    snapshot: *mut *mut terrace_snapshot,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let changes = out(changes, "the room for the reader of changes")?;
        let snapshot = out(snapshot, "the room for the snapshot")?;
        let options = options::changes(options)?;
        let (reader, seen) = changes::begin_with_snapshot(handle(db), options)?;
        changes.set(pointer(reader));
        snapshot.set(pointer(seen));
        Ok(())
    })
}

/// The next commit, waiting at most this many milliseconds for it, about, or TERRACE_FOREVER; `commit->data` is NULL
/// if there is none, and `ended`, which may be NULL, says whether there will be none any more. Closing the reader ends
/// the wait. Go through the commit with terrace_commit_next, beginning at TERRACE_COMMIT_HEAD, and give it back with
/// terrace_bytes_free. Threads may share a reader: each commit goes to one of them.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_changes_next(
    changes: *mut terrace_changes,
    wait_ms: u64,
    commit: *mut terrace_bytes,
    ended: *mut bool,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let commit = out(commit, "the room for the commit")?;
        let most = (wait_ms != TERRACE_FOREVER).then(|| Duration::from_millis(wait_ms));
        let mut bytes = Vec::new();
        let next = changes::next(handle(changes), most, &mut bytes)?;
        commit.set(terrace_bytes::some(
            (next == Next::Commit).then_some(&bytes[..]),
        ));
        if let Some(ended) = some_out(ended) {
            ended.set(next == Next::End);
        }
        Ok(())
    })
}

/// The place behind what was given out so far, as text, from which another reader goes on.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_changes_place(
    changes: *mut terrace_changes,
    place: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, place, || changes::place(handle(changes)))
}

/// Gives back a reader of changes, and the log that was kept for it. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_changes_close(changes: *mut terrace_changes) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || changes::close(handle(changes)));
}

/// The number of a commit in the order of changes, as terrace_sequence says it; 0 of what is no commit.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_commit_sequence(commit: terrace_slice) -> u64 {
    let found = bytes(commit, "the commit").ok();
    found.and_then(commit_sequence).unwrap_or(0)
}

/// The place behind a commit, as text that lives as long as the commit: who has done with it what is to be done keeps
/// this, and goes on from here. NULL of what is no commit.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_commit_place(commit: terrace_slice) -> *const c_char {
    let found = bytes(commit, "the commit").ok();
    let found = found.and_then(|commit| commit.get(COMMIT_PLACE..COMMIT_HEAD));
    let ends = |text: &&[u8]| text.get(PLACE_DIGITS) == Some(&0);
    found
        .filter(ends)
        .map_or(std::ptr::null(), |text| text.as_ptr().cast())
}

/// The change at `*at` of a commit, which moves on; false at the end.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_commit_next(
    commit: terrace_slice,
    at: *mut usize,
    change: *mut terrace_change,
) -> bool {
    let (Some(place), Some(change)) = (borrowed(at).copied(), some_out(change)) else {
        return false;
    };
    let found = bytes(commit, "the commit").ok();
    let Some((found, next)) = found.and_then(|commit| change_at(commit, place)) else {
        return false;
    };
    let slice = |part: Option<&[u8]>| part.map_or(terrace_slice::NONE, terrace_slice::of);
    change.set(terrace_change {
        what: found.what.into(),
        kind: found.kind.into(),
        structure: found.structure,
        time_ms: found.time_ms,
        name: slice(found.name),
        key: slice(found.key),
        value: slice(found.value),
    });
    if let Some(at) = some_out(at) {
        at.set(next);
    }
    true
}
