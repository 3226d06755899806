//! What a record holds, and a page of records as the tiering logic sees it.

use terrace_base::PageId;

use crate::{Attempt, Flags, Retry};

/// A value too large for a page of records: a chain of overflow pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LargeRef {
    /// First page of the chain.
    pub head: PageId,
    /// Length of the value in bytes.
    pub len: u32,
    /// When it is gone for certain, if it expires: see [`terrace_base::lease::coarse`]. Only who drops what has
    /// expired looks at it.
    pub gone: u32,
}

/// Bits of a page number in a reference; above them stands when the value is gone.
const PAGE_BITS: u32 = 40;
const _: () = assert!(PageId::NONE.0 < 1 << PAGE_BITS);

impl LargeRef {
    /// The word of the reference that names the first page.
    #[inline]
    pub fn word(self) -> u64 {
        self.head.0 | u64::from(self.gone) << PAGE_BITS
    }

    /// The reference with this word, to a value of this length.
    #[inline]
    pub fn of_word(word: u64, len: u32) -> LargeRef {
        LargeRef {
            head: PageId(word & ((1 << PAGE_BITS) - 1)),
            len,
            gone: (word >> PAGE_BITS) as u32,
        }
    }
}

/// A value as it is stored in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The bytes, beside the key.
    Inline(&'a [u8]),
    /// A reference to a chain of pages.
    Large(LargeRef),
}

impl Value<'_> {
    /// Bytes of it that lie beside the key.
    #[inline]
    pub fn inline_bytes(&self) -> usize {
        match self {
            Value::Inline(bytes) => bytes.len(),
            Value::Large(_) => size_of::<LargeRef>(),
        }
    }
}

/// What a lookup found: the inline value is in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The record's flags, as they were before the touch.
    pub flags: Flags,
    /// Set when the value is not inline; read it with the overflow functions.
    pub large: Option<LargeRef>,
    /// Levels that were asked, in a structure that has levels; else, and in what lies above them, 0.
    pub depth: u8,
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
    /// As [`RecordPage::find`], of a key that is not in front of record `near`, and most likely not far
    /// behind it.
    fn find_behind(&self, key: &[u8], near: usize) -> Attempt<Option<usize>> {
        let _ = near;
        self.find(key)
    }
    /// Removes record `i` and returns how many bytes that leaves for others. Frees nothing that it
    /// refers to.
    fn erase(&mut self, i: usize) -> Attempt<usize>;
    /// Makes sure that [`RecordPage::erase_all`] of these records of this page, in ascending order, cannot
    /// fail.
    fn check_erasable(&self, which: &[usize]) -> Attempt<()> {
        let _ = which;
        Ok(())
    }
    /// Removes these records, whose numbers are in any order, or as many of them as can be had now. `which`
    /// has the numbers of those that are gone then, ascending, also where there is an error, which is that
    /// of another one.
    fn erase_all(&mut self, which: &mut Vec<usize>) -> Attempt<()> {
        which.sort_unstable();
        let mut done = Ok(());
        let mut gone = Vec::with_capacity(which.len());
        // From behind, so that the numbers stay right.
        while let Some(i) = which.pop() {
            match self.erase(i) {
                Ok(_) => gone.push(i),
                Err(Retry::Fail(e)) => {
                    done = Err(e.into());
                    break;
                }
                Err(other) => done = Err(other),
            }
        }
        gone.reverse();
        *which = gone;
        done
    }
    /// Bytes in use over bytes usable, 0 to 1.
    fn fill(&self) -> f64;
}
