//! Packing: rows of a thin heap page move to others, so that the page can be given back.
//!
//! Victims leave holes wherever their rows happen to lie. Newcomers fill them, but when there are
//! none the pages have to be emptied for the cap of a hot tier to be kept: thin ones as the sweep comes
//! by, and whatever page comes next when room is needed and the holes would hold its rows.

use std::cell::{OnceCell, RefCell};

use terrace_access::{
    AccessMethod, Attempt, Flags, NoRoom, Plan, Retry, StoragePlace, Value, WriteGuard,
};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::Heap;
use super::directory::NO_DIRECTORY;
use super::layout::{CLASSES, Location, Rows, row_bytes};
use super::page::{self, Left, NO_ROWS, Put};
use super::space::class_of;

/// Free class from which a page is thin.
const THIN: u8 = CLASSES as u8 / 4;
/// Entries of the directory that one step looks at.
const STEP_ENTRIES: usize = 64;
/// Rows that one step moves, at most.
const STEP_ROWS: usize = 256;

/// Rows that it moves where the file has no free slots to spare: with the page that they leave, those that
/// they come to, their leaves and the directory they are no more pages than each who comes in is promised.
const SCARCE_ROWS: usize = 2;

/// Pages that one call gathers room for, at most.
const GATHERED: usize = 4;

/// Part of the pages of a hot tier whose worth of holes is left to newcomers, and most such pages: several
/// threads make room at once, each by a leaf of the index, whose rows have lain on as many pages. More
/// would be memory that is not used.
const HOLES_SHARE: u64 = 32;
const HOLE_PAGES: u64 = 64;

/// What is needed to move a row.
struct Move<'d> {
    from: Exclusive<'d>,
    slot: usize,
    to: Exclusive<'d>,
    put: Put,
    value: Vec<u8>,
}

impl Heap {
    /// Moves the rows of the next thin page of the directory to pages with room, and frees it then.
    /// Bounded; does nothing when there is no such page or nowhere to move rows to.
    pub(crate) fn pack_rows(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        match self.next_thin()? {
            Some(thin) => self.empty_page(door, thin),
            None => Ok(()),
        }
    }

    /// See [`terrace_access::InStorage::try_compact_stored`]. The page itself is asked: what the directory says of
    /// it was told only when that could be done at once.
    pub(crate) fn pack_stored(
        &self,
        door: &WriteGuard<'_>,
        place: &mut StoragePlace,
    ) -> Attempt<()> {
        // From here on it is known where it goes on if others are in the way.
        let here = *place.get_or_insert((self.root, 0));
        let Some((pid, next)) = self.next_stored(Some(here))? else {
            *place = None;
            return Ok(());
        };
        if !pid.is_none() && !self.space.is_current(pid) {
            let thin = |room| class_of(room, self.store.page_bytes()) >= THIN;
            if self.room_of(pid)?.is_some_and(thin) {
                let rows = |heap: &Heap| -> Attempt<usize> {
                    Ok(heap.keys_of(pid)?.map_or(0, |keys| keys.len()))
                };
                let before = rows(self)?;
                let emptied = self.empty_page(door, pid);
                // All else is that there is no room for its rows elsewhere.
                if let Err(Retry::Fail(_) | Retry::Miss(_) | Retry::Conflict) = emptied {
                    return emptied;
                }
                // The rest of many rows comes with the next step.
                if before > STEP_ROWS && rows(self)? < before {
                    return Ok(());
                }
            }
        }
        *place = next;
        Ok(())
    }

    /// Frees pages by moving their rows into the holes of others, as long as those would hold them.
    /// Bounded.
    pub(crate) fn gather(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        for page in 0..GATHERED {
            if page > 0 && !self.store.has_slack() {
                return Ok(());
            }
            let Some((next, used)) = self.least_used(door)? else {
                return Ok(());
            };
            let holes = self.space.scattered_at_most();
            let kept = match holes.are_all {
                true => self.holes_kept(),
                // Those that are no longer remembered would not be found.
                false => 0,
            };
            let needed = used + kept;
            if holes.bytes < needed || self.space.scattered(next) < needed {
                return Ok(());
            }
            self.empty_page(door, next)?;
        }
        Ok(())
    }

