//! What a database knows of the backups that it made since it was opened.
//!
//! Invariant: who makes one takes the manifests after that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::Result;
use terrace_base::sync::{Mutex, MutexGuard};

use crate::backup_set::folder::Folders;
use crate::backup_set::options::BackupReport;
use crate::state::following::Following;

/// What is known of the backups that were made since the opening.
#[derive(Default)]
pub struct Backups {
    running: Mutex<()>,
    changing: Mutex<()>,
    /// Number of the record behind the last time mark that a follower has made: one serves all.
    marked: Mutex<u64>,
    following: Following,
    folders: Folders,
    /// Of each set the last point, since which written slots are noted.
    last: Mutex<HashMap<u64, PointId>>,
    /// Numbers of sets that were drawn.
    drawn: AtomicU64,
    made: Mutex<Option<BackupReport>>,
}

impl Backups {
    /// One backup is made at a time, while this is held.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.running.lock()
    }

    /// No other thread changes a manifest while this is held.
    pub fn hold_manifests(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Who follows the log now.
    pub fn following(&self) -> &Following {
        &self.following
    }

    /// The folders of sets that are in use.
    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Has the time marked, unless the mark that was made last is still the last record: `next` is the number of the next
    /// one, and `mark` answers with that of the mark.
    pub fn mark_time(
        &self,
        next: impl FnOnce() -> u64,
        mark: impl FnOnce() -> Result<u64>,
    ) -> Result<()> {
        let mut marked = self.marked.lock();
        if next() != *marked {
            // Not the next one by now: that may be behind a write that no mark has seen.
            *marked = mark()? + 1;
        }
        Ok(())
    }

    /// The last point of a set, if this process made it.
    pub fn last_point(&self, set: u64) -> Option<PointId> {
        self.last.lock().get(&set).copied()
    }

    /// A point was made of a set.
    pub fn made(&self, set: u64, point: PointId, report: BackupReport) {
        self.last.lock().insert(set, point);
        *self.made.lock() = Some(report);
    }

    /// What the last backup that this process made came to.
    pub fn last_made(&self) -> Option<BackupReport> {
        *self.made.lock()
    }

    /// How many numbers of sets were drawn before.
    pub fn draw(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed)
    }
}

/// A point of a set. The number alone would not do: a set that was copied goes its own way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PointId {
    pub point: u64,
    /// That of its checkpoint.
    pub generation: u64,
}
