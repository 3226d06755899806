//! Hints about where rows find room: the page that newcomers go to, and pages that rows have left.
//!
//! When they are lost the directory is looked through again, page by page, as room is wanted; how full a
//! page is, only the page says.

use std::collections::VecDeque;

use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU64, Ordering};

use super::layout::CLASSES;
use super::sides::{SIDES, Side};
use crate::unreadable::Unreadable;

/// Pages with room that are remembered, at most.
pub(crate) const REMEMBERED: usize = 2048;
/// Free class that makes a page of another tier worth remembering.
pub(crate) const COLD_CLASS: u8 = CLASSES as u8 / 16;
/// Free class for which a page is read from disk.
pub(crate) const READ_CLASS: u8 = CLASSES as u8 / 2;
/// Times that a page is found to have no room for a newcomer, since it had some for another, until
/// newcomers go elsewhere. One row may find it so twice.
const MOST_KEPT: u8 = 2;
/// Bits for the bytes of a row, which are fewer than those of a page; numbers of pages have 40.
const LENGTH_BITS: u32 = 24;

/// Hints about free space.
pub(crate) struct Space {
    /// The page that newcomers go to, or none; one for each side (see [`super::scans`]), of which
    /// there is one as long as there is no scan.
    current: [AtomicU64; SIDES],
    /// A page that newcomers went to and that has no room for another row like the last one, and the bytes
    /// of that in the low bits; 0 where nothing is known.
    short: AtomicU64,
    pub(super) spare: Mutex<Spare>,
    /// Held by who makes a page: the others find room in it.
    pub(super) growing: Mutex<()>,
}

pub(super) struct Spare {
    /// Pages that had room when they were last seen; their free class, and the bytes of room, then.
    pub(super) pages: VecDeque<(PageId, u8, usize)>,
    /// Pages that are being emptied: no newcomer is to fill them meanwhile.
    emptying: Vec<PageId>,
    /// Where in the directory the next page is listed, if there is a free entry.
    pub(super) listing: (PageId, usize),
    /// The page of the directory to look through next, if that is worth while.
    pub(super) unseen: Option<PageId>,
    /// Pages to do without, and those of the directory that were missed when a new page was to be listed.
    pub(super) unreadable: Unreadable,
    /// Where packing goes on.
    packing: (PageId, usize),
    /// For each side the page that newcomers go to, the bytes of room that it had when that was not
    /// enough for one of them, and how often it was so.
    kept: [(PageId, usize, u8); SIDES],
}

/// What is known of room in pages that have rows.
pub(crate) struct Holes {
    /// Bytes of it.
    pub bytes: usize,
    /// Whether there is room for more pages to be remembered.
    pub are_all: bool,
}

/// A page is being emptied.
pub(crate) struct Emptying<'s> {
    space: &'s Space,
    pid: PageId,
}

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        let mut spare = self.space.spare.lock();
        spare.emptying.retain(|pid| *pid != self.pid);
    }
}

/// What becomes of the page that newcomers go to when one of them finds no room there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// Smaller ones still come to it.
    Kept,
    /// There is this much room, for whoever looks for that.
    Left(PageId, usize),
    /// It is forgotten.
    Done,
}

impl Space {
    pub fn new(root: PageId) -> Space {
        Space {
            current: std::array::from_fn(|_| AtomicU64::new(PageId::NONE.0)),
            short: AtomicU64::new(0),
            spare: Mutex::new(Spare {
                pages: VecDeque::new(),
                emptying: Vec::new(),
                listing: (root, 0),
                unseen: Some(root),
                unreadable: Unreadable::default(),
                packing: (root, 0),
                kept: [(PageId::NONE, 0, 0); SIDES],
            }),
            growing: Mutex::new(()),
        }
    }

    /// The page that newcomers go to.
    pub fn current(&self, side: Side) -> Option<PageId> {
        let pid = PageId(self.current[usize::from(side) % SIDES].load(Ordering::Relaxed));
        (!pid.is_none()).then_some(pid)
    }

