//! What runs the workloads.

pub mod rows;
pub mod terrace;
