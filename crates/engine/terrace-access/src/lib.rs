//! The traits that every access method implements, large values, and the conformance suite that each must pass.
//!
//! An access method is one tier: a structure of pages that finds records by key. The two-tier
//! composition stands on these traits alone and knows no method by name.

#![forbid(unsafe_code)]
// A closure's type is written where it is called, with its parameters in sight: an alias would hide
// the lifetimes that matter.
#![allow(clippy::type_complexity)]

mod capabilities;
#[cfg(feature = "conformance")]
pub mod conformance;
mod expiry;
mod flags;
mod merging;
mod method;
mod ordered;
pub mod overflow;
mod record;
mod rooted;
mod window;

pub use capabilities::Capabilities;
pub use expiry::{DroppedBy, Expiry};
pub use flags::Flags;
pub use merging::{LevelFigures, MergeFigures, Merging, Waits};
pub use method::{AccessMethod, Applied, NoRoom, Plan, Rising, Room, Scattered, Touch};
pub use ordered::{
    InStorage, Neighbours, Ordered, PreparedDelete, RangeDeletes, Runs, Sampled, StoragePlace,
    StoredScan, Sweep,
};
pub use record::{Found, LargeRef, RecordPage, Value};
pub use rooted::{Rooted, Tier};
pub use window::{Edge, Entry, Window};

pub use terrace_pages::{Attempt, Retry, WriteGuard};
