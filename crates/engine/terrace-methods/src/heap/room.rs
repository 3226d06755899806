//! Which page a row goes to, by the hints of [`Space`](super::space::Space); new pages; and what becomes
//! of a page when rows have come or gone.
//!
//! What a hint says is asked of the page itself before it is believed.

use terrace_access::{Attempt, Retry, WriteGuard};
use terrace_base::PageId;
use terrace_base::sync::spin_loop;
use terrace_pages::{Class, Exclusive};

use super::Heap;
use super::directory::{self, LONGEST_CHAIN, NO_DIRECTORY};
use super::layout::{CLASS, CLASSES, Rows, listed_class};
use super::page::{Left, NO_ROWS, begin};
use super::sides::Side;
use super::space::{COLD_CLASS, Full, READ_CLASS, REMEMBERED, class_of};
use crate::slotted::layout::SLOT_BYTES;

/// Pages that are looked at for one row before a new one is taken.
const LOOKS: usize = 32;
/// How far the class in the directory may be off before it is set right.
const OFF: u8 = 4;
/// Room that makes a page of a hot tier worth remembering: that of a small row.
const HOT_ROOM: usize = 24;
/// Part of a page that is room for several rows: four of 120 bytes. This part of each page, half of it on the
/// average, may be out of use while a sweep makes room and newcomers fill it.
const SEVERAL: usize = 32;
/// Pages of a hot tier that rows leave to those who cannot do with the room that other rows leave, leaves of
/// the index say; and in a small one, what part of its pages at most.
const LEFT_PAGES: u64 = 2;
const LEFT_SHARE: u64 = 256;
/// Times that a latch is tried.
const TRIES: usize = 200;

impl Heap {
    /// Lets newcomers go to a page, whatever it is: hints may be wrong.
    #[cfg(test)]
    pub(crate) fn misdirect(&self, pid: PageId) {
        self.space.set_current(0, pid);
    }

    /// As if the page were being emptied as long as the answer is there.
    #[cfg(test)]
    pub(crate) fn pretend_emptying(&self, pid: PageId) -> Option<super::space::Emptying<'_>> {
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

    /// Pages of rows that there are. For statistics: more may come at any time. O(pages of the
    /// directory).
    ///
    /// # Errors
    /// `Miss` when a page of the directory is not in memory.
    pub fn try_row_pages(&self) -> Attempt<u64> {
        let (mut at, mut pages) = (self.root, 0);
        for _ in 0..LONGEST_CHAIN {
            let list = match self.store.shared(at) {
                // It was cleared just now.
                Err(Retry::Conflict) if !self.store.exists(at) => break,
                other => other?,
            };
            let seen = self.directory_in(list.view(), at);
            let seen = seen.ok_or_else(|| list.torn(NO_DIRECTORY))?;
            pages += seen.used as u64;
            if seen.next.is_none() {
                break;
            }
            at = seen.next;
        }
        Ok(pages)
    }

