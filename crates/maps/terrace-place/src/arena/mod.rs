//! Slots for nodes in two memories, with the memory in the address.

mod free;
mod pool;

pub use pool::{Pool, Slot, Vacant};
