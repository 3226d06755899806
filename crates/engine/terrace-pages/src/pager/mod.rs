//! Bringing pages in: one, several that follow each other, many at the same time; and what needs that.
//! What is public of it is told at [`crate::PageStore`].

pub(crate) mod ahead;
pub(crate) mod compact;
pub(crate) mod fault;
pub(crate) mod fetch;

use crate::disk::Storage;
use crate::frames::Frames;
use crate::parts::common::Common;

/// Bytes of one request, at most: larger ones make no device that we know much faster.
pub(crate) const REQUEST_BYTES: usize = 256 << 10;
/// What brings pages from disk into memory.
pub(crate) struct Pager {
    storage: Storage,
}

impl Pager {
    pub fn new(storage: Storage) -> Pager {
        Pager { storage }
    }

    /// What is on disk.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    fn frames(&self) -> &Frames {
        self.storage.frames()
    }

    fn common(&self) -> &Common {
        self.storage.common()
    }

    /// What tells this store from others.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
