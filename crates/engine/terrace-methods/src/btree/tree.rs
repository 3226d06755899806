//! What a tree is made of, and how it is made and opened.
//!
//! Three layers, each in terms of the one below: the ways down ([`Descent`]), by which records are read; the
//! nodes ([`Nodes`]), of which each can be split and joined with others; and the tree, which changes records and
//! knows what it is for. None reaches into what another one keeps.

use std::sync::Arc;

use terrace_access::{Attempt, Edge, Flags, Room, Value, WriteGuard};
use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_pages::{Class, PageStore};

use super::descend::Descent;
use super::nodes::{Nodes, new_root};
use super::predecessor::Predecessor;
use super::spill::Worth;
use crate::unreadable::Unreadable;

/// A B+tree in a page store. See [the module](super)'s text.
pub struct BTree {
    nodes: Nodes,
    /// See [`BTree::as_upper_tier`].
    copies: bool,
    /// See [`BTree::as_part`].
    is_part: bool,
    /// When a full hot leaf spills; see [`BTree::above_an_index`].
    spills: Worth,
    /// Leaves that cannot be read, beside others that would share with them.
    spared: Mutex<Unreadable>,
}

impl BTree {
    /// Makes an empty tree: one page, the root, whose number is to be kept. `tier` is
    /// [`Class::Cold`], [`Class::Hot`] or [`Class::Memory`]. O(1).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(store: &Arc<PageStore>, door: &WriteGuard<'_>, tier: Class) -> Attempt<BTree> {
        let root = new_root(store, door, tier)?;
        Ok(BTree::open(store.clone(), root, tier))
    }

    /// The tree with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> BTree {
        BTree {
            nodes: Nodes::below(Descent::new(store, root), tier),
            copies: false,
            is_part: false,
            spills: Worth::Spilling,
            spared: Mutex::default(),
        }
    }

    /// The tree as an upper tier: a clean record is a copy of one in the tier below, and the chain
    /// of its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(mut self) -> BTree {
        self.copies = true;
        self
    }

    /// The tree as what was taken out of another one: its root has the fences that it had there.
    pub fn as_part(mut self) -> BTree {
        self.is_part = true;
        self
    }

    /// The tree as an upper tier whose records come to an index below and to rows apart from it: what they
    /// cost there depends less on how many stay above than in a tree, and full leaves spill less often.
    pub fn above_an_index(mut self) -> BTree {
        self.spills = Worth::SpillingRows;
        self
    }

    /// The tree as the index of another structure: a leaf has no records of its own but leads to
    /// those of many pages, as an inner node does, and is kept in memory like one.
    pub(crate) fn leading(mut self) -> BTree {
        self.nodes = self.nodes.leading();
        self
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.descent().root()
    }

    /// The store that the tree lies in.
    #[inline]
    pub fn store(&self) -> &Arc<PageStore> {
        self.descent().store()
    }

    /// Which tier the pages belong to.
    pub fn tier(&self) -> Class {
        self.nodes.tier()
    }

    /// Number of levels, 1 when the root is a leaf. For statistics: it may grow at any time.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory.
    pub fn try_height(&self) -> Attempt<usize> {
        self.descent().try_height()
    }

    /// Whether the first leaf may begin, and the last one end, anywhere.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// See [`Descent::floor`].
    pub(crate) fn floor(&self, edge: Edge<'_>, out: &mut Predecessor) -> Attempt<bool> {
        self.descent().floor(edge, self.is_part, out)
    }

    /// The ways down, for whoever reads.
    #[inline]
    pub(crate) fn descent(&self) -> &Descent {
        self.nodes.descent()
    }

    /// The nodes, for whoever changes the structure.
    #[inline]
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Whether the chain of a large value goes with a record of these flags.
    pub(crate) fn owns_chain(&self, flags: Flags) -> bool {
        !self.copies || flags.is_dirty()
    }

    /// Makes room for a record in the leaf that covers `key`, by changing the structure.
    pub(super) fn widen(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Value<'_>,
        patient: bool,
        room: &dyn Room,
    ) -> Attempt<()> {
        let nodes = &self.nodes;
        let moved = match nodes.tier() {
            // Full leaves in fewer pages are worth the work only once pages run out.
            Class::Hot | Class::Memory => {
                self.store().hot_pages_run_out() && nodes.spill(door, key, value, self.spills)?
            }
            // Who comes from above, in whatever order, leaves cold leaves full.
            _ => {
                let asks = |pid| self.spared.lock().ask(pid);
                (room.rises() || room.scatters()) && nodes.share(door, key, value, &asks)?
            }
        };
        if moved {
            return Ok(());
        }
        nodes.split(door, key, value, patient)
    }

    /// See [`terrace_access::AccessMethod::do_without`].
    pub(super) fn spares(&self, page: PageId) -> bool {
        self.spared.lock().note(page, false)
    }
}
