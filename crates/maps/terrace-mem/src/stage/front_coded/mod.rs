//! Front-coded blocks for byte strings: what a key shares with the one before is not stored.
//!
//! The prefix that all keys share is stored once; keys below are without it. A block has 20 keys
//! when it is built, more in segments of more than 5120, and gets more by merges: how much each shares
//! with its predecessor (none for the first), how long its rest is; then the rests. A search in a block compares rests with what is
//! left of the key, and only those of keys that share as much as the key does so far, so it puts
//! nothing together.
//!
//! Two ways lead to a block. A lookup of one key asks a table of hashes, which names the block of
//! each key: one cache line. A search for a place goes over heads: 16 blocks are a group, and the
//! first eight bytes of each block's first key, less what all keys of the group share, are its
//! head. Above the groups are heads of 16 bytes. Whole first keys are looked at only among those
//! with equal heads.

mod block;
mod build;
mod coded;
mod heads;
mod merge;
mod patch;
mod table;
#[cfg(test)]
mod tests;

pub use build::room_for;
pub use coded::{BLOCK, FrontCoded, FrontCursor};
