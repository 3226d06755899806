//! Where a heap begins; the order that its tiers share.

use std::sync::Arc;

use terrace_access::{Attempt, Rooted, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, PageStore};

use super::Heap;

impl Rooted for Heap {
    type Order = ();

    fn new_order(_: &mut dyn FnMut() -> u64) {}

    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        (): (),
    ) -> Attempt<Self> {
        let heap = Heap::create(store, door, class)?;
        Ok(if class.is_hot() {
            heap.as_upper_tier()
        } else {
            heap
        })
    }

    fn try_order(&self) -> Attempt<()> {
        Ok(())
    }

    fn open(store: &Arc<PageStore>, root: PageId, class: Class) -> Self {
        let heap = Heap::open(store.clone(), root, class);
        if class.is_hot() {
            heap.as_upper_tier()
        } else {
            heap
        }
    }

    fn root(&self) -> PageId {
        Heap::root(self)
    }

    fn pages_when_empty(&self) -> Attempt<Vec<PageId>> {
        Ok(vec![Heap::root(self), self.index_root()?])
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.try_free_root(door)
    }

    fn max_inline(page_bytes: usize) -> usize {
        super::max_inline(page_bytes)
    }
}
