//! The page store: pages of one size in a bounded pool of frames over one data file.
//!
//! Pages have numbers, not places; they are never overwritten in place; a checkpoint is a consistent
//! cut of all of them. See ARCHITECTURE.md, "The page store".

mod build;
mod checkpoints;
mod cleaner;
mod disk;
mod enter;
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
mod faults;
mod frames;
mod images;
pub mod map;
mod open;
mod pager;
mod parts;
mod store;
#[cfg(all(test, not(feature = "shuttle")))]
mod testing;

pub use build::{Build, StoreBuilder};
pub use checkpoints::checkpoint::CheckpointReport;
pub use cleaner::Cleaner;
pub use disk::space::SpaceSeen;
pub use enter::panics::Watch;
pub use enter::retry::{Attempt, Retry};
pub use enter::write_guard::WriteGuard;
#[cfg(feature = "planted-faults")]
pub use faults::{Hook, Planted, Point, hook, is_inside, panic_after, plant};
pub use frames::frame::Class;
pub use frames::guard::{Exclusive, Optimistic, Shared, Ticket};
pub use frames::page::{PAGE_HEADER_BYTES, check_page};
pub use frames::prefetch::prefetch;
pub use frames::stats::{PagesLeft, StoreStats};
pub use frames::stay::Staying;
pub use frames::view::{Torn, View};
pub use images::pin::{ImagePage, PinnedImage};
pub use map::superblock::{HOT_IN_MEMORY, LEARNT_BYTES, NEWEST_VERSION, UNLOGGED_IN_MEMORY};
pub use open::Presence;
pub use parts::cause::{Because, Cause};
pub use parts::data_file::DATA_FILE;
pub use parts::durable::CheckpointMeta;
pub use parts::large::LargeGuard;
pub use parts::options::{MIN_FRAMES, PAGE_SIZES, StoreOptions, WHOLE_SHARE};
pub use parts::pace::Pace;
pub use parts::pinned::PinState;
pub use parts::space_quota::{Space, SpaceQuota};
pub use parts::space_reservations::{SavedPart, SavingMark};
pub use store::PageStore;
