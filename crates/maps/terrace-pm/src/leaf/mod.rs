//! Leaves: what they look like, how buffered pairs come into them, and how two become one.

mod drain;
mod layout;
mod merge;
mod order;

pub use drain::{Drained, Incoming, Ready, begin, compare, fence_phase, switch};
pub use layout::{Leaf, write_new};
pub use merge::merge;
pub use order::Few;