    /// A row of `len` bytes has come to a page, in which there are `room` bytes of room now.
    pub fn note_room(&self, pid: PageId, room: usize, len: usize) {
        if room < len && self.is_current(pid) {
            let known = pid.0 << LENGTH_BITS | len as u64;
            self.short.store(known, Ordering::Relaxed);
        }
    }

    /// Bytes of a row for which the page that newcomers go to has no room, if that is known; asked once.
    pub fn take_short(&self, side: Side) -> Option<usize> {
        let known = self.short.load(Ordering::Relaxed);
        if known == 0 {
            return None;
        }
        self.short.store(0, Ordering::Relaxed);
        let is_current = self.current(side) == Some(PageId(known >> LENGTH_BITS));
        is_current.then_some((known & ((1 << LENGTH_BITS) - 1)) as usize)
    }

    /// Whether newcomers of any side go to this page.
    pub fn is_current(&self, pid: PageId) -> bool {
        let mut all = self.current.iter();
        all.any(|current| current.load(Ordering::Relaxed) == pid.0)
    }

    pub fn set_current(&self, side: Side, pid: PageId) {
        self.current[usize::from(side) % SIDES].store(pid.0, Ordering::Relaxed);
    }

    /// The scan of this bit has ended: what was on one of its sides is so no more.
    pub fn merge_sides(&self, bit: Side, page_bytes: usize) {
        for (side, current) in self.current.iter().enumerate() {
            let pid = PageId(match side & usize::from(bit) {
                0 => continue,
                _ => current.swap(PageId::NONE.0, Ordering::Relaxed),
            });
            if !pid.is_none() {
                // How much room it has is seen when it is looked at.
                self.remember(pid, READ_CLASS, page_bytes / 2);
            }
        }
    }

