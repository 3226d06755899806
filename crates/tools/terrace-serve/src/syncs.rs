//! Syncs that answers wait for: one thread makes them for all.
//!
//! Invariant: an answer with number n goes out only after a sync that began after n was given out, hence after its
//! write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Numbers of answers that wait, and how far they may go.
#[derive(Debug, Default)]
pub struct Syncs {
    asked: AtomicU64,
    done: AtomicU64,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Syncs {
    /// Asks for a sync of what was written so far; the number that it has to reach.
    pub fn ask(&self) -> u64 {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let _sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_one();
        number
    }

    /// Whether an answer may go.
    pub fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= number
    }

    /// Waits until a thread asks, or a while; the number that a sync which begins now will reach.
    pub fn wait(&self, most: Duration) -> Option<u64> {
        let news = || {
            let asked = self.asked.load(Ordering::SeqCst);
            (asked > self.done.load(Ordering::SeqCst)).then_some(asked)
        };
        let sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        match news() {
            Some(asked) => Some(asked),
            None => {
                drop(self.woken.wait_timeout(sleeping, most));
                news()
            }
        }
    }

    /// A sync has reached this number.
    pub fn reached(&self, number: u64) {
        self.done.fetch_max(number, Ordering::SeqCst);
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        let _sleeping = self.sleeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_all();
    }
}
