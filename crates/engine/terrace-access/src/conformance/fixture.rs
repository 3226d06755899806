//! What the suite is given: access methods to be tested, each in a store.

use std::sync::Arc;

use terrace_base::{Error, Result};
use terrace_pages::PageStore;

use crate::{Attempt, LargeRef, Ordered, Retry, Sweep, Tier};

/// An access method in a store, and whatever must live as long as they do.
pub struct Subject<M> {
    /// The method under test; dropped first.
    pub method: M,
    /// The store it lies in.
    pub store: Arc<PageStore>,
    /// Kept alive: a cleaner thread, a disk.
    pub keep: Box<dyn std::any::Any + Send + Sync>,
}

/// Makes access methods to be tested.
pub trait Fixture: Sync {
    /// What is tested.
    type Method: Sweep + Tier;

    /// An empty one, in a store of its own with pages of this size and memory for `pages` of them.
    fn create(&self, page_bytes: usize, pages: usize) -> Result<Subject<Self::Method>>;

    /// Makes a checkpoint, closes the store, opens it again.
    fn reopen(&self, subject: Subject<Self::Method>) -> Result<Subject<Self::Method>>;

    /// Whether all pages stay in memory (a hot tier), so that a test must fit.
    fn resident(&self) -> bool;

    /// Longest inline value.
    fn max_inline(&self, page_bytes: usize) -> usize;

    /// Writes a large value; the caller holds the store's guard for them until it is linked.
    fn write_large(&self, store: &PageStore, value: &[u8]) -> Result<LargeRef>;

    /// Reads a large value; `Conflict` when the chain is not that any more.
    fn read_large(&self, store: &PageStore, large: LargeRef, out: &mut Vec<u8>) -> Attempt<()>;

    /// Frees a large value.
    fn free_large(&self, store: &PageStore, large: LargeRef) -> Result<()>;
}

/// The position of a key in a subject.
pub fn position<M: Ordered>(subject: &Subject<M>, key: &[u8]) -> Result<Vec<u8>> {
    settled(&subject.store, || {
        let mut place = Vec::new();
        Ok(subject.method.try_position(key, &mut place)?.to_vec())
    })
}

/// Runs an attempt to its end, doing the waiting between tries. Gives up after so many tries that
/// it must be going round in circles.
pub fn settled<T>(store: &PageStore, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
    for _ in 0..1_000_000 {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Retry::HotFull) => {
                return Err(Error::invalid("the test does not fit into its hot tier"));
            }
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
    Err(Error::invalid("an attempt never came to an end"))
}
