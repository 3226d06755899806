//! How a backup is made, and what it came to.

use std::time::SystemTime;

use crate::gentle::{Cancel, Rate};
use crate::progress::Progress;

/// How a backup is made.
#[derive(Default)]
#[must_use = "options do nothing until a backup is made with them"]
pub struct BackupOptions<'p> {
    pub(crate) full: bool,
    pub(crate) mark: Option<String>,
    pub(crate) rate: Rate,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) progress: Option<Box<dyn FnMut(Progress) + 'p>>,
    /// Called now and then, for what must go on meanwhile.
    pub(crate) beside: Option<Box<dyn FnMut() + 'p>>,
    /// The set that it is for: another one in the same place is an error.
    pub(crate) only: Option<u64>,
}

impl<'p> BackupOptions<'p> {
    /// The defaults: what the set has already is not stored again, and others hardly notice it.
    pub fn new() -> BackupOptions<'p> {
        BackupOptions::default()
    }

    /// Whether to store every page again, whatever the set has.
    pub fn full(self, full: bool) -> BackupOptions<'p> {
        BackupOptions { full, ..self }
    }

    /// What the point is called: a restore finds it by [`crate::RestoreTo::Mark`], and the log has a
    /// [`crate::Database::mark`] of this name just before it.
    pub fn mark(mut self, name: impl Into<String>) -> BackupOptions<'p> {
        self.mark = Some(name.into());
        self
    }

    /// How fast it reads.
    pub fn rate(self, rate: Rate) -> BackupOptions<'p> {
        BackupOptions { rate, ..self }
    }

    /// What ends it early.
    pub fn cancel(mut self, cancel: &Cancel) -> BackupOptions<'p> {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Who hears how far it has come, some hundred times at most, on the calling thread.
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'p) -> BackupOptions<'p> {
        self.progress = Some(Box::new(progress));
        self
    }
}

/// What a backup came to.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of the new point.
    pub point: u64,
    /// The instant that it shows.
    pub time: SystemTime,
    /// The last logged change that it has.
    pub sequence: u64,
    /// Pages that it has.
    pub live_pages: u64,
    /// Pages that were read for it.
    pub read_pages: u64,
    /// Pages that the set did not have.
    pub stored_pages: u64,
    /// Bytes that the set grew by.
    pub stored_bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Default for BackupReport {
    fn default() -> BackupReport {
        BackupReport {
            point: 0,
            time: SystemTime::UNIX_EPOCH,
            sequence: 0,
            live_pages: 0,
            read_pages: 0,
            stored_pages: 0,
            stored_bytes: 0,
            seconds: 0.0,
        }
    }
}
