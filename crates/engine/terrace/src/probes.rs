//! What tests that plant faults look at from outside: the parts of an open database.

use std::sync::Arc;

use terrace_base::Result;
use terrace_pages::PageStore;
use terrace_tier::LockTable;

use crate::checkpoint::idle::Idle;
use crate::gentle::Rate;
use crate::handle::database::Database;
use crate::handle::map::Map;

/// The page store of a database, for a test that goes through the gate itself.
pub fn store(db: &Database) -> &PageStore {
    db.core().store()
}

/// `rounds` rounds of what the thread for checkpoints does while hardly anything is written, where there is no such
/// thread.
///
/// # Errors
/// Those of a checkpoint.
pub fn calm_rounds(db: &Database, rounds: u32) -> Result<()> {
    let mut calm = Idle::default();
    (0..rounds).try_for_each(|_| db.core().use_the_calm(&mut calm))
}

/// How often a pass over hot tiers has rested, and how many records were saved at once at most while no call was at
/// work.
pub fn passes(db: &Database) -> (u64, u64) {
    let seen = db.core().checkpoints();
    seen.seen(|state| (state.rests, state.most_in_a_pause))
}

/// Makes a checkpoint as gently as the thread in the background does.
///
/// # Errors
/// Those of a checkpoint.
pub fn gentle_checkpoint(db: &Database) -> Result<()> {
    db.core().gentle_checkpoint(&|| false).map(|_| ())
}

/// What the threads in the background do, some rounds of it.
///
/// # Errors
/// Those of the store.
pub fn tend(db: &Database) -> Result<()> {
    let tiers = db.core().tiers();
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
    db.core().round_where_due(Rate::Fast)
}

/// What time it is for records that expire, in milliseconds since 1970.
pub fn now(db: &Database) -> u64 {
    db.core().clock().now()
}

/// The record locks of a database.
pub fn locks(db: &Database) -> &LockTable {
    &db.core().tiers().locks
}

/// The same, to be kept beside the database.
pub fn shared_locks(db: &Database) -> Arc<LockTable> {
    db.core().tiers().locks.clone()
}

/// Where among them the lock of a record is.
pub fn lock_of(map: &Map, key: &[u8]) -> usize {
    locks(&map.db).slot(map.open.id(), key)
}

/// How many wait for a page without a thread, and are not being read for.
pub fn waiting_for_pages(db: &Database) -> usize {
    db.handle.core().reader().waiting()
}

/// Whether all that was saved of hot tiers has come back after an opening.
pub fn has_loaded(db: &Database) -> bool {
    db.core().has_loaded()
}

/// Whether all who have waited for a page without a thread were told.
pub fn reader_rests(db: &Database) -> bool {
    db.handle.core().reader().rests()
}
