//! The order in which what there is of structures and indexes changes: one change at a time.
//!
//! Invariants: who holds tables closed takes the names after that; an operation is taken after both.

use terrace_base::sync::{Mutex, MutexGuard};

/// The locks under which structures and indexes change.
#[derive(Default)]
pub struct Definitions {
    closing: Mutex<()>,
    naming: Mutex<()>,
}

impl Definitions {
    /// For who closes tables to the changes of others.
    pub fn hold_tables(&self) -> MutexGuard<'_, ()> {
        self.closing.lock()
    }

    /// For who creates, drops or renames.
    pub fn hold_names(&self) -> MutexGuard<'_, ()> {
        self.naming.lock()
    }
}
