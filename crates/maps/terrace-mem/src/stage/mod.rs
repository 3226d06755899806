//! Static stages: compact, read-only sequences of sorted keys, one file each behind one trait.
//!
//! A stage holds the keys of one segment and finds the rank of a key; the values lie beside it
//! in an array by rank. Which stage a segment gets is decided by `choose` or by the user.

mod bitmap;
mod bits;
mod buckets;
mod byte_stage;
mod choose;
mod compact;
#[cfg(feature = "compressed")]
mod compressed;
mod elias_fano;
mod fixed;
mod front_coded;
mod general;
mod int_stage;
mod nums;
#[cfg(feature = "pairs")]
pub mod pairs;
mod run;
mod s_tree;
mod sorted;

pub use crate::family::KeyRun;
pub use byte_stage::ByteStage;
pub use fixed::FixedBytes;
pub use int_stage::IntStage;
pub use run::ByteRun;

#[cfg(test)]
mod tests;
