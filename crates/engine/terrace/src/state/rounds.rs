//! What the thread of the rounds waits for.

use std::time::Duration;

use terrace_base::sync::{Condvar, Mutex};

/// What tells the thread of the rounds to stop.
#[derive(Default)]
pub struct Rounds {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Rounds {
    /// Ends it soon.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    /// Whether it goes on after that time.
    pub fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, time);
        }
        !*stopped
    }
}
