//! Why an attempt inside the store stopped, and how to start it over.
//!
//! Nothing that holds a latch, a lock or the gate ever waits for a disk, for space or for memory.
//! So every operation is written as an *attempt* that may answer [`Retry`]; whoever runs it has
//! then let go of everything, does the waiting, and starts over. [`crate::PageStore::settle`] does
//! the waiting.

use terrace_base::{Error, PageId};

/// What stopped an attempt.
#[derive(Clone, Debug)]
pub enum Retry {
    /// This page is not in memory; fault it in and start over.
    Miss(PageId),
    /// Another thread changed, or holds, what was looked at; start over.
    Conflict,
    /// There was no free frame for a new page; wait for the cleaner and start over.
    NoFrame,
    /// The hot tier is at its cap; make room (demote) and start over.
    HotFull,
    /// It failed; starting over would not help.
    Fail(Error),
}

/// The answer of an attempt.
pub type Attempt<T> = Result<T, Retry>;

impl From<Error> for Retry {
    fn from(e: Error) -> Self {
        Retry::Fail(e)
    }
}
