//! The page store: pages of one size in a bounded pool of frames over one data file.
//!
//! Pages have numbers, not places; they are never overwritten in place; a checkpoint is a consistent
//! cut of all of them. See ARCHITECTURE.md, "The page store".

mod ahead;
mod allocate;
mod blocks;
mod build;
mod cause;
mod checkpoint;
mod cleaner;
mod data_file;
mod door;
mod fault;
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
mod faults;
mod find;
mod frame;
mod guard;
mod halt;
mod image;
mod interrupt;
mod latch;
mod lending;
pub mod map;
mod open;
mod options;
mod page;
mod parts;
mod pause;
mod pin;
mod prefetch;
mod quota;
mod region;
mod replace;
mod space;
mod stats;
mod stay;
mod store;
mod table;
mod verify;
mod view;
mod words;
mod write;

pub use build::{Build, StoreBuilder};
pub use cause::{Because, Cause};
pub use checkpoint::{CheckpointReport, CutInfo};
pub use cleaner::Cleaner;
pub use data_file::DATA_FILE;
pub use door::Door;
#[cfg(feature = "planted-faults")]
pub use faults::{Hook, Planted, Point, hook, is_inside, panic_after, plant};
pub use frame::Class;
pub use guard::{Exclusive, Optimistic, Shared, Ticket};
pub use halt::Watch;
pub use interrupt::{Attempt, Interrupt};
pub use map::superblock::LEARNT_BYTES;
pub use open::Presence;
pub use options::{MIN_FRAMES, PAGE_SIZES, StoreOptions, WHOLE_SHARE};
pub use page::{PAGE_HEADER_BYTES, check_page};
pub use parts::large::LargeGuard;
pub use parts::pace::Pace;
pub use parts::pinned::PinState;
pub use parts::promise::{Promise, Space};
pub use pin::{ImagePage, PinnedImage};
pub use prefetch::prefetch;
pub use space::SpaceSeen;
pub use stats::StoreStats;
pub use stay::Staying;
pub use store::PageStore;
pub use view::{Torn, View};
