//! A merge in a batch that is not worked out yet.

use crate::merge::Merge;

/// See the module's text.
pub(super) struct Staged {
    pub(super) structure: u32,
    pub(super) key: Vec<u8>,
    pub(super) merge: Merge,
    /// Changes of the batch that come before it.
    pub(super) after: usize,
    /// The merge of the same key before it, if who added it said so.
    pub(super) before: Option<usize>,
}

impl Staged {
    /// Length of its key.
    pub(super) fn key_len(&self) -> u32 {
        self.key.len() as u32
    }

    /// The number of its structure in the batch, and its key.
    pub(super) fn place(&self) -> (u32, &[u8]) {
        (self.structure, &self.key)
    }
}
