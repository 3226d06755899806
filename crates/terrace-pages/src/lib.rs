//! The page store: pages of one size in a bounded pool of frames over one data file.
//!
//! Pages have numbers, not places; they are never overwritten in place; a checkpoint is a consistent
//! cut of all of them. See ARCHITECTURE.md, "The page store".

mod ahead;
mod allocate;
mod blocks;
mod buffers;
mod build;
mod cause;
mod checkpoint;
mod cleaner;
mod counters;
mod cut;
mod data_file;
mod door;
mod durable;
mod fault;
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
mod faults;
mod find;
mod frame;
mod gate;
mod ghosts;
mod guard;
mod halt;
mod health;
mod image;
mod interrupt;
mod kept;
mod large;
mod latch;
mod lending;
pub mod map;
mod open;
mod options;
mod pace;
mod page;
mod pause;
mod pin;
mod pinned;
mod prefetch;
mod promise;
mod quota;
mod region;
mod replace;
mod signals;
mod source;
mod space;
mod stats;
mod stay;
mod store;
mod table;
mod undo;
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
pub use large::LargeGuard;
pub use map::superblock::LEARNT_BYTES;
pub use open::Presence;
pub use options::{MIN_FRAMES, PAGE_SIZES, StoreOptions, WHOLE_SHARE};
pub use pace::Pace;
pub use page::{PAGE_HEADER_BYTES, check_page};
pub use pin::{ImagePage, PinnedImage};
pub use pinned::PinState;
pub use prefetch::prefetch;
pub use promise::{Promise, Space};
pub use space::SpaceSeen;
pub use stats::StoreStats;
pub use stay::Staying;
pub use store::PageStore;
pub use view::{Torn, View};
