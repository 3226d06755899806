//! Trees whose nodes lie in two memories: a B+tree, an adaptive radix tree and a Masstree, under one
//! directory of parts, and one engine.

mod art;
mod b_tree;
mod check;
mod common;
mod core;
mod keys;
mod kind;
mod map;
mod masstree;
mod nodes;
mod part;
mod range;
mod seat;
#[cfg(not(feature = "shuttle"))]
mod thread;

pub use art::{Art, ArtKey};
pub use b_tree::BTree;
pub use kind::{Kind, Sought};
pub use map::PlacedTree;
pub use masstree::Masstree;
pub use nodes::{INNER, LEAF};
pub use range::Range;
#[cfg(not(feature = "shuttle"))]
pub use thread::Worker;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
