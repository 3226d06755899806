//! What a database remembers beside its pages, in parts: each has a state of its own, and keeps its rules.
//!
//! Invariant: no part knows the core that holds it.

#[cfg(feature = "backup")]
pub mod backups;
pub mod checkpoints;
pub mod definitions;
pub mod demotion;
pub mod drops;
pub mod expired;
pub mod fairness_lock;
#[cfg(feature = "backup")]
pub mod following;
pub mod heads;
pub mod loads;
pub mod opening;
pub mod pieces;
pub mod program;
pub mod reader;
pub mod rounds;
pub mod series;
pub mod transactions;
pub mod unlogged;
