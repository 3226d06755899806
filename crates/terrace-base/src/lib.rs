//! What every layer of Terrace stands on: ids, errors, checksums, codecs, the disk trait.
//!
//! Nothing here knows of pages, logs or trees; dependencies point from them to here.

#![deny(unsafe_code)]

pub mod aligned;
pub mod checksum;
pub mod codec;
pub mod disk;
mod error;
pub mod file_disk;
mod ids;
mod small_writes;
pub mod sync;
#[allow(unsafe_code)]
mod window;

pub use aligned::AlignedBuf;
pub use error::{Error, Result};
pub use ids::{PageId, StructureId};

/// Longest key, in bytes. A key must fit several times into the smallest page (4 KiB), because an
/// inner node holds at least two separators and two fences.
pub const MAX_KEY_BYTES: usize = 1024;

/// Longest value, in bytes. A length must fit 32 bits with room to spare in every format.
pub const MAX_VALUE_BYTES: usize = 1 << 30;