    /// The exclusive latch of a page, tried for a while: whoever holds one of this structure's pages
    /// may hold what the caller has, but only if the pages are damaged.
    pub(crate) fn grab<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        pid: PageId,
    ) -> Attempt<Exclusive<'d>> {
        for _ in 0..TRIES {
            let tried = self.store.optimistic(pid);
            match tried.and_then(|page| page.upgrade_exclusive(door)) {
                Err(Retry::Conflict) if self.store.exists(pid) => spin_loop(),
                other => return other,
            }
        }
        Err(Retry::Conflict)
    }

    /// Bytes of the longest row for which a page has room; `None` when it is no page of rows of this
    /// structure (any more). `Miss` when it is not in memory, but only where pages come and go: a hot
    /// tier's would be.
    pub(crate) fn room_of(&self, pid: PageId) -> Attempt<Option<usize>> {
        for _ in 0..TRIES {
            let page = match self.store.optimistic(pid) {
                Ok(page) => page,
                Err(Retry::Conflict) if self.store.exists(pid) => {
                    spin_loop();
                    continue;
                }
                Err(Retry::Conflict) => return Ok(None),
                Err(Retry::Miss(_)) if self.tier.is_hot() => return Ok(None),
                Err(other) => return Err(other),
            };
            let seen = Rows::open(page.view()).and_then(|rows| Ok((rows.owner()?, rows.room())));
            if page.is_valid() {
                let mine = seen.ok().filter(|seen| seen.0 == self.root);
                return Ok(mine.map(|seen| seen.1));
            }
        }
        Err(Retry::Conflict)
    }

    /// A page that there is with room for a row of `len` bytes, other than `not`, on this side: the one
    /// that newcomers go to, or one that they go to from now on, or one for this row alone. Holds
    /// nothing. O(1) pages looked at, and each that was remembered and is full by now.
    pub(crate) fn find_room(&self, len: usize, not: PageId, side: Side) -> Attempt<Option<PageId>> {
        let page_bytes = self.store.page_bytes();
        let mut asked = None;
        let (mut looks, mut outdated) = (0, 0);
        while looks < LOOKS && outdated < REMEMBERED {
            looks += 1;
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
                Err(miss @ Retry::Miss(_)) => {
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
                // Others have come since it was remembered: a page is each time that a row leaves it. To forget
                // that is paid for by those rows. If it counted, a newcomer would make room again and again,
                // each time for others, before all of it was gone.
                Some(room) => {
                    self.space.leave(self.rest(pid, room), page_bytes);
                    (looks, outdated) = (looks - 1, outdated + 1);
                }
                // It may have been freed since, and be another's by now.
                None => (looks, outdated) = (looks - 1, outdated + 1),
            }
        }
        Ok(None)
    }

    /// A row of `len` bytes goes to a page that has `room` bytes of room and that other newcomers do not go to:
    /// the next one finds it first.
    fn use_once(&self, pid: PageId, room: usize, len: usize) {
        if let Full::Left(pid, room) = self.rest(pid, room.saturating_sub(len + SLOT_BYTES)) {
            let class = class_of(room, self.store.page_bytes());
            self.space.give_back((pid, class, room));
        }
    }

    /// A page with `room` bytes of room, if that is worth remembering.
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
            Err(Retry::Conflict) if !self.store.exists(pid) => {
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

    /// Makes a heap page on this side, lists it, and lets newcomers go there; unless another thread has done so
    /// meanwhile, and there is room for a row of `len` bytes, and it is not `not`. Holds no latch
    /// else. O(1), but for full pages of the directory.
    pub(crate) fn grow(
        &self,
        door: &WriteGuard<'_>,
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
                Err(Retry::Conflict) if at != self.root && !self.store.exists(at) => {
                    (at, from) = (self.root, 0);
                    continue;
                }
                Err(miss @ Retry::Miss(_)) => {
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
        door: &WriteGuard<'_>,
        list: &mut Exclusive<'_>,
        i: usize,
        (len, full, side): (usize, Full, Side),
    ) -> Attempt<PageId> {
        let cap = self.store.hot_cap();
        let left = (cap / LEFT_SHARE).min(LEFT_PAGES);
        if self.tier.is_hot() && self.store.lacks_hot_pages(left) {
            // Not as `allocate` does: a row can do with a hole, so that gathering need not leave none.
            return Err(Retry::HotFull);
        }
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
            Class::Hot | Class::Memory => self.tier,
            _ => Class::Inner,
        }
    }

    /// The page that newcomers will go to, before one of them has found the last one full, which is a way
    /// down the index more: where rows fill the holes of others, each page has room for one. `None` where
    /// nothing is known. A hint, for pages that are in memory. As [`Heap::find_room`].
    pub(crate) fn room_ahead(&self, side: Side) -> Option<PageId> {
        if !self.tier.is_hot() {
            return None;
        }
        let len = self.space.take_short(side)?;
        self.find_room(len, PageId::NONE, side).ok().flatten()
    }

    /// After a row of `len` bytes has come to a page and left it as it is said to be: the directory may have
    /// to know. Tidying: done when it can be done at once.
    pub(crate) fn filled(
        &self,
        door: &WriteGuard<'_>,
        mut page: Exclusive<'_>,
        left: Left,
        len: usize,
    ) {
        self.space.note_room(page.pid(), left.room, len);
        if listed_class(page.view()).is_ok_and(|listed| left.class + OFF <= listed) {
            // No record depends on it.
            let _ = self.tell(door, &mut page, left.class);
        }
    }

    /// After rows have left a page as it is said to be: it goes when it has none any more, or is remembered.
    /// Tidying: done when it can be done at once.
    pub(crate) fn emptied(&self, door: &WriteGuard<'_>, page: Exclusive<'_>, left: Left) {
        self.emptied_by(door, page, left, None);
    }

    /// After a sweep has taken a row of `len` bytes from a page, as [`Heap::emptied`]. It takes one row here
    /// and one there, all over the tier; and a newcomer who fills a single hole pays for a page that is not
    /// in the caches, and for asking which is the next one, where another only puts his row behind the last
    /// one. So of such holes newcomers are told when there are [`SEVERAL`] more of them.
    pub(crate) fn swept(&self, door: &WriteGuard<'_>, page: Exclusive<'_>, left: Left, len: usize) {
        self.emptied_by(door, page, left, Some(len));
    }

    fn emptied_by(
        &self,
        door: &WriteGuard<'_>,
        mut page: Exclusive<'_>,
        Left { rows, room, class }: Left,
        swept: Option<usize>,
    ) {
        let pid = page.pid();
        let is_current = self.space.is_current(pid);
        if rows == 0 && !is_current && self.unlist(door, &page).is_ok() {
            self.scans.gone(pid);
            page.free();
            return;
        }
        let listed = listed_class(page.view()).unwrap_or(class);
        if class >= listed.saturating_add(OFF) {
            let _ = self.tell(door, &mut page, class);
        }
        let several = self.store.page_bytes() / SEVERAL;
        let worth = match (self.tier, swept) {
            (Class::Hot | Class::Memory, Some(len)) => {
                room / several > room.saturating_sub(len) / several
            }
            (Class::Hot | Class::Memory, None) => room >= HOT_ROOM,
            _ => class >= COLD_CLASS,
        };
        if worth && !is_current {
            self.space.remember(pid, class, room);
        }
    }

    /// A page of a hot tier has `room` bytes of room beside what a thread is about to fill.
    pub(crate) fn found_more(&self, pid: PageId, room: usize) {
        if !self.space.is_current(pid) {
            let class = class_of(room, self.store.page_bytes());
            self.space.remember(pid, class, room);
        }
    }

    /// Sets the free class in the directory and in the page.
    fn tell(&self, door: &WriteGuard<'_>, page: &mut Exclusive<'_>, class: u8) -> Attempt<()> {
        let (mut list, i) = self.listing_of(door, page)?;
        directory::set_class(&mut list, i, class)?;
        page.change(CLASS, 1)?[0] = class;
        Ok(())
    }

    /// The page of the directory that lists a heap page, and the entry there.
    fn listing_of<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
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
    pub(crate) fn unlist(&self, door: &WriteGuard<'_>, page: &Exclusive<'_>) -> Attempt<()> {
        let (mut list, i) = self.listing_of(door, page)?;
        directory::set_entry(&mut list, i, page.pid(), PageId::NONE, 0)?;
        self.space.spare.lock().listing = (list.pid(), i);
        Ok(())
    }
}
