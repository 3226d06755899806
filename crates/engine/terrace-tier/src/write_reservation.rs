//! A claim: what holds other threads up, for a bounded time, for the sake of fairness alone.
//!
//! Who meets one lets go of everything, waits until it has ended, and begins again: no thread waits for user code
//! while holding gate, lock or latch (rule 12). A claim is over at its end at the latest, so no thread waits for
//! ever, whoever waits for whom; and never for the thread that it belongs to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::sync::{Condvar, Mutex};
use terrace_base::thread_number;

use crate::fault::{Fault, Point, lasting, planted, reached};

/// A claim, which holds other threads up for a bounded time.
pub struct WriteReservation {
    owner: usize,
    until: Instant,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl std::fmt::Debug for WriteReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteReservation")
            .field("left", &self.left(Instant::now()))
            .finish_non_exhaustive()
    }
}

impl WriteReservation {
    /// One of this thread, for so long at most.
    pub fn new(most: Duration) -> Arc<WriteReservation> {
        Arc::new(WriteReservation {
            owner: thread_number(),
            until: Instant::now() + lasting(most),
            ended: Mutex::new(false),
            changed: Condvar::default(),
        })
    }

    /// Whether it is this thread's.
    pub fn is_own(&self) -> bool {
        self.owner == thread_number()
    }

    /// How long it lasts yet; nothing once it is over.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until.saturating_duration_since(now);
        (!left.is_zero() && !*self.ended.lock()).then_some(left)
    }

    /// Whether this thread is to wait.
    pub fn holds_up(&self) -> bool {
        !self.is_own() && self.left(Instant::now()).is_some() && !planted(Fault::ClaimIgnored)
    }

    /// Waits until it is over. The caller holds nothing.
    pub fn wait(&self) {
        if self.is_own() {
            return;
        }
        reached(Point::HeldUp);
        let mut ended = self.ended.lock();
        while !*ended {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.changed.wait_for(&mut ended, left);
        }
    }

    /// Ends it.
    pub fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }
}
