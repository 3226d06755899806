//! The page map: where every page lies, in the last checkpoint, in the one in progress and since.
//!
//! A pure state machine and the codecs of what it leaves on disk; no I/O, no locks, no hash maps.
//! The newest [`Place`] of every page is kept by the caller, in one word a page; the map keeps
//! what those words hide, and which slots are free. See `docs/format-data.md` for the files.

mod changes;
mod checkpoint;
pub mod map_file;
mod map_reader;
mod page_map;
mod pinning;
mod pins;
mod place;
mod rebuild;
mod slots;
pub mod superblock;
#[cfg(test)]
mod tests;

pub use checkpoint::{DeltaCursor, FoldCursor};
pub use map_file::{MapFile, MapWriter, base_bytes, journal_bytes, should_fold};
pub use map_reader::MapReader;
pub use page_map::{PageMap, Phase, Registered, STEP, SlotCounts};
pub use pins::{MOST_PINS, PinId, SlotSet};
pub use place::{Place, SLOT_LIMIT, Tag, Words};
pub use rebuild::{PlaceTable, Rebuild};
pub use slots::Run;
pub use superblock::{Superblock, Superblocks};
