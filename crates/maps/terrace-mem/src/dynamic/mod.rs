//! The dynamic stage: an ordered structure that takes all writes, behind one trait.
//!
//! Which structure it is a map's [`Pair`](crate::Pair) says: [`Any`] is one of them. While it is small it
//! is two arrays, then a B+tree, whatever the pair: nothing else takes as few bytes. What always holds
//! of the B+tree: all leaves lie equally deep; an inner node has one child more than
//! separators; every key of child `i` is at least separator `i - 1` and less than separator `i`;
//! no node but an empty root is empty. Nodes that run empty are freed, others are not rebalanced:
//! the merge empties whole ranges soon.

mod any;
mod byte_keys;
#[cfg(test)]
mod conformance;
mod few;
mod int_keys;
mod node;
mod numbers;
#[cfg(feature = "pairs")]
pub mod pairs;
mod pos;
mod tree;

pub use crate::family::NodeKeys;
pub use any::{Any, AnyPos};
pub use byte_keys::ByteKeys;
pub use int_keys::IntKeys;
pub use node::{CAP, FANOUT};
