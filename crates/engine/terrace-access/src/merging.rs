//! Figures of a method that merges: what is in it, and what merging has come to.

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
    /// Times that somebody who changed a record made a step first, or waited for one.
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

    /// Those of a thread for which nobody waits.
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

    /// It has waited for, or made, so many.
    pub fn note(&mut self, steps: u64) {
        self.asked += 1;
        self.steps += steps;
    }

    /// The steps that one change has waited for; `None` of a thread in the background.
    pub fn of_this_change(&self) -> Option<u64> {
        (self.most < u64::MAX).then_some(self.steps)
    }
}
