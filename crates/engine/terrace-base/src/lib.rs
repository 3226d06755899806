//! What every layer of Terrace stands on: ids, errors, checksums, codecs, the disk trait.
//!
//! Nothing here knows of pages, logs or trees; dependencies point from them to here.

#![deny(unsafe_code)]

pub mod aligned;
pub mod checksum;
pub mod codec;
mod counter;
pub mod disk;
mod durability;
mod error;
pub mod file_disk;
mod held;
mod ids;
#[allow(unsafe_code)]
pub mod lane;
pub mod lease;
pub mod planting;
#[allow(unsafe_code)]
pub mod process;
pub mod random;
pub mod read_only;
mod small_writes;
pub mod sync;
mod thread_number;
#[allow(unsafe_code)]
mod together;
#[allow(unsafe_code)]
mod window;

pub use aligned::AlignedBuf;
pub use counter::Counter;
pub use durability::Durability;
pub use error::{Error, Result};
pub use ids::{PageId, StructureId};
pub use thread_number::thread_number;
pub use window::page_bytes as system_page_bytes;
pub use window::{FilePart, Part};

/// Longest key, in bytes, with pages of 16 KiB and more; with smaller ones see [`max_key_bytes`].
pub const MAX_KEY_BYTES: usize = 4096;

/// Longest key, in bytes, with pages of this size: a quarter of the page. A leaf must hold a record with
/// it, and the longest value that lies beside one, between two fences as long; an inner node a separator.
pub const fn max_key_bytes(page_bytes: usize) -> usize {
    let quarter = page_bytes / 4;
    if quarter < MAX_KEY_BYTES {
        quarter
    } else {
        MAX_KEY_BYTES
    }
}

/// Longest value, in bytes. A length must fit 32 bits with room to spare in every format.
pub const MAX_VALUE_BYTES: usize = 1 << 30;
