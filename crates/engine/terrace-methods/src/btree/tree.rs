//! What a tree is made of, and how it is made and opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{Attempt, Door, Flags};
use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_pages::{Class, Exclusive, PageStore};

use super::image::{self, build};
use super::layout::{Extra, Shape};
use crate::unreadable::Unreadable;

/// An odd number far from all small ones, so that the counters of new pages spread.
const STRIDE: u32 = 0x9E37_79B1;

/// A B+tree in a page store. See [the module](super)'s text.
pub struct BTree {
    pub(super) store: Arc<PageStore>,
    pub(super) root: PageId,
    pub(super) tier: Class,
    /// Membership counter of the next new leaf.
    births: AtomicU32,
    /// See [`BTree::as_upper_tier`].
    copies: bool,
    /// See [`BTree::leading`].
    pub(super) leads: bool,
    /// See [`BTree::above_an_index`].
    pub(super) is_above_index: bool,
    /// See [`BTree::as_part`].
    pub(super) is_part: bool,
    /// Leaves that cannot be read, beside others that would share with them.
    pub(super) spared: Mutex<Unreadable>,
}

impl BTree {
    /// Makes an empty tree: one page, the root, whose number is to be kept. `tier` is
    /// [`Class::Cold`] or [`Class::Hot`]. O(1).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(store: &Arc<PageStore>, door: &Door<'_>, tier: Class) -> Attempt<BTree> {
        let class = if tier == Class::Hot {
            Class::Hot
        } else {
            Class::Cold
        };
        let mut page = store.allocate(door, class)?;
        let root = page.pid();
        let shape = Shape {
            level: 0,
            low: &[],
            high: None,
            extra: Extra::Members(STRIDE),
        };
        build(page.fill(0, store.page_bytes())?, &shape, &[], (0, 0));
        drop(page);
        Ok(BTree::open(store.clone(), root, tier))
    }

    /// The tree with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> BTree {
        // Pages that an earlier run of the program made have counters that were given out from
        // another start; nobody holds a window from then.
        BTree {
            store,
            root,
            tier,
            births: AtomicU32::new(STRIDE.wrapping_mul(root.0 as u32 | 1)),
            copies: false,
            leads: false,
            is_above_index: false,
            is_part: false,
            spared: Mutex::default(),
        }
    }

    /// The tree as an upper tier: a clean record is a copy of one in the tier below, and the chain
    /// of its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(self) -> BTree {
        BTree {
            copies: true,
            ..self
        }
    }

    /// The tree as what was taken out of another one: its root has the fences that it had there.
    pub fn as_part(self) -> BTree {
        BTree {
            is_part: true,
            ..self
        }
    }

    /// The tree as an upper tier whose records come to an index below and to rows apart from it: what they
    /// cost there depends less on how many stay above than in a tree, and full leaves spill less often.
    pub fn above_an_index(self) -> BTree {
        BTree {
            is_above_index: true,
            ..self
        }
    }

    /// The tree as the index of another structure: a leaf has no records of its own but leads to
    /// those of many pages, as an inner node does, and is kept in memory like one.
    pub(crate) fn leading(self) -> BTree {
        BTree {
            leads: true,
            ..self
        }
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The store that the tree lies in.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Which tier the pages belong to.
    pub fn tier(&self) -> Class {
        self.tier
    }

    /// Whether the chain of a large value goes with a record of these flags.
    pub(crate) fn owns_chain(&self, flags: Flags) -> bool {
        !self.copies || flags.is_dirty()
    }

    /// A starting point for the membership counter of a new leaf.
    pub(super) fn birth(&self) -> u32 {
        self.births.fetch_add(STRIDE, Ordering::Relaxed)
    }

    /// Whether to ask for a neighbour that is not in memory; see [`Unreadable::ask`].
    pub(super) fn asks_for(&self, pid: PageId) -> bool {
        self.spared.lock().ask(pid)
    }

    /// Class of a page on this level.
    pub(super) fn class_of(&self, level: u8) -> Class {
        match self.tier {
            Class::Hot | Class::Top => self.tier,
            _ if level == 0 && !self.leads => Class::Cold,
            _ => Class::Inner,
        }
    }

    /// Writes a finished image into a page that was just allocated.
    pub(super) fn install_new(&self, page: &mut Exclusive<'_>, image: &[u8]) -> Attempt<()> {
        image::install(page.fill(0, self.store.page_bytes())?, image);
        Ok(())
    }

    /// A node copied for taking apart.
    pub(super) fn private(page: &Exclusive<'_>) -> Vec<u8> {
        page.bytes().to_vec()
    }
}
