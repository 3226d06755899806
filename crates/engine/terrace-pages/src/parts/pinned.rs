//! What a store knows of its pins, and each pin of itself.

use std::sync::Arc;
use std::time::SystemTime;

use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_base::{Error, Result};

use crate::map::PinId;

/// What the store knows of its pins.
#[derive(Default)]
pub(crate) struct Pinned {
    pub pins: Mutex<Vec<Known>>,
    /// Most slots that may be kept for pins, or 0 for as many as an image has pages.
    pub limit: AtomicU64,
    /// Memory taken for pins and those who read them.
    pub bytes: AtomicU64,
}

pub(crate) struct Known {
    pub id: PinId,
    pub live: u64,
    pub state: Arc<PinState>,
}

/// Whether a pin holds.
pub struct PinState {
    since: SystemTime,
    is_gone: AtomicBool,
    cause: Mutex<Option<&'static str>>,
}

// By hand: the mutex of the concurrency checker cannot be printed.
impl std::fmt::Debug for PinState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinState")
            .field("since", &self.since)
            .field("is_gone", &self.is_gone.load(Ordering::SeqCst))
            .finish_non_exhaustive()
    }
}

impl PinState {
    /// One that holds from now on.
    pub(crate) fn new() -> PinState {
        PinState {
            since: SystemTime::now(),
            is_gone: AtomicBool::new(false),
            cause: Mutex::default(),
        }
    }

    /// An error if the pin was given up. To be asked after bytes were read that it keeps.
    ///
    /// # Errors
    /// [`Error::SnapshotGone`].
    pub fn check(&self) -> Result<()> {
        if !self.is_gone.load(Ordering::SeqCst) {
            return Ok(());
        }
        let cause = self.cause.lock().unwrap_or("it was dropped");
        Err(Error::SnapshotGone {
            since: self.since,
            cause: cause.into(),
        })
    }

    pub(crate) fn give_up(&self, cause: &'static str) {
        self.cause.lock().get_or_insert(cause);
        self.is_gone.store(true, Ordering::SeqCst);
    }
}
