//! A table: rows in a slab, a primary index, further indexes.

pub mod handle;
pub mod index;
pub mod key_map;
#[cfg(all(test, feature = "planted-faults"))]
mod moves;
pub mod raw;
pub mod slab;
pub mod sweep;
pub mod undo;
