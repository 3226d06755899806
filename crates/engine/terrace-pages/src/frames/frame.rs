//! Frames: the header of each (32 bytes) and the pool of their pages.
//!
//! Invariants:
//! * `page` changes only under the exclusive latch; a frame without a page has `NO_PAGE` there.
//! * `place` is the newest registered place of the page on disk. It changes only under the map
//!   mutex, or by eviction, which swaps in [`MOVING`] first so that a retag cannot be lost.
//! * `dirty` is the epoch of the last change of the content, 0 when the place holds it; it is raised
//!   under the exclusive latch; under the shared latch only who has set [`WRITING`] changes it.

use terrace_base::Result;
use terrace_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::frames::latch::Latch;
use crate::frames::prefetch::{prefetch, prefetch_at};
use crate::frames::region::Region;
use crate::frames::view::View;
use crate::parts::cause::Came;

/// Which part of memory a page may stay in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// Passes through: replaced by clock.
    Cold = 0,
    /// Part of a hot tier that has a place in the file: never evicted page by page, counted against the hot cap.
    Hot = 1,
    /// Inner structure of a cold tier: replaced last, since every access goes through it.
    Inner = 2,
    /// What gathers changes, and soon has others: neither evicted nor cleaned ahead of a checkpoint, as long as
    /// there are few such pages.
    Top = 3,
    /// Part of a hot tier, as [`Class::Hot`], that lies in memory alone: it has no place in the file, is never written,
    /// and what it holds is protected by others. No page on disk has this class.
    Memory = 5,
}

impl Class {
    pub(crate) fn from_bits(bits: u8) -> Class {
        match bits & 7 {
            1 => Class::Hot,
            2 => Class::Inner,
            3 => Class::Top,
            5 => Class::Memory,
            _ => Class::Cold,
        }
    }

    /// Whether it is that of a page of a hot tier.
    #[inline]
    pub fn is_hot(self) -> bool {
        matches!(self, Class::Hot | Class::Memory)
    }
}

/// `page` of a frame that holds none.
pub const NO_PAGE: u64 = u64::MAX;
/// `place` of a frame that is being evicted.
pub const MOVING: u64 = u64::MAX;

/// This frame was changed after the cut while its content at the cut is still to be written; the
/// undo list has what was overwritten.
pub const CUT_PENDING: u8 = 1;
/// A copy of the page is being made or is on its way to disk; one thread at a time sets this, and
/// the frame is not given to another page before it is cleared.
pub const WRITING: u8 = 2;

/// How the page came, for its figures.
const CAME: u8 = 0b11_0000;
const CAME_AT: u32 = CAME.trailing_zeros();

/// Highest use count of a frame in the clock.
const MAX_USE: u8 = 3;
/// Bits of `used` that are that count. Those above count how often the page was asked for since it came, up to the
/// most that they hold.
const USES: u8 = 0b11;
const ONE_HIT: u8 = USES + 1;
/// Lines that [`Pool::prefetch`] asks for: the header and what finds a key in a page of a hundred
/// records.
const PREFETCHED_LINES: usize = 9;

/// Header of one frame.
#[repr(C)]
pub struct Frame {
    pub latch: Latch,
    pub page: AtomicU64,
    pub place: AtomicU64,
    pub dirty: AtomicU32,
    pub used: AtomicU8,
    pub class: AtomicU8,
    pub flags: AtomicU8,
    /// How many want the page to stay in memory.
    pub stays: AtomicU8,
}

// Under the concurrency checker atomics are larger.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Frame>() == 32);

impl Frame {
    fn empty() -> Frame {
        Frame {
            latch: Latch::new(),
            page: AtomicU64::new(NO_PAGE),
            place: AtomicU64::new(0),
            dirty: AtomicU32::new(0),
            used: AtomicU8::new(0),
            class: AtomicU8::new(0),
            flags: AtomicU8::new(0),
            stays: AtomicU8::new(0),
        }
    }

