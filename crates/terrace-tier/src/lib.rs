//! The two-tier composition: every access method split in a small hot structure that fills memory
//! with hot records, and a cold one that holds the rest.
//!
//! One generic piece of code for all methods; see ARCHITECTURE.md, "Two tiers, once", for the rules.

#![forbid(unsafe_code)]

mod context;
mod counter;
mod demoter;
mod locks;
mod migrate;
pub mod policy;
mod random;
mod room;
mod scan;
mod single;
mod structure;
mod sweep;
mod tiered;
mod value;
mod verify;

pub use context::{Rooted, TierContext};
pub use counter::Counter;
pub use demoter::Demoter;
pub use locks::{LockTable, RecordLock, Version};
pub use single::Single;
pub use structure::{Change, Roots, Structure, TierStats};
pub use tiered::{OnHotRoot, TierOptions, Tiered};
