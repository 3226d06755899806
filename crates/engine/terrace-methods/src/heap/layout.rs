//! The bytes of a heap page: header, slots, rows, and how to read them; and of a location.
//!
//! ```text
//!   0  16 bytes of the page store
//!  16  u8   tag 0xB6, u8 0
//!  18  u16  number of slots, free ones included
//!  20  u16  bytes of heap             22  u16  of these, in no row
//!  24  u64  root page of the structure
//!  32  u64  page of the directory that lists this page
//!  40  u16  number of its entry there 42  u8   free class that the entry says, u8 0
//!  44  u16  number of rows, u16 0
//!  48  slots of 4 bytes: u16 offset, u16 length; a free slot has bit 15 of the length set, and is
//!      of a stretch that the row of this slot left, as long as nothing else lies there
//!      free space
//!      heap: rows in no order, up to the end of the page
//!
//! row:       u8 key length (255: u16 follows), key, value
//! location:  u40 page, u16 slot
//! ```
//!
//! Invariants: a row keeps its slot as long as it stays in its page, for the index names it.

use terrace_base::PageId;
use terrace_pages::{PAGE_HEADER_BYTES, Torn, View};

use crate::slotted::layout::{Counts, RECORD_PREFETCHED, SLOT_BYTES, Seen};
use crate::slotted::record::{key_bytes, key_len, put, put_key_len};

/// Says that a page is one of rows.
pub(crate) const TAG: u8 = 0xB6;
pub(crate) const OWNER: usize = 24;
pub(crate) const LISTED: usize = 32;
pub(crate) const LISTED_AT: usize = 40;
pub(crate) const CLASS: usize = 42;
pub(crate) const ROWS: usize = 44;
/// Start of the slots.
pub(crate) const SLOTS: usize = 48;
/// Slots that are looked at together for a free one.
const TOGETHER: usize = 16;
/// Set in the length of a free slot. Rows are shorter: a quarter of the largest page, and a key.
const FREE: u16 = 0x8000;
/// Into how many classes the free space of a page is divided.
pub(crate) const CLASSES: usize = 64;

/// Bytes of a row.
#[inline]
pub(crate) fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    key_bytes(key.len()) + value.len()
}

/// Writes a row into exactly the bytes that it takes.
pub(crate) fn encode_row(out: &mut [u8], key: &[u8], value: &[u8]) {
    let mut at = 0;
    put_key_len(out, &mut at, key.len());
    put(out, &mut at, key);
    out[at..].copy_from_slice(value);
}

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub page: PageId,
    pub slot: u16,
}

impl Location {
    /// Bytes of a location.
    pub const BYTES: usize = 7;

    /// As the index has it.
    pub fn bytes(self) -> [u8; Location::BYTES] {
        let p = self.page.0.to_le_bytes();
        let s = self.slot.to_le_bytes();
        [p[0], p[1], p[2], p[3], p[4], s[0], s[1]]
    }

    /// Reads what the index has: the `len` bytes at `at`. Nothing at all stands for an empty value
    /// without a row.
    #[inline]
    pub fn read(view: View<'_>, at: usize, len: usize) -> Seen<Option<Location>> {
        if len == 0 {
            return Ok(None);
        }
        if len != Location::BYTES {
            return Err(Torn);
        }
        let page = u64::from(view.u32(at)?) | u64::from(view.u8(at + 4)?) << 32;
        Ok(Some(Location {
            page: PageId(page),
            slot: view.u16(at + 5)?,
        }))
    }

    /// The same of bytes that were copied.
    pub fn of(bytes: &[u8]) -> Seen<Option<Location>> {
        Location::read(View::of(bytes), 0, bytes.len())
    }
}

/// A slot.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub at: usize,
    pub len: usize,
    pub free: bool,
}

impl Slot {
    /// Its four bytes.
    pub fn bytes(self) -> [u8; SLOT_BYTES] {
        let mark = if self.free { FREE } else { 0 };
        let [a, b] = (self.at as u16).to_le_bytes();
        let [c, d] = (self.len as u16 | mark).to_le_bytes();
        [a, b, c, d]
    }
}

/// Where the parts of a row are.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub at: usize,
    pub len: usize,
    pub key_at: usize,
    pub key_len: usize,
}

impl Row {
    pub fn value_at(&self) -> usize {
        self.key_at + self.key_len
    }

    pub fn value_len(&self) -> usize {
        self.at + self.len - self.value_at()
    }
}

/// What the directory says of a heap page, by the page itself: the free class.
#[inline]
pub(crate) fn listed_class(view: View<'_>) -> Seen<u8> {
    view.u8(CLASS)
}

