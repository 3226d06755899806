//! Backup of an open database, and restoring it.
//!
//! A backup *set* is a folder with *points*, each the image of a checkpoint: the pages that were not in the
//! set yet, and a list of where each page of it is. See `docs/format-backup.md` for the files, and
//! `docs/backup.md` for how to use them.

mod archive;
mod check;
mod folder;
mod follow;
mod follow_options;
mod manifest;
mod maps;
mod names;
mod pages;
mod place;
mod prune;
mod restore;
mod rewrite;
mod select;
mod text;
mod to_read;
mod verify;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::read_only::ReadOnlyDisk;
use terrace_base::{Error, Result};

use crate::core::Core;
use crate::database::Database;
use crate::gentle::{Cancel, Rate};
use crate::progress::Progress;

pub use follow::Follower;
pub use follow::follow_from_opening;
#[cfg(feature = "control")]
pub use follow::{follow_until_closed, stop_following};
pub use follow_options::{FollowOptions, FollowStatus};
pub use prune::{Keep, PruneReport, prune_backup, prune_backup_on};
pub use restore::{RestoreOptions, RestoreReport, RestoreTo, restore, restore_on};
pub use text::{parse_time, text_of};
pub use verify::{
    ArchivedLog, BackupContents, BackupPoint, BackupVerifyReport, backup_contents,
    backup_contents_on, list_backup, list_backup_on, verify_backup, verify_backup_on,
};
pub use write::Backups;

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

    /// What the point is called: a restore finds it by [`RestoreTo::Mark`], and the log has a
    /// [`Database::mark`] of this name just before it.
    pub fn mark(self, name: impl Into<String>) -> BackupOptions<'p> {
        BackupOptions {
            mark: Some(name.into()),
            ..self
        }
    }

    /// How fast it reads.
    pub fn rate(self, rate: Rate) -> BackupOptions<'p> {
        BackupOptions { rate, ..self }
    }

    /// What ends it early.
    pub fn cancel(self, cancel: &Cancel) -> BackupOptions<'p> {
        BackupOptions {
            cancel: Some(cancel.clone()),
            ..self
        }
    }

    /// Who hears how far it has come, some hundred times at most, on the calling thread.
    pub fn progress(self, progress: impl FnMut(Progress) + 'p) -> BackupOptions<'p> {
        BackupOptions {
            progress: Some(Box::new(progress)),
            ..self
        }
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

/// The folder of a set that there is, to be changed.
fn set_disk(set: &Path) -> Result<Arc<dyn Disk>> {
    check_there(set)?;
    let opened = folder::patiently(|| Ok(Arc::new(FileDisk::open(set, DirectIo::Preferred)?)));
    Ok(opened?)
}

/// The same to be read, beside others that add to it: what is there does not change.
fn set_to_read(set: &Path) -> Result<Arc<dyn Disk>> {
    check_there(set)?;
    Ok(Arc::new(ReadOnlyDisk::open_shared(
        set,
        DirectIo::Preferred,
    )?))
}

fn check_there(set: &Path) -> Result<()> {
    match set.is_dir() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "there is no folder {}; name the one that holds the backup set",
            set.display()
        ))),
    }
}

impl Core {
    /// Adds a point to the set in a folder, which is made if it is missing.
    pub fn back_up_to(&self, set: &Path, options: BackupOptions<'_>) -> Result<BackupReport> {
        let disk = self.backups.folders.open(set, true)?;
        self.back_up(disk, options)
    }
}

impl Database {
    /// Adds a point to the backup set in a folder, which is made if it is missing: everything as it is when
    /// the call begins, in all structures at once. Who writes meanwhile does not wait. What the set has
    /// already is not stored again; of what this process has backed up to the same set before, only pages
    /// that were written since are read. Each page's checksum is checked before it is stored.
    ///
    /// The set is as it was until the call has ended well. While it runs it takes eight bytes of memory for
    /// each page that there is and 36 for each that is read, which come from the memory of the database as far
    /// as frames can be lent.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// # let set = dir.path().join("set");
    /// use terrace::{BackupOptions, Database, Options, RestoreOptions};
    /// let db = Database::open(&path, Options::new().memory(16 << 20))?;
    /// db.tree("users")?.put("alice", "1")?;
    /// let report = db.backup(&set, BackupOptions::new())?;
    /// assert_eq!(report.point, 1);
    /// db.tree("users")?.put("alice", "2")?;
    /// let again = dir.path().join("again");
    /// terrace::restore(&set, &again, RestoreOptions::new())?;
    /// let then = Database::open(&again, Options::new().memory(16 << 20))?;
    /// assert_eq!(then.tree("users")?.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the name of a page that is not what it should be; [`Error::DiskFull`] on either
    /// side; [`Error::SnapshotGone`] when the space that it keeps was needed; [`Error::Invalid`] for the set
    /// of another database; [`Error::Cancelled`].
    pub fn backup(
        &self,
        set: impl AsRef<Path>,
        options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        self.handle.core.back_up_to(set.as_ref(), options)
    }

    /// The same on any disk.
    #[doc(hidden)]
    pub fn backup_on(
        &self,
        set: Arc<dyn Disk>,
        options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        self.handle.core.back_up(set, options)
    }
}
