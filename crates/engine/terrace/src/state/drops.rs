//! The dropped structures that wait to be taken apart.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_base::{Error, StructureId};

/// The queue of the dropped structures.
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
pub struct Waiting {
    pub id: StructureId,
    /// Whether no thread is at work on it any more.
    pub free: bool,
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
    pub fn next(&self) -> Option<Waiting> {
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
    pub fn put_back(&self, failed: Waiting, error: Error) -> usize {
        let mut queue = self.queue.lock();
        queue.stuck.insert(failed.id);
        queue.error = Some(error);
        queue.waiting.push_back(failed);
        queue.waiting.len()
    }

    /// This one is done.
    pub fn done(&self, id: StructureId) {
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
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stop && !timeout.is_zero() {
            self.changed.wait_for(&mut queue, timeout);
        }
        queue.stop
    }

    /// One more waits.
    pub fn push(&self, id: StructureId) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Waiting { id, free: false });
        self.changed.notify_all();
    }

    /// One more waits, at which no thread ever was at work.
    pub fn push_free(&self, id: StructureId) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Waiting { id, free: true });
        self.changed.notify_all();
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// No thread is at work any more on the first `first` of those that wait.
    pub fn let_go_of(&self, first: usize) {
        let mut queue = self.queue.lock();
        let with_it = queue.waiting.iter_mut().take(first);
        with_it.for_each(|other| other.free = true);
    }
}
