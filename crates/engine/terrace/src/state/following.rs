//! Who follows the log of a database now, and to which sets.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use crate::backup_set::follow_options::FollowStatus;

/// A follower, which copies the log to a set.
pub trait Follows: Send + Sync {
    /// Copies the log, and makes a point if one is due; the last change that the set has. The caller holds
    /// nothing.
    fn step(&self) -> Result<u64>;

    /// Ends the thread, copies what is left, and lets go of the log.
    fn end(&self);

    /// The same, unless this is a process that was forked meanwhile.
    fn dropped(&self);

    /// How far it has come.
    fn status(&self) -> FollowStatus;

    /// The folder of the set, if it has one.
    #[cfg_attr(not(feature = "control"), allow(dead_code))]
    fn folder(&self) -> Option<&Path>;
}

/// Follows until it is dropped.
pub struct Running(Arc<dyn Follows>);

impl Running {
    /// Of this one.
    pub fn new(worker: Arc<dyn Follows>) -> Running {
        Running(worker)
    }

    /// See [`Follows::step`].
    pub fn step(&self) -> Result<u64> {
        self.0.step()
    }

    /// See [`Follows::status`].
    pub fn status(&self) -> FollowStatus {
        self.0.status()
    }

    /// Copies all that was written so far and ends it, as dropping does; an error if that could not be copied.
    pub fn stop(self) -> Result<FollowStatus> {
        self.0.end();
        let status = self.status();
        match &status.error {
            None => Ok(status),
            Some(text) => Err(Error::invalid(format!(
                "the last of the log was not copied: {text}"
            ))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dropped();
    }
}

/// The followers of a database.
#[derive(Default)]
pub struct Following {
    all: Mutex<Vec<Weak<dyn Follows>>>,
    /// Of each set that is followed the chain.
    chains: Mutex<HashMap<u64, u64>>,
    /// Those that are kept nowhere else.
    kept: Mutex<Vec<Running>>,
}

impl Following {
    /// The chain that is being written to a set.
    pub fn chain_of(&self, set: u64) -> Option<u64> {
        self.chains.lock().get(&set).copied()
    }

    /// This chain is being written to a set.
    pub fn goes_on(&self, set: u64, chain: u64) {
        self.chains.lock().insert(set, chain);
    }

    /// Nothing is written to a set any more.
    pub fn ended(&self, set: u64) {
        self.chains.lock().remove(&set);
    }

    /// Copies what there is, and ends all of them: the database is being closed.
    pub fn stop(&self) {
        let all: Vec<_> = std::mem::take(&mut *self.all.lock());
        for one in all.iter().filter_map(Weak::upgrade) {
            one.end();
        }
        drop(std::mem::take(&mut *self.kept.lock()));
    }

    /// Keeps one until the database is closed, or it is taken.
    pub fn keep(&self, running: Running) {
        self.kept.lock().push(running);
    }

    /// Takes one that is kept for the set in this folder.
    #[cfg(feature = "control")]
    pub fn take(&self, set: &Path) -> Option<Running> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|one| one.0.folder() == Some(set))?;
        Some(kept.remove(at))
    }

    /// One more follows.
    pub fn add(&self, one: &Arc<dyn Follows>) {
        let mut all = self.all.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(one));
    }

    /// This one does not any more.
    pub fn remove(&self, one: &dyn Follows) {
        let is_it = |other: &Weak<dyn Follows>| std::ptr::addr_eq(other.as_ptr(), one);
        self.all.lock().retain(|other| !is_it(other));
    }

    /// How far all of them have come.
    pub fn statuses(&self) -> Vec<FollowStatus> {
        let all = self.all.lock();
        all.iter()
            .filter_map(Weak::upgrade)
            .map(|one| one.status())
            .collect()
    }
}
