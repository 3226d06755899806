//! Pages that stay in memory for a while without a latch: somebody is about to change them and must not wait
//! for a disk then.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;

use crate::enter::interrupt::{Attempt, Interrupt};
use crate::store::PageStore;

/// A page stays in memory as long as this lives, unless it is freed.
pub struct Staying<'a> {
    store: &'a PageStore,
    frame: u32,
}

impl PageStore {
    /// Lets a page stay in memory, if it is there. For few pages and not for long: nobody else gets their frames.
    /// O(1).
    ///
    /// # Errors
    /// `Miss` when it is not in memory, `Conflict` when it is on its way, or too many let it stay.
    pub fn let_stay(&self, pid: PageId) -> Attempt<Staying<'_>> {
        // Under its latch: who takes it out of memory has it alone.
        let page = self.shared(pid)?;
        let stays = &self.pool.frame(page.frame).stays;
        let one_more = |stays: u8| stays.checked_add(1);
        match stays.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Staying {
                store: self,
                frame: page.frame,
            }),
            Err(_) => Err(Interrupt::Conflict),
        }
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        let stays = &self.store.pool.frame(self.frame).stays;
        stays.fetch_sub(1, Ordering::Relaxed);
    }
}
