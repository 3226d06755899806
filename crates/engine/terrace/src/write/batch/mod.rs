//! Several changes, over any structures of a database, as one.

mod changes;
mod expiring;
pub mod merges;
pub(crate) mod staged;
pub mod standing;
mod write;

pub use changes::{Batch, MAX_BATCH_OPERATIONS, Mark};
