//! Places in the file: chunks, and in them leaves, log segments and blobs.
//!
//! Nothing on the medium says what is free: leaves are those of the chain, segments those from the tails
//! on, blobs those that something refers to. Only what a chunk is for is written down, before its first
//! use. A place is free again only after the switch that dropped it was fenced (rule 11).

mod blobs;
mod layout;
mod places;
mod sizes;
mod space;
mod stored;

pub use blobs::BlobRef;
pub use layout::{ChunkKind, Layout};
pub use places::Places;
pub use sizes::{LEAF_BYTES, SEGMENT_BYTES};
pub use space::Arena;
