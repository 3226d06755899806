//! The time of an attempt of a transaction: one `now` for all that it reads.
//!
//! Invariant: what counts as gone had expired at `now`, and what counts as there expires at `first` or later. So
//! all of it was so at one instant, if the clock has not passed `first` when the transaction commits. Asked
//! where it has its place in the order of commits: who comes behind it has seen no less of the clock.

use std::cell::Cell;
use std::sync::Arc;

use terrace_base::lease::Lease;

use crate::clock::Clock;
use crate::planted::{Fault, planted};

/// The time of an attempt of a transaction.
pub struct Time {
    clock: Arc<Clock>,
    now: Cell<Option<u64>>,
    /// What expires first of what was read as being there.
    first: Option<First>,
}

/// A record that expires: its lease, the number of its structure, its key.
struct First {
    lease: Lease,
    structure: u32,
    key: Vec<u8>,
}

impl Time {
    /// Not begun.
    pub fn new(clock: Arc<Clock>) -> Time {
        Time {
            clock,
            now: Cell::new(None),
            first: None,
        }
    }

    /// The time of the attempt, which begins with the first question.
    pub fn now(&self) -> u64 {
        let now = self.now.get().unwrap_or_else(|| self.clock.now());
        self.now.set(Some(now));
        now
    }

    /// A record was read as being there.
    pub fn note(&mut self, lease: Lease, structure: u32, key: &[u8]) {
        let is_first = self.first.as_ref().is_none_or(|first| lease < first.lease);
        if is_first && lease != Lease::ENDLESS {
            self.first = Some(First {
                lease,
                structure,
                key: key.to_vec(),
            });
        }
    }

    /// What has expired since it was read: its structure, and its key.
    pub fn expired(&self) -> Option<(u32, &[u8])> {
        let first = self.first.as_ref()?;
        let is_over = first.lease.is_over(self.clock.now());
        (is_over && !planted(Fault::ExpiryUnseenByCommit)).then_some((first.structure, &first.key))
    }

    /// Another attempt begins.
    pub fn clear(&mut self) {
        self.now.set(None);
        self.first = None;
    }
}
