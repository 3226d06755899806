//! The bytes of a bucket's page: header, slots, records, and how to read them.
//!
//! ```text
//!   0  16 bytes of the page store
//!  16  u8   tag 0xB3                  17  u8   0 first page of a bucket, 1 overflow page
//!  18  u16  count of records          20  u16  bytes of heap
//!  22  u16  of these, garbage
//!  24  u32  membership counter (first page)
//!  28  u32  which table's: the number of its root's page, or 2^32 - 1 if that is as large
//!  32  u64  lowest hash of the bucket
//!  40  u64  highest hash of the bucket
//!  48  u64  next overflow page, or none
//!  56  slots of 4 bytes: u16 offset, u16 tag (11 bits) and flags (5 bits)
//!      free space
//!      heap: records in no order, from the end of the page
//!
//! record:  as in a leaf of the tree, with the whole key
//! ```
//!
//! Invariants: slots are in the order of hash and key. The tag of a record is how far its hash lies
//! above the bucket's lowest one, in steps of a power of two chosen so that 11 bits suffice; so tags
//! rise with the slots, and hashes being evenly spread, where a tag stands among the slots can be
//! told from the tag to within a few places. All pages of a bucket name the same range of hashes.

use terrace_access::{Flags, Value};
use terrace_base::PageId;
use terrace_pages::{PAGE_HEADER_BYTES, Torn, View};

use super::Secret;

pub(crate) use crate::slotted::layout::{COUNT, SLOT_BYTES, Seen};
pub(crate) use crate::slotted::record::{
    Record, Slot, Stored, encode_record, encode_slot, key_bytes, value_bytes,
};

/// The numbers in the header of a bucket's page.
pub(crate) type Numbers = crate::slotted::layout::Counts<SLOTS>;

/// Says that a page belongs to a bucket.
pub(crate) const TAG: u8 = 0xB3;
/// Start of the header.
pub(crate) const HEADER: usize = PAGE_HEADER_BYTES;
/// Offset of the membership counter.
pub(crate) const MEMBERS: usize = 24;
const TABLE: usize = 28;
pub(crate) const LOW: usize = 32;
pub(crate) const LAST: usize = 40;
pub(crate) const NEXT: usize = 48;
/// Start of the slots.
pub(crate) const SLOTS: usize = 56;

const FIRST: u8 = 0;
const OVERFLOW: u8 = 1;
/// Bits of a tag.
const TAG_BITS: u32 = crate::slotted::record::HEAD_BITS;
/// Slots that are looked at together, around where a tag should stand: it is not there in one of ten
/// buckets of a hundred records.
const AROUND: usize = 16;
/// Slots by which a search begins to look further then.
const STRIDE: usize = 4;
/// Records of one tag that are looked at one after the other: a bucket whose hashes are evenly spread
/// has no more.
const FEW: usize = 4;

/// Bytes of a page that records and slots can take.
pub(crate) fn capacity(page_bytes: usize) -> usize {
    page_bytes - SLOTS
}

/// How a table's buckets name it, by its root: pages that move to another table are written anew.
pub(crate) fn table_of(root: PageId) -> u32 {
    u32::try_from(root.0).unwrap_or(u32::MAX)
}

/// Which hashes a bucket holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub low: u64,
    pub last: u64,
}

impl Span {
    /// All of them.
    pub const ALL: Span = Span {
        low: 0,
        last: u64::MAX,
    };

    #[inline]
    pub fn covers(&self, hash: u64) -> bool {
        self.low <= hash && hash <= self.last
    }

    /// How many hashes it covers, but one.
    #[inline]
    pub fn width(&self) -> u64 {
        self.last - self.low
    }

    /// What lies below a hash in it that is not its first, and the rest.
    pub fn cut_at(&self, boundary: u64) -> (Span, Span) {
        let lower = Span {
            low: self.low,
            last: boundary - 1,
        };
        let upper = Span {
            low: boundary,
            last: self.last,
        };
        (lower, upper)
    }

    #[inline]
    fn shift(&self) -> u32 {
        (u64::BITS - self.width().leading_zeros()).saturating_sub(TAG_BITS)
    }

    /// The tag of a hash that is covered.
    #[inline]
    pub fn tag(&self, hash: u64) -> u32 {
        (hash.wrapping_sub(self.low) >> self.shift()) as u32 & ((1 << TAG_BITS) - 1)
    }

