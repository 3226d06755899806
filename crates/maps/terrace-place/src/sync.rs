//! The primitives of latches and threads: those of `std`, or those of a randomised scheduler.

#[cfg(not(feature = "shuttle"))]
pub use std::sync::{Arc, Mutex, RwLock};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Arc, Mutex, RwLock};

/// Takes a lock of `std` or of the scheduler. A thread that panicked under it has left no node
/// half changed: user code runs only where nothing is.
pub fn whole<G>(result: Result<G, std::sync::PoisonError<G>>) -> G {
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}
