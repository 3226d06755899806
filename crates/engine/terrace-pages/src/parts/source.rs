//! What a store reads that only reads the image of another one: all that it needs to know of it.

use std::sync::Arc;

use terrace_base::PageId;

use crate::parts::pinned::PinState;

/// An image; see [`crate::images::image`].
pub(crate) trait Source: Send + Sync {
    /// Whether it is of a store that no process writes to.
    fn is_alone(&self) -> bool;

    /// Whether it still holds.
    fn state(&self) -> &Arc<PinState>;

    /// Counts memory that whoever reads it takes beside it.
    fn count_bytes(&self, bytes: u64);

    /// Copies the bytes of a page, if the image's store has them in memory as they lie in this slot.
    fn copy(&self, pid: PageId, slot: u64, into: &mut [u8]) -> bool;

    /// Whether it has this page in memory.
    fn has_in_memory(&self, pid: PageId) -> bool;
}
