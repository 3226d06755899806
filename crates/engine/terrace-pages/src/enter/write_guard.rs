//! The write guard: the right to change pages.
//!
//! Invariant: who waits to go in holds nothing.

use terrace_base::sync::atomic::AtomicU32;
use terrace_base::sync::panicking;

use crate::faults::{entered, left};
use crate::parts::common::Common;
use crate::parts::gate::{Gate, leave};
use crate::parts::space_quota::{Space, SpaceQuota};

/// The right to change pages: its holder is inside the gate, in one epoch, until it is dropped.
pub struct WriteGuard<'a> {
    common: &'a Common,
    /// What to count down when it leaves.
    count: &'a AtomicU32,
    epoch: u32,
    /// Whether its thread was unwinding already when it came in.
    unwinding: bool,
    /// What was promised to whoever came in by it.
    promised: SpaceQuota,
    /// How deep it may reach into the numbers of new pages.
    space: Space,
}

impl<'a> WriteGuard<'a> {
    /// Goes through the gate if it is open; never waits.
    // Always: a write guard would be copied through memory otherwise, for every write.
    #[inline(always)]
    pub(crate) fn pass(gate: &'a Gate, common: &'a Common) -> Option<WriteGuard<'a>> {
        let (count, epoch) = gate.try_pass()?;
        entered();
        Some(WriteGuard {
            common,
            count,
            epoch,
            unwinding: panicking(),
            promised: SpaceQuota::default(),
            space: Space::Migration,
        })
    }

    /// The same write guard, which may go as deep into the free space as `space` says.
    #[inline(always)]
    pub(crate) fn with_space(mut self, space: Space) -> WriteGuard<'a> {
        self.space = space;
        self
    }

    /// The same write guard, to which belongs what was counted as promised before.
    pub(crate) fn with_promised(mut self, promise: SpaceQuota) -> WriteGuard<'a> {
        self.promised = promise;
        self
    }

    /// Numbers of new pages that it may not use, for they are promised to others or kept for them; none where new
    /// pages were promised to whoever came in by it.
    pub(crate) fn numbers_of_others(&self) -> Option<u64> {
        let kept = || {
            let memory = self.common.counters.memory.get();
            self.common
                .claims
                .numbers_kept_from(self.space, &self.common.layout, memory)
        };
        (self.promised.new == 0).then(|| self.common.claims.promised().new + kept())
    }

    /// The epoch that changes made inside belong to.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn unwinding(&self) -> bool {
        self.unwinding
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        left();
        if panicking() && !self.unwinding {
            // Some pages of a change may have it and others not, or none of them what the log has.
            self.common.halt("a change of pages");
        }
        self.common.claims.take_back(self.promised);
        leave(self.count);
    }
}
