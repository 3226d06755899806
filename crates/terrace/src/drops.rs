//! Taking dropped structures apart, in the background and in bounded steps.
//!
//! Invariant: a structure is touched only after everybody who was at work on it when it was marked
//! has left. A structure that was not finished is found again at the next opening, by its mark.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use terrace_base::Result;

use crate::core::Core;
use crate::registry::Open;

/// Pause after a step that failed (a full disk, say).
const RETRY: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Default)]
pub struct Drops {
    queue: Mutex<Queue>,
    changed: Condvar,
    working: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Open>>,
    stop: bool,
}

impl Drops {
    /// No step is under way while the answer is held.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.working.lock()
    }

    /// Tells the thread to end after the step it is at.
    pub fn stop(&self) {
        self.queue.lock().stop = true;
        self.changed.notify_all();
    }

    /// The next structure to take apart; `None` when it is time to end.
    fn next(&self) -> Option<Arc<Open>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(open) = queue.waiting.front() {
                return Some(open.clone());
            }
            self.changed.wait(&mut queue);
        }
    }

    fn done(&self) {
        self.queue.lock().waiting.pop_front();
    }

    fn should_stop(&self) -> bool {
        self.queue.lock().stop
    }
}

impl Core {
    /// A structure was marked as dropped; its pages are to go. The caller has no pass.
    pub fn take_apart(&self, open: Arc<Open>) -> Result<()> {
        if self.options.foreground {
            while self.step(&open)? {}
            return Ok(());
        }
        self.drops.queue.lock().waiting.push_back(open);
        self.drops.changed.notify_all();
        Ok(())
    }

    /// Goes on with what an earlier run did not finish.
    pub fn resume_drops(&self) -> Result<()> {
        for open in self.registry.all() {
            if open.is_dropped() {
                self.take_apart(open)?;
            }
        }
        Ok(())
    }

    fn step(&self, open: &Open) -> Result<bool> {
        let _working = self.drops.working.lock();
        self.registry.clear_step(open).map_err(|e| self.failed(e))
    }

    /// The thread that takes dropped structures apart.
    pub fn run_drops(&self) {
        while let Some(open) = self.drops.next() {
            self.passes.quiesce();
            loop {
                if self.drops.should_stop() {
                    return;
                }
                match self.step(&open) {
                    Ok(true) => {}
                    Ok(false) => break self.drops.done(),
                    Err(_) => {
                        let mut queue = self.drops.queue.lock();
                        if !queue.stop {
                            self.drops.changed.wait_for(&mut queue, RETRY);
                        }
                    }
                }
            }
        }
    }
}
