//! Whether changes of structures without log are in the log all the same, for a while.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether they are.
#[derive(Default)]
pub struct Unlogged {
    logs: AtomicBool,
}

impl Unlogged {
    /// Whether they are, for a change that is begun now. Asked within an operation.
    #[inline]
    pub fn logs(&self) -> bool {
        self.logs.load(Ordering::SeqCst)
    }

    /// From now on they are, or no more.
    pub fn set_logs(&self, logs: bool) {
        self.logs.store(logs, Ordering::SeqCst);
    }
}
