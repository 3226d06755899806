//! How what a handle names is called: guarded, and only while it is open.

use std::sync::Arc;

use terrace::{Database, Map};
use terrace_base::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::handles::{self, Entry};
use crate::object::Object;
use crate::shared::Shared;

/// Calls with what a handle names.
#[inline]
pub fn entered<R>(
    handle: u64,
    what: &str,
    call: impl FnOnce(&Entry) -> Option<Result<R>>,
) -> Result<R> {
    handles::with(handle, what, |entry| {
        let home = &entry.shared.home;
        home.check()?;
        home.guarded(|| call(entry).unwrap_or_else(|| Err(Failure::closed(what))))
    })
}

/// Calls with a structure.
#[inline]
pub fn map<R, E: Into<Failure>>(
    handle: u64,
    call: impl FnOnce(&Map) -> std::result::Result<R, E>,
) -> Result<R> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(call(map).map_err(Into::into)),
        Object::SnapshotMap(_) => Some(Err(Failure::invalid(
            "a structure of a snapshot can only be read; write to the structure itself",
        ))),
        _ => None,
    })
}

/// A structure for a call that takes long or calls back: closing does not wait for it here, and the engine
/// answers it with an error.
pub fn map_clone(handle: u64) -> Result<(Map, Arc<Shared>)> {
    entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(Ok((map.clone(), entry.shared.clone()))),
        Object::SnapshotMap(_) => Some(Err(Failure::invalid(
            "a structure of a snapshot can only be read; write to the structure itself",
        ))),
        _ => None,
    })
}

/// Calls with a database.
pub fn database<R, E: Into<Failure>>(
    handle: u64,
    call: impl FnOnce(&Database) -> std::result::Result<R, E>,
) -> Result<R> {
    entered(handle, "database", |entry| match &entry.object {
        Object::Database(db, _) => Some(call(db).map_err(Into::into)),
        _ => None,
    })
}

/// As [`map_clone`], of a database.
pub fn database_clone(handle: u64) -> Result<(Database, Arc<Shared>)> {
    entered(handle, "database", |entry| match &entry.object {
        Object::Database(db, parts) => Some(Ok((db.clone(), parts.clone()))),
        _ => None,
    })
}

/// A call of a database that takes long or calls back.
pub fn database_long<R, E: Into<Failure>>(
    handle: u64,
    call: impl FnOnce(Database) -> std::result::Result<R, E>,
) -> Result<R> {
    let (db, shared) = database_clone(handle)?;
    shared.home.guarded(|| call(db).map_err(Into::into))
}

/// Calls with what was locked for it, if it is there.
pub fn taken<T, R>(
    of: &Mutex<Option<T>>,
    over: &str,
    call: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    match &mut *of.lock() {
        Some(value) => call(value),
        None => Err(Failure::invalid(over)),
    }
}
