//! What a table is made of, and how it is made and opened.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_access::{Attempt, Flags, WriteGuard};
use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_pages::{Class, PageStore};

use super::Secret;
use super::directory;
use super::frame_cache::FrameCache;
use super::layout::table_of;
use crate::unreadable::Unreadable;

/// An odd number far from all small ones, so that the counters of new buckets spread.
const STRIDE: u32 = 0x9E37_79B1;

/// A hash table in a page store. See [the module](super)'s text.
pub struct HashTable {
    pub(super) store: Arc<PageStore>,
    pub(super) root: PageId,
    pub(super) tier: Class,
    /// Read from the root when it is first needed.
    pub(super) secret: OnceLock<Secret>,
    /// Membership counter of the next new bucket.
    births: AtomicU32,
    /// See [`HashTable::as_upper_tier`].
    copies: bool,
    /// Pages to do without when a bucket is to be split.
    pub(super) spared: Mutex<Unreadable>,
    pub(super) known: FrameCache,
}

impl HashTable {
    /// Makes an empty table: one page, the root, whose number is to be kept. `tier` is
    /// [`Class::Cold`], [`Class::Hot`] or [`Class::Memory`]. O(page).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        tier: Class,
        secret: Secret,
    ) -> Attempt<HashTable> {
        let class = if tier.is_hot() { tier } else { Class::Inner };
        let mut page = store.allocate(door, class)?;
        directory::write_root(&mut page, store.page_bytes(), secret, STRIDE)?;
        let root = page.pid();
        drop(page);
        Ok(HashTable::open(store.clone(), root, tier))
    }

    /// The table with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> HashTable {
        // Pages that an earlier run of the program made have counters that were given out from
        // another start; no reader holds a window from then.
        HashTable {
            known: FrameCache::new(&store),
            store,
            root,
            tier,
            secret: OnceLock::new(),
            births: AtomicU32::new(STRIDE.wrapping_mul(root.0 as u32 | 1)),
            copies: false,
            spared: Mutex::default(),
        }
    }

    /// The table as an upper tier: a clean record is a copy of one in the tier below, and the chain
    /// of its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(self) -> HashTable {
        HashTable {
            copies: true,
            ..self
        }
    }

    /// What the table's buckets name it.
    pub(crate) fn table(&self) -> u32 {
        table_of(self.root)
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The store that the table lies in.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Whether the chain of a large value goes with a record of these flags.
    pub(crate) fn owns_chain(&self, flags: Flags) -> bool {
        !self.copies || flags.is_dirty()
    }

    /// A starting point for the membership counter of a new bucket.
    pub(super) fn birth(&self) -> u32 {
        self.births.fetch_add(STRIDE, Ordering::Relaxed)
    }

    /// Class of the pages of the directory.
    pub(super) fn directory_class(&self) -> Class {
        if self.tier.is_hot() {
            self.tier
        } else {
            Class::Inner
        }
    }
}
