//! Snapshots: everything as it was at one instant, readable while others write.
//!
//! A snapshot is the image of a checkpoint, pinned, and a second database over it that only reads: so all
//! that reads a database reads a snapshot, with no code of its own. Writers never wait for it; the space
//! that it keeps has a limit, past which it is given up.

mod map;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use terrace_base::Result;

pub use map::SnapshotMap;

use crate::catalog::info::StructureInfo;
use crate::core::Core;
use crate::handle::database::Database;
use crate::handle::latest::Last;
use crate::handle::map::Map;
use crate::handle::shared::Handle;
use crate::kinds::Kind;
use crate::kinds::spec::MapOptions;
use crate::progress::Progress;
use crate::verify::VerifyReport;

/// Everything that was written before one instant and nothing that was written after it, in all structures
/// at once; see [`Database::snapshot`]. Clones are the same snapshot.
///
/// It is dropped with its last clone and the last thing that reads it. Until then it keeps the database's
/// directory locked, a part of the memory and at most [`crate::Options::snapshot_space`] of the disk; if
/// more is needed it is given up, and what has to be read from the disk answers
/// [`crate::Error::SnapshotGone`] from then on.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
/// let users = db.tree("users")?;
/// users.put("alice", "1")?;
/// let snapshot = db.snapshot()?;
/// users.put("alice", "2")?;
/// users.put("bob", "1")?;
/// let then = snapshot.tree("users")?;
/// assert_eq!(then.get("alice")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(then.iter()?.count(), 1);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    db: Database,
    time: SystemTime,
    sequence: u64,
}

impl Handle {
    /// A snapshot of a checkpoint that is at most so old, or made for it.
    pub(crate) fn take_snapshot(&self, at_most: Option<Duration>) -> Result<Snapshot> {
        let core = self.core();
        drop(core.passes().enter()?);
        let young = at_most.is_some_and(|most| core.checkpoints().is_within(most));
        let _no_checkpoint = core.exact_checkpoint(young)?;
        let mut last = self.snapshots().lock();
        let generation = core.store().superblock().generation;
        if let Some(last) = &*last
            && let Some(handle) = last.of(generation)
            && handle
                .core()
                .store()
                .pinned()
                .is_none_or(|pin| pin.check().is_ok())
        {
            return Ok(Snapshot {
                db: Database { handle },
                time: last.time,
                sequence: last.sequence,
            });
        }
        let pin = core.heard(core.store().pin_image())?;
        let superblock = pin.superblock().clone();
        let time = core.checkpoints().time_of(superblock.generation);
        let sequence = superblock.next_sequence.saturating_sub(1);
        let image = core.heard(Core::open_image(pin, core.options()))?;
        let handle = Arc::new(Handle::new(image));
        *last = Some(Last::new(superblock.generation, time, sequence, &handle));
        Ok(Snapshot {
            db: Database { handle },
            time,
            sequence,
        })
    }
}

impl Snapshot {
    /// The instant that it shows.
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// The number of the last logged change that it has; structures without log are as of the same instant.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What structures there were, by name.
    pub fn structures(&self) -> Vec<StructureInfo> {
        self.db.core().structures()
    }

    /// A structure, of whatever kind.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`] if there was none of this name.
    pub fn map(&self, name: &str) -> Result<SnapshotMap> {
        self.found(name, None)
    }

    /// A tree.
    ///
    /// # Errors
    /// As [`Snapshot::map`]; [`crate::Error::Invalid`] if it was of another kind.
    pub fn tree(&self, name: &str) -> Result<SnapshotMap> {
        self.found(name, Some(Kind::Tree))
    }

    /// An LSM-tree.
    ///
    /// # Errors
    /// As [`Snapshot::tree`].
    pub fn lsm(&self, name: &str) -> Result<SnapshotMap> {
        self.found(name, Some(Kind::Lsm))
    }

    /// A hash table.
    ///
    /// # Errors
    /// As [`Snapshot::tree`].
    pub fn hash(&self, name: &str) -> Result<SnapshotMap> {
        self.found(name, Some(Kind::Hash))
    }

    /// A table, with its indexes.
    ///
    /// # Errors
    /// As [`Snapshot::tree`].
    pub fn table(&self, name: &str) -> Result<SnapshotMap> {
        self.found(name, Some(Kind::Table))
    }

    fn found(&self, name: &str, kind: Option<Kind>) -> Result<SnapshotMap> {
        let map = Map::found(&self.db, name, kind, MapOptions::new())?;
        Ok(SnapshotMap::new(map))
    }

    /// Walks every page and every structure of it and checks every invariant; the database goes on
    /// meanwhile.
    ///
    /// # Errors
    /// Only when it cannot begin; what it finds is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(|_| ())
    }

    /// [`Snapshot::verify`], telling now and then how far it has come.
    ///
    /// # Errors
    /// As [`Snapshot::verify`].
    pub fn verify_with(&self, progress: impl FnMut(Progress)) -> Result<VerifyReport> {
        self.verify_until(&crate::Cancel::new(), progress)
    }

    /// The same, until it is cancelled.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`], and as [`Snapshot::verify`].
    pub fn verify_until(
        &self,
        cancel: &crate::Cancel,
        mut progress: impl FnMut(Progress),
    ) -> Result<VerifyReport> {
        let report = self.db.core().verify(&mut progress, cancel)?;
        // Nothing is wrong with the database if it could not be read any more.
        self.check()?;
        Ok(report)
    }

    /// An error once it was given up.
    ///
    /// # Errors
    /// [`crate::Error::SnapshotGone`].
    pub fn check(&self) -> Result<()> {
        match self.db.core().store().pinned() {
            Some(pin) => pin.check(),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("time", &self.time)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
