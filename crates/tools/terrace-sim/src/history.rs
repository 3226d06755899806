//! Recording what several threads did to keys, and when, for the linearizability checker.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::event::{Event, Operation, Outcome};
use crate::linearizable::{self, Violation};

/// The operations of all threads. Each thread records through a [`Recorder`] of its own.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    threads: AtomicU64,
    events: Mutex<BTreeMap<Vec<u8>, Vec<Event>>>,
}

impl History {
    /// An empty history.
    pub fn new() -> History {
        History::default()
    }

    /// The recorder of one more thread. What it recorded is in the history once it is dropped.
    pub fn recorder(&self) -> Recorder<'_> {
        Recorder {
            history: self,
            thread: self.threads.fetch_add(1, Ordering::Relaxed) as usize,
            events: Vec::new(),
        }
    }

    /// Checks every key for itself: is there an order of its operations, compatible with the times
    /// of their calls and returns, in which each answer is right? All keys begin without a value,
    /// except those that `initial` names.
    pub fn check(&self, initial: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Violation> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, events) in events.iter() {
            linearizable::check(key, events, initial.get(key).map(Vec::as_slice))?;
        }
        Ok(())
    }

    /// Number of operations recorded.
    pub fn len(&self) -> usize {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(Vec::len)
            .sum()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// One thread's part of a [`History`].
pub struct Recorder<'a> {
    history: &'a History,
    thread: usize,
    events: Vec<(Vec<u8>, Event)>,
}

impl Recorder<'_> {
    /// Runs `call` and records it as `operation` on `key`. It answers `None` if it failed.
    pub fn record(
        &mut self,
        key: &[u8],
        operation: Operation,
        call: impl FnOnce() -> Option<Outcome>,
    ) -> Option<Outcome> {
        self.record_of_all([key], operation, call)
    }

    /// The same of something that is done to several keys at one instant.
    pub fn record_of_all<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        operation: Operation,
        call: impl FnOnce() -> Option<Outcome>,
    ) -> Option<Outcome> {
        let called = self.history.now();
        let outcome = call();
        let returned = self.history.now();
        let event = Event {
            operation,
            outcome: outcome.clone(),
            called,
            returned,
            thread: self.thread,
        };
        let all = keys.into_iter();
        self.events
            .extend(all.map(|key| (key.as_ref().to_vec(), event.clone())));
        outcome
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let mut all = self
            .history
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (key, event) in self.events.drain(..) {
            all.entry(key).or_default().push(event);
        }
    }
}
