//! A leaf under its exclusive latch, as the tiering logic sees it, and the smallest changes of one.
//!
//! Every change here touches as few bytes as it can, because a checkpoint in progress keeps the old
//! ones. None can fail once the record it works on has been read.

use terrace_access::{Attempt, Flags, LargeRef, RecordPage};
use terrace_base::codec;
use terrace_pages::Exclusive;

use super::descend::{OUTSIDE, node_of, sound};
use super::layout::{COUNT, LAST, MEMBERS, Numbers, RUNS, SLOT_BYTES, Stored};
use crate::fault::{self, Fault};
use crate::slotted::fit::Hole;

/// The changeable part of a leaf's header.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    /// What all slotted pages have.
    pub numbers: Numbers,
    pub members: u32,
    pub last: u16,
    pub runs: (u8, u8),
}

impl Counts {
    /// Reads it.
    pub fn of(page: &Exclusive<'_>) -> Attempt<Counts> {
        node_of!(page)?;
        Ok(Counts::in_header(page.bytes()))
    }

    /// Reads it from the bytes of a page that has been seen to be a node.
    pub fn in_header(page: &[u8]) -> Counts {
        let u16_at = |at| codec::u16_at(page, at).unwrap_or_default();
        let runs = u16_at(RUNS);
        Counts {
            numbers: Numbers::in_header(page),
            members: codec::u32_at(page, MEMBERS).unwrap_or_default(),
            last: u16_at(LAST),
            runs: (runs as u8, (runs >> 8) as u8),
        }
    }

    /// Writes it.
    pub fn write(self, page: &mut Exclusive<'_>) -> Attempt<()> {
        self.put(page.change(COUNT, LAST + 2 - COUNT)?);
        Ok(())
    }

    /// A record was inserted in slot `i`: it is a new member, and may go on with a run in order.
    pub fn inserted(&mut self, i: usize) {
        if !fault::planted(Fault::QuietInsert) {
            self.members = self.members.wrapping_add(1);
        }
        // The first record of a page that a split left empty continues what its neighbour began, in
        // either direction.
        let down = self.last as usize == i || self.last == u16::MAX && i == 0 && self.runs.1 > 0;
        self.runs = if down {
            (0, self.runs.1.saturating_add(1))
        } else if self.last.wrapping_add(1) as usize == i {
            (self.runs.0.saturating_add(1), 0)
        } else {
            (0, 0)
        };
        self.last = i as u16;
    }

    /// Writes it into a header's bytes from [`COUNT`] on.
    pub fn put(self, header: &mut [u8]) {
        self.numbers.put(header);
        let mut put = |at: usize, bytes: &[u8]| {
            header[at - COUNT..at - COUNT + bytes.len()].copy_from_slice(bytes);
        };
        put(RUNS, &[self.runs.0, self.runs.1]);
        put(MEMBERS, &self.members.to_le_bytes());
        put(LAST, &self.last.to_le_bytes());
    }
}

/// Sets the flags of slot `i`; the key head beside them stays. The use count is a hint: if nothing
/// else changes, the page does not become dirty.
pub(crate) fn set_flags(page: &mut Exclusive<'_>, i: usize, flags: Flags) -> Attempt<()> {
    let before = sound!(page, node_of!(page)?.slot(i))?.flags();
    Numbers::set_flags(page, i, before, flags)
}

/// Where record `i` lies and its length, if it can be taken out.
fn erasable(page: &Exclusive<'_>, i: usize) -> Attempt<Hole> {
    let node = node_of!(page)?;
    let record = sound!(page, node.slot(i).and_then(|slot| node.leaf_record(slot)))?;
    let hole = record.hole();
    node.numbers().check_loss(page, hole.len)?;
    Ok(hole)
}

/// Makes sure that [`erase`] of this record cannot fail.
pub(crate) fn check_erasable(page: &Exclusive<'_>, i: usize) -> Attempt<()> {
    erasable(page, i).map(|_| ())
}

/// Removes record `i`, and says where it was. Frees nothing that it refers to. O(records).
pub(crate) fn erase(page: &mut Exclusive<'_>, i: usize) -> Attempt<Hole> {
    let hole = erasable(page, i)?;
    remove(page, &[i], hole.len)?;
    Ok(hole)
}

