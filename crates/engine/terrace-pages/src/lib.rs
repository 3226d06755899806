//! The page store: pages of one size in a bounded pool of frames over one data file.
//!
//! Pages have numbers, not places; they are never overwritten in place; a checkpoint is a consistent
//! cut of all of them. See ARCHITECTURE.md, "The page store".

mod build;
mod checkpoints;
mod disk;
mod enter;
mod evict;
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
mod faults;
mod frames;
pub mod map;
mod open;
mod options;
mod parts;
mod stats;
mod store;
mod table;
mod verify;

pub use build::{Build, StoreBuilder};
pub use checkpoints::checkpoint::{CheckpointReport, CutInfo};
pub use checkpoints::pin::{ImagePage, PinnedImage};
pub use disk::data_file::DATA_FILE;
pub use disk::space::SpaceSeen;
pub use enter::door::Door;
pub use enter::halt::Watch;
pub use enter::interrupt::{Attempt, Interrupt};
pub use evict::cleaner::Cleaner;
pub use evict::stay::Staying;
#[cfg(feature = "planted-faults")]
pub use faults::{Hook, Planted, Point, hook, is_inside, panic_after, plant};
pub use frames::cause::{Because, Cause};
pub use frames::frame::Class;
pub use frames::guard::{Exclusive, Optimistic, Shared, Ticket};
pub use frames::page::{PAGE_HEADER_BYTES, check_page};
pub use frames::prefetch::prefetch;
pub use frames::view::{Torn, View};
pub use map::superblock::LEARNT_BYTES;
pub use open::Presence;
pub use options::{MIN_FRAMES, PAGE_SIZES, StoreOptions, WHOLE_SHARE};
pub use parts::large::LargeGuard;
pub use parts::pace::Pace;
pub use parts::pinned::PinState;
pub use parts::promise::{Promise, Space};
pub use stats::StoreStats;
pub use store::PageStore;
