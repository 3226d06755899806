//! Who waits for whom: the cleaner, the checkpointer, and pages that are being read in.

use std::time::Duration;

use terrace_base::PageId;
use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::sync::{Condvar, Mutex};

/// Locks over which waiters for pages being read in spread.
const READ_STRIPES: usize = 64;
/// How long a thread sleeps when it waits for the cleaner or the checkpointer; they wake it, this
/// only bounds a lost wake-up.
pub(crate) const WAIT: Duration = Duration::from_millis(5);

/// What threads wait on: the end of reads, progress of those that write pages, work for the cleaner.
pub(crate) struct Signals {
    reads: Box<[(Mutex<()>, Condvar)]>,
    /// Signalled whenever the cleaner or the checkpointer has finished a batch.
    progress: (Mutex<u64>, Condvar),
    /// Signalled when the cleaner should look.
    wanted: (Mutex<bool>, Condvar),
    /// Whether the cleaner is to end.
    stop: AtomicBool,
}

impl Signals {
    pub fn new() -> Signals {
        Signals {
            reads: (0..READ_STRIPES).map(|_| Default::default()).collect(),
            progress: Default::default(),
            wanted: Default::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// What who waits until this page has been read in sleeps on.
    pub fn read_of(&self, pid: PageId) -> &(Mutex<()>, Condvar) {
        &self.reads[pid.0 as usize % READ_STRIPES]
    }

    /// Waits until the cleaner or the checkpointer has finished a batch, or for a little while.
    pub fn wait_for_progress(&self) {
        let mut seen = self.progress.0.lock();
        self.progress.1.wait_for(&mut seen, WAIT);
    }

    /// Some batch is finished.
    pub fn note_progress(&self) {
        *self.progress.0.lock() += 1;
        self.progress.1.notify_all();
    }

    /// Wakes the cleaner.
    pub fn want_cleaning(&self) {
        let mut wanted = self.wanted.0.lock();
        if !*wanted {
            *wanted = true;
            self.wanted.1.notify_one();
        }
    }

    /// Waits until the cleaner is wanted, but not longer than that; whether it is.
    pub fn wait_to_clean(&self, longest: Duration) -> bool {
        let mut wanted = self.wanted.0.lock();
        if !*wanted {
            self.wanted.1.wait_for(&mut wanted, longest);
        }
        std::mem::take(&mut *wanted)
    }

    /// Whether the cleaner is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Says whether it is.
    pub fn set_stopped(&self, stop: bool) {
        self.stop.store(stop, Ordering::Release);
    }
}