    /// Bytes of holes that are left to newcomers: who goes into a hole costs less than a row that is moved
    /// there so that the newcomer finds a new page. None while a caller needs a page: newcomers would take holes as
    /// fast as they are made, and that caller would wait for as long.
    pub(crate) fn holes_kept(&self) -> usize {
        if self.store.wants_hot_page() {
            return 0;
        }
        let pages = self.store.hot_cap() / HOLES_SHARE;
        pages.min(HOLE_PAGES) as usize * self.store.page_bytes()
    }

    /// The page with the fewest bytes of rows among the next ones of the directory, and how many. What
    /// the directory says may be out of date, so the pages are asked; those without any rows go.
    fn least_used(&self, door: &WriteGuard<'_>) -> Attempt<Option<(PageId, usize)>> {
        let mut pages = Vec::new();
        self.walk(&mut |pid, _| {
            pages.push(pid);
            false
        })?;
        let mut least = None;
        for pid in pages {
            // One that is not in memory is not worth a read: it takes no room there.
            let Ok(page) = self.store.shared(pid) else {
                continue;
            };
            let Ok(rows) = Rows::open(page.view()) else {
                continue;
            };
            if rows.owner() != Ok(self.root) {
                continue;
            }
            let (used, empty) = (rows.used(), rows.rows == 0);
            drop(page);
            if empty {
                // Tidying: done when it can be done at once.
                let _ = self.free_if_empty(door, pid);
            } else if least.is_none_or(|(_, best)| used < best) {
                least = Some((pid, used));
            }
        }
        Ok(least)
    }

    /// Moves the rows of a page to others, as far as there is room, and frees it then. Does nothing if
    /// it is no page of this structure's rows (any more).
    pub(crate) fn empty_page(&self, door: &WriteGuard<'_>, thin: PageId) -> Attempt<()> {
        // Newcomers would fill the holes that its rows leave, and it would never be empty.
        let Some(emptying) = self.space.begin_emptying(thin) else {
            return Ok(());
        };
        let Some(keys) = self.keys_of(thin)? else {
            return Ok(());
        };
        if keys.is_empty() {
            // It waited for rows that went elsewhere.
            self.free_if_empty(door, thin)?;
        }
        let mut moved = Ok(true);
        for (i, key) in keys.iter().enumerate().take(STEP_ROWS) {
            if i >= SCARCE_ROWS && !self.store.has_slack() {
                break;
            }
            moved = self.move_row(door, key, thin);
            if !matches!(moved, Ok(true)) {
                break;
            }
        }
        drop(emptying);
        // If it has rows still, what room there is now is for newcomers.
        if let Ok(Some(room)) = self.room_of(thin) {
            self.space
                .remember(thin, class_of(room, self.store.page_bytes()), room);
        }
        moved.map(|_| ())
    }

    /// A thin page, from where the last step ended.
    fn next_thin(&self) -> Attempt<Option<PageId>> {
        let mut thin = None;
        self.walk(&mut |pid, class| {
            thin = (class >= THIN).then_some(pid);
            thin.is_some()
        })?;
        Ok(thin)
    }

    /// Goes on over the pages that the directory lists, with their free classes, but for the one that
    /// newcomers go to, from where the last step ended: until `found` says that it has what it wants,
    /// or for a bounded number of entries.
    fn walk(&self, found: &mut dyn FnMut(PageId, u8) -> bool) -> Attempt<()> {
        let (at, from) = self.space.packing();
        let list = match self.store.shared(at) {
            Err(Retry::Conflict) if at != self.root => {
                self.space.set_packing((self.root, 0));
                return Ok(());
            }
            other => other?,
        };
        let seen = match self.directory_in(list.view(), at) {
            Some(seen) => seen,
            None if at == self.root => return Err(list.torn(NO_DIRECTORY)),
            // A hint from before the directory was cleared.
            None => {
                self.space.set_packing((self.root, 0));
                return Ok(());
            }
        };
        let end = (from + STEP_ENTRIES).min(seen.entries());
        for i in from..end {
            let (pid, class) = seen.entry(i).map_err(|_| list.torn(NO_DIRECTORY))?;
            if !pid.is_none() && !self.space.is_current(pid) && found(pid, class) {
                self.space.set_packing((at, i + 1));
                return Ok(());
            }
        }
        self.space.set_packing(match end < seen.entries() {
            true => (at, end),
            false if seen.next.is_none() => (self.root, 0),
            false => (seen.next, 0),
        });
        Ok(())
    }

