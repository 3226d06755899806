//! Where an LSM-tree begins; the order that its tiers share.

use std::sync::Arc;

use terrace_access::{Attempt, Rooted, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, PageStore};

use super::Lsm;

impl Rooted for Lsm {
    type Order = ();

    fn new_order(_: &mut dyn FnMut() -> u64) {}

    fn create(store: &Arc<PageStore>, door: &WriteGuard<'_>, _: Class, (): ()) -> Attempt<Self> {
        Lsm::create(store, door)
    }

    fn try_order(&self) -> Attempt<()> {
        Ok(())
    }

    fn open(store: &Arc<PageStore>, root: PageId, _: Class) -> Self {
        Lsm::open(store.clone(), root)
    }

    fn into_only_tier(self) -> Self {
        self.alone()
    }

    fn into_part(self) -> Self {
        self.as_part()
    }

    fn root(&self) -> PageId {
        Lsm::root(self)
    }

    fn pages_when_empty(&self) -> Attempt<Vec<PageId>> {
        let mut pages = vec![Lsm::root(self)];
        pages.extend(self.part_roots()?);
        Ok(pages)
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.try_free_root(door)
    }

    fn max_inline(page_bytes: usize) -> usize {
        super::max_inline(page_bytes)
    }
}
