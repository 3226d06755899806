//! What a verification of a backup set came to.

/// Problems that are listed; more say nothing new, and are counted.
const MOST_PROBLEMS: usize = 100;

/// What a verification of a set found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BackupVerifyReport {
    /// Points that are whole.
    pub whole: Vec<u64>,
    /// Points of which something is missing or damaged.
    pub damaged: Vec<u64>,
    /// Pages that were read.
    pub pages: u64,
    /// Records of archived log that were read.
    pub records: u64,
    /// What is wrong, with file and point: the first hundred.
    pub problems: Vec<String>,
    /// How much more is wrong.
    pub more_problems: u64,
    /// The newest archived changes, the first and the last, if no point leads to them: they cannot be restored
    /// before a point is made. So it is after the log was given up, until the database has made one.
    pub unreached: Option<(u64, u64)>,
    /// Files that belong to no point: left by a backup that was cut off.
    pub leftovers: Vec<String>,
}

impl BackupVerifyReport {
    /// Whether nothing is wrong, and everything can be restored that was archived last.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.unreached.is_none()
    }

    pub(super) fn problem(&mut self, problem: String) {
        match self.problems.len() < MOST_PROBLEMS {
            true => self.problems.push(problem),
            false => self.more_problems += 1,
        }
    }
}
