//! What runs the workloads.

pub mod terrace;
