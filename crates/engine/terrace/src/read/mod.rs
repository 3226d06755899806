//! Reading many records together.

pub mod leased;
pub mod many;