    /// Lets newcomers go to another page, unless another thread has done so since it was `seen`.
    pub fn replace(&self, side: Side, seen: Option<PageId>, pid: PageId) -> bool {
        let seen = seen.unwrap_or(PageId::NONE).0;
        self.current[usize::from(side) % SIDES]
            .compare_exchange(seen, pid.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Forgets everything.
    pub fn forget(&self, root: PageId) {
        let new = Space::new(root);
        for side in 0..SIDES {
            self.set_current(side as Side, PageId::NONE);
        }
        *self.spare.lock() = new.spare.into_inner();
    }

    /// A page cannot be read. Forgets it, if it was one that might have room, or one of the directory in
    /// which a new one might be listed; whether it was, so that it will not be asked for again. Hints that
    /// only such a page has are lost with it.
    pub fn do_without(&self, pid: PageId, root: PageId) -> bool {
        let mut hint = false;
        for current in &self.current {
            let none = PageId::NONE.0;
            let tried = current.compare_exchange(pid.0, none, Ordering::Relaxed, Ordering::Relaxed);
            hint |= tried.is_ok();
        }
        let mut spare = self.spare.lock();
        let spare = &mut *spare;
        let pages = spare.pages.len();
        spare.pages.retain(|page| page.0 != pid);
        hint |= spare.pages.len() < pages;
        if spare.unseen == Some(pid) {
            (spare.unseen, hint) = (None, true);
        }
        if spare.listing.0 == pid {
            spare.listing = (root, 0);
        }
        spare.unreadable.note(pid, hint)
    }

    pub fn is_unreadable(&self, pid: PageId) -> bool {
        self.spare.lock().unreadable.has(pid)
    }

    /// Remembers a page with room.
    pub fn remember(&self, pid: PageId, class: u8, room: usize) {
        let mut spare = self.spare.lock();
        if spare.emptying.contains(&pid) {
            return;
        }
        if spare.pages.back().is_some_and(|last| last.0 == pid) {
            spare.pages.pop_back();
        }
        if spare.pages.len() >= REMEMBERED {
            spare.pages.pop_front();
        }
        spare.pages.push_back((pid, class, room));
    }

    /// Takes a page out that had room for a row of `len` bytes, other than `not`. The others stay, for
    /// shorter rows.
    pub fn take(&self, len: usize, not: PageId) -> Option<(PageId, u8, usize)> {
        let mut spare = self.spare.lock();
        let fits = |page: &(PageId, u8, usize)| page.2 >= len && page.0 != not;
        let at = spare.pages.iter().position(fits)?;
        spare.pages.remove(at)
    }

    /// Puts a page back that was taken out, to be the first to be taken again.
    pub fn give_back(&self, page: (PageId, u8, usize)) {
        let mut spare = self.spare.lock();
        if !spare.emptying.contains(&page.0) {
            spare.pages.push_front(page);
        }
    }

    /// No caller finds room in this page as long as the answer is there. `None` when another thread is
    /// emptying it. O(pages remembered).
    pub fn begin_emptying(&self, pid: PageId) -> Option<Emptying<'_>> {
        let mut spare = self.spare.lock();
        if spare.emptying.contains(&pid) {
            return None;
        }
        spare.pages.retain(|page| page.0 != pid);
        spare.emptying.push(pid);
        Some(Emptying { space: self, pid })
    }

    /// Newcomers go elsewhere than to this page. It must not displace pages with more room.
    pub fn leave(&self, full: Full, page_bytes: usize) {
        if let Full::Left(pid, room) = full
            && self.spare.lock().pages.len() < REMEMBERED / 2
        {
            self.remember(pid, class_of(room, page_bytes), room);
        }
    }

    /// What becomes of the page that newcomers go to, which has `room` bytes of room, and for one of them too
    /// little. Where long rows come among short ones it is kept for the short ones: the room that a long
    /// one leaves would be lost else.
    pub fn full(&self, side: Side, pid: PageId, room: usize, page_bytes: usize) -> Full {
        if class_of(room, page_bytes) < COLD_CLASS {
            return Full::Done;
        }
        let mut spare = self.spare.lock();
        let kept = &mut spare.kept[usize::from(side) % SIDES];
        let times = match (kept.0, kept.1) == (pid, room) {
            true => kept.2.saturating_add(1),
            false => 0,
        };
        *kept = (pid, room, times);
        match times < MOST_KEPT {
            true => Full::Kept,
            false => Full::Left(pid, room),
        }
    }

    /// The same, of a row for which that was asked before.
    pub fn full_since(&self, side: Side, pid: PageId, room: usize, page_bytes: usize) -> Full {
        let kept = self.spare.lock().kept[usize::from(side) % SIDES];
        match (kept.0, kept.1) == (pid, room) {
            true if kept.2 < MOST_KEPT => Full::Kept,
            true => Full::Left(pid, room),
            false => self.full(side, pid, room, page_bytes),
        }
    }

    /// At most this many bytes of holes are in the pages that are remembered. O(n) of those.
    pub fn scattered_at_most(&self) -> Holes {
        let spare = self.spare.lock();
        Holes {
            bytes: spare.pages.iter().map(|page| page.2).sum(),
            are_all: spare.pages.len() < REMEMBERED,
        }
    }

    /// Bytes of holes in the pages that are remembered, but for this one. Pages may be remembered several
    /// times, with what they had then; the most of it counts. O(n log n) of those.
    pub fn scattered(&self, but: PageId) -> usize {
        let mut seen: Vec<(u64, usize)> = {
            let spare = self.spare.lock();
            let others = spare.pages.iter().filter(|page| page.0 != but);
            others.map(|page| (page.0.0, page.2)).collect()
        };
        seen.sort_unstable();
        let mut bytes = 0;
        for (i, page) in seen.iter().enumerate() {
            if seen.get(i + 1).is_none_or(|next| next.0 != page.0) {
                bytes += page.1;
            }
        }
        bytes
    }

    /// Where packing goes on, to be moved.
    pub fn packing(&self) -> (PageId, usize) {
        self.spare.lock().packing
    }

    /// Moves it.
    pub fn set_packing(&self, at: (PageId, usize)) {
        self.spare.lock().packing = at;
    }
}

/// The free class of a page with `room` bytes of room.
pub(crate) fn class_of(room: usize, page_bytes: usize) -> u8 {
    (room * CLASSES / page_bytes).min(CLASSES - 1) as u8
}
