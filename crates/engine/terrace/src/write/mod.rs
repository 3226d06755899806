//! Writing: one record, and batches of changes.

pub mod batch;
pub mod one;
