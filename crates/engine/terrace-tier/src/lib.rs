//! The two-tier composition: every access method split in a small hot structure that fills memory
//! with hot records, and a cold one that holds the rest.
//!
//! One generic piece of code for all methods; see ARCHITECTURE.md, "Two tiers, once", for the rules.

#![forbid(unsafe_code)]

#[cfg(feature = "paper")]
pub mod bilsm;
mod context;
mod counter;
mod demoter;
mod estimate;
mod events;
mod expires;
#[cfg(feature = "planted-faults")]
pub mod fault;
#[cfg(not(feature = "planted-faults"))]
#[allow(dead_code, reason = "named where they would be planted")]
mod fault;
mod hot_tiers;
mod index_share;
mod locks;
mod merging;
mod method;
mod one_record;
pub mod policy;
mod random;
mod runs;
mod severed;
mod share;
mod single;
mod sketch;
mod structure;
mod tiered;
mod value;
mod wake;
mod watch;
mod write_reservation;

pub use context::TierContext;
pub use demoter::Demoter;
pub use events::TierStats;
pub use locks::{Content, LockTable, RecordLock, Version};
pub use severed::Severed;
pub use single::Single;
pub use structure::{Change, Estimate, Expect, Missing, Roots, Saving, Structure, Written};
pub use terrace_base::Counter;
pub use tiered::{OnHotRoot, TierOptions, Tiered};
pub use watch::{Watch, Watches};
pub use write_reservation::WriteReservation;
