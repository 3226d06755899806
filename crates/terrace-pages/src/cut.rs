//! How far the checkpoint that is being made has come.

use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far the checkpoint that is being made has come, for whoever looks at the figures: a hint, in relaxed
/// numbers that the cleaner's writes and those for changes after the cut make a little too large.
#[derive(Default)]
pub(crate) struct CutProgress {
    /// Pages that were to be written; none while none is being made.
    owed: AtomicU64,
    /// What the counter of pages written by checkpoints was when it began.
    before: AtomicU64,
    all_written: AtomicBool,
}

/// Until the checkpoint is over, however it ends.
pub(crate) struct Over<'s>(&'s CutProgress);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.owed.store(0, Ordering::Relaxed);
    }
}

impl CutProgress {
    pub fn begin(&self, owed: u64, written: u64) -> Over<'_> {
        self.before.store(written, Ordering::Relaxed);
        self.all_written.store(false, Ordering::Relaxed);
        self.owed.store(owed, Ordering::Relaxed);
        Over(self)
    }

    /// The cleaner may have written some of them.
    pub fn all_written(&self) {
        self.all_written.store(true, Ordering::Relaxed);
    }

    /// Pages written and pages to be written, when checkpoints have written so many.
    pub fn get(&self, written: u64) -> (u64, u64) {
        let owed = self.owed.load(Ordering::Relaxed);
        if self.all_written.load(Ordering::Relaxed) {
            return (owed, owed);
        }
        let done = written.saturating_sub(self.before.load(Ordering::Relaxed));
        (done.min(owed), owed)
    }
}
