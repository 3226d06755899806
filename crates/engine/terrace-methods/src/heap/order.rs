//! The order of the heap: page after page as the directory lists them, for sweeps that are to go in
//! that order.

use terrace_access::{Attempt, Retry, StoragePlace};
use terrace_base::PageId;

use super::Heap;
use super::directory::NO_DIRECTORY;
use super::layout::Rows;
use super::page::NO_ROWS;

impl Heap {
    /// See [`terrace_access::Sweep::try_collect_stored`]. May find no key and move on nevertheless. Holds
    /// one latch at a time. O(rows of a page).
    pub(crate) fn collect_stored(
        &self,
        place: &mut StoragePlace,
        keys: &mut Vec<Vec<u8>>,
    ) -> Attempt<()> {
        keys.clear();
        let Some((pid, next)) = self.next_stored(*place)? else {
            *place = None;
            return Ok(());
        };
        if !pid.is_none() {
            keys.extend(self.keys_of(pid)?.unwrap_or_default());
        }
        *place = next;
        Ok(())
    }

    /// The next heap page that is listed from `place` on in its page of the directory, or none, and the
    /// place after it. Nothing at all when that page of the directory has gone.
    pub(super) fn next_stored(
        &self,
        place: StoragePlace,
    ) -> Attempt<Option<(PageId, StoragePlace)>> {
        let (at, from) = place.unwrap_or((self.root, 0));
        let list = match self.store.shared(at) {
            Err(Retry::Conflict) if at != self.root && !self.store.exists(at) => {
                return Ok(None);
            }
            other => other?,
        };
        let Some(seen) = self.directory_in(list.view(), at) else {
            // A page of the chain that has become something else; the root stays what it is.
            return match at == self.root {
                true => Err(list.torn(NO_DIRECTORY)),
                false => Ok(None),
            };
        };
        for i in from..seen.entries() {
            let (pid, _) = seen.entry(i).map_err(|_| list.torn(NO_DIRECTORY))?;
            if !pid.is_none() {
                return Ok(Some((pid, Some((at, i + 1)))));
            }
        }
        let next = (!seen.next.is_none() && seen.next != at).then_some((seen.next, 0));
        Ok(Some((PageId::NONE, next)))
    }

    /// The keys of a page's rows; `None` when it is no page of this structure any more: it may have been
    /// freed since the directory was read, and be another's. O(rows of a page).
    pub(crate) fn keys_of(&self, pid: PageId) -> Attempt<Option<Vec<Vec<u8>>>> {
        let page = match self.store.shared(pid) {
            Err(Retry::Conflict) if !self.store.exists(pid) => return Ok(None),
            other => other?,
        };
        let rows = match Rows::open(page.view()) {
            Ok(rows) if rows.owner() == Ok(self.root) => rows,
            _ => return Ok(None),
        };
        let mut keys = Vec::new();
        for i in 0..rows.slots() {
            if rows.slot(i).map_err(|_| page.torn(NO_ROWS))?.free {
                continue;
            }
            let row = rows.row(i).map_err(|_| page.torn(NO_ROWS))?;
            let mut key = Vec::new();
            let copied = rows.view.append_to(row.key_at, row.key_len, &mut key);
            copied.map_err(|_| page.torn(NO_ROWS))?;
            keys.push(key);
        }
        Ok(Some(keys))
    }
}
