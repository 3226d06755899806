//! Opening a database, for users.

use std::path::Path;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::read_only::ReadOnlyDisk;
use terrace_base::{Error, Result};

use crate::core::Core;
use crate::handle::database::Database;
use crate::handle::shared::Handle;
use crate::opening;
use crate::options::Options;

impl Database {
    /// Opens the database in a directory, and makes both if they are missing and the options allow
    /// it. The directory is locked until the last handle is gone.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process or handle has it; [`Error::MemoryTooSmall`] with what
    /// is needed; [`Error::Corrupt`] for files that are damaged or not Terrace's.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let direct = if options.direct_io {
            DirectIo::Preferred
        } else {
            DirectIo::Off
        };
        // Before anything is made on the disk.
        options.check()?;
        let path = path.as_ref();
        let disk = if options.create {
            FileDisk::open_or_create(path, direct)?
        } else if path.exists() {
            FileDisk::open(path, direct)?
        } else {
            return Err(Error::invalid(format!(
                "there is no directory {}; name the one that holds the database, or allow making it with Options::create(true)",
                path.display()
            )));
        };
        Database::open_on(Arc::new(disk), options)
    }

    /// Opens the database in a directory to be read only: nothing there is written, made or deleted, so
    /// the files may be another user's, and the file system one that takes no writes. Any number of readers
    /// may have it open, in any number of processes, and no process may write meanwhile; what is read does not
    /// change. Of [`Options`] the memory and direct I/O count. Whatever would write is an error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use terrace::{Database, Options};
    /// let options = || Options::new().memory(16 << 20);
    /// let db = Database::open(dir.path(), options())?;
    /// db.tree("users")?.put("alice", "1")?;
    /// db.close()?;
    /// let db = Database::open_read_only(dir.path(), options())?;
    /// let users = db.tree("users")?;
    /// assert_eq!(users.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// assert!(users.put("bob", "1").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotClosed`] when the log has to be replayed; [`Error::Locked`] while somebody has it open
    /// for writing; otherwise as [`Database::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let direct = if options.direct_io {
            DirectIo::Preferred
        } else {
            DirectIo::Off
        };
        options.check()?;
        Database::open_read_only_on(Arc::new(ReadOnlyDisk::open(path, direct)?), options)
    }

    /// The same on any disk, to which no process may write meanwhile.
    ///
    /// # Errors
    /// As [`Database::open_read_only`].
    pub fn open_read_only_on(disk: Arc<dyn Disk>, options: Options) -> Result<Database> {
        let core = Core::open_read_only(disk, &options)?;
        Ok(Database {
            handle: Arc::new(Handle::new(core)),
        })
    }

    /// Opens the database on any disk: one of a test, for example.
    ///
    /// # Errors
    /// As [`Database::open`], without the lock, which is the disk's business.
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Database> {
        #[cfg(feature = "backup")]
        let follow = options.follow.clone();
        let handle = opening::open_with(disk.clone(), options, None)?;
        #[cfg(feature = "control")]
        crate::control::listen(&handle, &*disk)?;
        #[cfg(feature = "backup")]
        if let Some((set, how)) = follow {
            crate::backup::follow_from_opening(handle.core(), &set, how)?;
        }
        Ok(Database {
            handle: Arc::new(handle),
        })
    }
}
