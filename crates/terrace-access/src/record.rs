//! What a record holds, and a page of records as the tiering logic sees it.

use terrace_base::PageId;

use crate::{Attempt, Flags};

/// A value too large for a page of records: a chain of overflow pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LargeRef {
    /// First page of the chain.
    pub head: PageId,
    /// Length of the value in bytes.
    pub len: u32,
}

/// A value as it is stored in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The bytes, beside the key.
    Inline(&'a [u8]),
    /// A reference to a chain of pages.
    Large(LargeRef),
}

/// What a lookup found: the inline value is in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The record's flags, as they were before the touch.
    pub flags: Flags,
    /// Set when the value is not inline; read it with the overflow functions.
    pub large: Option<LargeRef>,
}

/// A page of records under its exclusive latch, whatever the access method: a leaf, a bucket page.
///
/// Indexes run from 0 to `count() - 1` in the page's own order and shift down on `erase`.
pub trait RecordPage {
    /// Number of records.
    fn count(&self) -> usize;
    /// Flags of record `i`.
    fn flags(&self, i: usize) -> Attempt<Flags>;
    /// Sets the flags of record `i` (a change of the page, unlike the hint of a reader).
    fn set_flags(&mut self, i: usize, flags: Flags) -> Attempt<()>;
    /// Replaces `key` by the full key of record `i`.
    fn key(&self, i: usize, key: &mut Vec<u8>) -> Attempt<()>;
    /// Replaces `value` by the inline value of record `i`, or returns the reference.
    fn value(&self, i: usize, value: &mut Vec<u8>) -> Attempt<Option<LargeRef>>;
    /// Index of the record with this key.
    fn find(&self, key: &[u8]) -> Attempt<Option<usize>>;
    /// Removes record `i` and returns how many bytes that leaves for others. Frees nothing that it
    /// refers to.
    fn erase(&mut self, i: usize) -> Attempt<usize>;
    /// Bytes in use over bytes usable, 0 to 1.
    fn fill(&self) -> f64;
}
