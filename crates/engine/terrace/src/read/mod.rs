//! Reading many records together.

pub mod many;
