//! From a hash to the bucket that holds it: linear hashing over *partitions*.
//!
//! The hashes are divided into partitions by their top bits: `level` bits, and one more below the split
//! pointer. Partitions are numbered as in linear hashing, so that the directory, an array of page
//! numbers by partition, grows and shrinks at its end alone: dividing the partition at the split pointer
//! leaves the lower half under the old number and appends one entry for the upper half. The top
//! bits rather than the lowest, so that neighbouring partitions are neighbours in the order of hashes,
//! and the records of a bucket are one stretch of that order.
//!
//! ```text
//! root:  16 u8 tag 0xB4, u8 height, u8 level, 5 bytes 0
//!        24 u32 membership counter (see the module's text), u32 0
//!        32 u64 split pointer            40 u64 number of buckets
//!        48 u64, u64 secret of the hash  64 entries
//! page of the directory:  16 u8 tag 0xB5, u8 height, 6 bytes 0
//!                         24 u64 0       32 entries
//! entry: 7 bytes, the number of a page or of none; page size / 8 of them on each page
//! ```
//!
//! With height 0 the root's entries are the directory itself; else they are pages of the directory
//! of one less height.
//!
//! Invariant: entries of partitions that there are not, and pages of the directory that hold no entry of
//! any, are none.

use terrace_access::{Attempt, Retry};
use terrace_base::PageId;
use terrace_pages::{Exclusive, PAGE_HEADER_BYTES, Torn, View};

use super::Secret;
use super::layout::{Seen, Span};

pub(crate) const ROOT_TAG: u8 = 0xB4;
const PAGE_TAG: u8 = 0xB5;
const HEIGHT: usize = PAGE_HEADER_BYTES + 1;
const LEVEL: usize = PAGE_HEADER_BYTES + 2;
/// Where a root has the counter that a bucket has at the same place.
pub(crate) const ROOT_MEMBERS: usize = super::layout::MEMBERS;
const SPLIT: usize = 32;
const BUCKETS: usize = 40;
const SECRET: usize = 48;
const ROOT_ENTRIES: usize = 64;
const PAGE_ENTRIES: usize = 32;
const ENTRY_BYTES: usize = 7;
/// Most bits of a partition: more partitions than there can be pages.
pub(crate) const MAX_LEVEL: u32 = 44;
/// Highest directory: one of pages of 4 KiB for all these partitions.
const MAX_HEIGHT: u32 = 6;

pub(crate) const NO_ROOT: &str =
    "this is not the root of a hash table, or its header contradicts itself";

/// Which partitions there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HashPartitions {
    /// Bits of the partitions at and above the split pointer.
    pub level: u32,
    /// Partitions (of `level` bits) below this one have been divided.
    pub split: u64,
}

impl HashPartitions {
    /// How many there are.
    pub fn count(&self) -> u64 {
        (1 << self.level) + self.split
    }

    /// The partition of a hash: its number among those of as many bits, and the bits.
    #[inline]
    fn of(&self, hash: u64) -> (u64, u32) {
        // A shift by all 64 bits is none at all.
        let grain = hash.checked_shr(u64::BITS - self.level).unwrap_or(0);
        if grain < self.split {
            let bits = self.level + 1;
            (hash >> (u64::BITS - bits), bits)
        } else {
            (grain, self.level)
        }
    }

    /// Index of a hash's partition in the directory.
    #[inline]
    pub fn index(&self, hash: u64) -> u64 {
        let (grain, bits) = self.of(hash);
        index_of(grain, bits)
    }

    /// The hashes of a hash's partition.
    pub fn span(&self, hash: u64) -> Span {
        let (grain, bits) = self.of(hash);
        if bits == 0 {
            return Span::ALL;
        }
        let low = grain << (u64::BITS - bits);
        Span {
            low,
            last: low + ((1 << (u64::BITS - bits)) - 1),
        }
    }

