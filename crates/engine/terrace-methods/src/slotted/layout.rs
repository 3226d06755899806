//! The numbers in the header of a slotted page.

use terrace_pages::{PAGE_HEADER_BYTES, Torn};

/// Answers of a page that may be changing while it is read.
pub(crate) type Seen<T> = Result<T, Torn>;

/// Length of a slot.
pub(crate) const SLOT_BYTES: usize = 4;
/// Bytes of a record that are fetched together, as soon as its slot is known: where in it the value is
/// says only its first line.
pub(crate) const RECORD_PREFETCHED: usize = 192;
/// Where the number of slots is; that of bytes of heap and of garbage follow.
pub(crate) const COUNT: usize = PAGE_HEADER_BYTES + 2;
/// Bytes of these numbers.
pub(crate) const COUNTS_BYTES: usize = 6;
/// What is wrong with a page in which a record is not part of the heap.
pub(crate) const TOO_MUCH_GARBAGE: &str = "this page counts more garbage than it has";

/// The numbers of a page whose slots begin at `SLOTS`.
#[derive(Clone, Copy)]
pub(crate) struct Counts<const SLOTS: usize> {
    /// Slots.
    pub count: usize,
    /// Bytes of heap.
    pub heap: usize,
    /// Of these, bytes of no record.
    pub garbage: usize,
}

impl<const SLOTS: usize> Counts<SLOTS> {
    /// Reads them from the first eight bytes of a header.
    #[inline]
    pub fn of_word(word: u64) -> Self {
        Counts {
            count: (word >> 16) as usize & 0xFFFF,
            heap: (word >> 32) as usize & 0xFFFF,
            garbage: (word >> 48) as usize,
        }
    }

    /// Reads them from the bytes of a page that has been seen to have them.
    pub fn in_header(page: &[u8]) -> Self {
        let word = terrace_base::codec::u64_at(page, PAGE_HEADER_BYTES);
        Counts::of_word(word.unwrap_or_default())
    }

    /// Writes them into the bytes from [`COUNT`] on.
    #[inline]
    pub fn put(self, header: &mut [u8]) {
        let words = [self.count, self.heap, self.garbage];
        for (out, word) in header.as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *out = (word as u16).to_le_bytes();
        }
    }

    /// Where a slot is.
    #[inline]
    pub const fn slot_at(i: usize) -> usize {
        SLOTS + i * SLOT_BYTES
    }

    /// Whether slots and heap find room in a page of `page_bytes` bytes, and garbage in the heap.
    #[inline]
    pub fn are_sound(&self, page_bytes: usize) -> bool {
        SLOTS + self.count * SLOT_BYTES + self.heap <= page_bytes && self.garbage <= self.heap
    }

    /// Bytes between the slots and the heap.
    #[inline]
    pub fn free(&self, page_bytes: usize) -> usize {
        page_bytes - SLOTS - self.count * SLOT_BYTES - self.heap
    }
}
