//! Pieces of the table of copies: where they lie, and what they count for as long as they are there.

use super::set::{Set, Shape};
use crate::home::{Block, Store};
use crate::sync::atomic::AtomicU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Sum, Ordering};

/// Sets of copies, and prints of keys that have none.
pub struct Chunk {
    pub sets: Block<Set>,
    /// Prints of keys that were missed.
    pub ghosts: Block<AtomicU16>,
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
    pub fn new(sets: usize, shape: Shape, home: &Home) -> Option<Self> {
        let ghosts = (0..sets * shape.per_set).map(|_| AtomicU16::new(0));
        let sets = (0..sets).map(|_| Set::default());
        let (sets, ghosts) = match &home.store {
            None => (sets.collect(), ghosts.collect()),
            Some(store) => {
                let sets = store.keep(sets.collect::<Vec<_>>()).ok()?;
                (sets, store.keep(ghosts.collect::<Vec<_>>()).ok()?)
            }
        };
        let bytes = sets.footprint() + ghosts.footprint();
        Some(Chunk {
            sets,
            ghosts,
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
