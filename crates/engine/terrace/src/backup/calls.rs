//! Backup, for users.

use std::path::Path;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::disk::Disk;

use super::options::{BackupOptions, BackupReport};
use crate::api::database::Database;

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
