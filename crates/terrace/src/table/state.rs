//! Which indexes an open table has, and whether its rows may be changed.
//!
//! Who changes rows takes a snapshot of the indexes, reads and computes holding nothing, and then,
//! within the pass in which it writes, looks whether the snapshot is still the newest and the table
//! open. Who makes or drops an index closes the table and waits until every pass given out before
//! has come back: from then on nobody changes a row, and nobody waits for it holding anything.
//!
//! Invariants: the table is closed by one at a time (`Core::closing`). A snapshot never changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use terrace_base::sync::{Condvar, Mutex, RwLock};
use terrace_base::{Error, Result};

use super::extract::Extract;
use super::index::{Extractor, IndexEntry, IndexInfo, Stored, kind};
use crate::core::Core;
use crate::registry::Open;

/// An index of an open table.
#[derive(Clone)]
pub struct IndexState {
    /// The tree that holds its entries.
    pub open: Arc<Open>,
    /// Its name.
    pub name: String,
    /// What the catalog knows of it.
    pub entry: IndexEntry,
    /// What finds its keys; `None` for a function that the program has not brought along yet.
    pub extract: Option<Extract>,
}

impl IndexState {
    /// As the catalog knows it.
    pub fn stored(open: Arc<Open>) -> IndexState {
        IndexState::new(open, None)
    }

    /// With the function of the program, if it is by one.
    pub fn new(open: Arc<Open>, function: Option<Extractor>) -> IndexState {
        // The registry gives indexes only; what is none would have no keys.
        let entry = open.index.clone().unwrap_or(IndexEntry {
            table: open.id(),
            unique: false,
            source: Stored::Function,
        });
        let extract = match &entry.source {
            Stored::Declared(source) => Some(Extract::Declared(source.clone())),
            Stored::Function => function.map(Extract::Function),
        };
        IndexState {
            name: open.name(),
            open,
            entry,
            extract,
        }
    }

    /// What it is, in words, beside its name.
    pub fn kind(&self) -> String {
        kind(self.entry.unique, &self.entry.source)
    }

    /// The key of a row of `table`. Calls the user's function, so the caller holds nothing.
    pub fn key_of(&self, table: &Open, row: &[u8]) -> Result<Option<Vec<u8>>> {
        let extract = self.extract.as_ref().ok_or_else(|| {
            Error::invalid(format!(
                "the index \"{}\" of the table \"{}\" is by a function of the program, which this program has not named; \
                 open the table with Database::table_with and Index::by, or drop the index",
                self.name,
                table.name()
            ))
        })?;
        extract.key(row).map_err(|what| {
            Error::invalid(format!(
                "the row has no key for the index \"{}\" of the table \"{}\": {what}. Nothing was changed",
                self.name,
                table.name()
            ))
        })
    }
}

/// The indexes of a table at some time, in the order in which they were made.
pub type Snapshot = Arc<Vec<IndexState>>;

const PLAIN: u8 = 0;
const INDEXED: u8 = 1;
const CLOSED: u8 = 2;

/// See the module's text.
#[derive(Default)]
pub struct TableState {
    mode: AtomicU8,
    indexes: RwLock<Snapshot>,
    waiting: Mutex<()>,
    reopened: Condvar,
}

impl TableState {
    /// Whether it has no index and is not closed. The caller has a pass, and what it answers holds
    /// for as long.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == PLAIN
    }

    /// The indexes now.
    pub fn snapshot(&self) -> Snapshot {
        self.indexes.read().clone()
    }

    /// The indexes, once the table is not closed. The caller holds nothing.
    pub fn open_snapshot(&self) -> Snapshot {
        let mut waiting = self.waiting.lock();
        while self.mode.load(Ordering::SeqCst) == CLOSED {
            self.reopened.wait(&mut waiting);
        }
        self.snapshot()
    }

    /// Whether the table is open, and this is its newest snapshot. The caller has a pass, and what
    /// it answers holds for as long.
    pub fn admits(&self, snapshot: &Snapshot) -> bool {
        self.mode.load(Ordering::SeqCst) != CLOSED && Arc::ptr_eq(&self.indexes.read(), snapshot)
    }

    /// These are its indexes from now on.
    pub fn set(&self, indexes: Vec<IndexState>) {
        *self.indexes.write() = Arc::new(indexes);
        if self.mode.load(Ordering::SeqCst) != CLOSED {
            self.reopen();
        }
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

    /// Its indexes, for users.
    pub fn infos(&self) -> Vec<IndexInfo> {
        let info = |index: &IndexState| IndexInfo {
            name: index.name.clone(),
            unique: index.entry.unique,
            source: index.entry.source.to_string(),
        };
        self.indexes.read().iter().map(info).collect()
    }
}

/// Nobody changes rows of the table while this is held, but who holds it.
pub struct Closed<'a> {
    table: &'a TableState,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.table.reopen();
    }
}

impl Core {
    /// Closes a table to whoever changes rows. The caller holds `closing` and nothing else.
    pub fn close_table<'a>(&self, table: &'a TableState) -> Closed<'a> {
        table.mode.store(CLOSED, Ordering::SeqCst);
        self.passes.quiesce();
        Closed { table }
    }
}
