//! How the stages of a map are to be built: which of them, and what those of one map share. It knows no keys, so that
//! what a form of keys is can be said above it.

#[cfg(feature = "compressed")]
mod node_cache;
mod symbols;
mod which;

#[cfg(feature = "compressed")]
pub use node_cache::NodeCache;
pub use symbols::{LONGEST, Symbols, Training};
pub use which::Stage;

use alloc::sync::Arc;
use core::marker::PhantomData;

/// How the stages of a map are built, from runs of this type.
pub struct Plan<R> {
    /// The stage that was asked for.
    pub stage: Stage,
    /// Decompressed nodes of all segments, where leaves are compressed.
    #[cfg(feature = "compressed")]
    pub cache: Option<Arc<NodeCache<R>>>,
    /// What rests of byte strings are written in, if anything.
    pub symbols: Option<Arc<Symbols>>,
    /// Whether more keys are expected among those of a segment, so that room for them pays.
    pub grows: bool,
    runs: PhantomData<fn(&R)>,
}

impl<R> Plan<R> {
    /// A plan for this stage, without a cache of nodes.
    pub fn new(stage: Stage) -> Self {
        Plan {
            stage,
            #[cfg(feature = "compressed")]
            cache: None,
            symbols: None,
            grows: false,
            runs: PhantomData,
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
            runs: PhantomData,
        }
    }

    /// Bytes of the cache, of whose nodes each has this many on the heap.
    #[cfg_attr(
        not(feature = "compressed"),
        allow(unused_variables, reason = "there is no cache")
    )]
    pub fn cache_bytes(&self, heap: impl Fn(&R) -> usize) -> usize {
        #[cfg(feature = "compressed")]
        if let Some(cache) = &self.cache {
            return cache.bytes(heap);
        }
        0
    }
}
