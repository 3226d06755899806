//! What a heap is made of, and how it is made and opened.

use std::sync::{Arc, OnceLock};

use terrace_access::{Attempt, Window, WriteGuard};
use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_pages::{Class, PageStore, View};

use super::directory::{self, Directory, NO_DIRECTORY, ROOT_TAG};
use super::sides::Scans;
use super::space::Space;
use crate::BTree;

pub(super) const NO_INDEX: &str = "this root of a heap names no index";

/// A heap with its index in a page store. See [the module](super)'s text.
pub struct Heap {
    pub(super) store: Arc<PageStore>,
    pub(super) root: PageId,
    pub(super) tier: Class,
    /// Opened when the root has been read.
    pub(super) index: OnceLock<BTree>,
    pub(super) space: Space,
    pub(super) scans: Scans,
    pub(super) scratch: Mutex<Vec<Window>>,
    /// See [`Heap::as_upper_tier`].
    copies: bool,
}

impl Heap {
    /// Makes an empty heap: two pages, the root, whose number is to be kept, and the root of the
    /// index. `tier` is [`Class::Cold`], [`Class::Hot`] or [`Class::Memory`]. O(page).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(store: &Arc<PageStore>, door: &WriteGuard<'_>, tier: Class) -> Attempt<Heap> {
        let class = if tier.is_hot() { tier } else { Class::Inner };
        let mut page = store.allocate(door, class)?;
        let index = match BTree::create(store, door, tier) {
            Ok(index) => index,
            Err(interrupt) => {
                page.free();
                return Err(interrupt);
            }
        };
        directory::begin(&mut page, ROOT_TAG, index.root(), store.page_bytes())?;
        let root = page.pid();
        drop(page);
        Ok(Heap::open(store.clone(), root, tier))
    }

    /// The heap with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> Heap {
        let tier = if tier.is_hot() { tier } else { Class::Cold };
        Heap {
            store,
            root,
            tier,
            index: OnceLock::new(),
            space: Space::new(root),
            scans: Scans::default(),
            scratch: Mutex::default(),
            copies: false,
        }
    }

    /// The heap as an upper tier: a clean record is a copy of one in the tier below, and the chain of
    /// its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(self) -> Heap {
        Heap {
            copies: true,
            index: OnceLock::new(),
            ..self
        }
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Root of the index; never changes.
    ///
    /// # Errors
    /// `Miss` when the root of the heap has to be read first.
    pub fn index_root(&self) -> Attempt<PageId> {
        Ok(self.index()?.root())
    }

    /// The store that the heap lies in.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    pub(super) fn index_at(&self, root: PageId) -> &BTree {
        self.index.get_or_init(|| {
            let index = BTree::open(self.store.clone(), root, self.tier).leading();
            if self.copies {
                index.as_upper_tier()
            } else {
                index
            }
        })
    }

    /// The index.
    ///
    /// # Errors
    /// `Miss` when the root has to be read first, to know where the index begins.
    #[inline]
    pub(super) fn index(&self) -> Attempt<&BTree> {
        match self.index.get() {
            Some(index) => Ok(index),
            None => self.find_index(),
        }
    }

    #[cold]
    fn find_index(&self) -> Attempt<&BTree> {
        let root = self.store.shared(self.root)?;
        let seen = self.directory_in(root.view(), self.root);
        let link = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?.link;
        if link == self.root || !self.store.exists(link) {
            return Err(root.torn(NO_INDEX));
        }
        Ok(self.index_at(link))
    }

    /// A page of the directory, if it is one of this structure.
    pub(crate) fn directory_in<'a>(&self, view: View<'a>, pid: PageId) -> Option<Directory<'a>> {
        let seen = Directory::open(view).ok()?;
        let mine = if pid == self.root {
            seen.is_root
        } else {
            !seen.is_root && seen.link == self.root
        };
        mine.then_some(seen)
    }
}
