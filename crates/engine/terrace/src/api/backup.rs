//! Backup, for users: points of a set, and following the log.

use std::path::Path;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::disk::Disk;

use crate::backup::Follower;
use crate::backup_set::folder::SetFolder;
use crate::backup_set::follow_options::FollowOptions;
use crate::backup_set::options::{BackupOptions, BackupReport};
use crate::handle::database::Database;

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
    /// [`crate::Error::Corrupt`] with the name of a page that is not what it should be; [`crate::Error::DiskFull`] on either
    /// side; [`crate::Error::SnapshotGone`] when the space that it keeps was needed; [`crate::Error::Invalid`] for the set
    /// of another database; [`crate::Error::Cancelled`].
    pub fn backup(
        &self,
        set: impl AsRef<Path>,
        options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        self.core().back_up_to(set.as_ref(), options)
    }

    /// The same on any disk.
    #[doc(hidden)]
    pub fn backup_on(
        &self,
        set: Arc<dyn Disk>,
        options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        self.core().back_up(set, options)
    }

    /// Copies the log to the backup set in a folder while it is written, until the answer is dropped or the
    /// database is closed: so a restore can go back to any change, time or mark between two points. It makes
    /// a point first, if the log since the last one is not there any more, and another one whenever the log
    /// has become long.
    ///
    /// Once a second what was written is made durable and copied. Who writes does not wait: as long as the
    /// copy cannot be made, up to [`crate::Options::archive_lag`] bytes of log are kept for it; past that, or
    /// when the disk is full, the log is given up, and a new point is made
    /// ([`crate::FollowStatus::breaks`] counts it).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// # let set = dir.path().join("set");
    /// use terrace::{Database, FollowOptions, Options, RestoreOptions, RestoreTo};
    /// let db = Database::open(&path, Options::new().memory(16 << 20))?;
    /// let users = db.tree("users")?;
    /// let follower = db.follow(&set, FollowOptions::new())?;
    /// users.put("alice", "1")?;
    /// db.mark("before-migration")?;
    /// users.delete("alice")?;
    /// follower.stop()?;
    ///
    /// let again = dir.path().join("again");
    /// let to = RestoreTo::Mark("before-migration".into());
    /// terrace::restore(&set, &again, RestoreOptions::new().to(to))?;
    /// let then = Database::open(&again, Options::new().memory(16 << 20))?;
    /// assert_eq!(then.tree("users")?.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Database::backup`], for the first copy; later ones are in [`Follower::status`]. One set is
    /// followed once at a time.
    pub fn follow(&self, set: impl AsRef<Path>, options: FollowOptions) -> Result<Follower> {
        Follower::begin(self, SetFolder::at(set.as_ref())?, options)
    }

    /// The same on any disk.
    #[doc(hidden)]
    pub fn follow_on(&self, set: Arc<dyn Disk>, options: FollowOptions) -> Result<Follower> {
        Follower::begin(self, SetFolder::Disk(set), options)
    }
}
