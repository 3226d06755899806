//! What a database knows of the backups that it made since it was opened.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use terrace_base::sync::Mutex;

use super::folder::Folders;
use super::following::Following;
use super::options::BackupReport;

/// See the module's text.
#[derive(Default)]
pub struct Backups {
    /// Held while one is made.
    pub(super) running: Mutex<()>,
    /// Held while a manifest is changed.
    pub(super) changing: Mutex<()>,
    /// Number of the record behind the last time mark that somebody who follows has made: one serves all.
    pub(super) marked: Mutex<u64>,
    /// Who follows the log now.
    pub(crate) following: Following,
    /// The folders of sets that are in use.
    pub(crate) folders: Folders,
    /// Of each set the last point, since which written slots are noted.
    pub(super) last: Mutex<HashMap<u64, PointId>>,
    /// Numbers of sets that were drawn.
    pub(super) drawn: AtomicU64,
    /// The last backup.
    pub(super) made: Mutex<Option<BackupReport>>,
}

impl Backups {
    /// What the last backup that this process made came to.
    pub fn last_made(&self) -> Option<BackupReport> {
        *self.made.lock()
    }
}

/// Number and checkpoint of a point. The number alone would not do: a set that was copied goes its own way.
pub type PointId = (u64, u64);
