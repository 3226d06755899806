//! The thread that demotes in the background.
//!
//! Invariants: there is one at most, and none while it is paused, or without background threads.

use std::sync::Arc;

use terrace_base::Result;
use terrace_base::sync::{Mutex, MutexGuard};
use terrace_tier::{Demoter, TierContext};

/// The demotion in the background, and its thread while it runs.
pub struct Demotion {
    tiers: Arc<TierContext>,
    has_thread: bool,
    demoter: Mutex<Option<Demoter>>,
}

impl Demotion {
    pub fn new(tiers: Arc<TierContext>, has_thread: bool) -> Demotion {
        Demotion {
            tiers,
            has_thread,
            demoter: Mutex::new(None),
        }
    }

    /// Starts it, or another one in its place: what the one before was at has ended then.
    pub fn start(&self) -> Result<()> {
        let mut demoter = self.demoter.lock();
        if self.has_thread {
            // Another one first: if no thread can be had, the old one stays.
            *demoter = Some(self.tiers.start_demoter()?);
        }
        Ok(())
    }

    /// Ends it.
    pub fn stop(&self) {
        drop(self.demoter.lock().take());
    }

    /// Ends it until [`Paused::resume`], or until the answer is dropped, by a panic too.
    pub fn pause(&self) -> Paused<'_> {
        let mut demoter = self.demoter.lock();
        demoter.take();
        Paused {
            demotion: self,
            demoter,
            done: !self.has_thread,
        }
    }
}

/// Nothing is demoted in the background while this is held.
pub struct Paused<'d> {
    demotion: &'d Demotion,
    /// Held, so that no other thread starts it before.
    demoter: MutexGuard<'d, Option<Demoter>>,
    done: bool,
}

impl Paused<'_> {
    /// Starts it again.
    pub fn resume(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.done, true) {
            // If no thread can be had now, writers make room themselves until the next time.
            *self.demoter = Some(self.demotion.tiers.start_demoter()?);
        }
        Ok(())
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // There is no caller to tell.
        let _ = self.resume();
    }
}
