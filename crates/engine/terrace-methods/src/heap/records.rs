//! The records of an index leaf with their rows, as the tiering logic sees them: what a leaf is in a
//! tree. Flags, keys and the choice of victims touch no heap page.

use std::cell::Cell;

use terrace_access::{Attempt, Flags, LargeRef, RecordPage, Retry, Sweep, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::Heap;
use super::layout::{Location, Row};
use super::page;
use crate::fault::{self, Fault};

/// The records of a leaf of the index, with their rows.
pub(crate) struct Records<'r> {
    heap: &'r Heap,
    door: &'r WriteGuard<'r>,
    leaf: &'r mut dyn RecordPage,
    /// Bytes of a row that looks for room, and a page where it does not.
    wanted: Option<(usize, PageId)>,
    /// A page in which there is room for it now.
    left: Option<PageId>,
    /// A page that a location names and that could not be had.
    blocked: Cell<Option<PageId>>,
    key: Vec<u8>,
    location: Vec<u8>,
}

impl<'r> Records<'r> {
    pub fn new(
        heap: &'r Heap,
        door: &'r WriteGuard<'r>,
        leaf: &'r mut dyn RecordPage,
        wanted: Option<(usize, PageId)>,
    ) -> Records<'r> {
        Records {
            heap,
            door,
            leaf,
            wanted,
            left: None,
            blocked: Cell::new(None),
            key: Vec::new(),
            location: Vec::new(),
        }
    }

    /// The page in which victims have left the room that was wanted.
    pub fn left(&self) -> Option<PageId> {
        self.left
    }

    /// The page that stood in the way of what was done last, if it ended in a conflict.
    pub fn blocked(&self) -> Option<PageId> {
        self.blocked.get()
    }

    /// What it means that the page of a row could not be had, whose index leaf is held: it is in use,
    /// or it is not there, which is damage; or it is the leaf itself, which the caller finds out.
    fn not_had(&self, page: PageId, key: &[u8]) -> Retry {
        if !self.heap.store.exists(page) {
            return self.heap.bad_location(key);
        }
        self.blocked.set(Some(page));
        Retry::Conflict
    }
}

impl RecordPage for Records<'_> {
    fn count(&self) -> usize {
        self.leaf.count()
    }

    fn flags(&self, i: usize) -> Attempt<Flags> {
        self.leaf.flags(i)
    }

    fn set_flags(&mut self, i: usize, flags: Flags) -> Attempt<()> {
        self.leaf.set_flags(i, flags)
    }

    fn key(&self, i: usize, key: &mut Vec<u8>) -> Attempt<()> {
        self.leaf.key(i, key)
    }

    fn value(&self, i: usize, value: &mut Vec<u8>) -> Attempt<Option<LargeRef>> {
        if let Some(large) = self.leaf.value(i, value)? {
            return Ok(Some(large));
        }
        let mut key = Vec::new();
        self.leaf.key(i, &mut key)?;
        let at = Location::of(value).map_err(|_| self.heap.bad_location(&key))?;
        value.clear();
        if let Some(at) = at {
            match self.heap.read_row(at, &key, value, true) {
                Err(Retry::Conflict) => return Err(self.not_had(at.page, &key)),
                other => other?,
            }
        }
        Ok(None)
    }

    fn find(&self, key: &[u8]) -> Attempt<Option<usize>> {
        self.leaf.find(key)
    }

    fn erase(&mut self, i: usize) -> Attempt<usize> {
        let Some((mut page, slot, row)) = self.hold_row(i)? else {
            return self.leaf.erase(i);
        };
        let pid = page.pid();
        let bytes = self.leaf.erase(i)?;
        if fault::planted(Fault::RowLeft) {
            return Ok(bytes);
        }
        let left = page::erase(&mut page, slot)?;
        let room = left.room;
        match self.wanted {
            None => {
                self.heap.swept(self.door, page, left, row.len);
                Ok(bytes)
            }
            Some((len, not)) if room >= len && pid != not => {
                // That is where the newcomer goes, and no other caller is told of it, but of what a sweep has
                // left there before.
                if room >= 2 * len {
                    self.heap.found_more(pid, room - len);
                }
                self.left = Some(pid);
                Ok(row.len.max(len))
            }
            Some(_) => {
                self.heap.emptied(self.door, page, left);
                Ok(row.len)
            }
        }
    }

    fn find_behind(&self, key: &[u8], near: usize) -> Attempt<Option<usize>> {
        self.leaf.find_behind(key, near)
    }

    fn check_erasable(&self, which: &[usize]) -> Attempt<()> {
        self.leaf.check_erasable(which)
    }

    fn erase_all(&mut self, which: &mut Vec<usize>) -> Attempt<()> {
        which.sort_unstable();
        if let Err(e) = self.leaf.check_erasable(which) {
            which.clear();
            return Err(e);
        }
        let mut done = Ok(());
        let mut gone = Vec::with_capacity(which.len());
        for &i in which.iter() {
            match self.erase_row(i) {
                Ok(()) => gone.push(i),
                Err(e) => {
                    let ends = matches!(e, Retry::Fail(_));
                    done = Err(e);
                    if ends {
                        break;
                    }
                }
            }
        }
        *which = gone;
        self.leaf.erase_all(which)?;
        done
    }

    fn fill(&self) -> f64 {
        self.leaf.fill()
    }
}

impl<'r> Records<'r> {
    /// The row of record `i`, if it has one, under the latch of its page: the page, the slot, and where it is.
    fn hold_row(&mut self, i: usize) -> Attempt<Option<(Exclusive<'r>, usize, Row)>> {
        if self.leaf.value(i, &mut self.location)?.is_some() {
            return Ok(None);
        }
        self.leaf.key(i, &mut self.key)?;
        let at = Location::of(&self.location).map_err(|_| self.heap.bad_location(&self.key))?;
        let Some(at) = at else {
            return Ok(None);
        };
        let page = match self.heap.grab(self.door, at.page) {
            Err(Retry::Conflict) => return Err(self.not_had(at.page, &self.key)),
            other => other?,
        };
        let slot = usize::from(at.slot);
        let row = self.heap.row_in(&page, slot, &self.key)?;
        Ok(Some((page, slot, row)))
    }

    /// Takes the row of record `i`, if it has one, out of its page; the record is about to go.
    fn erase_row(&mut self, i: usize) -> Attempt<()> {
        let Some((mut page, slot, row)) = self.hold_row(i)? else {
            return Ok(());
        };
        if fault::planted(Fault::RowLeft) {
            return Ok(());
        }
        let left = page::erase(&mut page, slot)?;
        self.heap.swept(self.door, page, left, row.len);
        Ok(())
    }
}

impl Heap {
    /// See [`terrace_access::Sweep::try_visit`]. O(log n), beside what `edit` does.
    pub(crate) fn visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        let mut blocked = None;
        let visited = self.index()?.try_visit(door, position, &mut |leaf| {
            let mut records = Records::new(self, door, leaf, None);
            let done = edit(&mut records);
            blocked = records.blocked();
            done
        });
        match (visited, blocked) {
            (Err(Retry::Conflict), Some(pid)) => Err(self.why_blocked(position, pid)),
            (visited, _) => visited,
        }
    }
}
