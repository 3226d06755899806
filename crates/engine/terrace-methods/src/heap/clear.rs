//! Emptying a heap in bounded steps: first the index goes, then the heap pages in the order of the
//! directory, then the directory. In between there are rows that nothing names, which the root says.

use terrace_access::{AccessMethod, Attempt, Retry, WriteGuard};
use terrace_base::{Error, PageId};

use super::Heap;
use super::directory::{self, NO_DIRECTORY};
use super::layout::Rows;
use super::page::NO_ROWS;
use super::state::NO_INDEX;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl Heap {
    /// Gives both roots back; the heap must be empty ([`AccessMethod::try_clear_step`] returned
    /// false), and no thread may use it any more.
    ///
    /// # Errors
    /// `Miss` when one of them is not in memory; `Fail` when the heap is not empty.
    pub fn try_free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let root = self.store.exclusive(self.root, door)?;
        let seen = self.directory_in(root.view(), self.root);
        let seen = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?;
        if seen.used > 0 || !seen.next.is_none() {
            return Err(Error::invalid("only an empty heap can be freed").into());
        }
        if seen.link == self.root || !self.store.exists(seen.link) {
            return Err(root.torn(NO_INDEX));
        }
        self.index_at(seen.link).try_free_root(door)?;
        root.free();
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(pages freed), and what a step of the
    /// index takes.
    pub(crate) fn clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        let index = self.index()?;
        {
            let mut root = self.store.exclusive(self.root, door)?;
            let seen = self.directory_in(root.view(), self.root);
            let seen = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?;
            if !seen.clearing {
                directory::set_clearing(&mut root, true)?;
            }
        }
        if index.try_clear_step(door)? {
            return Ok(true);
        }
        self.space.forget(self.root);
        let mut budget = STEP_PAGES;
        loop {
            let mut root = self.store.exclusive(self.root, door)?;
            let seen = self.directory_in(root.view(), self.root);
            let next = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?.next;
            if next.is_none() {
                drop(root);
                if self.clear_list(door, self.root, &mut budget)? {
                    return Ok(true);
                }
                let mut root = self.store.exclusive(self.root, door)?;
                directory::set_clearing(&mut root, false)?;
                return Ok(false);
            }
            if next == self.root {
                return Err(root.torn(NO_DIRECTORY));
            }
            if budget == 0 {
                return Ok(true);
            }
            // The next one of the chain, once nothing is listed there any more.
            let list = match self.store.exclusive(next, door) {
                // Only the thread that has the root frees it, and this one has it.
                Err(Retry::Conflict) if !self.store.exists(next) => {
                    return Err(root.torn(NO_DIRECTORY));
                }
                other => other?,
            };
            let seen = self.directory_in(list.view(), next);
            let (used, after) = match seen {
                Some(seen) => (seen.used, seen.next),
                None => return Err(list.torn(NO_DIRECTORY)),
            };
            if used == 0 {
                directory::set_next(&mut root, after)?;
                list.free();
                budget -= 1;
                continue;
            }
            drop((list, root));
            if self.clear_list(door, next, &mut budget)? {
                return Ok(true);
            }
        }
    }

    /// Frees the heap pages that a page of the directory lists. Returns whether some are left.
    fn clear_list(&self, door: &WriteGuard<'_>, pid: PageId, budget: &mut usize) -> Attempt<bool> {
        let mut list = self.store.exclusive(pid, door)?;
        let entries = match self.directory_in(list.view(), pid) {
            Some(seen) => seen.entries(),
            None => return Err(list.torn(NO_DIRECTORY)),
        };
        for i in 0..entries {
            let seen = self.directory_in(list.view(), pid);
            let entry = seen.map(|seen| (seen.used, seen.entry(i)));
            let Some((used, Ok((heap, _)))) = entry else {
                return Err(list.torn(NO_DIRECTORY));
            };
            if used == 0 {
                return Ok(false);
            }
            if heap.is_none() {
                continue;
            }
            if *budget == 0 {
                return Ok(true);
            }
            if heap == pid || !self.store.exists(heap) {
                return Err(list.torn("this page of a directory lists itself or a free page"));
            }
            let page = self.grab(door, heap)?;
            let listed = Rows::open(page.view()).and_then(|rows| rows.listed());
            if listed.map(|(list, at, _)| (list, at)) != Ok((pid, i)) {
                return Err(page.torn(NO_ROWS));
            }
            directory::set_entry(&mut list, i, heap, PageId::NONE, 0)?;
            self.scans.gone(heap);
            page.free();
            *budget -= 1;
        }
        // Who clears would come back for what there is not, without end.
        match self.directory_in(list.view(), pid).map(|seen| seen.used) {
            Some(0) => Ok(false),
            _ => Err(list.torn("this page of a directory counts more heap pages than it lists")),
        }
    }
}
