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
#[cfg(feature = "compressed")]
mod compressed;
mod elias_fano;
mod fixed;
mod front_coded;
mod int_stage;
#[cfg(feature = "compressed")]
mod node_cache;
mod nums;
mod run;
mod s_tree;
#[cfg(feature = "pairs")]
mod towers;
#[cfg(feature = "pairs")]
mod trie;

pub use byte_stage::ByteStage;
pub use choose::Stage;
pub use fixed::{FixedBytes, FixedKeys};
pub use front_coded::{Symbols, Training};
pub use int_stage::IntStage;
#[cfg(feature = "compressed")]
pub use node_cache::NodeCache;
pub use run::{ByteRun, KeyRun};
#[cfg(feature = "pairs")]
pub use trie::{ON, word};

use crate::family::Family;
use alloc::sync::Arc;
use core::marker::PhantomData;

/// How the stages of a map are built.
pub struct Plan<F: Family> {
    /// The stage that was asked for.
    pub stage: Stage,
    /// Decompressed nodes of all segments, where leaves are compressed.
    #[cfg(feature = "compressed")]
    pub cache: Option<Arc<NodeCache<F>>>,
    /// What rests of byte strings are written in, if anything.
    pub symbols: Option<Arc<Symbols>>,
    /// Whether more keys are expected among those of a segment, so that room for them pays.
    pub grows: bool,
    keys: PhantomData<fn() -> F>,
}

impl<F: Family> Plan<F> {
    /// A plan for this stage, without a cache of nodes.
    pub fn new(stage: Stage) -> Self {
        Plan {
            stage,
            #[cfg(feature = "compressed")]
            cache: None,
            symbols: None,
            grows: false,
            keys: PhantomData,
        }
    }

    /// The plan for segments that are expected to grow.
    pub fn growing(&self) -> Self {
        Plan {
            stage: self.stage,
            #[cfg(feature = "compressed")]
            cache: self.cache.clone(),
            symbols: self.symbols.clone(),
            grows: true,
            keys: PhantomData,
        }
    }

    /// Bytes of the cache.
    pub fn cache_bytes(&self) -> usize {
        #[cfg(feature = "compressed")]
        if let Some(cache) = &self.cache {
            return cache.bytes();
        }
        0
    }
}

#[cfg(test)]
mod tests;
