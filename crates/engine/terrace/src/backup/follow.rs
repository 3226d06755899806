//! Following the log, for users.

use std::path::Path;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::disk::Disk;

use super::folder::SetFolder;
use super::follow_options::{FollowOptions, FollowStatus};
use super::following::{Follows, Running};
use super::worker::{Worker, start};
use crate::api::database::Database;

/// Copies the log of a database to a backup set until it is dropped; see [`Database::follow`].
pub struct Follower {
    running: Running,
    // So that the database stays open.
    _db: Database,
}

impl Follower {
    /// Copies all that was written so far, now, and makes a point if one is needed; the number of the last
    /// change that a restore of the set can go to.
    ///
    /// # Errors
    /// Those of the set's disk and of the log.
    pub fn archive(&self) -> Result<u64> {
        self.running.step()
    }

    /// How far it has come.
    pub fn status(&self) -> FollowStatus {
        self.running.status()
    }

    /// Copies all that was written so far and ends it, as dropping does.
    ///
    /// # Errors
    /// Why the last of the log could not be copied.
    pub fn stop(self) -> Result<FollowStatus> {
        self.running.stop()
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Copies the log to the backup set in a folder while it is written, until the answer is dropped or the
    /// database is closed: so a restore can go back to any change, time or mark between two points. It makes
    /// a point first, if the log since the last one is not there any more, and another one whenever the log
    /// has become long.
    ///
    /// Once a second what was written is made durable and copied. Who writes does not wait: as long as the
    /// copy cannot be made, up to [`crate::Options::archive_lag`] bytes of log are kept for it; past that, or
    /// when the disk is full, the log is given up, and a new point is made
    /// ([`FollowStatus::breaks`] counts it).
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
        self.follow_to(SetFolder::at(set.as_ref())?, options)
    }

    /// The same on any disk.
    #[doc(hidden)]
    pub fn follow_on(&self, set: Arc<dyn Disk>, options: FollowOptions) -> Result<Follower> {
        self.follow_to(SetFolder::Disk(set), options)
    }

    fn follow_to(&self, set: SetFolder, options: FollowOptions) -> Result<Follower> {
        let core = self.handle.core.clone();
        core.store.check_writable()?;
        options.rate.check()?;
        Ok(Follower {
            running: start(core, set, options, Worker::step)?,
            _db: self.clone(),
        })
    }
}
