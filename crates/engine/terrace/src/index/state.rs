//! Which indexes an open table has, and whether its rows may be changed.
//!
//! Who changes rows takes a snapshot of the indexes, reads and computes holding nothing, and then,
//! within the operation in which it writes, looks whether the snapshot is still the newest and the table
//! open. Who makes or drops an index closes the table and waits until every operation given out before
//! has come back: from then on no thread changes a row, and no thread that waits for it holds anything.
//!
//! Invariants: the table is closed by one at a time (`Definitions::hold_tables`). A snapshot never changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use terrace_base::sync::{Condvar, Mutex, RwLock};

const PLAIN: u8 = 0;
const INDEXED: u8 = 1;
const CLOSED: u8 = 2;

/// The indexes of an open table.
pub struct Indexes<I> {
    mode: AtomicU8,
    indexes: RwLock<Arc<Vec<I>>>,
    waiting: Mutex<()>,
    reopened: Condvar,
}

impl<I> Default for Indexes<I> {
    fn default() -> Indexes<I> {
        Indexes {
            mode: AtomicU8::new(PLAIN),
            indexes: RwLock::default(),
            waiting: Mutex::default(),
            reopened: Condvar::default(),
        }
    }
}

impl<I> Indexes<I> {
    /// Whether it has no index and is not closed. The caller holds an operation, and what it answers holds
    /// for as long.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == PLAIN
    }

    /// The indexes now.
    pub fn snapshot(&self) -> Arc<Vec<I>> {
        self.indexes.read().clone()
    }

    /// The indexes, once the table is not closed. The caller holds nothing.
    pub fn open_snapshot(&self) -> Arc<Vec<I>> {
        let mut waiting = self.waiting.lock();
        while self.mode.load(Ordering::SeqCst) == CLOSED {
            self.reopened.wait(&mut waiting);
        }
        self.snapshot()
    }

    /// Whether the table is open, and this is its newest snapshot. The caller holds an operation, and what
    /// it answers holds for as long.
    pub fn admits(&self, snapshot: &Arc<Vec<I>>) -> bool {
        self.mode.load(Ordering::SeqCst) != CLOSED && Arc::ptr_eq(&self.indexes.read(), snapshot)
    }

    /// These are its indexes from now on.
    pub fn set(&self, indexes: Vec<I>) {
        *self.indexes.write() = Arc::new(indexes);
        if self.mode.load(Ordering::SeqCst) != CLOSED {
            self.reopen();
        }
    }

    /// Closes the table to whoever changes rows, but for those who hold an operation.
    pub fn close(&self) -> Closed<'_, I> {
        self.mode.store(CLOSED, Ordering::SeqCst);
        Closed { table: self }
    }

    fn reopen(&self) {
        let mode = if self.indexes.read().is_empty() {
            PLAIN
        } else {
            INDEXED
        };
        let _held = self.waiting.lock();
        self.mode.store(mode, Ordering::SeqCst);
        self.reopened.notify_all();
    }
}

/// No thread but the one that holds this changes rows of the table meanwhile.
pub struct Closed<'a, I> {
    table: &'a Indexes<I>,
}

impl<I> Drop for Closed<'_, I> {
    fn drop(&mut self) {
        self.table.reopen();
    }
}