    /// Where a tag stands among `count` evenly spread ones.
    #[inline]
    fn guess(&self, tag: u32, count: usize) -> usize {
        let tags = (self.width() >> self.shift()) as u32 + 1;
        // At most 11 bits times 14.
        (tag * count as u32 / tags) as usize
    }
}

/// A page's header, read once and found consistent, over the page's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    pub view: View<'a>,
    pub overflow: bool,
    pub numbers: Numbers,
    pub span: Span,
    /// See [`table_of`].
    pub table: u32,
    /// The next overflow page, or none.
    pub next: PageId,
}

impl<'a> Page<'a> {
    /// Reads the header. `Torn` when it is not that of a bucket's page, or contradicts itself.
    #[inline]
    pub fn open(view: View<'a>) -> Seen<Page<'a>> {
        let [a, b, low, last, next] = view.u64s(HEADER)?;
        let kind = (a >> 8) as u8;
        let page = Page {
            view,
            overflow: kind == OVERFLOW,
            numbers: Numbers::of_word(a),
            span: Span { low, last },
            table: (b >> 32) as u32,
            next: PageId(next),
        };
        let sound = a as u8 == TAG
            && kind <= OVERFLOW
            && page.numbers.are_sound(view.len())
            && page.span.low <= page.span.last;
        if sound { Ok(page) } else { Err(Torn) }
    }

    /// Records.
    #[inline]
    pub fn count(&self) -> usize {
        self.numbers.count
    }

    /// Bytes between the slots and the heap.
    pub fn free(&self) -> usize {
        self.numbers.free(self.view.len())
    }

    /// Bytes that would be free after a rewrite of the page.
    pub fn reclaimable(&self) -> usize {
        self.free() + self.numbers.garbage
    }

    /// Bytes that records and slots take.
    pub fn used(&self) -> usize {
        capacity(self.view.len()) - self.reclaimable()
    }

    /// The membership counter.
    pub fn members(&self) -> Seen<u32> {
        self.view.u32(MEMBERS)
    }

    /// Where slot `i` is.
    #[inline]
    pub fn slot_at(i: usize) -> usize {
        Numbers::slot_at(i)
    }

    /// Slot `i`; what the tree calls the head of a slot is the tag here.
    #[inline]
    pub fn slot(&self, i: usize) -> Seen<Slot> {
        if i >= self.count() {
            return Err(Torn);
        }
        Ok(Slot::of(self.view.u32(Page::slot_at(i))?))
    }

    /// The record in a slot.
    #[inline]
    pub fn record(&self, slot: Slot) -> Seen<Record> {
        Record::read(self.view, slot.offset())
    }

    /// First slot whose tag is at least this one. O(1) when the tags are evenly spread.
    #[inline]
    fn bound(&self, tag: u32) -> Seen<usize> {
        let guess = self.span.guess(tag, self.count());
        if let Some(most) = self.count().checked_sub(AROUND) {
            // Without a branch for each slot, none of which could be foreseen.
            let from = guess.saturating_sub(AROUND / 2).min(most);
            let seen: [u32; AROUND] = self.view.u32s(Page::slot_at(from))?;
            let below = seen.map(|word| usize::from(Slot::of(word).head() < tag));
            let below: usize = below.iter().sum();
            if (below > 0 || from == 0) && (below < AROUND || from == most) {
                return Ok(from + below);
            }
        }
        self.bound_far(tag, guess)
    }

    /// The same where it is not where it should be, as far as it goes.
    #[cold]
    fn bound_far(&self, tag: u32, guess: usize) -> Seen<usize> {
        let mut stride = STRIDE;
        let (mut low, mut high);
        if guess < self.count() && self.slot(guess)?.head() < tag {
            (low, high) = (guess + 1, guess + stride);
            while high < self.count() && self.slot(high)?.head() < tag {
                low = high + 1;
                stride *= 2;
                high += stride;
            }
            high = high.min(self.count());
        } else {
            (low, high) = (0, guess.min(self.count()));
            while let Some(below) = high.checked_sub(stride) {
                if self.slot(below)?.head() < tag {
                    low = below + 1;
                    break;
                }
                high = below;
                stride *= 2;
            }
        }
        while low < high {
            let middle = (low + high) / 2;
            if self.slot(middle)?.head() < tag {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// First slot after `from` whose tag is not this one, which slot `from` may have.
    fn run_end(&self, from: usize, tag: u32) -> Seen<usize> {
        let (mut low, mut stride) = (from, 1);
        let mut high = loop {
            let probe = low + stride - 1;
            if probe >= self.count() {
                break self.count();
            }
            if self.slot(probe)?.head() != tag {
                break probe;
            }
            low = probe + 1;
            stride *= 2;
        };
        while low < high {
            let middle = (low + high) / 2;
            if self.slot(middle)?.head() == tag {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The slot of the record with this key, whose hash the bucket covers, and the record.
    #[inline]
    pub fn find(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
    ) -> Seen<Option<(usize, Slot, Record)>> {
        let tag = self.span.tag(hash);
        let start = self.bound(tag)?;
        for i in start..self.count() {
            let slot = self.slot(i)?;
            if slot.head() != tag {
                break;
            }
            self.view
                .prefetch_behind(slot.offset(), crate::slotted::layout::RECORD_PREFETCHED);
            if i - start == FEW {
                return self.find_among(secret, i, hash, key);
            }
            if let Some(record) = self.is_key(slot, key)? {
                return Ok(Some((i, slot, record)));
            }
        }
        Ok(None)
    }

    /// The same among the records of one tag from slot `from` on, where they are many.
    #[cold]
    fn find_among(
        &self,
        secret: &Secret,
        from: usize,
        hash: u64,
        key: &[u8],
    ) -> Seen<Option<(usize, Slot, Record)>> {
        let i = self.place_among(secret, from, hash, key)?;
        if i == self.count() {
            return Ok(None);
        }
        let slot = self.slot(i)?;
        Ok(self.is_key(slot, key)?.map(|record| (i, slot, record)))
    }

    /// The record in a slot if it has this key.
    #[inline]
    fn is_key(&self, slot: Slot, key: &[u8]) -> Seen<Option<Record>> {
        let record = self.record(slot)?;
        let same = record.key_len == key.len()
            && self
                .view
                .compare(record.key_at, record.key_len, key)?
                .is_eq();
        Ok(same.then_some(record))
    }

    /// The first slot of a record that does not come before this key.
    pub fn place(&self, secret: &Secret, hash: u64, key: &[u8]) -> Seen<usize> {
        self.place_among(secret, self.bound(self.span.tag(hash))?, hash, key)
    }

    /// The same, known to be `from` or one of the slots after it. Where all records are in a small
    /// part of the bucket's range, as while a table is filled in the order of hashes, all have one
    /// tag.
    fn place_among(&self, secret: &Secret, from: usize, hash: u64, key: &[u8]) -> Seen<usize> {
        let (mut low, mut high) = (from, self.run_end(from, self.span.tag(hash))?);
        let mut other = Vec::new();
        while low < high {
            let middle = (low + high) / 2;
            self.key(middle, &mut other)?;
            if (secret.hash(&other), other.as_slice()) < (hash, key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Replaces `key` by the key in slot `i`.
    pub fn key(&self, i: usize, key: &mut Vec<u8>) -> Seen<()> {
        let record = self.record(self.slot(i)?)?;
        key.clear();
        self.view.append_to(record.key_at, record.key_len, key)
    }
}

/// What a page is besides its records.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// See [`table_of`].
    pub table: u32,
    pub overflow: bool,
    pub span: Span,
    pub members: u32,
    pub next: PageId,
}

/// Writes the header of a page. The bytes of the page store stay as they are.
pub(crate) fn write_header(page: &mut [u8], shape: &Shape, numbers: Numbers) {
    numbers.put(&mut page[COUNT..]);
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(
        HEADER,
        &[TAG, if shape.overflow { OVERFLOW } else { FIRST }],
    );
    put(MEMBERS, &shape.members.to_le_bytes());
    put(TABLE, &shape.table.to_le_bytes());
    put(LOW, &shape.span.low.to_le_bytes());
    put(LAST, &shape.span.last.to_le_bytes());
    put(NEXT, &shape.next.0.to_le_bytes());
}

/// Bytes of a record with its slot.
pub(crate) fn record_bytes(key: &[u8], value: Value<'_>) -> usize {
    SLOT_BYTES + key_bytes(key.len()) + value_bytes(value)
}

/// The flags of a slot's third byte, as a hint sees them.
pub(crate) fn flags_of(word: u16) -> Flags {
    Flags(word as u8 & Flags::MASK)
}