    /// Whether a partition begins at this hash.
    pub fn begins_at(&self, hash: u64) -> bool {
        self.span(hash).low == hash
    }

    /// How many there are below a hash's partition.
    fn below(&self, hash: u64) -> u64 {
        let (grain, bits) = self.of(hash);
        if bits > self.level {
            grain
        } else {
            grain + self.split
        }
    }

    /// How many a span has that begins and ends with partitions.
    pub fn count_in(&self, span: Span) -> u64 {
        self.below(span.last) - self.below(span.low) + 1
    }

    /// Where the partition begins below which there are `below` others; there must be more.
    fn low_of(&self, below: u64) -> u64 {
        let (grain, bits) = match below.checked_sub(2 * self.split) {
            Some(more) => (self.split + more, self.level),
            None => (below, self.level + 1),
        };
        // A shift by all 64 bits is none at all: the only partition begins at 0.
        grain.checked_shl(u64::BITS - bits).unwrap_or(0)
    }

    /// Where the part of a span of more partitions ends, and the rest begins, that has at most `most`: at its low end
    /// or at its high one.
    pub fn part(&self, span: Span, most: u64, at_low_end: bool) -> u64 {
        if at_low_end {
            self.low_of(self.below(span.low) + most)
        } else {
            self.low_of(self.below(span.last) + 1 - most)
        }
    }

    /// Calls `each` with the indexes of all partitions of a span that begins and ends with partitions.
    pub fn each_in(&self, span: Span, mut each: impl FnMut(u64)) {
        let mut hash = span.low;
        loop {
            each(self.index(hash));
            match self.span(hash).last.checked_add(1) {
                Some(next) if next <= span.last => hash = next,
                _ => return,
            }
        }
    }

    /// With one partition more.
    pub fn grown(mut self) -> HashPartitions {
        self.split += 1;
        if self.split == 1 << self.level {
            self.level += 1;
            self.split = 0;
        }
        self
    }

    /// With one partition less; there must be two.
    pub fn shrunk(mut self) -> HashPartitions {
        if self.split == 0 {
            self.level -= 1;
            self.split = 1 << self.level;
        }
        self.split -= 1;
        self
    }

    /// The partition that [`HashPartitions::grown`] divides: its index, and the first hash of its upper half.
    pub fn next(&self) -> (u64, u64) {
        let half = 1u64 << (u64::BITS - self.level - 1);
        let low = self
            .split
            .checked_shl(u64::BITS - self.level)
            .unwrap_or_default();
        (index_of(self.split, self.level), low + half)
    }
}

/// The number that linear hashing gives to partition `grain` of `bits` bits: the lower half of a
/// divided partition keeps its number.
#[inline]
fn index_of(grain: u64, bits: u32) -> u64 {
    if grain == 0 {
        return 0;
    }
    let zeros = grain.trailing_zeros();
    (1 << (bits - zeros - 1)) + (grain >> (zeros + 1))
}

/// Entries on one page, as a power of two.
#[inline]
pub(crate) fn entry_bits(page_bytes: usize) -> u32 {
    (page_bytes / 8).ilog2()
}

/// A page of entries, the root or another.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    view: View<'a>,
    start: usize,
}

impl<'a> Entries<'a> {
    /// The entries of a page of the directory of this height.
    #[inline]
    pub fn open(view: View<'a>, height: u32) -> Seen<Entries<'a>> {
        let word = view.u16(PAGE_HEADER_BYTES)?;
        if word != u16::from_le_bytes([PAGE_TAG, height as u8]) {
            return Err(Torn);
        }
        Ok(Entries {
            view,
            start: PAGE_ENTRIES,
        })
    }

    /// Entry `i`.
    #[inline]
    pub fn get(&self, i: usize) -> Seen<PageId> {
        let word = self.view.u64(self.start + i * ENTRY_BYTES)?;
        Ok(PageId(word & ((1 << (8 * ENTRY_BYTES)) - 1)))
    }
}

/// The root's header, read once and found consistent, and its entries.
#[derive(Clone, Copy)]
pub(crate) struct Root<'a> {
    pub grains: HashPartitions,
    pub height: u32,
    pub entries: Entries<'a>,
}

