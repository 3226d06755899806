//! Why an attempt inside the store stopped, and how to start it over.
//!
//! Nothing that holds a latch, a lock or the gate ever waits for a disk, for space or for memory.
//! So every operation is written as an *attempt* that may answer [`Interrupt`]; whoever runs it has
//! then let go of everything, does the waiting, and starts over. [`crate::PageStore::settle`] does
//! the waiting.

use terrace_base::{Error, PageId};

use crate::frames::view::Torn;

/// What stopped an attempt.
#[derive(Clone, Debug)]
pub enum Interrupt {
    /// This page is not in memory; fault it in and start over.
    Miss(PageId),
    /// Somebody else changed, or holds, what was looked at; start over.
    Conflict,
    /// There was no free frame for a new page; wait for the cleaner and start over.
    NoFrame,
    /// The hot tier is at its cap; make room (demote) and start over.
    HotFull,
    /// It failed; starting over would not help.
    Fail(Error),
}

/// The answer of an attempt.
pub type Attempt<T> = Result<T, Interrupt>;

impl From<Error> for Interrupt {
    fn from(e: Error) -> Self {
        Interrupt::Fail(e)
    }
}

/// Under an optimistic guard garbage means "changed meanwhile" until validation says otherwise.
impl From<Torn> for Interrupt {
    fn from(_: Torn) -> Self {
        Interrupt::Conflict
    }
}
