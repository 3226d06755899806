//! What became of the transactions of a database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::sync::Mutex;

/// Labels that are remembered at most: programs have a handful.
const MOST_LABELS: usize = 64;

/// Figures of transactions since the database was opened.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Transactions that committed, those that only read included.
    pub committed: u64,
    /// Attempts that something that they had read had changed under.
    pub conflicts: u64,
    /// Records that were looked at again, because others had changed or moved records that share their locks, and
    /// were found the same.
    pub refreshed: u64,
    /// Transactions that were given up after all of their attempts.
    pub given_up: u64,
    /// The last conflict of each label; those without one have the empty label.
    pub last_conflicts: Vec<LastConflict>,
}

/// The last conflict of the transactions with one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct LastConflict {
    /// [`crate::TransactionOptions::label`].
    pub label: String,
    /// Conflicts of this label.
    pub conflicts: u64,
    /// The structure in which something had changed.
    pub structure: String,
    /// The record, or the beginning of the range, escaped as in an error.
    pub key: String,
}

/// Counters of them.
#[derive(Default)]
pub struct Figures {
    committed: AtomicU64,
    conflicts: AtomicU64,
    refreshed: AtomicU64,
    given_up: AtomicU64,
    last: Mutex<BTreeMap<&'static str, LastConflict>>,
}

impl Figures {
    pub fn committed(&self, refreshed: u64) {
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.refreshed.fetch_add(refreshed, Ordering::Relaxed);
    }

    pub fn conflict(
        &self,
        label: Option<&'static str>,
        (structure, key): (&str, &[u8]),
        refreshed: u64,
    ) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        self.refreshed.fetch_add(refreshed, Ordering::Relaxed);
        let label = label.unwrap_or_default();
        let mut last = self.last.lock();
        if last.len() >= MOST_LABELS && !last.contains_key(label) {
            return;
        }
        let entry = last.entry(label).or_default();
        entry.label = label.into();
        entry.conflicts += 1;
        structure.clone_into(&mut entry.structure);
        entry.key = key.escape_ascii().to_string();
    }

    pub fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// What they are now.
    pub fn stats(&self) -> TransactionStats {
        TransactionStats {
            committed: self.committed.load(Ordering::Relaxed),
            conflicts: self.conflicts.load(Ordering::Relaxed),
            refreshed: self.refreshed.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed),
            last_conflicts: self.last.lock().values().cloned().collect(),
        }
    }
}
