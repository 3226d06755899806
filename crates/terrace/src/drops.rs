//! Taking dropped structures apart, in the background and in bounded steps.
//!
//! Invariant: a structure is touched only after everybody who was at work on it when it was marked
//! has left. A structure that was not finished is found again at the next opening, by its mark.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use terrace_base::{Result, StructureId};

use crate::core::Core;
use crate::registry::Cleared;

/// Pause after a step that failed (a full disk, say), and between looks whether a handle of a
/// dropped structure is still there.
const RETRY: Duration = Duration::from_millis(500);

/// See the module's text.
#[derive(Default)]
pub struct Drops {
    queue: Mutex<Queue>,
    changed: Condvar,
    working: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    /// To be taken apart, in order.
    waiting: VecDeque<StructureId>,
    /// Of these only the roots are left, or the last step failed.
    later: Vec<StructureId>,
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
    fn next(&self) -> Option<StructureId> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(id) = queue.waiting.pop_front() {
                return Some(id);
            }
            if queue.later.is_empty() {
                self.changed.wait(&mut queue);
            } else if self.changed.wait_for(&mut queue, RETRY).timed_out() {
                let later = std::mem::take(&mut queue.later);
                queue.waiting.extend(later);
            }
        }
    }

    fn later(&self, id: StructureId) {
        self.queue.lock().later.push(id);
    }

    fn should_stop(&self) -> bool {
        self.queue.lock().stop
    }
}

impl Core {
    /// A structure was marked as dropped; its pages are to go. The caller has no pass.
    pub fn take_apart(&self, id: StructureId) {
        if self.options.foreground {
            // It is dropped in any case; what does not work now is done after the next opening.
            while let Ok(Cleared::InPart) = self.step(id) {}
            return;
        }
        self.drops.queue.lock().waiting.push_back(id);
        self.drops.changed.notify_all();
    }

    /// Goes on with what an earlier run did not finish.
    pub fn resume_drops(&self) {
        for open in self.registry.all() {
            if open.is_dropped() {
                let id = open.id();
                drop(open);
                self.take_apart(id);
            }
        }
    }

    fn step(&self, id: StructureId) -> Result<Cleared> {
        let _working = self.drops.working.lock();
        self.registry.clear_step(id).map_err(|e| self.failed(e))
    }

    /// The thread that takes dropped structures apart.
    pub fn run_drops(&self) {
        while let Some(id) = self.drops.next() {
            self.passes.quiesce();
            while !self.drops.should_stop() {
                match self.step(id) {
                    Ok(Cleared::InPart) => {}
                    Ok(Cleared::Gone) => break,
                    Ok(Cleared::InUse) | Err(_) => {
                        self.drops.later(id);
                        break;
                    }
                }
            }
        }
    }
}
