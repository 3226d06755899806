//! Several changes as one: encoded in one piece, or added one by one.

use terrace::{Batch, Database, Durability, Map, Merge};
use terrace_base::sync::Mutex;

use crate::encoding::{self, To};
use crate::enter::{database, database_clone, entered, map, taken};
use crate::expiring::expires_at;
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::Object;

const WRITTEN: &str = "the batch was written already; begin another one";

fn write(db: &Database, batch: Batch, durability: Option<Durability>) -> Result<()> {
    Ok(db.write(batch, durability)?)
}

/// Writes an encoded batch, all of it or nothing; see [`encoding`]. `maps` are the handles of the structures
/// that it names by their place in this list.
///
/// # Errors
/// [`crate::Kind::Invalid`] for bytes that are no batch, and places that the list does not have;
/// [`crate::Kind::Closed`] for a handle that is no structure; those of [`Database::write`].
pub fn write_encoded(
    db: u64,
    maps: &[u64],
    bytes: &[u8],
    durability: Option<Durability>,
) -> Result<()> {
    let maps: Vec<Map> = maps
        .iter()
        .map(|&handle| map(handle, |map| Ok::<_, Failure>(map.clone())))
        .collect::<Result<_>>()?;
    database(db, |db| {
        let mut batch = db.batch();
        // Decoded wholly first: half a batch adds nothing to what is written.
        for op in encoding::batch(bytes)? {
            let map = maps.get(op.map as usize).ok_or_else(|| {
                Failure::invalid(format!(
                    "an encoded batch names the structure {} of {}",
                    op.map,
                    maps.len()
                ))
            })?;
            match op.to {
                To::Put(value) => batch.put(map, op.key, value),
                To::PutUntil(value, ms) => batch.put_expiring(map, op.key, value, expires_at(ms)),
                To::Delete => batch.delete(map, op.key),
                To::Merge(merge) => batch.merge(map, op.key, merge),
            };
        }
        write(db, batch, durability)
    })
}

/// An empty batch, to which changes are added. What does not fit is told when it is written.
///
/// # Errors
/// When the database is closed.
pub fn begin(db: u64) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    handles::add(&shared, Object::Batch(Mutex::new(Some(db.batch()))))
}

fn with<R>(batch: u64, call: impl FnOnce(&mut Batch) -> Result<R>) -> Result<R> {
    entered(batch, "batch", |entry| match &entry.object {
        Object::Batch(batch) => Some(taken(batch, WRITTEN, call)),
        _ => None,
    })
}

fn with_map(batch: u64, handle: u64, call: impl FnOnce(&mut Batch, &Map)) -> Result<()> {
    map(handle, |map| {
        with(batch, |batch| {
            call(batch, map);
            Ok(())
        })
    })
}

/// Adds a put.
///
/// # Errors
/// Handles that are closed, a batch that was written.
pub fn put(batch: u64, map: u64, key: &[u8], value: &[u8]) -> Result<()> {
    with_map(batch, map, |batch, map| {
        batch.put(map, key, value);
    })
}

/// Adds a put that expires at a time, in milliseconds since 1970, or [`crate::expiring::NEVER`].
///
/// # Errors
/// As [`put`].
pub fn put_until(batch: u64, map: u64, key: &[u8], value: &[u8], time_ms: u64) -> Result<()> {
    with_map(batch, map, |batch, map| {
        batch.put_expiring(map, key, value, expires_at(time_ms));
    })
}

/// Adds a delete.
///
/// # Errors
/// As [`put`].
pub fn delete(batch: u64, map: u64, key: &[u8]) -> Result<()> {
    with_map(batch, map, |batch, map| {
        batch.delete(map, key);
    })
}

/// Adds a merge.
///
/// # Errors
/// As [`put`].
pub fn merge(batch: u64, map: u64, key: &[u8], merge: Merge) -> Result<()> {
    with_map(batch, map, |batch, map| {
        batch.merge(map, key, merge);
    })
}

/// How many changes it has.
///
/// # Errors
/// As [`put`].
pub fn len(batch: u64) -> Result<usize> {
    with(batch, |batch| Ok(batch.len()))
}

/// Forgets all changes.
///
/// # Errors
/// As [`put`].
pub fn clear(batch: u64) -> Result<()> {
    with(batch, |batch| {
        batch.clear();
        Ok(())
    })
}

/// Writes it, all of it or nothing. It is empty then, and may be used again.
///
/// # Errors
/// Those of [`Database::write`]; the batch is empty all the same.
pub fn commit(db: u64, batch: u64, durability: Option<Durability>) -> Result<()> {
    let full = with(batch, |batch| Ok(std::mem::take(batch)))?;
    database(db, |db| write(db, full, durability))
}

/// Gives it back; what was not written is forgotten. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(batch: u64) -> Result<()> {
    let is_batch = |object: &Object| matches!(object, Object::Batch(_));
    handles::remove(batch, "batch", is_batch).map(drop)
}
