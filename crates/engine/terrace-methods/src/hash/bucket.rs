//! A bucket under its exclusive latches, as the tiering logic sees it, and the smallest changes of it.
//!
//! Every change here touches as few bytes as it can, because a checkpoint in progress keeps the old
//! ones. None can fail once the record it works on has been read.

use terrace_access::{Attempt, Flags, LargeRef, RecordPage};
use terrace_base::codec;
use terrace_pages::Exclusive;

use super::Secret;
use super::find::{Held, page_of, sound};
use super::layout::{MEMBERS, Numbers, Record, SLOT_BYTES, Slot, Stored, capacity};
use crate::fault::{self, Fault};
use crate::slotted::fit;

/// Sets the flags of slot `i`; the tag beside them stays. The use count is a hint: if nothing else
/// changes, the page does not become dirty.
pub(crate) fn set_flags(page: &mut Exclusive<'_>, i: usize, flags: Flags) -> Attempt<()> {
    let before = sound!(page, page_of!(page)?.slot(i))?.flags();
    Numbers::set_flags(page, i, before, flags)
}

/// Bytes of a bucket that a record held until just now.
#[derive(Clone, Copy)]
pub(crate) struct Hole {
    /// Which of the bucket's pages.
    pub page: usize,
    pub hole: fit::Hole,
}

/// The record behind slot `i` of one page, if it can be erased. O(1).
fn erasable(page: &Exclusive<'_>, i: usize) -> Attempt<Record> {
    let seen = page_of!(page)?;
    let record = sound!(page, seen.slot(i).and_then(|slot| seen.record(slot)))?;
    seen.numbers.check_loss(page, record.hole().len)?;
    Ok(record)
}

/// Takes slot `i` and the record behind it out of one page; returns where that was. Cannot fail if it
/// is erasable. O(records).
fn erase(page: &mut Exclusive<'_>, i: usize) -> Attempt<fit::Hole> {
    let hole = erasable(page, i)?.hole();
    let mut numbers = page_of!(page)?.numbers;
    numbers.remove(page, i, hole.len)?;
    numbers.write(page)?;
    Ok(hole)
}

/// Where a record of a bucket is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Which of the bucket's pages.
    pub page: usize,
    /// The slot there.
    pub slot: usize,
    pub flags: Flags,
    pub record: Record,
}

impl Held<'_> {
    /// Finds a record by its key.
    pub fn find(&self, secret: &Secret, hash: u64, key: &[u8]) -> Attempt<Option<Place>> {
        for (page, guard) in self.pages.iter().enumerate() {
            if let Some((slot, head, record)) =
                sound!(guard, page_of!(guard)?.find(secret, hash, key))?
            {
                let flags = head.flags();
                return Ok(Some(Place {
                    page,
                    slot,
                    flags,
                    record,
                }));
            }
        }
        Ok(None)
    }

    /// Makes sure that [`Held::erase`] of this record cannot fail.
    pub fn check_erasable(&self, page: usize, slot: usize) -> Attempt<()> {
        erasable(&self.pages[page], slot).map(|_| ())
    }

    /// Removes a record, and says where it was. Frees nothing that it refers to.
    pub fn erase(&mut self, page: usize, slot: usize) -> Attempt<Hole> {
        let hole = erase(&mut self.pages[page], slot)?;
        if !fault::planted(Fault::QuietErase) {
            self.bump()?;
        }
        Ok(Hole { page, hole })
    }

    /// Moves the membership counter on.
    pub fn bump(&mut self) -> Attempt<()> {
        let first = &mut self.pages[0];
        let members = codec::u32_at(first.bytes(), MEMBERS).unwrap_or_default();
        first
            .change(MEMBERS, 4)?
            .copy_from_slice(&members.wrapping_add(1).to_le_bytes());
        Ok(())
    }

    /// The membership counter, moved on by one.
    pub fn next_members(&self) -> u32 {
        let members = codec::u32_at(self.pages[0].bytes(), MEMBERS);
        members.unwrap_or_default().wrapping_add(1)
    }

    /// Number of records in all pages.
    pub fn count(&self) -> usize {
        let count = |page: &Exclusive<'_>| page_of!(page).map_or(0, |seen| seen.count());
        self.pages.iter().map(count).sum()
    }

    /// Bytes of records and slots over those of one page: more than 1 with overflow pages.
    pub fn load(&self) -> f64 {
        let used = |page: &Exclusive<'_>| page_of!(page).map_or(0, |seen| seen.used());
        let used: usize = self.pages.iter().map(used).sum();
        used as f64 / capacity(self.pages[0].bytes().len()) as f64
    }

    /// Page and slot of record `i` of the bucket.
    fn locate(&self, mut i: usize) -> Attempt<(usize, Slot, usize)> {
        for (number, page) in self.pages.iter().enumerate() {
            let seen = page_of!(page)?;
            if i < seen.count() {
                return Ok((number, sound!(page, seen.slot(i))?, i));
            }
            i -= seen.count();
        }
        Err(self.pages[0].torn("a record vanished under the latch"))
    }
}

