//! The dynamic stage: an ordered structure that takes all writes, behind one trait.
//!
//! Which structure it is a map's [`Pair`](crate::Pair) says: [`Any`] is one of them. While it is small it
//! is two arrays, then a B+tree, whatever the pair: nothing else takes as few bytes. What always holds
//! of the B+tree: all leaves lie equally deep; an inner node has one child more than
//! separators; every key of child `i` is at least separator `i - 1` and less than separator `i`;
//! no node but an empty root is empty. Nodes that run empty are freed, others are not rebalanced:
//! the merge empties whole ranges soon.

mod any;
#[cfg(feature = "pairs")]
mod art;
mod byte_keys;
#[cfg(test)]
mod conformance;
mod few;
mod int_keys;
#[cfg(feature = "pairs")]
mod masstree;
mod node;
mod numbers;
mod pos;
#[cfg(feature = "pairs")]
mod skip_list;
#[cfg(feature = "pairs")]
mod slab;
mod tree;
#[cfg(feature = "pairs")]
mod whole;

pub use any::{Any, AnyPos};
pub use byte_keys::ByteKeys;
pub use int_keys::IntKeys;
pub use node::{CAP, FANOUT};
#[cfg(feature = "pairs")]
pub use whole::{Classes, Inline, WholeKeys};

use crate::family::Family;

/// The sorted keys of one node: [`CAP`] of a leaf at most, [`FANOUT`] of an inner one.
pub trait NodeKeys<F: Family>: Default + Send + Sync {
    /// How many keys there are.
    fn len(&self) -> usize;
    /// Key `i`.
    fn get(&self, i: usize) -> F::Ref<'_>;
    /// How many keys are smaller than `probe`.
    fn lower_bound(&self, probe: F::Ref<'_>) -> usize;
    /// How many keys are at most `probe`.
    fn upper_bound(&self, probe: F::Ref<'_>) -> usize;
    /// Where `probe` is, or where it would be.
    fn find(&self, probe: F::Ref<'_>) -> Result<usize, usize>;
    /// Asks for lines beside the node itself that an insert will change.
    fn warm(&self) {}
    /// Puts `key` at `i`; the node must not be full.
    fn insert(&mut self, i: usize, key: F::Ref<'_>);
    /// Takes out the keys `from..to`.
    fn remove(&mut self, from: usize, to: usize);
    /// Moves the keys from `at` on into a node of their own.
    fn split_off(&mut self, at: usize) -> Self;
    /// Bytes of the keys `from..to`.
    fn bytes(&self, from: usize, to: usize) -> usize;
    /// Bytes on the heap beside the node itself.
    fn heap(&self) -> usize;
    /// Whether the node must be split before it takes one more key.
    fn is_full(&self) -> bool;
}
