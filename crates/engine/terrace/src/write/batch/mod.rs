//! Several changes, over any structures of a database, as one.

mod bounds;
mod changes;
mod expiring;
pub mod merges;
mod range;
pub(crate) mod staged;
pub mod standing;
mod write;
mod wrote;

pub use changes::{Batch, MAX_BATCH_OPERATIONS, Mark};
pub use wrote::Wrote;
