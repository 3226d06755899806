//! Static stages: compact, read-only sequences of sorted keys, one file each behind one trait.
//!
//! A stage holds the keys of one segment and finds the rank of a key; the values lie beside it
//! in an array by rank. Which stage a segment gets is decided by [`choose`] or by the user.

mod bitmap;
mod bits;
mod buckets;
mod byte_stage;
mod choose;
mod compact;
mod compressed;
mod elias_fano;
mod front_coded;
mod int_stage;
mod node_cache;
mod run;
mod s_tree;
#[cfg(feature = "pairs")]
mod trie;

pub use byte_stage::ByteStage;
pub use choose::Stage;
pub use int_stage::IntStage;
pub use node_cache::NodeCache;
pub use run::{ByteRun, KeyRun};
#[cfg(feature = "pairs")]
pub use trie::{ON, word};

use crate::family::Family;
use std::sync::Arc;

/// How the stages of a map are built.
pub struct Plan<F: Family> {
    /// The stage that was asked for.
    pub stage: Stage,
    /// Decompressed nodes of all segments, where leaves are compressed.
    pub cache: Option<Arc<NodeCache<F>>>,
    /// Whether more keys are expected among those of a segment, so that room for them pays.
    pub grows: bool,
}

impl<F: Family> Plan<F> {
    /// The plan for segments that are expected to grow.
    pub fn growing(&self) -> Self {
        Plan {
            stage: self.stage,
            cache: self.cache.clone(),
            grows: true,
        }
    }
}

#[cfg(test)]
mod tests;
