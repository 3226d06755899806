//! The bytes of a node: header, slots, records, fences, and how to read them.
//!
//! ```text
//!   0  16 bytes of the page store
//!  16  u8   tag 0xB1                  17  u8   level (bits 0..6), bit 7: no upper bound
//!  18  u16  count of records          20  u16  bytes of heap, fences included
//!  22  u16  of these, garbage         24  u16  length of the prefix (bits 0..12), shift (bits 13..15)
//!  26  u16  length of the low fence   28  u16  length of the high fence
//!  30  u8   ascending inserts in a row, u8 descending ones (leaf)
//!  32  u32  membership counter, u16 index of the last insert, u16 0 (leaf)
//!      u64  child below the first separator (inner)
//!  40  slots of 4 bytes in key order: u16 offset, u16 key head (11 bits) and flags (5 bits)
//!      free space
//!      heap: records in no order, the high fence, and at the very end the low fence
//!
//! record of a leaf:  u8 suffix length (255: u16 follows), u8 value length (253: u16 follows,
//!                    255: a large reference of u64 page and u32 length), suffix, value
//! record of an inner node:  5 bytes child, u8 suffix length (255: u16 follows), suffix
//! ```
//!
//! Invariants: all keys of a node lie in `low <= key < high`. The prefix is what both fences have in
//! common and is stored only as part of the low fence. At the edges of the tree, where a leaf has
//! one fence, the prefix is *loose*: something that the records of the leaf have in common with that
//! fence, of which it is stored as a part; a key without it lies beyond all records there. (Without
//! this the last leaf of a sorted load would hold whole keys, and be that much emptier once it is
//! split off.) The child of separator `i` covers the keys from it to the next.
//!
//! The *shift* is how many bits of the byte behind the prefix all keys between both fences have in
//! common; a key head is the 11 bits that come next. So an inner node with hundreds of separators from
//! a small part of the key space still has a head for each.

use terrace_base::PageId;
use terrace_pages::{PAGE_HEADER_BYTES, Torn, View};

pub(crate) use crate::slotted::layout::{COUNT, SLOT_BYTES, Seen};
pub(crate) use crate::slotted::record::{
    HEAD_BITS, Record as LeafRecord, Slot, Stored, encode_record as encode_leaf, encode_slot,
    key_bytes, value_bytes,
};
use crate::slotted::record::{LONG_VALUE_MARK, key_len, put, put_key_len};

/// The numbers in the header of a node.
pub(crate) type Numbers = crate::slotted::layout::Counts<SLOTS>;

/// Says that a page is a node of a B+tree.
pub(crate) const TAG: u8 = 0xB1;
/// Start of the node header.
pub(crate) const HEADER: usize = PAGE_HEADER_BYTES;
/// Length of the node header.
pub(crate) const HEADER_BYTES: usize = 24;
/// Start of the slots.
pub(crate) const SLOTS: usize = HEADER + HEADER_BYTES;
/// Deepest tree. A split leaves room where the next separator comes (`inner_cut`), so nodes hold about
/// two children each at least, and reach this with more leaves than a database has page numbers.
pub(crate) const MAX_LEVEL: u8 = 63;

/// Offset of the membership counter (leaf) in a page.
pub(crate) const MEMBERS: usize = 32;
const HEAP: usize = 20;
const GARBAGE: usize = 22;
pub(crate) const RUNS: usize = 30;
pub(crate) const LAST: usize = 36;
pub(crate) const LEVEL: usize = 17;
const FIRST_CHILD: usize = 32;
const UNBOUNDED: u8 = 0x80;
/// Bits of the prefix length that are the prefix length; the shift is above them.
const PREFIX_BITS: u32 = 13;
const PREFIX_MASK: usize = (1 << PREFIX_BITS) - 1;
/// What fits above the prefix length.
const MOST_SHIFT: u32 = 7;
const _: () = assert!(terrace_base::MAX_KEY_BYTES <= PREFIX_MASK);

/// Bytes of a child's number in an inner record.
pub(crate) const CHILD_BYTES: usize = 5;

