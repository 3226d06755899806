//! Fast and slow memory: what a machine has of it, and structures whose parts lie where they are
//! used most.
//!
//! Servers have memory behind CXL, of another socket, or of old persistent modules: larger and
//! cheaper than what lies next to the processor, and two to four times slower. [`PlacedTree`] is
//! an ordered map whose nodes move between two such memories. Underneath are pieces that know no
//! tree: [`Memory`], [`Pool`] (slots with the memory in their address), [`Heat`] (one byte a
//! node), [`Budget`], policies, and an [`Engine`] that works in bounded steps.
//!
//! The system of the paper is that of H. Zhao and others, "Optimizing Tree-structure Indexes for
//! CXL-based Heterogeneous Memory with SINLK"; its policy is [`SinlkPolicy`], and the one that is
//! used by default is [`HeatPolicy`].
//!
//! ```
//! use terrace_place::{Placement, PlacedTree};
//!
//! let tree = PlacedTree::new(Placement::detect().fast_bytes(1 << 30))?;
//! tree.insert("ada", 1815)?;
//! assert_eq!(tree.get(&"ada"), Some(1815));
//! println!("{}", tree.placement());
//! # Ok::<(), terrace_place::PlacementError>(())
//! ```

mod arena;
mod block;
mod budget;
pub mod detect;
pub mod doctor;
mod engine;
mod error;
mod faults;
mod heat;
mod id;
mod memory;
mod model;
mod placed;
mod placement;
mod policy;
mod stats;
mod sync;
mod tree;

pub use arena::{Pool, Slot, Vacant};
pub use block::{Block, Store};
pub use budget::{Budget, Limit};
pub use engine::{Engine, Stepped, Steps, World};
pub use error::PlacementError;
pub use faults::Fault;
#[cfg(feature = "planted-faults")]
pub use faults::plant;
pub use heat::{
    BINS, CHUNK, Heat, Histogram, INNER_WEIGHT, Noting, Sampling, ShiftDetector, Slice, Threshold,
    Ticker, bin,
};
pub use id::{CLASSES, MAX_SLOTS, NodeId, Tier};
pub use memory::{Memory, node_of};
pub use model::{Model, Plain};
pub use placed::{Outcome, Parts, Path, Placed, Seen};
pub use placement::Placement;
pub use policy::{
    Birth, Births, Fixed, HeatPolicy, Node, Order, Policy, SinlkPolicy, Techniques, Verdict, View,
};
pub use stats::{Counters, PlacementStats};
#[cfg(not(feature = "shuttle"))]
pub use tree::Worker;
pub use tree::{Art, ArtKey, BTree, INNER, Kind, LEAF, Masstree, PlacedTree, Range, Sought};

/// Takes a lock of `std`, which the scheduler of tests does not see: nothing waits under it.
pub(crate) fn sync_std<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
