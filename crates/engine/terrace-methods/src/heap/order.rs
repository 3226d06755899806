//! The order of the heap: page after page as the directory lists them, for sweeps that are to go in
//! that order.

use terrace_access::{Attempt, Interrupt, StoragePlace};
use terrace_base::PageId;

use super::Heap;
use super::directory::NO_DIRECTORY;

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
            Err(Interrupt::Conflict) if at != self.root && !self.store.exists(at) => {
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
}
