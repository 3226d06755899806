//! Compact tries (sections 4.2 and 4.3): the nodes of a segment in one string of bytes, each as long as
//! what it has, children named by rank or place, and what only one key has apart.
//!
//! One form with two steps: [`Radix`] goes on by a byte, which is the compact ART; [`Words`] by seven
//! bytes, which is the compact Masstree: each layer is a flat array of words, searched by halving. A
//! node is
//!
//! ```text
//! flags, children - 1, length of prefix, prefix, labels in order, references
//! ```
//!
//! where a reference has two bytes, or four in a long segment: the rank of a key, or the place of a
//! node. Below a node without other nodes all ranks follow each other, so it has the first alone. A
//! node with a child for each byte has no labels.
//!
//! Nothing is recursive: a trie is as deep as its keys are long.

mod build;
mod cursor;
mod ints;
mod merge;
mod nodes;
mod stage;
mod step;
#[cfg(test)]
mod tests;

pub use nodes::Trie;
pub use step::{ON, Radix, Words, word};
