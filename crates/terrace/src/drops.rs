//! Taking dropped structures apart, in the background and in bounded steps.
//!
//! Invariant: a structure is touched only after every call and every sweep that was at work on it
//! when it was marked has ended. A structure that was not finished is found again at the next
//! opening, by its mark.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use terrace_base::{Result, StructureId};

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
    waiting: VecDeque<StructureId>,
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
            self.changed.wait(&mut queue);
        }
    }

    /// Waits; returns whether it is time to end.
    fn wait(&self, timeout: Duration) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stop && !timeout.is_zero() {
            self.changed.wait_for(&mut queue, timeout);
        }
        queue.stop
    }
}

impl Core {
    /// A structure was marked as dropped; its pages are to go. The caller has no pass.
    pub fn take_apart(&self, id: StructureId) {
        if self.options.foreground {
            // It is dropped in any case; what does not work now is done after the next opening.
            while let Ok(true) = self.step(id) {}
            return;
        }
        self.drops.queue.lock().waiting.push_back(id);
        self.drops.changed.notify_all();
    }

    /// The same for a structure and its indexes, if it is a table.
    pub fn take_apart_with_indexes(&self, open: &Open) {
        for index in self.registry.indexes_of(open.id()) {
            self.take_apart(index.id());
        }
        self.take_apart(open.id());
    }

    /// Goes on with what an earlier run did not finish.
    pub fn resume_drops(&self) {
        let all = self.registry.all().into_iter();
        all.filter(|open| open.is_dropped())
            .for_each(|open| self.take_apart(open.id()));
    }

    fn step(&self, id: StructureId) -> Result<bool> {
        let _working = self.drops.working.lock();
        self.registry.clear_step(id).map_err(|e| self.failed(e))
    }

    /// Waits until nobody is at work on a structure that was marked: calls, and the background
    /// demotion, which begins nothing new on it.
    fn let_go(&self) -> Result<()> {
        self.passes.quiesce();
        let mut demoter = self.demoter.lock();
        if !self.options.foreground {
            // Another one first: if no thread can be had, the old one stays.
            *demoter = Some(self.tiers.start_demoter()?);
        }
        Ok(())
    }

    /// The thread that takes dropped structures apart.
    pub fn run_drops(&self) {
        while let Some(id) = self.drops.next() {
            while self.let_go().is_err() && !self.drops.wait(RETRY) {}
            loop {
                let pause = match self.step(id) {
                    Ok(false) => break,
                    Ok(true) => Duration::ZERO,
                    Err(_) => RETRY,
                };
                if self.drops.wait(pause) {
                    return;
                }
            }
        }
    }
}
