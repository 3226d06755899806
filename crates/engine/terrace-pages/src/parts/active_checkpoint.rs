//! The cut whose pages are being written: its epoch, what it has before it, and how far it has come.

use terrace_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use terrace_base::sync::{Mutex, MutexGuard};

use crate::parts::pace::Plan;

/// The checkpoint in progress: its epoch, its plan, and how far it has come.
pub(crate) struct ActiveCheckpoint {
    /// 0 when no checkpoint is in progress.
    epoch: AtomicU32,
    /// What the last image alone held at the cut, less what checkpoints had written by then.
    space: AtomicU64,
    plan: Mutex<Plan>,
    pub progress: CheckpointProgress,
    /// Whether all pages that could be cleaned were ones that a checkpoint owes.
    cleaning_waits: AtomicBool,
    /// Whether hardly anything is to be saved for it.
    sparing: AtomicBool,
}

impl ActiveCheckpoint {
    pub fn new() -> ActiveCheckpoint {
        ActiveCheckpoint {
            epoch: AtomicU32::new(0),
            space: AtomicU64::new(0),
            plan: Mutex::new(Plan::new(0)),
            progress: CheckpointProgress::default(),
            cleaning_waits: AtomicBool::new(false),
            sparing: AtomicBool::new(false),
        }
    }

    /// Epoch of the cut; 0 when there is none.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether there is one. A hint.
    pub fn is_made(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) != 0
    }

    /// It is at this epoch; or at none, once all its pages are written or it is given up.
    pub fn set_epoch(&self, epoch: u32) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// It has `bytes` bytes to write, from now on.
    pub fn plan_to_write(&self, bytes: u64) {
        *self.plan.lock() = Plan::new(bytes);
    }

    /// What was planned.
    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    /// What [`ActiveCheckpoint::set_space`] was told last.
    pub fn space(&self) -> u64 {
        self.space.load(Ordering::Relaxed)
    }

    /// Remembers what the last image alone holds, less what checkpoints have written.
    pub fn set_space(&self, held: u64) {
        self.space.store(held, Ordering::Relaxed);
    }

    /// Whether hardly anything is to be saved for it.
    #[inline]
    pub fn is_sparing(&self) -> bool {
        self.sparing.load(Ordering::Relaxed)
    }

    /// Says whether that is so, before it begins.
    pub fn set_sparing(&self, sparing: bool) {
        self.sparing.store(sparing, Ordering::Relaxed);
    }

    /// Whether all pages that could be cleaned were ones that a checkpoint owes.
    pub fn cleaning_waits(&self) -> bool {
        self.cleaning_waits.load(Ordering::Relaxed)
    }

    /// Says whether they were.
    pub fn set_cleaning_waits(&self, waits: bool) {
        self.cleaning_waits.store(waits, Ordering::Relaxed);
    }
}

/// How far the checkpoint that is being made has come, for whoever looks at the figures: a hint, in relaxed
/// numbers that the cleaner's writes and those for changes after the cut make a little too large.
#[derive(Default)]
pub(crate) struct CheckpointProgress {
    /// Pages that were to be written; none while none is being made.
    owed: AtomicU64,
    /// What the counter of pages written by checkpoints was when it began.
    before: AtomicU64,
    all_written: AtomicBool,
}

/// Until the checkpoint is over, however it ends.
pub(crate) struct Over<'s>(&'s CheckpointProgress);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.owed.store(0, Ordering::Relaxed);
    }
}

impl CheckpointProgress {
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

    /// Pages written and pages to be written, when checkpoints have written `written` pages.
    pub fn get(&self, written: u64) -> (u64, u64) {
        let owed = self.owed.load(Ordering::Relaxed);
        if self.all_written.load(Ordering::Relaxed) {
            return (owed, owed);
        }
        let done = written.saturating_sub(self.before.load(Ordering::Relaxed));
        (done.min(owed), owed)
    }
}
