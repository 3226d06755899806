//! The last internal level: nodes in memory that know their leaves, and buffer pairs in front of them.

mod buffer;
mod directory;
mod hotness;
mod node;

pub use buffer::{Buffer, CHUNK_BYTES, CHUNK_PAIRS, Entry, LEAVES_OF_TAGS, Place};
pub use directory::{Directory, Ranks};
pub use node::{Body, Buffers, MOST_LEAVES, Node, PAPER_BUFFER, PAPER_SLOTS};
