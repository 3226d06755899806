//! A partition: its part of all tables, and how to take back what the transaction in it has done.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
#[cfg(feature = "planted-faults")]
use crate::faults::{Fault, planted};
use crate::table::raw::RawTable;
use crate::table::undo::{Before, Undo};

/// A lock, also after a panic: what a panic left half done was taken back before the lock was free.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a change of a row counts as, of the bytes after which memory is looked at: it and its entries.
pub fn weight(key: &[u8], row: &[u8]) -> u64 {
    (key.len() + row.len() + 64) as u64
}

/// What one transaction at a time has for itself.
#[derive(Default)]
pub struct Partition {
    /// All tables, by their numbers.
    pub tables: Vec<RawTable>,
    /// What the transaction has done.
    pub undo: Undo,
    /// Whether taking back has failed: then it is not known what is there.
    pub broken: bool,
    /// Bytes of changes since memory was looked at.
    pub changed: u64,
    /// Whether a thread moves the hand.
    pub busy: bool,
    /// Why rows could not leave memory: told to the next transaction.
    pub failure: Option<Error>,
    /// Whose turn it is to be swept.
    pub turn: usize,
    /// What was done for rows that are not in memory.
    pub counts: Counts,
}

/// What was done for rows that are not in memory.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Rows and ranges that were asked for and not there.
    pub misses: u64,
    /// Rows that left memory.
    pub evicted: u64,
    /// Rows that came back.
    pub admitted: u64,
    /// Closures that ran again.
    pub restarts: u64,
}

impl Partition {
    /// Bytes that are in use. See [`RawTable::used`].
    pub fn used(&self) -> usize {
        self.tables.iter().map(RawTable::used).sum::<usize>() + self.undo.memory()
    }

    /// Takes back everything that is noted. Nothing after a commit.
    pub fn take_back(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        // The functions of indexes run here. If one panics, which it did not for the same row before, it stays so.
        self.broken = true;
        let mut whole = true;
        let Partition { tables, undo, .. } = self;
        let change = |table: u32, key: &[u8], before: Before<'_>| {
            whole &= tables[table as usize].take_back(key, before).is_ok();
        };
        #[cfg(feature = "planted-faults")]
        if planted(Fault::UndoForward) {
            undo.take_back_forward(change);
            self.broken = false;
            return;
        }
        undo.take_back(change);
        self.broken = !whole;
    }
}
