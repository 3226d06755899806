//! The changes of a database, commit by commit, each as one piece of bytes that [`crate::encoding`] describes.

use std::time::{Duration, Instant};

use terrace::{Changes, ChangesOptions, Database, Place};
use terrace_base::sync::Mutex;

use crate::encoding;
use crate::enter::{database_clone, entered};
use crate::failure::Result;
use crate::handles;
use crate::object::Object;
use crate::snapshot;

/// How long who waits is inside at a time: so soon closing is heard.
const SLICE: Duration = Duration::from_millis(50);

/// What there is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A commit.
    Commit,
    /// None yet.
    NotYet,
    /// No more: the end that was asked for has come.
    End,
}

/// A place that was kept as text.
///
/// # Errors
/// [`crate::Kind::Invalid`] for a text that is none.
pub fn place_of(text: &str) -> Result<Place> {
    Ok(text.parse()?)
}

fn object(changes: Changes) -> Object {
    Object::Changes(Box::new(Mutex::new(changes)))
}

/// Every commit from now on, or from a place on.
///
/// # Errors
/// Those of [`Database::changes`].
pub fn begin(db: u64, options: ChangesOptions) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    let changes = shared.home.guarded(|| Ok(db.changes(options)?))?;
    handles::add(&shared, object(changes))
}

/// Every commit behind a snapshot of now, and that snapshot: two handles.
///
/// # Errors
/// Those of [`Database::changes_and_snapshot`].
pub fn begin_with_snapshot(db: u64, options: ChangesOptions) -> Result<(u64, u64)> {
    let (db, shared) = database_clone(db)?;
    let both = |db: &Database| Ok(db.changes_and_snapshot(options)?);
    let (changes, snapshot) = shared.home.guarded(|| both(&db))?;
    let snapshot = handles::add(&shared, Object::Snapshot(snapshot, shared.part()))?;
    match handles::add(&shared, object(changes)) {
        Ok(changes) => Ok((changes, snapshot)),
        Err(failure) => {
            snapshot::close(snapshot)?;
            Err(failure)
        }
    }
}

fn with<R>(changes: u64, call: impl FnOnce(&Mutex<Changes>) -> Result<R>) -> Result<R> {
    entered(changes, "reader of changes", |entry| match &entry.object {
        Object::Changes(changes) => Some(call(changes)),
        _ => None,
    })
}

/// Replaces `out` by the next commit, if there is one within `most`, about; without it, waits for ever. Threads
/// may share a reader: each commit goes to one of them. Who closes it meanwhile ends the wait.
///
/// # Errors
/// [`crate::Kind::ChangesGone`] and others of the engine, after which there is no more; `Closed`.
pub fn next(changes: u64, most: Option<Duration>, out: &mut Vec<u8>) -> Result<Next> {
    let deadline = most.and_then(|most| Instant::now().checked_add(most));
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let slice = left.unwrap_or(SLICE).min(SLICE);
        let (commit, is_at_end) = with(changes, |changes| {
            let mut changes = changes.lock();
            let commit = changes.next_within(slice)?;
            Ok((commit, changes.is_at_end()))
        })?;
        match commit {
            Some(commit) => {
                encoding::commit(&commit, out);
                return Ok(Next::Commit);
            }
            None if is_at_end => return Ok(Next::End),
            None if left.is_some_and(|left| left <= slice) => return Ok(Next::NotYet),
            None => {}
        }
    }
}

/// The place behind what was given out so far, as text.
///
/// # Errors
/// When it is closed.
pub fn place(changes: u64) -> Result<String> {
    with(changes, |changes| Ok(changes.lock().place().to_string()))
}

/// Gives it back, and the log that was kept for it. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(changes: u64) -> Result<()> {
    let is_changes = |object: &Object| matches!(object, Object::Changes(_));
    handles::remove(changes, "reader of changes", is_changes).map(drop)
}