/// Removes these records, of `bytes` bytes together, whose numbers ascend: they can be taken out. O(records).
fn remove(page: &mut Exclusive<'_>, which: &[usize], bytes: usize) -> Attempt<()> {
    let mut counts = Counts::of(page)?;
    counts.numbers.remove_all(page, which, bytes)?;
    if !fault::planted(Fault::QuietErase) {
        counts.members = counts.members.wrapping_add(1);
    }
    counts.last = u16::MAX;
    counts.runs = (0, 0);
    counts.write(page)
}

/// Bytes of all these records, if they can be taken out together.
fn all_erasable(page: &Exclusive<'_>, which: &[usize]) -> Attempt<usize> {
    let node = node_of!(page)?;
    let mut bytes = 0;
    if !which.is_sorted_by(|a, b| a < b) {
        // Two keys were found in one slot, of a leaf that is in no order.
        return Err(page.torn(OUTSIDE));
    }
    for &i in which {
        let record = sound!(page, node.slot(i).and_then(|slot| node.leaf_record(slot)))?;
        bytes += record.end - record.start;
    }
    node.numbers().check_loss(page, bytes)?;
    Ok(bytes)
}

/// Removes these records, whose numbers ascend: each slot behind the first moves once. Frees nothing that
/// they refer to. O(records).
fn erase_all(page: &mut Exclusive<'_>, which: &[usize]) -> Attempt<()> {
    let stay = usize::from(fault::planted(Fault::LastStays));
    let which = &which[..which.len().saturating_sub(stay)];
    if which.is_empty() {
        return Ok(());
    }
    let bytes = all_erasable(page, which)?;
    remove(page, which, bytes)
}

/// See [`RecordPage`].
pub(crate) struct LeafPage<'p, 'd> {
    page: &'p mut Exclusive<'d>,
    /// The largest hole that was made.
    hole: Option<Hole>,
}

impl<'p, 'd> LeafPage<'p, 'd> {
    pub fn new(page: &'p mut Exclusive<'d>) -> Self {
        LeafPage { page, hole: None }
    }

    /// The largest hole that an erasure left; good as long as the latch is held and nothing is put.
    pub fn hole(&self) -> Option<Hole> {
        self.hole
    }
}

impl RecordPage for LeafPage<'_, '_> {
    fn count(&self) -> usize {
        node_of!(self.page).map_or(0, |node| node.count)
    }

    fn flags(&self, i: usize) -> Attempt<Flags> {
        Ok(sound!(self.page, node_of!(self.page)?.slot(i))?.flags())
    }

    fn set_flags(&mut self, i: usize, flags: Flags) -> Attempt<()> {
        set_flags(self.page, i, flags)
    }

    fn key(&self, i: usize, key: &mut Vec<u8>) -> Attempt<()> {
        key.clear();
        sound!(self.page, node_of!(self.page)?.append_key(i, key))
    }

    fn value(&self, i: usize, value: &mut Vec<u8>) -> Attempt<Option<LargeRef>> {
        value.clear();
        let node = node_of!(self.page)?;
        let record = sound!(
            self.page,
            node.slot(i).and_then(|slot| node.leaf_record(slot))
        )?;
        if let Stored::Inline { at, len } = record.value {
            sound!(self.page, node.view.append_to(at, len, value))?;
        }
        Ok(record.large())
    }

    fn find(&self, key: &[u8]) -> Attempt<Option<usize>> {
        let node = node_of!(self.page)?;
        // The key may have moved to another leaf, where another prefix holds.
        if !sound!(self.page, node.has_prefix(key))? {
            return Ok(None);
        }
        Ok(sound!(self.page, node.find(key))?.ok())
    }

    fn find_behind(&self, key: &[u8], near: usize) -> Attempt<Option<usize>> {
        let node = node_of!(self.page)?;
        if !sound!(self.page, node.has_prefix(key))? {
            return Ok(None);
        }
        Ok(sound!(self.page, node.find_behind(key, near))?.ok())
    }

    fn check_erasable(&self, which: &[usize]) -> Attempt<()> {
        all_erasable(self.page, which).map(|_| ())
    }

    fn erase_all(&mut self, which: &mut Vec<usize>) -> Attempt<()> {
        which.sort_unstable();
        let erased = erase_all(self.page, which);
        if erased.is_err() {
            which.clear();
        }
        erased
    }

    fn erase(&mut self, i: usize) -> Attempt<usize> {
        let hole = erase(self.page, i)?;
        if self.hole.is_none_or(|old| old.len < hole.len) {
            self.hole = Some(hole);
        }
        Ok(hole.len + SLOT_BYTES)
    }

    fn fill(&self) -> f64 {
        node_of!(self.page).map_or(0.0, |node| node.fill())
    }
}
