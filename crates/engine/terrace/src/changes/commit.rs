//! One commit, as who reads the changes gets it.
//!
//! Invariant: what is made of a record has all its changes, decoded, so that reading them cannot fail.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use terrace_base::lease::Lease;

use super::place::Place;
use crate::kinds::Kind;
use crate::millis::time_of;

/// A structure that a change is of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedStructure {
    /// Its number, which stays when it is renamed, and which no other structure of the database gets.
    pub id: u32,
    /// What it was called behind the commits before; of one that was there when reading began, what it was
    /// called then, also in commits that are older: who keeps something by structure goes by the number. None
    /// of one that had been dropped by then, of which only the drop is told.
    pub name: Option<String>,
    /// Its kind, as far as the name is known.
    pub kind: Option<Kind>,
}

/// One change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'c> {
    /// The key has this value from now on.
    Put {
        /// In which structure.
        structure: &'c ChangedStructure,
        /// The key.
        key: &'c [u8],
        /// Its value.
        value: &'c [u8],
        /// When the record expires, if it does: no change tells it when it has.
        expires: Option<SystemTime>,
    },
    /// The key is not there from now on; it may not have been there before.
    Delete {
        /// In which structure.
        structure: &'c ChangedStructure,
        /// The key.
        key: &'c [u8],
    },
    /// No key of a range is there from now on ([`crate::Tree::delete_range`]).
    DeleteRange {
        /// In which structure.
        structure: &'c ChangedStructure,
        /// The first key.
        low: &'c [u8],
        /// The first key behind it; none at the end.
        high: Option<&'c [u8]>,
    },
    /// The structure is there from now on.
    Created {
        /// Which.
        structure: &'c ChangedStructure,
    },
    /// The structure is gone, with all that is in it. One without a name had been dropped before reading
    /// began, so that other changes of it are left out; who does not know its number has nothing to do.
    Dropped {
        /// Which.
        structure: &'c ChangedStructure,
    },
    /// The structure has this name from now on.
    Renamed {
        /// Which, with its new name.
        structure: &'c ChangedStructure,
    },
    /// This place was marked ([`crate::Database::mark`]).
    Marked {
        /// The mark's name.
        name: &'c str,
        /// When.
        time: SystemTime,
    },
}

/// What was changed at one instant: by a write, a batch, a transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    pub(super) sequence: u64,
    pub(super) place: Place,
    pub(super) record: Vec<u8>,
    pub(super) changes: Vec<Item>,
}

/// A change, by its places in the record.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Put(Arc<ChangedStructure>, Range<usize>, Range<usize>, Lease),
    Delete(Arc<ChangedStructure>, Range<usize>),
    DeleteRange(Arc<ChangedStructure>, Range<usize>, Option<Range<usize>>),
    Created(Arc<ChangedStructure>),
    Dropped(Arc<ChangedStructure>),
    Renamed(Arc<ChangedStructure>),
    Marked(String, SystemTime),
}

impl Commit {
    /// Its number in the order of changes; see [`crate::Database::sequence`].
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The place behind it: who has done with it what is to be done keeps this, and goes on from here.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What was changed, in the order in which it was written.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.changes.iter().map(|item| match item {
            Item::Put(structure, key, value, lease) => Change::Put {
                structure,
                key: self.part(key),
                value: self.part(value),
                expires: lease.end().map(time_of),
            },
            Item::Delete(structure, key) => Change::Delete {
                structure,
                key: self.part(key),
            },
            Item::DeleteRange(structure, low, high) => Change::DeleteRange {
                structure,
                low: self.part(low),
                high: high.as_ref().map(|high| self.part(high)),
            },
            Item::Created(structure) => Change::Created { structure },
            Item::Dropped(structure) => Change::Dropped { structure },
            Item::Renamed(structure) => Change::Renamed { structure },
            Item::Marked(name, time) => Change::Marked { name, time: *time },
        })
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        self.record.get(range.clone()).unwrap_or_default()
    }
}
