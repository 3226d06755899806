//! Several changes, over any structures of a database, as one.

mod changes;
mod expiring;
pub mod merges;
pub(crate) mod staged;
pub mod standing;
mod write;
mod wrote;

pub use changes::{Batch, MAX_BATCH_OPERATIONS, Mark};
pub use wrote::Wrote;
