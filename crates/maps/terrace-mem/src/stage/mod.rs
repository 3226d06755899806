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
mod int_stage;
#[cfg(feature = "compressed")]
mod node_cache;
mod nums;
#[cfg(feature = "pairs")]
mod plain;
mod plan;
mod run;
mod s_tree;
#[cfg(feature = "pairs")]
mod towers;
#[cfg(feature = "pairs")]
mod trie;
mod which;

pub use crate::family::KeyRun;
pub use byte_stage::ByteStage;
pub use fixed::FixedBytes;
pub use front_coded::Training;
pub use int_stage::IntStage;
#[cfg(feature = "compressed")]
pub use node_cache::NodeCache;
#[cfg(feature = "pairs")]
pub use plain::PlainKeys;
pub use plan::Plan;
pub use run::ByteRun;
#[cfg(feature = "pairs")]
pub use trie::{ON, word};
pub use which::Stage;

#[cfg(test)]
mod tests;
