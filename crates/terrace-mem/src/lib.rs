//! Ordered in-memory maps in two stages: a small dynamic one that takes all writes, and a
//! compact static one that holds most entries.
//!
//! [`HybridMap`] is used like a `BTreeMap` and takes about half its bytes: the keys of most
//! entries are in Elias-Fano or front-coded form, and their values in full arrays. Entries move
//! between the stages by merging one segment at a time, so no operation waits long.
//!
//! The design is the hybrid index of H. Zhang and others, "Reducing the Storage Overhead of
//! Main-Memory OLTP Databases with Hybrid Indexes", SIGMOD 2016; "section" in this crate means
//! a section of that paper.
//!
//! ```
//! use terrace_mem::HybridMap;
//!
//! let mut map = HybridMap::new();
//! for i in 0..10_000u64 {
//!     map.insert(i * i, i);
//! }
//! assert_eq!(map.get(&1_000_000), Some(&1000));
//! assert_eq!(map.range(50..100).count(), 2);
//! ```

mod bloom;
mod concurrent;
mod dynamic;
mod error;
mod family;
mod faults;
mod home;
mod key;
mod lows;
mod map;
mod multi;
mod options;
mod pair;
#[cfg(feature = "place")]
pub mod place;
#[cfg(not(feature = "place"))]
#[path = "no_place.rs"]
mod place;
mod segment;
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
pub use set::{Combined, HybridSet};
pub use stage::Stage;
pub use usage::MemoryUsage;
