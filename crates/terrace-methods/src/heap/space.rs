//! Where rows find room: the page that newcomers go to, pages that rows have left, new pages; and
//! what becomes of a page when rows have come or gone.
//!
//! What is kept in memory here are hints alone. When they are lost the directory is looked through
//! again, page by page, as room is wanted; how full a page is, only the page says.

use std::collections::VecDeque;

use terrace_access::{Attempt, Door, Interrupt};
use terrace_base::PageId;
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Mutex, spin_loop};
use terrace_pages::{Class, Exclusive};

use super::Heap;
use super::directory::{self, Directory, NO_DIRECTORY};
use super::layout::{CLASS, CLASSES, Rows};
use super::page::{NO_ROWS, begin};
use super::scans::{SIDES, Side};
use crate::slots::SLOT_BYTES;
use crate::unreadable::Unreadable;

/// Pages with room that are remembered, at most.
const REMEMBERED: usize = 1024;
/// Pages that are looked at for one row before a new one is taken.
const LOOKS: usize = 32;
/// How far the class in the directory may be off before it is set right.
const OFF: u8 = 4;
/// Room that makes a page of a hot tier worth remembering: that of a small row.
const HOT_ROOM: usize = 24;
/// Free class that makes a page of another tier worth remembering.
const COLD_CLASS: u8 = CLASSES as u8 / 16;
/// Free class for which a page is read from disk.
const READ_CLASS: u8 = CLASSES as u8 / 2;
/// Times that a page is found to have no room for a newcomer, since it had some for another, until
/// newcomers go elsewhere. One row may find it so twice.
const MOST_KEPT: u8 = 2;
/// Times that a latch is tried.
const TRIES: usize = 200;
/// More pages than a directory has: a chain that is longer goes round in circles.
pub(crate) const LONGEST_CHAIN: usize = 1 << 20;

/// Hints about free space.
pub(crate) struct Space {
    /// The page that newcomers go to, or none; one for each side (see [`super::scans`]), of which
    /// there is one as long as nobody scans.
    current: [AtomicU64; SIDES],
    spare: Mutex<Spare>,
    /// Held by who makes a page: the others find room in it.
    growing: Mutex<()>,
}