/// The numbers in the header of a heap page; its slots are those of free ones, too.
pub(crate) type Numbers = Counts<SLOTS>;

/// Offset of a slot.
pub(crate) fn slot_at(i: usize) -> usize {
    Numbers::slot_at(i)
}

/// A heap page's header, read once and found consistent, over the page's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub view: View<'a>,
    pub numbers: Numbers,
    /// Rows.
    pub rows: usize,
}

impl<'a> Rows<'a> {
    /// Reads the header. `Torn` when it is not that of a heap page, or contradicts itself.
    #[inline]
    pub fn open(view: View<'a>) -> Seen<Rows<'a>> {
        let a = view.u64(PAGE_HEADER_BYTES)?;
        let rows = Rows {
            view,
            numbers: Numbers::of_word(a),
            rows: view.u16(ROWS)?.into(),
        };
        let sound =
            a as u8 == TAG && rows.numbers.are_sound(view.len()) && rows.rows <= rows.slots();
        if sound { Ok(rows) } else { Err(Torn) }
    }

    /// Root of the structure that the page belongs to.
    pub fn owner(&self) -> Seen<PageId> {
        self.view.u64(OWNER).map(PageId)
    }

    /// The page of the directory that lists this one, the entry there, and what it says is free.
    pub fn listed(&self) -> Seen<(PageId, usize, u8)> {
        let page = PageId(self.view.u64(LISTED)?);
        let at = self.view.u16(LISTED_AT)?;
        Ok((page, at.into(), self.view.u8(CLASS)?))
    }

    /// Slots, free ones included.
    #[inline]
    pub fn slots(&self) -> usize {
        self.numbers.count
    }

    /// Bytes between slots and heap.
    #[inline]
    pub fn free(&self) -> usize {
        self.numbers.free(self.view.len())
    }

    /// Bytes that are in no row.
    #[inline]
    pub fn reclaimable(&self) -> usize {
        self.free() + self.numbers.garbage
    }

    /// Bytes that its rows take, with their slots.
    pub fn used(&self) -> usize {
        self.view.len().saturating_sub(self.reclaimable())
    }

    /// Bytes of the longest row that could be put here.
    pub fn room(&self) -> usize {
        let slot = if self.rows < self.slots() {
            0
        } else {
            SLOT_BYTES
        };
        self.reclaimable().saturating_sub(slot)
    }

    /// A slot.
    #[inline]
    pub fn slot(&self, i: usize) -> Seen<Slot> {
        if i >= self.slots() {
            return Err(Torn);
        }
        let word = self.view.u32(slot_at(i))?;
        let len = (word >> 16) as u16;
        let slot = Slot {
            at: (word & 0xFFFF) as usize,
            len: (len & !FREE).into(),
            free: len & FREE != 0,
        };
        let start = self.view.len() - self.numbers.heap;
        // A free slot may have no stretch at all.
        let nothing = slot.free && slot.len == 0;
        if nothing || slot.at >= start && slot.at + slot.len <= self.view.len() {
            Ok(slot)
        } else {
            Err(Torn)
        }
    }

    /// The first free slot from `from` on. O(slots), many of which are looked at together.
    pub fn free_slot(&self, from: usize) -> Seen<Option<usize>> {
        let is_free = |word: u32| (word >> 16) as u16 & FREE != 0;
        let mut i = from;
        while i + TOGETHER <= self.slots() {
            let words: [u32; TOGETHER] = self.view.u32s(slot_at(i))?;
            if words.iter().fold(0, |all, word| all | word) >> 31 != 0 {
                break;
            }
            i += TOGETHER;
        }
        while i < self.slots() {
            if is_free(self.view.u32(slot_at(i))?) {
                return Ok(Some(i));
            }
            i += 1;
        }
        Ok(None)
    }

    /// The row in a slot. `Torn` when there is none.
    #[inline]
    pub fn row(&self, i: usize) -> Seen<Row> {
        let slot = self.slot(i)?;
        if slot.free {
            return Err(Torn);
        }
        self.view.prefetch_behind(slot.at, RECORD_PREFETCHED);
        let (key_len, key_at) = key_len(self.view, slot.at)?;
        if key_at + key_len > slot.at + slot.len {
            return Err(Torn);
        }
        Ok(Row {
            at: slot.at,
            len: slot.len,
            key_at,
            key_len,
        })
    }

    /// The row in a slot, if it is that of this key.
    #[inline]
    pub fn row_of(&self, i: usize, key: &[u8]) -> Seen<Row> {
        let row = self.row(i)?;
        let same =
            row.key_len == key.len() && self.view.compare(row.key_at, row.key_len, key)?.is_eq();
        if same { Ok(row) } else { Err(Torn) }
    }
}