    /// Frees a page if it is one of this structure's and has no rows.
    fn free_if_empty(&self, door: &WriteGuard<'_>, pid: PageId) -> Attempt<()> {
        let page = self.grab(door, pid)?;
        let left = match Rows::open(page.view()) {
            Ok(rows) if rows.owner() == Ok(self.root) && rows.rows == 0 => Left::of(&rows),
            _ => return Ok(()),
        };
        self.emptied(door, page, left);
        Ok(())
    }

    /// Moves the row of `key` out of a page, if it is still there. Returns false when no other page
    /// has room for it.
    fn move_row(&self, door: &WriteGuard<'_>, key: &[u8], from: PageId) -> Attempt<bool> {
        let target = RefCell::new(None);
        for _ in 0..2 {
            let (spot, moving) = (OnceCell::new(), RefCell::new(None));
            let needs = RefCell::new(None);
            let mut plan = |before: Option<(Flags, Value<'_>)>| {
                let Some((flags, Value::Inline(location))) = before else {
                    return Ok(Plan::Keep);
                };
                let at = Location::of(location).map_err(|_| self.bad_location(key))?;
                let Some(at) = at.filter(|at| at.page == from) else {
                    return Ok(Plan::Keep);
                };
                let page = self.grab(door, from)?;
                let slot = usize::from(at.slot);
                let row = self.row_in(&page, slot, key)?;
                let planned = match *target.borrow() {
                    Some(to) => self.plan_move(door, from, to, row.len)?,
                    None => None,
                };
                let Some((to, put)) = planned else {
                    *needs.borrow_mut() = Some(row.len);
                    return Ok(Plan::Keep);
                };
                let value = page.bytes()[row.value_at()..][..row.value_len()].to_vec();
                let to_at = Location {
                    page: to.pid(),
                    slot: put.slot as u16,
                };
                let from = page;
                *moving.borrow_mut() = Some(Move {
                    from,
                    slot,
                    to,
                    put,
                    value,
                });
                // The plan is asked once: a location of the same length needs no room.
                let bytes = spot.get_or_init(|| to_at.bytes());
                if *bytes != to_at.bytes() {
                    return Err(Retry::Conflict);
                }
                Ok(Plan::Put(Value::Inline(bytes), flags))
            };
            let mut commit = || {
                let Some(Move {
                    mut from,
                    slot,
                    mut to,
                    put,
                    value,
                }) = moving.borrow_mut().take()
                else {
                    return Ok(());
                };
                let left = page::put(&mut to, put, key, &value)?;
                self.filled(door, to, left, row_bytes(key, &value));
                let left = page::erase(&mut from, slot)?;
                self.emptied(door, from, left);
                Ok(())
            };
            self.index()?
                .try_edit(door, key, &mut plan, &mut NoRoom, &mut commit)?;
            let Some(len) = needs.into_inner() else {
                return Ok(true);
            };
            match self.find_room(len, from, self.scans.side_of(from))? {
                Some(to) => *target.borrow_mut() = Some(to),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn plan_move<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        from: PageId,
        to: PageId,
        len: usize,
    ) -> Attempt<Option<(Exclusive<'d>, Put)>> {
        let page = self.grab(door, to)?;
        if !self.is_on_side(to, self.scans.side_of(from)) {
            return Ok(None);
        }
        let put = match Rows::open(page.view()) {
            Ok(rows) if rows.owner() == Ok(self.root) => {
                page::plan_new(&rows, len).map_err(|_| page.torn(NO_ROWS))?
            }
            _ => None,
        };
        Ok(put.map(|put| (page, put)))
    }
}
