//! Methods that merge: records lie on levels, changes are gathered above all of them, and steps carry them down.
//! So changes leave work behind, which a thread has to do before it comes to too much.

use std::sync::Arc;

use terrace_base::Result;
use terrace_pages::Space;

use crate::Expiry;

/// What an LSM-tree can do that no other method has a use for.
///
/// These are no attempts: they block where it says so, and the caller holds nothing then.
pub trait Merging {
    /// Does a bounded part of the work that earlier changes have left behind, if it has come to too much.
    /// To be called before changes are made; `space` is that of the change, and `waits` says how often it may
    /// still wait. Returns whether [`Merging::tend`] has something to do. Blocking.
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<bool>;

    /// Waits a little where that work is nearly too much: before a change of `bytes` bytes, or of as many as
    /// those before it where they are 0. Blocking.
    fn slow_down(&self, bytes: usize);

    /// `bytes` bytes of keys and values were changed by users, here or in a tier above. For figures alone.
    fn note_written(&self, bytes: usize);

    /// Whether [`Merging::catch_up`] has something to do.
    fn is_behind(&self) -> bool;

    /// Does some of that work ahead of need. For threads in the background; bounded; blocking.
    fn tend(&self) -> Result<()>;

    /// Marks of deletions that a tier above may have before changes take some of them down. O(1).
    fn most_marks_above(&self) -> u64;

    /// Goes on to take marks of deletions to where they have done their work, or begins to, if they are many
    /// or, with `waited`, if there are any; whether more is to do. Bounded; blocking.
    fn purge(&self, waited: bool) -> Result<bool>;

    /// Drops what has expired when it is merged, from now on.
    fn expire_by(&self, expiry: Arc<dyn Expiry>);

    /// Compresses pages of the last `levels` levels from now on, as they are made.
    fn compress(&self, levels: u8);

    /// What merging has come to.
    fn merge_figures(&self) -> MergeFigures;

    /// Takes what lies above other records from this key on to where it rests, in one step, for who wants as
    /// few pages as possible; returns where to go on. Blocking.
    fn settle_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>>;
}

/// What has happened since such a structure was opened, and what is in it about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// Leaves of the top, as of the last look.
    pub top_leaves: u64,
    /// Most leaves that the top is to have.
    pub top_bound: u64,
    /// Steps made.
    pub steps: u64,
    /// Bytes of data pages that steps have made.
    pub merge_bytes: u64,
    /// Data pages that steps have read from disk.
    pub merge_reads: u64,
    /// Times that a writer that changed a record made a step first, or waited for one.
    pub waits: u64,
    /// Most steps that a single change has waited for.
    pub most_waits: u64,
    /// Bytes of keys and values that were put into the top.
    pub arrived_bytes: u64,
    /// Bytes of keys and values that users wrote.
    pub user_bytes: u64,
    /// Bytes of a data page.
    pub page_bytes: u64,
    /// Bytes of filters, about.
    pub filter_bytes: u64,
    /// What each level has, the last one first.
    pub levels: Vec<LevelFigures>,
}

/// Figures of a level, or changes of them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LevelFigures {
    /// Data pages.
    pub pages: u64,
    /// Bytes of records in them.
    pub bytes: u64,
    /// Records, tombstones among them.
    pub records: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// What a change has waited for so far, and may.
#[derive(Debug)]
pub struct Waits {
    steps: u64,
    asked: u64,
    most: u64,
}

impl Waits {
    /// Those of one change of a record, whatever it meets on its way: one step.
    pub fn of_a_change() -> Waits {
        Waits {
            steps: 0,
            asked: 0,
            most: 1,
        }
    }

    /// Those of a thread for which no caller waits.
    pub fn in_background() -> Waits {
        Waits {
            steps: 0,
            asked: 0,
            most: u64::MAX,
        }
    }

    /// Whether it may wait for one more step.
    pub fn may_wait(&self) -> bool {
        self.asked < self.most
    }

    /// It has waited for, or made, `steps` steps.
    pub fn note(&mut self, steps: u64) {
        self.asked += 1;
        self.steps += steps;
    }

    /// The steps that one change has waited for; `None` of a thread in the background.
    pub fn of_this_change(&self) -> Option<u64> {
        (self.most < u64::MAX).then_some(self.steps)
    }
}
