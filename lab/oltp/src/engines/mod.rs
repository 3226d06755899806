//! What runs the workloads.

pub mod anti;
pub mod rows;
pub mod terrace;
