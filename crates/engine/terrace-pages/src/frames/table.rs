//! The page table: one array with one 64-bit word per page.
//!
//! ```text
//! resident   10 | 0 ... | frame (32)
//! loading    01 | Place               a thread is reading it in
//! on disk    00 | Place (used)
//! free       00 | Place (free, with the link of the chain of free page numbers)
//! ```
//!
//! The array is one reserved mapping whose pages become resident as numbers are given out; a lookup
//! is one load.

use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::{PageId, Result};

use crate::frames::region::Region;
use crate::map::Place;

const LOADING: u64 = 1 << 62;
const RESIDENT: u64 = 1 << 63;

/// What a word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// In this frame.
    Resident(u32),
    /// Being read in from this place.
    Loading(Place),
    /// Not in memory: on disk there, or free.
    Out(Place),
}

impl Word {
    fn decode(bits: u64) -> Word {
        if bits & RESIDENT != 0 {
            Word::Resident(bits as u32)
        } else if bits & LOADING != 0 {
            Word::Loading(Place::from_bits(bits))
        } else {
            Word::Out(Place::from_bits(bits))
        }
    }

    fn encode(self) -> u64 {
        match self {
            Word::Resident(frame) => RESIDENT | u64::from(frame),
            Word::Loading(place) => LOADING | place.bits(),
            Word::Out(place) => place.bits(),
        }
    }
}

/// The chain of free page numbers; the links are in their words.
#[derive(Default)]
pub struct FreePages {
    pub head: Option<PageId>,
    pub count: u64,
}

/// The page table: where each page is, one word a page.
pub struct Table {
    region: Region,
    limit: u64,
    /// One past the highest page number given out.
    count: AtomicU64,
}

impl Table {
    /// A table that can grow to `limit` pages; nothing is resident yet.
    pub fn new(limit: u64) -> Result<Table> {
        let limit = limit.min(PageId::MAX.0);
        Ok(Table {
            region: Region::new(limit as usize, 8, false)?,
            limit,
            count: AtomicU64::new(0),
        })
    }

    /// Most pages that the table can hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// One past the highest page number given out.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Raises the count (under the map mutex).
    pub fn set_count(&self, count: u64) {
        debug_assert!(count <= self.limit);
        self.count.store(count, Ordering::Release);
    }

    /// Bytes of the array that have been touched.
    pub fn memory_bytes(&self) -> usize {
        (self.count() as usize * 8).next_multiple_of(4096)
    }

    #[inline]
    fn cell(&self, pid: PageId) -> Option<&AtomicU64> {
        if pid.0 >= self.limit {
            return None;
        }
        let (start, _) = self.region.start();
        // SAFETY: `pid` is below the limit that the mapping was sized for; the mapping is aligned
        // to a page and lives as long as `self`; all access to it is through these atomics.
        Some(unsafe { &*start.cast::<AtomicU64>().add(pid.0 as usize) })
    }

    /// The word of a page; a number that was never given out reads as free.
    #[inline]
    pub fn load(&self, pid: PageId) -> Word {
        match self.cell(pid) {
            Some(cell) => Word::decode(cell.load(Ordering::Acquire)),
            None => Word::Out(Place::FREE),
        }
    }

    /// Sets the word of a page whose word no other thread may change now.
    pub fn store(&self, pid: PageId, word: Word) {
        if let Some(cell) = self.cell(pid) {
            cell.store(word.encode(), Ordering::Release);
        }
    }

    /// Replaces `from` by `to`; tells whether `from` was still there.
    pub fn swap(&self, pid: PageId, from: Word, to: Word) -> bool {
        self.cell(pid).is_some_and(|cell| {
            cell.compare_exchange(
                from.encode(),
                to.encode(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
        })
    }
}
