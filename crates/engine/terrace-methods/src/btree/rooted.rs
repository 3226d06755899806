//! Where a tree begins; the order that its tiers share.

use std::sync::Arc;

use terrace_access::{Attempt, Rooted, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, PageStore};

use super::BTree;

impl Rooted for BTree {
    type Order = ();

    fn new_order(_: &mut dyn FnMut() -> u64) {}

    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        (): (),
    ) -> Attempt<Self> {
        let tree = BTree::create(store, door, class)?;
        Ok(if class.is_hot() {
            tree.as_upper_tier()
        } else {
            tree
        })
    }

    fn try_order(&self) -> Attempt<()> {
        Ok(())
    }

    fn open(store: &Arc<PageStore>, root: PageId, class: Class) -> Self {
        let tree = BTree::open(store.clone(), root, class);
        if class.is_hot() {
            tree.as_upper_tier()
        } else {
            tree
        }
    }

    fn above_an_index(self) -> Self {
        BTree::above_an_index(self)
    }

    fn into_part(self) -> Self {
        BTree::as_part(self)
    }

    fn root(&self) -> PageId {
        BTree::root(self)
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.try_free_root(door)
    }

    fn max_inline(page_bytes: usize) -> usize {
        super::max_inline(page_bytes)
    }
}
