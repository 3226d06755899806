//! What a batch rests on, and how a round of writing it has ended.

use std::sync::Arc;

use terrace_tier::{LockTable, Version, WriteReservation};
use terrace_wal::Appended;

use crate::catalog::opened::{Open, Snapshot};
use crate::clock::Clock;
use crate::read::leased::Deadline;
use crate::write::batch::merges::Merging;
use crate::write::batch::standing::Standing;

/// What a round rests on.
#[derive(Default)]
pub struct Expected<'s> {
    /// Snapshots of the tables in the batch.
    pub tables: Vec<(Arc<Open>, Snapshot)>,
    /// Record locks with the versions that were read.
    pub versions: Vec<(usize, Version)>,
    /// The same of records that merges have left as they are: they are not locked.
    pub kept: Vec<(usize, Version)>,
    /// What merges were worked out from, where they can be worked out again under the locks.
    pub merging: Merging,
    /// What was read beside the records that are written.
    pub standing: Option<&'s dyn Standing>,
    /// Before which time it has to be written, for the records are there that it rests on.
    pub before: Deadline,
}

/// How a round ended.
pub enum Round {
    /// Written.
    Written(Option<Appended>),
    /// Something has changed meanwhile; nothing was done.
    Changed,
    /// The row is not as it was expected to be; nothing was done.
    NotAsFound,
    /// Another thread claims what is to be written; nothing was done. The caller waits for that.
    Claimed(Arc<WriteReservation>),
}

/// How a write has ended, after as many rounds as it took.
pub enum Outcome {
    /// Written, with this record if there was anything to log.
    Written(Option<Appended>),
    /// The row is not as it was expected to be; nothing was done.
    NotAsFound,
}

impl Expected<'_> {
    /// Whether the content is still the one that was read under every version, `now` being the version
    /// of a slot that the caller has locked.
    pub fn holds(&self, now: impl Fn(usize) -> Option<Version>) -> bool {
        let mut versions = self.versions.iter();
        versions
            .all(|(slot, version)| now(*slot).is_some_and(|now| now.content() == version.content()))
    }

    /// Whether what was read and is not written is still so. Asked just before the batch has its place in the
    /// order of commits; `ours` says of a lock whether the batch holds it.
    pub fn stands(&self, locks: &LockTable, clock: &Clock, ours: &dyn Fn(usize) -> bool) -> bool {
        let kept = self.kept.iter().all(|(slot, version)| {
            let (content, held) = locks.content(*slot);
            content == version.content() && (!held || ours(*slot))
        });
        self.before.is_kept(clock)
            && kept
            && self.standing.is_none_or(|standing| standing.stands(ours))
    }

    /// Whether [`Expected::stands`] whatever others do.
    pub fn rests_on_nothing(&self) -> bool {
        self.kept.is_empty() && self.standing.is_none() && !self.before.is_any()
    }

    /// Whether the snapshots are the newest and the tables open; holds for as long as the caller's
    /// operation.
    pub fn admitted(&self) -> bool {
        let mut tables = self.tables.iter();
        tables.all(|(open, snapshot)| open.table.as_ref().is_none_or(|t| t.admits(snapshot)))
    }
}
