//! Writing: one record, and batches of changes.

pub mod batch;
mod calls;
pub mod expected;
pub mod one;
pub mod rows;
mod with_range;
