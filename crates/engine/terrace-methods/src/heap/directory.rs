//! The list of heap pages: the root of the structure and a chain of directory pages behind it, with
//! an entry for each heap page and about how much of it is free.
//!
//! ```text
//!  16  u8   tag 0xB7 (root), 0xB8 (page of the chain); u8 1 in a root whose rows are being cleared
//!  18  u16  entries in use            20  4 bytes 0
//!  24  u64  next page of the chain, or none
//!  32  u64  root: root page of the index; page of the chain: root page of the structure
//!  40  entries of 6 bytes: u40 heap page, or none; u8 free class, in 64ths of the page
//! ```
//!
//! Invariants: each heap page is in one entry, which its header names. Entries do not move. How much
//! is free is a hint, brought up to date now and then; what is in the page counts.

use terrace_access::Attempt;
use terrace_base::PageId;
use terrace_pages::{Exclusive, PAGE_HEADER_BYTES, Torn, View};

use crate::btree::layout::Seen;

/// Says that a page is the root of a heap.
pub(crate) const ROOT_TAG: u8 = 0xB7;
/// Says that a page is one of the chain behind it.
pub(crate) const CHAIN_TAG: u8 = 0xB8;
const CLEARING: usize = PAGE_HEADER_BYTES + 1;
const USED: usize = 18;
const NEXT: usize = 24;
const OWNER: usize = 32;
const ENTRIES: usize = 40;
const ENTRY_BYTES: usize = 6;
const NUMBER_BYTES: usize = 5;

/// More pages than a directory has: a chain that is longer goes round in circles.
pub(crate) const LONGEST_CHAIN: usize = 1 << 20;
pub(crate) const NO_DIRECTORY: &str =
    "this is not a page of a heap's directory, or its header contradicts itself";

/// A page of the directory, its header read once and found consistent.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    view: View<'a>,
    pub is_root: bool,
    /// Whether the rows are being cleared: there may be some that the index does not name.
    pub clearing: bool,
    /// Entries in use.
    pub used: usize,
    pub next: PageId,
    /// In a root the root of the index, in another the root of the structure.
    pub link: PageId,
}

impl<'a> Directory<'a> {
    /// Reads the header. `Torn` when it is not that of a page of a directory.
    pub fn open(view: View<'a>) -> Seen<Directory<'a>> {
        let tag = view.u8(PAGE_HEADER_BYTES)?;
        let page = Directory {
            view,
            is_root: tag == ROOT_TAG,
            clearing: view.u8(CLEARING)? != 0,
            used: view.u16(USED)?.into(),
            next: PageId(view.u64(NEXT)?),
            link: PageId(view.u64(OWNER)?),
        };
        let sound = (tag == ROOT_TAG || tag == CHAIN_TAG) && page.used <= page.entries();
        if sound { Ok(page) } else { Err(Torn) }
    }

    /// How many entries there are, free ones included.
    pub fn entries(&self) -> usize {
        entries(self.view.len())
    }

    /// The heap page of an entry, and its free class.
    pub fn entry(&self, i: usize) -> Seen<(PageId, u8)> {
        let at = ENTRIES + i * ENTRY_BYTES;
        let page = u64::from(self.view.u32(at)?) | u64::from(self.view.u8(at + 4)?) << 32;
        Ok((PageId(page), self.view.u8(at + NUMBER_BYTES)?))
    }

    /// A free entry, from `from` on and then from the start.
    pub fn free_entry(&self, from: usize) -> Seen<Option<usize>> {
        let entries = self.entries();
        if self.used >= entries {
            return Ok(None);
        }
        for i in 0..entries {
            let i = (from + i) % entries;
            if self.entry(i)?.0.is_none() {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }
}

/// Entries of a page of the directory.
fn entries(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(ENTRIES) / ENTRY_BYTES
}

/// Makes a page that was just allocated one of the directory, with no entry in use.
pub(crate) fn begin(
    page: &mut Exclusive<'_>,
    tag: u8,
    link: PageId,
    page_bytes: usize,
) -> Attempt<()> {
    let bytes = page.fill(PAGE_HEADER_BYTES, page_bytes - PAGE_HEADER_BYTES)?;
    bytes[0] = tag;
    let mut put = |at: usize, n: u64| {
        let at = at - PAGE_HEADER_BYTES;
        bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
    };
    put(NEXT, PageId::NONE.0);
    put(OWNER, link.0);
    let all = entries(page_bytes) * ENTRY_BYTES;
    let start = ENTRIES - PAGE_HEADER_BYTES;
    for entry in bytes[start..start + all].chunks_exact_mut(ENTRY_BYTES) {
        entry[..NUMBER_BYTES].copy_from_slice(&PageId::NONE.0.to_le_bytes()[..NUMBER_BYTES]);
    }
    Ok(())
}

/// Sets the page behind this one in the chain.
pub(crate) fn set_next(page: &mut Exclusive<'_>, next: PageId) -> Attempt<()> {
    let bytes = next.0.to_le_bytes();
    page.change(NEXT, bytes.len())?.copy_from_slice(&bytes);
    Ok(())
}

/// Notes in the root whether the rows are being cleared.
pub(crate) fn set_clearing(page: &mut Exclusive<'_>, clearing: bool) -> Attempt<()> {
    page.change(CLEARING, 1)?[0] = clearing.into();
    Ok(())
}

/// Sets entry `i`, of which there has been `before`, and counts it.
pub(crate) fn set_entry(
    page: &mut Exclusive<'_>,
    i: usize,
    before: PageId,
    heap: PageId,
    class: u8,
) -> Attempt<()> {
    let used = Directory::open(page.view())
        .map_err(|_| page.torn(NO_DIRECTORY))?
        .used;
    let used = match (before.is_none(), heap.is_none()) {
        (true, false) => used + 1,
        (false, true) => used.saturating_sub(1),
        _ => used,
    };
    let entry = page.change(ENTRIES + i * ENTRY_BYTES, ENTRY_BYTES)?;
    entry[..NUMBER_BYTES].copy_from_slice(&heap.0.to_le_bytes()[..NUMBER_BYTES]);
    entry[NUMBER_BYTES] = class;
    page.change(USED, 2)?
        .copy_from_slice(&(used as u16).to_le_bytes());
    Ok(())
}

/// Sets the free class of entry `i`.
pub(crate) fn set_class(page: &mut Exclusive<'_>, i: usize, class: u8) -> Attempt<()> {
    page.change(ENTRIES + i * ENTRY_BYTES + NUMBER_BYTES, 1)?[0] = class;
    Ok(())
}
