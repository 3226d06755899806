//! The access methods, one tier each. All have the same skeleton of files: layout, search, insert,
//! remove, split, scan, sweep, verify, as far as it applies.

#![forbid(unsafe_code)]
// A closure's type is written where it is called, with its parameters in sight: an alias would hide
// the lifetimes that matter.
#![allow(clippy::type_complexity)]

pub mod btree;
#[cfg(any(test, feature = "planted-faults"))]
pub mod fault;
#[cfg(not(any(test, feature = "planted-faults")))]
mod fault;
pub mod hash;
pub mod heap;
pub mod lsm;
mod slotted;
mod unreadable;

/// Load of a page of records that will hardly grow: the rest is for values that become longer.
const FULL: f64 = 0.95;

pub use btree::BTree;
pub use hash::{Apart, HashTable};
pub use heap::Heap;
pub use lsm::Lsm;
pub(crate) use terrace_access::overflow;

#[cfg(test)]
mod tests;
