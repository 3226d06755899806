//! Taking dropped structures apart, in the background and in bounded steps.
//!
//! Invariant: a structure is touched only after every call and every sweep that was at work on it
//! when it was marked has ended. A structure that was not finished is found again at the next
//! opening, by its mark.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_base::{Error, Result, StructureId};

use crate::core::Core;
use crate::registry::Open;

/// Pause after every structure that waits has failed in a row (a full disk, say).
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
    waiting: VecDeque<Waiting>,
    stop: bool,
    /// Those that have failed and are not done since, and why the last of them did.
    stuck: BTreeSet<StructureId>,
    error: Option<Error>,
}

/// A structure that waits to be taken apart.
struct Waiting {
    id: StructureId,
    /// Whether nobody is at work on it any more.
    free: bool,
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
    fn next(&self) -> Option<Waiting> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(next) = queue.waiting.pop_front() {
                return Some(next);
            }
            self.changed.wait(&mut queue);
        }
    }

    /// This one failed: the others come first, because a page that cannot be read is in the way of
    /// its own structure only. Returns how many wait.
    fn put_back(&self, failed: Waiting, error: Error) -> usize {
        let mut queue = self.queue.lock();
        queue.stuck.insert(failed.id);
        queue.error = Some(error);
        queue.waiting.push_back(failed);
        queue.waiting.len()
    }

    /// This one is done.
    fn done(&self, id: StructureId) {
        let mut queue = self.queue.lock();
        queue.stuck.remove(&id);
        if queue.stuck.is_empty() {
            queue.error = None;
        }
    }

    /// How many structures have failed and are tried again, and why the last of them did.
    pub fn stuck(&self) -> (u64, Option<String>) {
        let queue = self.queue.lock();
        let error = queue.error.as_ref().map(ToString::to_string);
        (queue.stuck.len() as u64, error)
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
        self.drops
            .queue
            .lock()
            .waiting
            .push_back(Waiting { id, free: false });
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

    /// Takes a structure apart; `Ok(false)` when it is time to end before that is done.
    fn take_all_apart(&self, waiting: &mut Waiting) -> Result<bool> {
        if !waiting.free {
            // Once for all that wait by now: there may be thousands.
            let marked = self.drops.queue.lock().waiting.len();
            self.let_go()?;
            waiting.free = true;
            let mut queue = self.drops.queue.lock();
            let with_it = queue.waiting.iter_mut().take(marked);
            with_it.for_each(|other| other.free = true);
        }
        while !self.drops.wait(Duration::ZERO) {
            if !self.step(waiting.id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The thread that takes dropped structures apart.
    pub fn run_drops(&self) {
        let mut failed_in_a_row = 0;
        while let Some(mut next) = self.drops.next() {
            match self.take_all_apart(&mut next) {
                Ok(true) => {
                    failed_in_a_row = 0;
                    self.drops.done(next.id);
                }
                Ok(false) => return,
                Err(error) => {
                    failed_in_a_row += 1;
                    if failed_in_a_row >= self.drops.put_back(next, error) {
                        failed_in_a_row = 0;
                        self.drops.wait(RETRY);
                    }
                }
            }
        }
    }
}
