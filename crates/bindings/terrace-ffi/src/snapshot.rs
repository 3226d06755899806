//! Snapshots: everything as it was at one instant, for reading. [`crate::database::snapshot`] takes one.

use std::time::SystemTime;

use terrace::Snapshot;

use crate::database::json;
use crate::enter::entered;
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::Object;

fn with<R>(snapshot: u64, call: impl FnOnce(&Snapshot) -> Result<R>) -> Result<R> {
    entered(snapshot, "snapshot", |entry| match &entry.object {
        Object::Snapshot(snapshot, _) => Some(call(snapshot)),
        _ => None,
    })
}

/// A structure as it was. What reads structures takes its handle; it is closed with the snapshot.
///
/// # Errors
/// [`crate::Kind::NoSuchStructure`], [`crate::Kind::SnapshotGone`].
pub fn structure(snapshot: u64, name: &str) -> Result<u64> {
    entered(snapshot, "snapshot", |entry| match &entry.object {
        Object::Snapshot(snapshot, parts) => {
            let map = snapshot.map(name).map_err(Failure::from);
            Some(map.and_then(|map| handles::add(parts, Object::SnapshotMap(map))))
        }
        _ => None,
    })
}

/// What structures there were, as a JSON array of [`terrace::StructureInfo`].
///
/// # Errors
/// When it is closed.
pub fn structures_json(snapshot: u64) -> Result<String> {
    with(snapshot, |snapshot| json(&snapshot.structures()))
}

/// The instant that it shows.
///
/// # Errors
/// When it is closed.
pub fn time(snapshot: u64) -> Result<SystemTime> {
    with(snapshot, |snapshot| Ok(snapshot.time()))
}

/// The last logged change that it has.
///
/// # Errors
/// When it is closed.
pub fn sequence(snapshot: u64) -> Result<u64> {
    with(snapshot, |snapshot| Ok(snapshot.sequence()))
}

/// Walks all of it; the JSON of a [`terrace::VerifyReport`].
///
/// # Errors
/// Those of [`Snapshot::verify`].
pub fn verify_json(snapshot: u64) -> Result<String> {
    let (snapshot, shared) = entered(snapshot, "snapshot", |entry| match &entry.object {
        Object::Snapshot(snapshot, _) => Some(Ok((snapshot.clone(), entry.shared.clone()))),
        _ => None,
    })?;
    shared.home.guarded(|| json(&snapshot.verify()?))
}

/// Gives it back, with its structures and their cursors. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(snapshot: u64) -> Result<()> {
    let is_snapshot = |object: &Object| matches!(object, Object::Snapshot(..));
    if let Some(entry) = handles::remove(snapshot, "snapshot", is_snapshot)? {
        handles::end(&entry.object);
    }
    Ok(())
}
