//! How far long work has come, for whoever waits for it.
//!
//! Invariants: what is told of one kind of work rises, ends at its total, and is told a bounded number of
//! times, however much there is to do: the one who listens may draw it.

use std::sync::Arc;

/// What goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Work {
    /// The log is replayed, counted in bytes: while a database is opened.
    Replay,
    /// Pages are read and their owners counted: the first part of a verification.
    Pages,
    /// Rows and entries are compared, counted in both: its second part, if there are indexes.
    Rows,
    /// Pages are written for a checkpoint.
    Checkpoint,
    /// Records are written that a loader has sorted.
    Load,
    /// Pages are read for a backup.
    Backup,
    /// Pages of a backup set are checked.
    CheckBackup,
    /// Pages are brought together, counted in pages as they were before.
    Compact,
    /// Pages at the end of the file are moved to its front, about: the second part of a compaction.
    Move,
    /// Pages of a backup set are written to a new database.
    Restore,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// What goes on.
    pub work: Work,
    /// How much of it is done.
    pub done: u64,
    /// How much there is to do, as far as that can be foreseen; all of it is done when it is over.
    pub total: u64,
}

/// Who wants to hear how far a replay has come.
#[derive(Clone)]
pub(crate) struct Listener(Arc<dyn Fn(Progress) + Send + Sync>);

impl Listener {
    pub fn new(listen: impl Fn(Progress) + Send + Sync + 'static) -> Listener {
        Listener(Arc::new(listen))
    }

    pub fn hear(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// Parts of the work after each of which it is told how far it has come: more than a bar has places.
const PARTS: u64 = 500;

/// Tells of one kind of work.
pub(crate) struct Teller<'t> {
    tell: &'t mut dyn FnMut(Progress),
    work: Work,
    total: u64,
    done: u64,
    /// What was told last.
    told: u64,
    /// From here on it is told again.
    next: u64,
}

impl<'t> Teller<'t> {
    /// Work that begins now.
    pub fn new(tell: &'t mut dyn FnMut(Progress), work: Work, total: u64) -> Teller<'t> {
        let mut teller = Teller {
            tell,
            work,
            total,
            done: 0,
            told: 0,
            next: 0,
        };
        teller.is_at(0);
        teller
    }

    /// The work has come as far as `done`. More than there was to do, and less than before, is not told.
    #[inline]
    pub fn is_at(&mut self, done: u64) {
        self.done = self.done.max(done.min(self.total));
        if self.done >= self.next {
            self.now();
        }
    }

    /// One more is done.
    #[inline]
    pub fn one_more(&mut self) {
        self.is_at(self.done.saturating_add(1));
    }

    /// All is done, whatever was counted on the way.
    pub fn end(mut self) {
        self.done = self.total;
        if self.told < self.done {
            self.now();
        }
    }

    fn now(&mut self) {
        self.told = self.done;
        self.next = self.done.saturating_add(self.total / PARTS + 1);
        (self.tell)(Progress {
            work: self.work,
            done: self.done,
            total: self.total,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_ends_at_the_total_and_is_told_a_bounded_number_of_times() {
        for total in [0, 1, 7, PARTS, 1_000_003] {
            for counted in [total / 2, total, total + 9] {
                let mut told = Vec::new();
                let mut tell = |progress: Progress| told.push(progress.done);
                let mut teller = Teller::new(&mut tell, Work::Pages, total);
                for _ in 0..counted {
                    teller.one_more();
                }
                teller.is_at(0);
                teller.end();
                assert!(told.is_sorted_by(|a, b| a < b), "{total}: {told:?}");
                assert_eq!((told[0], *told.last().unwrap()), (0, total));
                assert!(told.len() as u64 <= PARTS + 2, "{total}: {}", told.len());
            }
        }
    }
}