    pub fn class(&self) -> Class {
        Class::from_bits(self.class.load(Ordering::Relaxed))
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    pub fn set(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
    }

    /// Sets a flag; tells whether it was this call that did.
    pub fn claim(&self, flag: u8) -> bool {
        self.flags.fetch_or(flag, Ordering::AcqRel) & flag == 0
    }

    pub fn clear(&self, flag: u8) {
        self.flags.fetch_and(!flag, Ordering::AcqRel);
    }

    /// Notes a use; writes only when the counts are not at their limits for the class, so that the
    /// header of a much-used page stays shared between the processors' caches.
    #[inline]
    pub fn touch(&self) {
        // Of the others only tops have the bit of this one, and tops stay as long.
        let inner = self.class.load(Ordering::Relaxed) & Class::Inner as u8 != 0;
        let full = if inner { !USES | MAX_USE } else { !USES | 1 };
        let used = self.used.load(Ordering::Relaxed);
        if used < full {
            let hits = (used & !USES).saturating_add(ONE_HIT) & !USES;
            let uses = (used & USES).max(full & USES);
            self.used.store(hits | uses, Ordering::Relaxed);
        }
    }

    /// The use count in the clock.
    pub fn uses(&self) -> u8 {
        self.used.load(Ordering::Relaxed) & USES
    }

    /// The clock has passed by a page that was used.
    pub fn count_down(&self) {
        let used = self.used.load(Ordering::Relaxed);
        if used & USES > 0 {
            self.used.store(used - 1, Ordering::Relaxed);
        }
    }

    /// A page has come to be here, with this use count.
    pub fn begin(&self, uses: u8, came: Came) {
        self.used.store(uses, Ordering::Relaxed);
        self.flags.store((came as u8) << CAME_AT, Ordering::Release);
    }

    /// How often it was asked for since it came, up to 63 times.
    pub fn hits(&self) -> u8 {
        self.used.load(Ordering::Relaxed) / ONE_HIT
    }

    /// How it came.
    pub fn came(&self) -> Came {
        Came::from_bits((self.flags.load(Ordering::Relaxed) & CAME) >> CAME_AT)
    }
}

/// All frames and their pages.
pub struct Pool {
    frames: Box<[Frame]>,
    /// One bit for each frame, set while it has a page that is not hot: most frames are hot, and
    /// the hands of the clock need not look at them.
    not_hot: Box<[AtomicU64]>,
    region: Region,
    page_bytes: usize,
}

impl Pool {
    pub fn new(count: usize, page_bytes: usize) -> Result<Pool> {
        let frames = (0..count).map(|_| Frame::empty()).collect();
        let not_hot = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Pool {
            frames,
            not_hot,
            region: Region::new(count, page_bytes, true)?,
            page_bytes,
        })
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    #[inline]
    pub fn frame(&self, index: u32) -> &Frame {
        &self.frames[index as usize]
    }