/// See [`RecordPage`]: the bucket with its overflow pages as one.
pub(crate) struct BucketPage<'p, 'd> {
    held: &'p mut Held<'d>,
    secret: Secret,
    /// The largest hole that was made.
    hole: Option<Hole>,
}

impl<'p, 'd> BucketPage<'p, 'd> {
    pub fn new(held: &'p mut Held<'d>, secret: Secret) -> Self {
        BucketPage {
            held,
            secret,
            hole: None,
        }
    }

    /// The largest hole that an erasure left; good as long as the latches are held and nothing is
    /// put.
    pub fn hole(&self) -> Option<Hole> {
        self.hole
    }

    fn record(&self, i: usize) -> Attempt<(&Exclusive<'_>, Record)> {
        let (number, slot, _) = self.held.locate(i)?;
        let page = &self.held.pages[number];
        Ok((page, sound!(page, page_of!(page)?.record(slot))?))
    }
}

impl RecordPage for BucketPage<'_, '_> {
    fn count(&self) -> usize {
        self.held.count()
    }

    fn flags(&self, i: usize) -> Attempt<Flags> {
        Ok(self.held.locate(i)?.1.flags())
    }

    fn set_flags(&mut self, i: usize, flags: Flags) -> Attempt<()> {
        let (number, _, slot) = self.held.locate(i)?;
        set_flags(&mut self.held.pages[number], slot, flags)
    }

    fn key(&self, i: usize, key: &mut Vec<u8>) -> Attempt<()> {
        key.clear();
        let (page, record) = self.record(i)?;
        let copied = page.view().append_to(record.key_at, record.key_len, key);
        sound!(page, copied)
    }

    fn value(&self, i: usize, value: &mut Vec<u8>) -> Attempt<Option<LargeRef>> {
        value.clear();
        let (page, record) = self.record(i)?;
        if let Stored::Inline { at, len } = record.value {
            sound!(page, page.view().append_to(at, len, value))?;
        }
        Ok(record.large())
    }

    fn find(&self, key: &[u8]) -> Attempt<Option<usize>> {
        let hash = self.secret.hash(key);
        // The key may have moved to another bucket.
        if !self.held.span.covers(hash) {
            return Ok(None);
        }
        let Some(place) = self.held.find(&self.secret, hash, key)? else {
            return Ok(None);
        };
        let mut i = place.slot;
        for page in &self.held.pages[..place.page] {
            i += page_of!(page)?.count();
        }
        Ok(Some(i))
    }

    fn erase(&mut self, i: usize) -> Attempt<usize> {
        let (number, _, slot) = self.held.locate(i)?;
        let hole = self.held.erase(number, slot)?;
        if self.hole.is_none_or(|old| old.hole.len < hole.hole.len) {
            self.hole = Some(hole);
        }
        Ok(hole.hole.len + SLOT_BYTES)
    }

    fn fill(&self) -> f64 {
        self.held.load() / self.held.pages.len() as f64
    }
}

/// The page of records of a table that has no bucket yet.
pub(crate) struct NoRecords;

impl RecordPage for NoRecords {
    fn count(&self) -> usize {
        0
    }

    fn flags(&self, _: usize) -> Attempt<Flags> {
        Err(none())
    }

    fn set_flags(&mut self, _: usize, _: Flags) -> Attempt<()> {
        Err(none())
    }

    fn key(&self, _: usize, _: &mut Vec<u8>) -> Attempt<()> {
        Err(none())
    }

    fn value(&self, _: usize, _: &mut Vec<u8>) -> Attempt<Option<LargeRef>> {
        Err(none())
    }

    fn find(&self, _: &[u8]) -> Attempt<Option<usize>> {
        Ok(None)
    }

    fn erase(&mut self, _: usize) -> Attempt<usize> {
        Err(none())
    }

    fn fill(&self) -> f64 {
        0.0
    }
}

fn none() -> terrace_access::Retry {
    terrace_base::Error::invalid("a page without records was asked for one").into()
}
