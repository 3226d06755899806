//! The order of changes: snapshots of it, marks in it, and reading it.

use std::time::Duration;

use terrace_base::Result;

use crate::changes::{Changes, ChangesOptions};
use crate::handle::database::Database;
use crate::mark::Mark;
use crate::planted::{Fault, planted};
use crate::snapshot::Snapshot;

impl Database {
    /// Marks this place in the order of changes, durably, so that a restore can go back to it: before a
    /// migration, say. Every change of structures with log that returned before the call lies before the
    /// mark. A backup set has the mark once the log up to it was archived, which [`Database::follow`] does.
    /// Where several have one name, a restore takes the newest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let mark = db.mark("before-migration")?;
    /// assert_eq!(mark.name, "before-migration");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is empty, longer than 255 bytes, or has control characters; those of a write.
    pub fn mark(&self, name: &str) -> Result<Mark> {
        self.core().mark(name)
    }

    /// A snapshot of everything as it is now: makes a checkpoint as fast as it can, and keeps its image.
    /// Who writes meanwhile does not wait. It costs what a checkpoint costs, so for one that may be a little
    /// older use [`Database::snapshot_at_most`].
    ///
    /// # Errors
    /// Those of [`Database::checkpoint`]; when eight checkpoints are held by snapshots and backups already.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.handle.take_snapshot(None)
    }

    /// A snapshot that is at most so old: of the last checkpoint if that is young enough, else
    /// [`Database::snapshot`].
    ///
    /// # Errors
    /// As [`Database::snapshot`].
    pub fn snapshot_at_most(&self, age: Duration) -> Result<Snapshot> {
        self.handle.take_snapshot(Some(age))
    }

    /// Every commit from now on, or from a place on that an earlier reading came to: each once, in the order
    /// in which they happened, and none that a power cut could take back. It waits for more, unless
    /// [`ChangesOptions::until_now`] is said.
    ///
    /// What structures without log hold is not in it, nor are entries of indexes. Who keeps something beside
    /// the database stores the [`crate::Commit::place`] with it, and goes on from there. For that to hold over a
    /// restart, or where a reader is away for long, say [`crate::Options::keep_changes`]; while it reads, at
    /// most [`crate::Options::archive_lag`] bytes of log are kept for it.
    ///
    /// ```
    /// use terrace::{Change, ChangesOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let users = db.tree("users")?;
    /// // To begin: everything as it is, and the changes from there on.
    /// let (changes, snapshot) = db.changes_and_snapshot(ChangesOptions::new())?;
    /// let mut copy: Vec<_> = snapshot.tree("users")?.iter()?.collect::<Result<_, _>>()?;
    /// users.put("alice", "Berlin")?;
    /// for commit in changes.take(1) {
    ///     let commit = commit?;
    ///     for change in commit.changes() {
    ///         if let Change::Put { key, value, .. } = change {
    ///             copy.push((key.to_vec(), value.to_vec()));
    ///         }
    ///     }
    ///     println!("done up to {}", commit.place());
    /// }
    /// assert_eq!(copy, [(b"alice".to_vec(), b"Berlin".to_vec())]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::ChangesGone`] when the log from that place on is not there any more, or the place is of
    /// another database; when the database is closed, or opened to be read only.
    pub fn changes(&self, options: ChangesOptions) -> Result<Changes> {
        Changes::kept_open(self, options)
    }

    /// Everything as it is now, and every commit from there on: to begin something that is kept beside the
    /// database. No commit is in both, and none in neither.
    ///
    /// # Errors
    /// As [`Database::changes`], [`Database::snapshot`].
    pub fn changes_and_snapshot(&self, mut options: ChangesOptions) -> Result<(Changes, Snapshot)> {
        let late = planted(Fault::SnapshotBeforeHold).then(|| self.snapshot());
        options.from = None;
        let mut changes = self.changes(options)?;
        let snapshot = late.unwrap_or_else(|| self.snapshot())?;
        changes.begin_behind(snapshot.sequence());
        Ok((changes, snapshot))
    }
}
