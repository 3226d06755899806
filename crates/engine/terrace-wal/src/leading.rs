//! A leader that panics: who writes, syncs or makes a segment for all others does so without the mutex, and
//! those others wait for him.
//!
//! Invariant: what was begun with [`Log::lead`] ends. If a panic goes through it, the log is poisoned first,
//! for it is not known how much of it was done, and then whoever waits is told.

use terrace_base::Error;

use crate::log::Log;
use crate::state::State;

/// Something that one thread does for all.
pub(crate) struct Leading<'l> {
    log: &'l Log,
    end: fn(&mut State),
}

impl Log {
    /// The thread begins with something for all, without the mutex. `end` takes it out of the state if it
    /// panics; else the caller does, and says [`Leading::done`] first.
    pub(crate) fn lead(&self, end: fn(&mut State)) -> Leading<'_> {
        Leading { log: self, end }
    }
}

impl Leading<'_> {
    /// It has not panicked.
    pub(crate) fn done(self) {
        std::mem::forget(self);
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        (self.end)(&mut state);
        let error = Error::invalid("a thread that wrote to the log has panicked");
        self.log.stop(&mut state, &error);
    }
}
