//! Ordered maps in memory, in two stages.
//!
#![doc = include_str!("../README.md")]
//!
//! "Section" in this crate means a section of that paper.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod bloom;
#[cfg(feature = "concurrent")]
mod concurrent;
mod dynamic;
mod error;
mod families;
mod family;
mod faults;
mod fences;
mod home;
mod key;
mod map;
mod multi;
mod options;
mod pair;
#[cfg(feature = "place")]
pub mod place;
#[cfg(feature = "pairs")]
mod plain;
mod plan;
mod prefix;
mod search;
mod segment;
mod segments;
#[cfg(feature = "serde")]
mod serde;
mod set;
mod shortcuts;
mod simd;
mod slots;
mod stage;
mod sync;
mod two_stage;
mod usage;

#[cfg(feature = "concurrent")]
pub use concurrent::{ConcurrentHybridMap, ConcurrentIter};
pub use error::{KeyTooLong, OptionsError};
pub use family::{ByteFamily, Family, IntFamily};
#[cfg(feature = "planted-faults")]
pub use faults::{Fault, plant};
pub use key::{IndexKey, KeyPart, MAX_KEY_LEN, Probe};
pub use map::{
    Cursor, Entry, ExtractIf, HybridMap, IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys,
    OccupiedEntry, VacantEntry, Values, ValuesMut,
};
pub use multi::{HybridMultiMap, Lists};
pub use options::{Merging, Options, Trigger, Updates, What};
pub use pair::Pair;
pub use plan::Stage;
pub use set::{Combined, HybridSet};
pub use usage::MemoryUsage;
