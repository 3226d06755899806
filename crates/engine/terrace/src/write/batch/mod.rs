//! Several changes, over any structures of a database, as one.

mod changes;
pub mod merges;
mod staged;
pub mod standing;
mod write;
mod wrote;

pub use changes::{Batch, MAX_BATCH_OPERATIONS, Mark};
pub use wrote::Wrote;