/// Longest value that is stored beside its key. A leaf must hold one record with the longest key
/// and the longest inline value between two fences of the longest key, in a page of 4 KiB; bigger
/// pages scale.
pub const fn max_inline(page_bytes: usize) -> usize {
    page_bytes / 4 - 64
}

/// The [`HEAD_BITS`] of a suffix behind its first `shift` ones, which are at most 7.
#[inline]
pub(crate) fn head_of(suffix: &[u8], shift: u32) -> u32 {
    let bits = match suffix {
        [] => 0,
        [a] => (*a as u32) << 16,
        [a, b] => (*a as u32) << 16 | (*b as u32) << 8,
        [a, b, c, ..] => (*a as u32) << 16 | (*b as u32) << 8 | *c as u32,
    };
    bits >> (24 - HEAD_BITS - shift) & ((1 << HEAD_BITS) - 1)
}

/// Length of what two byte strings have in common at the front.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Length of the prefix that all keys between these fences have.
pub(crate) fn prefix_of_fences(low: &[u8], high: Option<&[u8]>) -> usize {
    high.map_or(0, |high| common_prefix(low, high))
}

/// How many bits of the byte behind their common prefix all keys between these fences have in
/// common. A fence that ends there counts as a zero byte, which is not above what it stands for.
pub(crate) fn shift_of_fences(low: &[u8], high: Option<&[u8]>) -> u32 {
    let Some(high) = high.filter(|_| !low.is_empty()) else {
        return 0;
    };
    let at = common_prefix(low, high);
    let byte = |fence: &[u8]| fence.get(at).copied().unwrap_or(0);
    (byte(low) ^ byte(high)).leading_zeros().min(MOST_SHIFT)
}

/// Writes an inner record into exactly the bytes it takes.
pub(crate) fn encode_inner(out: &mut [u8], suffix: (&[u8], &[u8]), child: PageId) {
    let mut at = 0;
    put(out, &mut at, &child.0.to_le_bytes()[..CHILD_BYTES]);
    put_key_len(out, &mut at, suffix.0.len() + suffix.1.len());
    put(out, &mut at, suffix.0);
    put(out, &mut at, suffix.1);
    debug_assert_eq!(at, out.len());
}

/// An inner record.
#[derive(Clone, Copy)]
pub(crate) struct InnerRecord {
    pub child: PageId,
    pub key_at: usize,
    pub key_len: usize,
    pub start: usize,
}

impl InnerRecord {
    pub fn end(&self) -> usize {
        self.key_at + self.key_len
    }
}

/// A node's header, read once and found consistent, over the page's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub view: View<'a>,
    pub level: u8,
    pub unbounded: bool,
    pub count: usize,
    pub heap: usize,
    pub garbage: usize,
    pub prefix_len: usize,
    /// Bits behind the prefix that the heads leave out.
    pub shift: u32,
    pub low_len: usize,
    pub high_len: usize,
}

