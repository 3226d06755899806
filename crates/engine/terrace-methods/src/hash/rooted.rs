//! Where a hash table begins; the order that its tiers share.

use std::sync::Arc;

use terrace_access::{Attempt, Rooted, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, PageStore};

use super::{HashTable, Secret};

impl Rooted for HashTable {
    type Order = Secret;

    fn new_order(random: &mut dyn FnMut() -> u64) -> Secret {
        Secret([random(), random()])
    }

    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        secret: Secret,
    ) -> Attempt<Self> {
        let table = HashTable::create(store, door, class, secret)?;
        Ok(if class.is_hot() {
            table.as_upper_tier()
        } else {
            table
        })
    }

    fn try_order(&self) -> Attempt<Secret> {
        self.try_secret()
    }

    fn open(store: &Arc<PageStore>, root: PageId, class: Class) -> Self {
        let table = HashTable::open(store.clone(), root, class);
        if class.is_hot() {
            table.as_upper_tier()
        } else {
            table
        }
    }

    fn root(&self) -> PageId {
        HashTable::root(self)
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.try_free_root(door)
    }

    fn max_inline(page_bytes: usize) -> usize {
        super::max_inline(page_bytes)
    }
}
