//! The entry of a data page in the index of its level.
//!
//! ```text
//! key    first key that the page covers
//! value  nothing: no page covers the keys from here to the next entry; or
//!        0  5  page number          5   8  stamp
//!       13  2  records             15   2  tombstones among them
//!       17  2  bytes of records    19   1  1: large values among them; 16 times the upper four of
//!                                          20 bits of the bytes of records
//!       20  .  filter over the keys
//! ```
//!
//! The first entry of a level has the empty key, so there is one for every key.

use terrace_access::LevelFigures;
use terrace_base::codec;
use terrace_base::{PageId, Result};

use super::name::Name;
use super::page::{Image, wrong};

/// Bytes of an entry without its filter.
pub(crate) const ENTRY_BYTES: usize = 20;
const HAS_LARGE: u8 = 1;
/// A compressed page may have more bytes of records than two bytes say.
const MOST_USED: u32 = (1 << 20) - 1;

/// An entry without its filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub name: Name,
    pub records: u32,
    pub tombstones: u32,
    pub used: u32,
    pub has_large: bool,
}

impl Entry {
    /// The entry of a page that was just made. Its numbers are those that come back from its bytes: where keys
    /// share long prefixes, which a page has once, its records may have more bytes than the entry has room to
    /// say.
    pub fn of(image: &Image, name: Name) -> Entry {
        let short = |n: u32| n.min(u16::MAX.into());
        Entry {
            name,
            records: short(image.records),
            tombstones: short(image.tombstones),
            used: image.used.min(MOST_USED),
            has_large: image.has_large,
        }
    }

    /// Adds its page to what is in a level.
    pub fn add_to(&self, figures: &mut LevelFigures) {
        figures.pages += 1;
        figures.bytes += u64::from(self.used);
        figures.records += u64::from(self.records);
        figures.tombstones += u64::from(self.tombstones);
    }

    /// Takes its page away from what is in a level.
    pub fn take_from(&self, figures: &mut LevelFigures) {
        let less = |of: &mut u64, by: u32| *of = of.saturating_sub(by.into());
        less(&mut figures.pages, 1);
        less(&mut figures.bytes, self.used);
        less(&mut figures.records, self.records);
        less(&mut figures.tombstones, self.tombstones);
    }

    /// Pages that its records would take without compression, about; 1 at least.
    pub fn pages(&self, page_bytes: usize) -> usize {
        (self.used as usize / page_bytes).max(1)
    }

    /// Appends it, with its filter.
    pub fn encode(&self, filter: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.page.0.to_le_bytes()[..5]);
        out.extend_from_slice(&self.name.stamp.to_le_bytes());
        for n in [self.records, self.tombstones] {
            let n = u16::try_from(n).unwrap_or(u16::MAX);
            out.extend_from_slice(&n.to_le_bytes());
        }
        let used = self.used.min(MOST_USED);
        out.extend_from_slice(&(used as u16).to_le_bytes());
        out.push((used >> 16 << 4) as u8 | if self.has_large { HAS_LARGE } else { 0 });
        out.extend_from_slice(filter);
    }
}

/// What an entry of this level says, and its filter: `None` for bytes that are no entry, `Some(None)` where
/// there is no page.
pub(crate) fn decode(bytes: &[u8], level: u8) -> Option<Option<(Entry, &[u8])>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let (head, filter) = bytes.split_first_chunk::<ENTRY_BYTES>()?;
    let mut page = [0; 8];
    page[..5].copy_from_slice(&head[..5]);
    let short = |at| codec::u16_at(head, at).map(u32::from);
    let entry = Entry {
        name: Name {
            page: PageId(u64::from_le_bytes(page)),
            stamp: codec::u64_at(head, 5)?,
            level,
        },
        records: short(13)?,
        tombstones: short(15)?,
        used: short(17)? | u32::from(head[19] >> 4) << 16,
        has_large: head[19] & HAS_LARGE != 0,
    };
    (head[19] & 15 <= HAS_LARGE).then_some(Some((entry, filter)))
}

/// Checks the bytes of an entry on their own, whatever they are: for fuzzing. Never panics. O(1).
///
/// # Errors
/// What is wrong with them.
pub fn verify_entry(bytes: &[u8]) -> Result<()> {
    match decode(bytes, 0) {
        Some(_) => Ok(()),
        None => Err(wrong(PageId::NONE, "this is no entry of a page of a level")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_other_bytes_are_none() {
        let entry = Entry {
            name: Name {
                page: PageId(0x12_3456_789A),
                stamp: 0x0123_4567_89AB_CDEF,
                level: 2,
            },
            records: 120,
            tombstones: 7,
            used: 616_000,
            has_large: true,
        };
        let mut bytes = Vec::new();
        entry.encode(&[1, 2, 3], &mut bytes);
        assert_eq!(decode(&bytes, 2), Some(Some((entry, &[1u8, 2, 3][..]))));
        assert_eq!(decode(&[], 2), Some(None));
        for len in 1..ENTRY_BYTES {
            assert_eq!(decode(&bytes[..len], 2), None);
        }
        bytes[19] = 2;
        assert_eq!(decode(&bytes, 2), None);
    }
}