impl<'a> Node<'a> {
    /// Reads the header. `Torn` when it is not that of a node, or contradicts itself.
    #[inline]
    pub fn open(view: View<'a>) -> Seen<Node<'a>> {
        Node::open_as(view, TAG)
    }

    /// The same of a page that is laid out as a node, and belongs to another structure: with its tag.
    #[inline]
    pub fn open_as(view: View<'a>, tag: u8) -> Seen<Node<'a>> {
        let a = view.u64(HEADER)?;
        let b = view.u64(HEADER + 8)?;
        let numbers = Numbers::of_word(a);
        let node = Node {
            view,
            level: (a >> 8) as u8 & !UNBOUNDED,
            unbounded: (a >> 8) as u8 & UNBOUNDED != 0,
            count: numbers.count,
            heap: numbers.heap,
            garbage: numbers.garbage,
            prefix_len: b as usize & PREFIX_MASK,
            shift: (b as u32 & 0xFFFF) >> PREFIX_BITS,
            low_len: (b >> 16) as usize & 0xFFFF,
            high_len: (b >> 32) as usize & 0xFFFF,
        };
        let sound = a as u8 == tag
            && node.level <= MAX_LEVEL
            && numbers.are_sound(view.len())
            && node.low_len + node.high_len + node.garbage <= node.heap
            && node.prefix_len
                <= if node.low_len == 0 {
                    node.high_len
                } else {
                    node.low_len
                };
        if sound { Ok(node) } else { Err(Torn) }
    }

    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// The numbers that all slotted pages have.
    #[inline]
    pub fn numbers(&self) -> Numbers {
        Numbers {
            count: self.count,
            heap: self.heap,
            garbage: self.garbage,
        }
    }

    /// Bytes between the slots and the heap.
    #[inline]
    pub fn free(&self) -> usize {
        self.numbers().free(self.view.len())
    }

    /// Bytes that would be free after a rewrite of the page.
    pub fn reclaimable(&self) -> usize {
        self.free() + self.garbage
    }

    /// Bytes of records and slots over the bytes that records and slots can have.
    pub fn fill(&self) -> f64 {
        let usable = self.view.len() - SLOTS - self.low_len - self.high_len;
        1.0 - self.reclaimable() as f64 / usable.max(1) as f64
    }

    /// Bytes of the leaf's counter for [`MEMBERS`].
    pub fn members(&self) -> Seen<u32> {
        self.view.u32(MEMBERS)
    }

    /// Where slot `i` is.
    #[inline]
    pub fn slot_at(i: usize) -> usize {
        Numbers::slot_at(i)
    }

    /// Slot `i`.
    #[inline]
    pub fn slot(&self, i: usize) -> Seen<Slot> {
        if i >= self.count {
            return Err(Torn);
        }
        Ok(Slot::of(self.view.u32(Node::slot_at(i))?))
    }

    /// The leaf record in a slot.
    #[inline]
    pub fn leaf_record(&self, slot: Slot) -> Seen<LeafRecord> {
        LeafRecord::read(self.view, slot.offset())
    }

    /// The inner record in slot `i`.
    #[inline]
    pub fn inner_record(&self, slot: Slot) -> Seen<InnerRecord> {
        let start = slot.offset();
        let low = self.view.u32(start)? as u64;
        let child = PageId(low | (self.view.u8(start + 4)? as u64) << 32);
        let (key_len, key_at) = key_len(self.view, start + CHILD_BYTES)?;
        if key_at + key_len > self.view.len() {
            return Err(Torn);
        }
        Ok(InnerRecord {
            child,
            key_at,
            key_len,
            start,
        })
    }

    /// Where the suffix of the key in this slot is, whatever the kind of node.
    #[inline]
    pub fn suffix_of(&self, slot: Slot) -> Seen<(usize, usize)> {
        if self.level == 0 {
            let (len, at) = key_len(self.view, slot.offset())?;
            // One byte of value length, or three.
            let at = at
                + if self.view.u8(at)? == LONG_VALUE_MARK {
                    3
                } else {
                    1
                };
            Ok((at, len))
        } else {
            let (len, at) = key_len(self.view, slot.offset() + CHILD_BYTES)?;
            Ok((at, len))
        }
    }

    /// Number of children of an inner node.
    pub fn children(&self) -> usize {
        self.count + 1
    }

    /// Child `i`: the one below the first separator is number 0.
    #[inline]
    pub fn child(&self, i: usize) -> Seen<PageId> {
        match i {
            0 => Ok(PageId(self.view.u64(FIRST_CHILD)?)),
            i => {
                let at = self.slot(i - 1)?.offset();
                Ok(PageId(
                    self.view.u32(at)? as u64 | (self.view.u8(at + 4)? as u64) << 32,
                ))
            }
        }
    }

    /// Where the prefix is: at the start of the low fence, or of the high one if there is no other.
    #[inline]
    pub fn prefix_at(&self) -> usize {
        let fences = if self.low_len == 0 {
            self.high_len
        } else {
            self.low_len
        };
        self.view.len() - fences
    }

    /// Whether a key that this node covers may lack the prefix.
    #[inline]
    pub fn is_loose(&self) -> bool {
        self.prefix_len > 0 && (self.unbounded || self.low_len == 0)
    }

    /// Appends the prefix to `out`.
    pub fn append_prefix(&self, out: &mut Vec<u8>) -> Seen<()> {
        self.view.append_to(self.prefix_at(), self.prefix_len, out)
    }

    /// Whether `key` starts with the prefix.
    pub fn has_prefix(&self, key: &[u8]) -> Seen<bool> {
        let Some(front) = key.get(..self.prefix_len) else {
            return Ok(false);
        };
        Ok(self
            .view
            .compare(self.prefix_at(), self.prefix_len, front)?
            .is_eq())
    }

    /// Appends the key in slot `i` to `out`.
    pub fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Seen<()> {
        let (at, len) = self.suffix_of(self.slot(i)?)?;
        self.append_prefix(out)?;
        self.view.append_to(at, len, out)
    }

    /// Appends the low fence to `out`.
    pub fn append_low(&self, out: &mut Vec<u8>) -> Seen<()> {
        self.view
            .append_to(self.view.len() - self.low_len, self.low_len, out)
    }

    /// Whether this key lies between the fences. O(1) comparisons, no copies.
    pub fn covers(&self, key: &[u8]) -> Seen<bool> {
        let low = self.view.len() - self.low_len;
        if self.view.compare(low, self.low_len, key)?.is_gt() {
            return Ok(false);
        }
        Ok(self.unbounded
            || self
                .view
                .compare(low - self.high_len, self.high_len, key)?
                .is_gt())
    }

    /// The low fence.
    pub fn low(&self) -> Seen<Vec<u8>> {
        let mut out = Vec::with_capacity(self.low_len);
        self.append_low(&mut out)?;
        Ok(out)
    }

    /// The high fence, `None` without an upper bound.
    pub fn high(&self) -> Seen<Option<Vec<u8>>> {
        if self.unbounded {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(self.high_len);
        let at = self.view.len() - self.low_len - self.high_len;
        self.view.append_to(at, self.high_len, &mut out)?;
        Ok(Some(out))
    }
}

/// What a node is besides its records.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub level: u8,
    pub low: &'a [u8],
    pub high: Option<&'a [u8]>,
    /// Membership counter of a leaf, first child of an inner node.
    pub extra: Extra,
}

impl<'a> Shape<'a> {
    /// That of a leaf.
    pub fn leaf(low: &'a [u8], high: Option<&'a [u8]>, members: u32) -> Shape<'a> {
        Shape {
            level: 0,
            low,
            high,
            extra: Extra::Members(members),
        }
    }
}

/// See [`Shape::extra`].
#[derive(Clone, Copy)]
pub(crate) enum Extra {
    Members(u32),
    FirstChild(PageId),
}

/// Writes the header of a node. The bytes of the page store stay as they are.
pub(crate) fn write_header(
    page: &mut [u8],
    shape: &Shape<'_>,
    (count, heap, prefix_len, shift): (usize, usize, usize, u32),
    runs: (u8, u8),
) {
    let mut h = [0u8; HEADER_BYTES];
    let mut u16_at = |at: usize, n: usize| {
        h[at - HEADER..at - HEADER + 2].copy_from_slice(&(n as u16).to_le_bytes());
    };
    u16_at(COUNT, count);
    u16_at(HEAP, heap);
    u16_at(GARBAGE, 0);
    u16_at(24, prefix_len | (shift as usize) << PREFIX_BITS);
    u16_at(26, shape.low.len());
    u16_at(28, shape.high.map_or(0, <[u8]>::len));
    h[0] = TAG;
    h[LEVEL - HEADER] = shape.level | if shape.high.is_none() { UNBOUNDED } else { 0 };
    h[RUNS - HEADER] = runs.0;
    h[RUNS - HEADER + 1] = runs.1;
    match shape.extra {
        Extra::Members(n) => {
            h[MEMBERS - HEADER..MEMBERS - HEADER + 4].copy_from_slice(&n.to_le_bytes());
            // No last insert: an append to the front of an empty leaf continues a run.
            h[LAST - HEADER..LAST - HEADER + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        }
        Extra::FirstChild(child) => {
            h[FIRST_CHILD - HEADER..FIRST_CHILD - HEADER + 8]
                .copy_from_slice(&child.0.to_le_bytes());
        }
    }
    page[HEADER..SLOTS].copy_from_slice(&h);
}