struct Spare {
    /// Pages that had room when they were last seen; their free class, and the bytes of room, then.
    pages: VecDeque<(PageId, u8, usize)>,
    /// Pages that are being emptied: nobody is to fill them meanwhile.
    emptying: Vec<PageId>,
    /// Where in the directory the next page is listed, if there is a free entry.
    listing: (PageId, usize),
    /// The page of the directory to look through next, if that is worth while.
    unseen: Option<PageId>,
    /// Pages to do without, and those of the directory that were missed when a new page was to be listed.
    unreadable: Unreadable,
    /// Where packing goes on.
    packing: (PageId, usize),
    /// For each side the page that newcomers go to, the bytes of room that it had when that was not
    /// enough for one of them, and how often it was so.
    kept: [(PageId, usize, u8); SIDES],
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
enum Full {
    /// Smaller ones still come to it.
    Kept,
    /// There is so much room, for whoever looks for that.
    Left(PageId, usize),
    /// It is forgotten.
    Done,
}

impl Space {
    pub fn new(root: PageId) -> Space {
        Space {
            current: std::array::from_fn(|_| AtomicU64::new(PageId::NONE.0)),
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

    /// Whether newcomers of any side go to this page.
    pub fn is_current(&self, pid: PageId) -> bool {
        let mut all = self.current.iter();
        all.any(|current| current.load(Ordering::Relaxed) == pid.0)
    }

    fn set_current(&self, side: Side, pid: PageId) {
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

    /// Lets newcomers go to another page, unless somebody else has done so since it was `seen`.
    fn replace(&self, side: Side, seen: Option<PageId>, pid: PageId) -> bool {
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

    fn is_unreadable(&self, pid: PageId) -> bool {
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
    fn take(&self, len: usize, not: PageId) -> Option<(PageId, u8, usize)> {
        let mut spare = self.spare.lock();
        let fits = |page: &(PageId, u8, usize)| page.2 >= len && page.0 != not;
        let at = spare.pages.iter().position(fits)?;
        spare.pages.remove(at)
    }

    /// Puts a page back that was taken out, to be the first to be taken again.
    fn give_back(&self, page: (PageId, u8, usize)) {
        let mut spare = self.spare.lock();
        if !spare.emptying.contains(&page.0) {
            spare.pages.push_front(page);
        }
    }

    /// Nobody finds room in this page as long as the answer is there. `None` when somebody else is
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
    fn leave(&self, full: Full, page_bytes: usize) {
        if let Full::Left(pid, room) = full
            && self.spare.lock().pages.len() < REMEMBERED / 2
        {
            self.remember(pid, class_of(room, page_bytes), room);
        }
    }

    /// What becomes of the page that newcomers go to, which has so much room, and for one of them too
    /// little. Where long rows come among short ones it is kept for the short ones: the room that a long
    /// one leaves would be lost else.
    fn full(&self, side: Side, pid: PageId, room: usize, page_bytes: usize) -> Full {
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
    fn full_since(&self, side: Side, pid: PageId, room: usize, page_bytes: usize) -> Full {
        let kept = self.spare.lock().kept[usize::from(side) % SIDES];
        match (kept.0, kept.1) == (pid, room) {
            true if kept.2 < MOST_KEPT => Full::Kept,
            true => Full::Left(pid, room),
            false => self.full(side, pid, room, page_bytes),
        }
    }

    /// Bytes of room in the pages that are remembered, but for this one. Pages may be remembered
    /// several times, with what they had then; the most of it counts. O(n log n) of those.
    pub fn scattered(&self, but: PageId) -> usize {
        let mut seen: Vec<(u64, usize)> = {
            let spare = self.spare.lock();
            let others = spare.pages.iter().filter(|page| page.0 != but);
            others.map(|page| (page.0.0, page.2)).collect()
        };
        seen.sort_unstable();
        let mut sum = 0;
        for (i, page) in seen.iter().enumerate() {
            if seen.get(i + 1).is_none_or(|next| next.0 != page.0) {
                sum += page.1;
            }
        }
        sum
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

/// The free class of a page with so many bytes of room.
pub(crate) fn class_of(room: usize, page_bytes: usize) -> u8 {
    (room * CLASSES / page_bytes).min(CLASSES - 1) as u8
}

impl Heap {
    /// Lets newcomers go to a page, whatever it is: hints may be wrong.
    #[cfg(test)]
    pub(crate) fn misdirect(&self, pid: PageId) {
        self.space.set_current(0, pid);
    }

    /// As if the page were being emptied as long as the answer is there.
    #[cfg(test)]
    pub(crate) fn pretend_emptying(&self, pid: PageId) -> Option<Emptying<'_>> {
        self.space.begin_emptying(pid)
    }

    /// Where the row of a key lies.
    #[cfg(test)]
    pub(crate) fn page_of(&self, key: &[u8]) -> Attempt<Option<PageId>> {
        use terrace_access::{AccessMethod, Touch};
        let mut at = Vec::new();
        self.index()?.try_get(key, Touch::No, &mut at)?;
        let at = super::layout::Location::of(&at).map_err(|_| self.bad_location(key))?;
        Ok(at.map(|at| at.page))
    }

    /// The exclusive latch of a page, tried for a while: whoever holds one of this structure's pages
    /// may hold what the caller has, but only if the pages are damaged.
    pub(crate) fn grab<'d>(&'d self, door: &'d Door<'_>, pid: PageId) -> Attempt<Exclusive<'d>> {
        for _ in 0..TRIES {
            let tried = self.store.optimistic(pid);
            match tried.and_then(|page| page.upgrade_exclusive(door)) {
                Err(Interrupt::Conflict) if self.store.exists(pid) => spin_loop(),
                other => return other,
            }
        }
        Err(Interrupt::Conflict)
    }

    /// Bytes of the longest row for which a page has room; `None` when it is no page of rows of this
    /// structure (any more). `Miss` when it is not in memory, but only where pages come and go: a hot
    /// tier's would be.
    pub(crate) fn room_of(&self, pid: PageId) -> Attempt<Option<usize>> {
        for _ in 0..TRIES {
            let page = match self.store.optimistic(pid) {
                Ok(page) => page,
                Err(Interrupt::Conflict) if self.store.exists(pid) => {
                    spin_loop();
                    continue;
                }
                Err(Interrupt::Conflict) => return Ok(None),
                Err(Interrupt::Miss(_)) if self.tier == Class::Hot => return Ok(None),
                Err(other) => return Err(other),
            };
            let seen = Rows::open(page.view()).and_then(|rows| Ok((rows.owner()?, rows.room())));
            if page.is_valid() {
                let mine = seen.ok().filter(|seen| seen.0 == self.root);
                return Ok(mine.map(|seen| seen.1));
            }
        }
        Err(Interrupt::Conflict)
    }

    /// A page that there is with room for a row of `len` bytes, other than `not`, on this side: the one
    /// that newcomers go to, or one that they go to from now on, or one for this row alone. Holds
    /// nothing. O(1) pages looked at.
    pub(crate) fn find_room(&self, len: usize, not: PageId, side: Side) -> Attempt<Option<PageId>> {
        let page_bytes = self.store.page_bytes();
        let mut asked = None;
        for _ in 0..LOOKS {
            let seen = self.space.current(side);
            let mut full = Full::Done;
            if let Some(pid) = seen {
                match self.room_of(pid)? {
                    Some(room) if !self.is_on_side(pid, side) => {
                        // A scan has begun, or has passed it; it is not full for that.
                        if self.space.replace(side, seen, PageId::NONE) {
                            self.space.remember(pid, class_of(room, page_bytes), room);
                        }
                        continue;
                    }
                    Some(room) if room >= len && pid != not => return Ok(Some(pid)),
                    Some(room) => {
                        full = match asked {
                            Some((asked, full)) if asked == pid => full,
                            _ => self.space.full(side, pid, room, page_bytes),
                        };
                        asked = Some((pid, full));
                    }
                    None => {
                        self.space.replace(side, seen, PageId::NONE);
                        continue;
                    }
                }
            }
            let Some(next) = self.space.take(len, not) else {
                if self.look_through()? {
                    continue;
                }
                return Ok(None);
            };
            let (pid, class, room) = next;
            if !self.is_on_side(pid, side) {
                self.space.remember(pid, class, room);
                continue;
            }
            // Not worth a read, unless there is much to be had.
            if !self.store.is_resident(pid) && (class < READ_CLASS || !self.store.exists(pid)) {
                continue;
            }
            let room = match self.room_of(pid) {
                Err(miss @ Interrupt::Miss(_)) => {
                    self.space.give_back(next);
                    return Err(miss);
                }
                other => other?,
            };
            match room {
                Some(room) if room >= len && full == Full::Kept => {
                    self.use_once(pid, room, len);
                    return Ok(Some(pid));
                }
                Some(room) if room >= len => match self.space.replace(side, seen, pid) {
                    true => self.space.leave(full, page_bytes),
                    false => self.space.give_back(next),
                },
                // Others have come since it was remembered.
                Some(room) => self.space.leave(self.rest(pid, room), page_bytes),
                // It may have been freed since, and be another's by now.
                None => {}
            }
        }
        Ok(None)
    }

    /// A row of `len` bytes goes to a page that has so much room and that other newcomers do not go to:
    /// the next one finds it first.
    fn use_once(&self, pid: PageId, room: usize, len: usize) {
        if let Full::Left(pid, room) = self.rest(pid, room.saturating_sub(len + SLOT_BYTES)) {
            let class = class_of(room, self.store.page_bytes());
            self.space.give_back((pid, class, room));
        }
    }

    /// A page with so much room, if that is worth remembering.
    fn rest(&self, pid: PageId, room: usize) -> Full {
        match class_of(room, self.store.page_bytes()) >= COLD_CLASS {
            true => Full::Left(pid, room),
            false => Full::Done,
        }
    }

    /// Looks through one more page of the directory for heap pages with room. Returns whether there
    /// was one that had not been looked through.
    fn look_through(&self) -> Attempt<bool> {
        let Some(pid) = self.space.spare.lock().unseen else {
            return Ok(false);
        };
        let page = match self.store.shared(pid) {
            Err(Interrupt::Conflict) if !self.store.exists(pid) => {
                // From before the directory was cleared; or damage, which others will meet.
                self.space.spare.lock().unseen = None;
                return Ok(false);
            }
            other => other?,
        };
        let seen = self.directory_in(page.view(), pid);
        let seen = seen.ok_or_else(|| page.torn(NO_DIRECTORY))?;
        let mut spare = self.space.spare.lock();
        for i in 0..seen.entries() {
            let Ok((heap, class)) = seen.entry(i) else {
                break;
            };
            if !heap.is_none() && class >= COLD_CLASS {
                if spare.pages.len() >= REMEMBERED {
                    spare.pages.pop_front();
                }
                let room = usize::from(class) * self.store.page_bytes() / CLASSES;
                spare.pages.push_back((heap, class, room));
            }
        }
        spare.unseen = (!seen.next.is_none() && seen.next != pid).then_some(seen.next);
        Ok(true)
    }

    /// A page of the directory, if it is one of this structure.
    pub(crate) fn directory_in<'a>(
        &self,
        view: terrace_pages::View<'a>,
        pid: PageId,
    ) -> Option<Directory<'a>> {
        let seen = Directory::open(view).ok()?;
        let mine = if pid == self.root {
            seen.is_root
        } else {
            !seen.is_root && seen.link == self.root
        };
        mine.then_some(seen)
    }

    /// Makes a heap page on this side, lists it, and lets newcomers go there; unless somebody else has done so
    /// meanwhile, and there is room for a row of `len` bytes, and it is not `not`. Holds no latch
    /// else. O(1), but for full pages of the directory.
    pub(crate) fn grow(
        &self,
        door: &Door<'_>,
        len: usize,
        not: PageId,
        side: Side,
    ) -> Attempt<PageId> {
        let _growing = self.space.growing.lock();
        let mut full = Full::Done;
        if let Some(pid) = self.space.current(side)
            && self.is_on_side(pid, side)
        {
            match self.room_of(pid)? {
                Some(room) if room >= len && pid != not => return Ok(pid),
                Some(room) => {
                    full = self
                        .space
                        .full_since(side, pid, room, self.store.page_bytes())
                }
                None => {}
            }
        }
        let as_it_was = (len, full, side);
        let (mut at, mut from) = self.space.spare.lock().listing;
        for _ in 0..LONGEST_CHAIN {
            let mut list = match self.store.exclusive(at, door) {
                // A hint from before the directory was cleared.
                Err(Interrupt::Conflict) if at != self.root && !self.store.exists(at) => {
                    (at, from) = (self.root, 0);
                    continue;
                }
                Err(miss @ Interrupt::Miss(_)) => {
                    // Without the root there is nothing.
                    if at != self.root {
                        self.space.spare.lock().unreadable.miss(at);
                    }
                    return Err(miss);
                }
                other => other?,
            };
            let Some(seen) = self.directory_in(list.view(), at) else {
                return Err(list.torn(NO_DIRECTORY));
            };
            // What lies behind a page that cannot be read stays behind the one that is put before it.
            let goes_on = !seen.next.is_none() && seen.next != at;
            let (goes_on, behind) = (goes_on && !self.space.is_unreadable(seen.next), seen.next);
            let free = seen.free_entry(from);
            match free.map_err(|_| list.torn(NO_DIRECTORY))? {
                Some(i) => return self.list_new(door, &mut list, i, as_it_was),
                None if goes_on => (at, from) = (behind, 0),
                None => {
                    let class = self.class_of_directory();
                    let mut next = self.store.allocate(door, class)?;
                    let bytes = self.store.page_bytes();
                    directory::begin(&mut next, directory::CHAIN_TAG, self.root, bytes)?;
                    if behind != at {
                        directory::set_next(&mut next, behind)?;
                    }
                    directory::set_next(&mut list, next.pid())?;
                    drop(list);
                    // Should there be no heap page to be had now, it is there for the next one.
                    return self.list_new(door, &mut next, 0, as_it_was);
                }
            }
        }
        let why = "this directory goes round in circles";
        Err(self.store.shared(self.root)?.torn(why))
    }

    fn list_new(
        &self,
        door: &Door<'_>,
        list: &mut Exclusive<'_>,
        i: usize,
        (len, full, side): (usize, Full, Side),
    ) -> Attempt<PageId> {
        let mut page = self.store.allocate(door, self.tier)?;
        let pid = page.pid();
        // As a full page, for it soon is: the directory need not be told of every row that comes.
        begin(&mut page, self.root, list.pid(), i, 0)?;
        self.scans.made(pid, side);
        directory::set_entry(list, i, PageId::NONE, pid, 0)?;
        self.space.spare.lock().listing = (list.pid(), i + 1);
        if full == Full::Kept {
            let room = Rows::open(page.view()).map_or(0, |rows| rows.room());
            self.use_once(pid, room, len);
        } else {
            self.space.set_current(side, pid);
            self.space.leave(full, self.store.page_bytes());
        }
        Ok(pid)
    }

    /// Class of the pages of the directory.
    pub(crate) fn class_of_directory(&self) -> Class {
        match self.tier {
            Class::Hot => Class::Hot,
            _ => Class::Inner,
        }
    }

    /// After rows have come to a page: the directory may have to know. Tidying: done when it can be
    /// done at once.
    pub(crate) fn filled(&self, door: &Door<'_>, mut page: Exclusive<'_>) {
        let told = Rows::open(page.view()).and_then(|rows| Ok((rows.class(), rows.listed()?.2)));
        if let Ok((class, listed)) = told
            && class + OFF <= listed
        {
            // No record depends on it.
            let _ = self.tell(door, &mut page, class);
        }
    }

    /// After rows have left a page: it goes when it has none any more, or is remembered. Tidying:
    /// done when it can be done at once.
    pub(crate) fn emptied(&self, door: &Door<'_>, mut page: Exclusive<'_>) {
        let Ok(rows) = Rows::open(page.view()) else {
            return;
        };
        let (pid, class, room) = (page.pid(), rows.class(), rows.room());
        let is_current = self.space.is_current(pid);
        if rows.rows == 0 && !is_current && self.unlist(door, &page).is_ok() {
            self.scans.gone(pid);
            page.free();
            return;
        }
        let listed = rows.listed().map_or(class, |listed| listed.2);
        if class >= listed.saturating_add(OFF) {
            let _ = self.tell(door, &mut page, class);
        }
        let worth = match self.tier {
            Class::Hot => room >= HOT_ROOM,
            _ => class >= COLD_CLASS,
        };
        if worth && !is_current {
            self.space.remember(pid, class, room);
        }
    }

    /// Sets the free class in the directory and in the page.
    fn tell(&self, door: &Door<'_>, page: &mut Exclusive<'_>, class: u8) -> Attempt<()> {
        let (mut list, i) = self.listing_of(door, page)?;
        directory::set_class(&mut list, i, class)?;
        page.change(CLASS, 1)?[0] = class;
        Ok(())
    }

    /// The page of the directory that lists a heap page, and the entry there.
    fn listing_of<'d>(
        &'d self,
        door: &'d Door<'_>,
        page: &Exclusive<'_>,
    ) -> Attempt<(Exclusive<'d>, usize)> {
        let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
        let (pid, i, _) = rows.listed().map_err(|_| page.torn(NO_ROWS))?;
        let list = self.grab(door, pid)?;
        let named = self
            .directory_in(list.view(), pid)
            .and_then(|seen| seen.entry(i).ok());
        if named.map(|entry| entry.0) != Some(page.pid()) {
            return Err(page.torn("the directory does not list this heap page where it says so"));
        }
        Ok((list, i))
    }

    /// Takes a heap page out of the directory.
    pub(crate) fn unlist(&self, door: &Door<'_>, page: &Exclusive<'_>) -> Attempt<()> {
        let (mut list, i) = self.listing_of(door, page)?;
        directory::set_entry(&mut list, i, page.pid(), PageId::NONE, 0)?;
        self.space.spare.lock().listing = (list.pid(), i);
        Ok(())
    }
}