    /// Notes whether a frame has a page that is not hot. The caller holds its exclusive latch.
    pub fn note_not_hot(&self, index: u32, not_hot: bool) {
        let (word, bit) = (&self.not_hot[index as usize / 64], 1 << (index % 64));
        if not_hot {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Once round the clock from `start`: the frames with pages that are not hot, or all of them.
    pub fn round(&self, start: u32, all: bool) -> impl Iterator<Item = u32> + '_ {
        let count = self.frames.len();
        let (mut at, mut left) = (start as usize % count, count);
        std::iter::from_fn(move || {
            while left > 0 {
                let bits = if all {
                    !0
                } else {
                    self.not_hot[at / 64].load(Ordering::Relaxed)
                } >> (at % 64);
                let span = (64 - at % 64).min(count - at).min(left);
                let skip = (bits.trailing_zeros() as usize).min(span);
                let found = (skip < span).then_some((at + skip) as u32);
                let step = skip + usize::from(found.is_some());
                at = (at + step) % count;
                left -= step;
                if found.is_some() {
                    return found;
                }
            }
            None
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Frame)> {
        self.frames.iter().enumerate().map(|(i, f)| (i as u32, f))
    }

    #[inline]
    pub fn view(&self, index: u32) -> View<'_> {
        // SAFETY: the piece is mapped as long as `self`; pieces are page_bytes, a multiple of 4096,
        // from a page-aligned start.
        unsafe { View::new(self.region.piece(index as usize), self.page_bytes) }
    }

    /// Asks the processor for the first lines of a page, which are about to be read: where it begins
    /// is known before its latch has been looked at, and all these lines come at the same time.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let start = self.region.piece(index as usize);
        for line in 0..PREFETCHED_LINES {
            prefetch_at(start.wrapping_add(line * 64));
        }
    }

    /// Asks for the one line of a page that has the byte at `at`.
    #[inline]
    pub fn prefetch_line(&self, index: u32, at: usize) {
        prefetch_at(self.region.piece(index as usize).wrapping_add(at));
    }

    /// Asks for the header of a frame, which has the latch of its page.
    #[inline]
    pub fn prefetch_header(&self, index: u32) {
        prefetch(self.frame(index));
    }

    /// The page of a frame, to be read while no thread can change it.
    ///
    /// # Safety
    /// The caller holds the frame's latch shared or exclusively for the life of the slice.
    pub unsafe fn bytes(&self, index: u32) -> &[u8] {
        // SAFETY: the piece is mapped and page_bytes long; the caller's latch keeps writers away.
        unsafe { std::slice::from_raw_parts(self.region.piece(index as usize), self.page_bytes) }
    }

    /// The page of a frame, to be changed.
    ///
    /// # Safety
    /// The caller holds the frame's latch exclusively, or owns the frame outright, for the life of
    /// the slice, and makes no second one. (Optimistic readers may read the bytes meanwhile through
    /// a [`View`]; they discard what they saw.)
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes_mut(&self, index: u32) -> &mut [u8] {
        // SAFETY: the piece is mapped and page_bytes long; exclusive by the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.region.piece(index as usize), self.page_bytes)
        }
    }

    /// Replaces the two bytes at `at` by what `f` makes of them: hint bits, set under a shared latch. Whether it was
    /// done.
    pub fn hint(&self, index: u32, at: usize, mut f: impl FnMut(u16) -> Option<u16>) -> bool {
        if at >= self.page_bytes || !at.is_multiple_of(2) {
            return false;
        }
        // SAFETY: inside the page and aligned, as just checked; the mapping lives as long as
        // `self`; hint bytes are changed by others only through this or under the exclusive latch.
        let word = unsafe {
            &*self
                .region
                .piece(index as usize)
                .add(at)
                .cast::<std::sync::atomic::AtomicU16>()
        };
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        word.fetch_update(relaxed, relaxed, |w| f(u16::from_le(w)).map(u16::to_le))
            .is_ok()
    }

    pub fn give_back(&self, index: u32) {
        self.region.give_back(index as usize);
    }

    /// The frame is to be used again after [`Pool::give_back`].
    pub fn take_back(&self, index: u32) {
        self.region.take_back(index as usize);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_round_meets_every_frame_that_is_not_hot_once() {
        for count in [1, 63, 64, 65, 200] {
            let pool = Pool::new(count, 4096).unwrap();
            let some: Vec<u32> = (0..count as u32)
                .filter(|i| i % 7 == 3 || *i > 150)
                .collect();
            for index in &some {
                pool.note_not_hot(*index, true);
            }
            for start in [0, 1, 62, 64, 199, 500] {
                let first = start % count as u32;
                let mut expected = some.clone();
                expected.sort_by_key(|i| (*i < first, *i));
                assert_eq!(pool.round(start, false).collect::<Vec<_>>(), expected);
                assert_eq!(pool.round(start, true).count(), count);
            }
            pool.note_not_hot(3 % count as u32, false);
            assert!(pool.round(0, false).all(|i| i != 3));
        }
    }
}
