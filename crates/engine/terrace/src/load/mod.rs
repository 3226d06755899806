//! Loading many records at once: sorted first, then written in that order, straight to where records rest.
//!
//! One after the other and in any order, records take the way of all others: into the hot tier, and out of
//! it again. Sorted, they lie below in full pages, in the order of the keys, after one way.
//!
//! Invariants: of what is sorted nothing is written before the end is said, but for long values, which are
//! written when they are put; what is written is written as by [`crate::Map::put`], in batches of the same logging,
//! so a crash leaves of it what was logged, whole batches, from the lowest key on.

mod ahead;
mod buffer;
mod group;
mod loader;
mod merge;
mod record;
mod run_file;
mod sorter;
mod write;

pub use loader::Loader;
