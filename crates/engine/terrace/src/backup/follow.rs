//! Following the log, for users.

use terrace_base::Result;

use super::worker::{Worker, start};
use crate::backup_set::folder::SetFolder;
use crate::backup_set::follow_options::{FollowOptions, FollowStatus};
use crate::handle::database::Database;
use crate::state::following::{Follows, Running};

/// Copies the log of a database to a backup set until it is dropped; see [`Database::follow`].
pub struct Follower {
    running: Running,
    // So that the database stays open.
    _db: Database,
}

impl Follower {
    /// See [`Database::follow`].
    pub(crate) fn begin(db: &Database, set: SetFolder, options: FollowOptions) -> Result<Follower> {
        let core = db.core().clone();
        core.store().check_writable()?;
        options.rate.check()?;
        Ok(Follower {
            running: start(core, set, options, Worker::step)?,
            _db: db.clone(),
        })
    }

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
