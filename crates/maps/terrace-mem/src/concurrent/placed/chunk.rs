//! Pieces of the table of copies: where they lie, and what they count for as long as they are there.

use super::set::Set;
use crate::home::{Block, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Sum, Ordering};

/// Sets of copies.
pub struct Chunk {
    pub sets: Block<Set>,
    _counted: Counted,
}

/// Bytes that are counted for as long as this lives.
pub struct Counted {
    live: Arc<Sum>,
    bytes: u64,
}

impl Counted {
    pub fn new(live: &Arc<Sum>, bytes: usize) -> Self {
        let (live, bytes) = (Arc::clone(live), bytes as u64);
        live.fetch_add(bytes, Ordering::Relaxed);
        Counted { live, bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Chunk {
    /// A chunk without copies; none where the memory is refused.
    pub fn new(sets: usize, home: &Home) -> Option<Self> {
        let sets = (0..sets).map(|_| Set::default());
        let sets: Block<Set> = match &home.store {
            None => sets.collect(),
            Some(store) => store.keep(sets.collect::<Vec<_>>()).ok()?,
        };
        let bytes = sets.footprint();
        Some(Chunk {
            sets,
            _counted: Counted::new(&home.live, bytes),
        })
    }
}

/// Where chunks lie, and where their bytes are counted.
pub struct Home {
    /// None is the heap.
    pub store: Option<Store>,
    pub live: Arc<Sum>,
}
