//! What tests that plant faults look at from outside: the parts of an open database.

use std::sync::Arc;

use terrace_base::Result;
use terrace_pages::PageStore;
use terrace_tier::LockTable;

use crate::api::database::Database;
use crate::api::map::Map;
use crate::checkpoint::calm::Calm;
use crate::gentle::Rate;

/// The page store of a database, for a test that goes through the gate itself.
pub fn store(db: &Database) -> &PageStore {
    &db.handle.core.store
}

/// So many rounds of what the thread for checkpoints does while hardly anything is written, where there is no such
/// thread.
///
/// # Errors
/// Those of a checkpoint.
pub fn calm_rounds(db: &Database, rounds: u32) -> Result<()> {
    let mut calm = Calm::default();
    (0..rounds).try_for_each(|_| db.handle.core.use_the_calm(&mut calm))
}

/// What the threads in the background do, some rounds of it.
///
/// # Errors
/// Those of the store.
pub fn tend(db: &Database) -> Result<()> {
    let tiers = &db.handle.core.tiers;
    tiers.tend()?;
    db.drop_expired()?;
    while tiers.purge(true)? {}
    Ok(())
}

/// What the thread that drops what has expired does each minute, but at once; how much it dropped.
///
/// # Errors
/// Those of the store.
pub fn round(db: &Database) -> Result<u64> {
    db.handle.core.round_where_due(Rate::Fast)
}

/// What time it is for records that expire, in milliseconds since 1970.
pub fn now(db: &Database) -> u64 {
    db.handle.core.clock.now()
}

/// The record locks of a database.
pub fn locks(db: &Database) -> &LockTable {
    &db.handle.core.tiers.locks
}

/// The same, to be kept beside the database.
pub fn shared_locks(db: &Database) -> Arc<LockTable> {
    db.handle.core.tiers.locks.clone()
}

/// Where among them the lock of a record is.
pub fn lock_of(map: &Map, key: &[u8]) -> usize {
    locks(&map.db).slot(map.open.id(), key)
}