impl<'a> Root<'a> {
    /// Reads the header. `Torn` when it is not that of a root, or contradicts itself.
    #[inline]
    pub fn open(view: View<'a>) -> Seen<Root<'a>> {
        let word = view.u32(PAGE_HEADER_BYTES)?;
        let root = Root {
            height: word >> 8 & 0xFF,
            grains: HashPartitions {
                level: word >> 16 & 0xFF,
                split: view.u64(SPLIT)?,
            },
            entries: Entries {
                view,
                start: ROOT_ENTRIES,
            },
        };
        // Bits of an index that so high a directory has entries for.
        let bits = entry_bits(view.len()) * (root.height + 1);
        let sound = word as u8 == ROOT_TAG
            && root.height <= MAX_HEIGHT
            && bits < u64::BITS
            && root.grains.level <= MAX_LEVEL
            && root.grains.split < 1 << root.grains.level
            && root.grains.count() <= 1 << bits;
        if sound { Ok(root) } else { Err(Torn) }
    }

    /// Number of buckets.
    pub fn buckets(&self) -> Seen<u64> {
        self.entries.view.u64(BUCKETS)
    }

    /// The secret of the hash.
    pub fn secret(&self) -> Seen<Secret> {
        let view = self.entries.view;
        Ok(Secret([view.u64(SECRET)?, view.u64(SECRET + 8)?]))
    }

    /// The counter that changes when the only bucket comes or goes.
    pub fn members(&self) -> Seen<u32> {
        self.entries.view.u32(ROOT_MEMBERS)
    }
}

/// Where entry `i` of a page is.
pub(crate) fn entry_at(is_root: bool, i: usize) -> usize {
    let start = if is_root { ROOT_ENTRIES } else { PAGE_ENTRIES };
    start + i * ENTRY_BYTES
}

/// Sets entry `i` of a latched page.
pub(crate) fn set_entry(
    page: &mut Exclusive<'_>,
    is_root: bool,
    i: usize,
    to: PageId,
) -> Attempt<()> {
    page.change(entry_at(is_root, i), ENTRY_BYTES)?
        .copy_from_slice(&to.0.to_le_bytes()[..ENTRY_BYTES]);
    Ok(())
}

/// Fills a new root: one partition, no bucket.
pub(crate) fn write_root(
    page: &mut Exclusive<'_>,
    page_bytes: usize,
    secret: Secret,
    members: u32,
) -> Attempt<()> {
    let out = page.fill(0, page_bytes)?;
    out[PAGE_HEADER_BYTES..ROOT_ENTRIES].fill(0);
    out[PAGE_HEADER_BYTES] = ROOT_TAG;
    out[ROOT_MEMBERS..ROOT_MEMBERS + 4].copy_from_slice(&members.to_le_bytes());
    out[SECRET..SECRET + 8].copy_from_slice(&secret.0[0].to_le_bytes());
    out[SECRET + 8..SECRET + 16].copy_from_slice(&secret.0[1].to_le_bytes());
    write_none(&mut out[ROOT_ENTRIES..], page_bytes / 8);
    Ok(())
}

/// Fills a new page of the directory with entries of none.
pub(crate) fn write_page(page: &mut Exclusive<'_>, page_bytes: usize, height: u32) -> Attempt<()> {
    let out = page.fill(0, page_bytes)?;
    out[PAGE_HEADER_BYTES..PAGE_ENTRIES].fill(0);
    out[PAGE_HEADER_BYTES] = PAGE_TAG;
    out[HEIGHT] = height as u8;
    write_none(&mut out[PAGE_ENTRIES..], page_bytes / 8);
    Ok(())
}

fn write_none(out: &mut [u8], count: usize) {
    for entry in out.chunks_exact_mut(ENTRY_BYTES).take(count) {
        entry.copy_from_slice(&PageId::NONE.0.to_le_bytes()[..ENTRY_BYTES]);
    }
}

/// Moves all entries of one latched page to another.
pub(crate) fn copy_entries(
    from: &[u8],
    from_root: bool,
    to: &mut Exclusive<'_>,
    to_root: bool,
) -> Attempt<()> {
    let len = from.len() / 8 * ENTRY_BYTES;
    let at = entry_at(from_root, 0);
    to.change(entry_at(to_root, 0), len)?
        .copy_from_slice(&from[at..at + len]);
    Ok(())
}

/// Sets what the root says of the partitions.
pub(crate) fn set_grains(root: &mut Exclusive<'_>, grains: HashPartitions) -> Attempt<()> {
    root.change(LEVEL, 1)?[0] = grains.level as u8;
    root.change(SPLIT, 8)?
        .copy_from_slice(&grains.split.to_le_bytes());
    Ok(())
}

/// Sets the height of the directory.
pub(crate) fn set_height(root: &mut Exclusive<'_>, height: u32) -> Attempt<()> {
    root.change(HEIGHT, 1)?[0] = height as u8;
    Ok(())
}

/// Sets the number of buckets.
pub(crate) fn set_buckets(root: &mut Exclusive<'_>, buckets: u64) -> Attempt<()> {
    root.change(BUCKETS, 8)?
        .copy_from_slice(&buckets.to_le_bytes());
    Ok(())
}

/// Moves the root's counter on.
pub(crate) fn bump_root(root: &mut Exclusive<'_>) -> Attempt<()> {
    let members = match Root::open(root.view()).and_then(|seen| seen.members()) {
        Ok(members) => members.wrapping_add(1),
        Err(_) => return Err(root.torn(NO_ROOT)),
    };
    root.change(ROOT_MEMBERS, 4)?
        .copy_from_slice(&members.to_le_bytes());
    Ok(())
}

/// The highest directory that can be.
pub(crate) fn check_height(height: u32) -> Attempt<()> {
    if height >= MAX_HEIGHT {
        let what = "a hash table cannot have more grains than this";
        return Err(Retry::Fail(terrace_base::Error::invalid(what)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every partition has an index of its own below the count, spans tile the hashes, and growing
    /// keeps the index of the lower half and appends that of the upper one.
    #[test]
    fn grains_tile_the_hashes_and_grow_at_the_end() {
        let mut grains = HashPartitions { level: 0, split: 0 };
        for n in 1..2000u64 {
            assert_eq!(grains.count(), n);
            let (mut hash, mut seen) = (0u64, vec![false; n as usize]);
            let mut below = 0;
            loop {
                let span = grains.span(hash);
                assert_eq!((grains.below(hash), grains.low_of(below)), (below, hash));
                let until = Span {
                    low: 0,
                    last: span.last,
                };
                below += 1;
                assert_eq!(grains.count_in(until), below);
                assert_eq!(grains.part(until, 1, false), hash);
                assert!(grains.begins_at(hash) && span.low == hash);
                for probe in [span.low, span.low / 2 + span.last / 2, span.last] {
                    assert_eq!(grains.index(probe), grains.index(hash));
                }
                let index = grains.index(hash) as usize;
                assert!(!std::mem::replace(&mut seen[index], true));
                match span.last.checked_add(1) {
                    Some(next) => hash = next,
                    None => break,
                }
            }
            assert!(seen.iter().all(|seen| *seen));
            if n > 3 {
                assert_eq!(grains.part(Span::ALL, 3, true), grains.low_of(3));
            }
            let (index, upper) = grains.next();
            let next = grains.grown();
            assert_eq!(grains.index(upper), index);
            assert_eq!((next.index(upper), next.index(upper - 1)), (n, index));
            assert_eq!(next.shrunk(), grains);
            grains = next;
        }
    }
}
