//! A B+tree whose nodes lie in two memories: the first structure over this crate's arena.

mod check;
mod map;
mod nodes;
mod part;
mod range;
mod seat;
#[cfg(not(feature = "shuttle"))]
mod thread;

pub use map::PlacedTree;
pub use nodes::{INNER, LEAF};
pub use range::Range;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
