//! The B+tree: records in key order, found through inner nodes from a root that does not move.
//!
//! Invariants:
//! * The root keeps its page number; when it splits, its content moves to two new children, and
//!   when one child is left, that one's content moves back.
//! * Every node covers `low <= key < high` and stores both; children tile their parent exactly.
//! * Nothing refers to a leaf but its parent: leaves are not chained, so a merge touches three
//!   pages.
//! * A page is changed only under its exclusive latch; a change of structure holds the latches of
//!   all pages it changes until it is complete.
//! * The membership counter of a leaf changes whenever a record comes, goes or moves to another
//!   page; a new page starts at a number of its own, so that a page number that is used again does
//!   not look like the old page.

mod clear;
pub(crate) mod descend;
mod edit;
mod fences;
mod floor;
pub(crate) mod image;
mod insert;
pub(crate) mod layout;
mod leaf;
mod remove;
mod rooted;
pub(crate) mod run;
mod sample;
pub(crate) mod scan;
mod search;
mod share;
mod spill;
mod split;
mod sweep;
mod through;
pub(crate) mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{
    AccessMethod, Applied, Attempt, Door, Edge, Flags, Found, InStorage, Interrupt, Neighbours,
    Ordered, Plan, Room, Runs, Sampled, Sweep, Touch, Value, Window,
};
use terrace_base::sync::{Mutex, spin_loop};
use terrace_base::{PageId, Result};
use terrace_pages::{Class, Exclusive, PageStore, View};

pub(crate) use floor::Floor;
pub use layout::max_inline;
pub use verify::verify_node;

use crate::fault::{self, Fault};
use crate::unreadable::Unreadable;

use descend::{PATIENCE, node_of, sound};
use image::build;
use layout::{Extra, Node, Shape, Stored};

/// An odd number far from all small ones, so that the counters of new pages spread.
const STRIDE: u32 = 0x9E37_79B1;

/// A B+tree in a page store. See the module's text.
pub struct BTree {
    store: Arc<PageStore>,
    root: PageId,
    tier: Class,
    /// Membership counter of the next new leaf.
    births: AtomicU32,
    /// See [`BTree::as_upper_tier`].
    copies: bool,
    /// See [`BTree::leading`].
    leads: bool,
    /// See [`BTree::above_an_index`].
    is_above_index: bool,
    /// Leaves that cannot be read, beside others that would share with them.
    spared: Mutex<Unreadable>,
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

    /// Number of levels, 1 when the root is a leaf. For statistics: it may grow at any time.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory.
    pub fn try_height(&self) -> Attempt<usize> {
        let root = self.store.shared(self.root)?;
        Ok(node_of!(root)?.level as usize + 1)
    }

    /// Gives the root page back; the tree must be empty ([`AccessMethod::try_clear_step`] returned
    /// false), and nobody may use it any more.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory; `Fail` when the tree is not empty.
    pub fn try_free_root(&self, door: &Door<'_>) -> Attempt<()> {
        let root = self.store.exclusive(self.root, door)?;
        let node = node_of!(root)?;
        if !node.is_leaf() || node.count > 0 {
            return Err(terrace_base::Error::invalid("only an empty tree can be freed").into());
        }
        root.free();
        Ok(())
    }

    /// Whether the chain of a large value goes with a record of these flags.
    pub(crate) fn owns_chain(&self, flags: Flags) -> bool {
        !self.copies || flags.is_dirty()
    }

    /// A starting point for the membership counter of a new leaf.
    fn birth(&self) -> u32 {
        self.births.fetch_add(STRIDE, Ordering::Relaxed)
    }

    /// Whether to ask for a neighbour that is not in memory; see [`Unreadable::ask`].
    fn asks_for(&self, pid: PageId) -> bool {
        self.spared.lock().ask(pid)
    }

    /// Class of a page on this level.
    fn class_of(&self, level: u8) -> Class {
        match self.tier {
            Class::Hot | Class::Top => self.tier,
            _ if level == 0 && !self.leads => Class::Cold,
            _ => Class::Inner,
        }
    }

    /// Writes a finished image into a page that was just allocated.
    fn install_new(&self, page: &mut Exclusive<'_>, image: &[u8]) -> Attempt<()> {
        image::install(page.fill(0, self.store.page_bytes())?, image);
        Ok(())
    }

    /// A node copied for taking apart.
    fn private(page: &Exclusive<'_>) -> Vec<u8> {
        page.bytes().to_vec()
    }

    #[inline]
    fn get_once(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let leaf = self.descend(Edge::From(key), 0)?.node;
        let (found, slot) = match read(leaf.view(), key, value) {
            Ok(found) => found,
            Err(_) => return Err(leaf.torn(descend::BAD_RECORD)),
        };
        leaf.validate()?;
        if touch == Touch::Raise
            && let Some(found) = found
            && (found.flags.use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint))
        {
            leaf.hint(Node::slot_at(slot) + 2, raise);
        }
        Ok(found)
    }

    #[cold]
    fn get_latched(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let leaf = self.descend_shared(Edge::From(key))?;
        if !sound!(leaf, node_of!(leaf)?.covers(key))? {
            return Err(leaf.torn(descend::OUTSIDE));
        }
        let (found, slot) = sound!(leaf, read(leaf.view(), key, value))?;
        if touch == Touch::Raise && found.is_some() {
            leaf.hint(Node::slot_at(slot) + 2, raise);
        }
        Ok(found)
    }
}

/// One more use, unless there are as many as can be counted.
fn raise(word: u16) -> Option<u16> {
    let flags = Flags(word as u8 & Flags::MASK);
    let more = flags.use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint);
    more.then_some(word.wrapping_add(1))
}

/// The record of a key in a leaf: what a lookup finds, the slot, and where its value is.
#[inline]
fn record_of(view: View<'_>, key: &[u8]) -> layout::Seen<Option<(Found, usize, Stored)>> {
    record_in(&Node::open(view)?, key)
}

/// The same in a leaf that has been opened.
#[inline]
pub(crate) fn record_in(
    node: &Node<'_>,
    key: &[u8],
) -> layout::Seen<Option<(Found, usize, Stored)>> {
    let Ok(i) = node.find(key)? else {
        return Ok(None);
    };
    let slot = node.slot(i)?;
    let record = node.leaf_record(slot)?;
    let found = Found {
        flags: slot.flags(),
        large: record.large(),
        depth: 0,
    };
    Ok(Some((found, i, record.value)))
}

/// Looks the key up in a leaf; also returns the slot.
#[inline]
fn read(view: View<'_>, key: &[u8], value: &mut Vec<u8>) -> layout::Seen<(Option<Found>, usize)> {
    value.clear();
    let Some((found, i, stored)) = record_of(view, key)? else {
        return Ok((None, 0));
    };
    if let Stored::Inline { at, len } = stored {
        view.append_to(at, len, value)?;
    }
    Ok((Some(found), i))
}

impl AccessMethod for BTree {
    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        for _ in 0..PATIENCE {
            match self.get_once(key, touch, value) {
                Err(Interrupt::Conflict) => spin_loop(),
                other => return other,
            }
        }
        self.get_latched(key, touch, value)
    }

    fn try_edit<'v>(
        &self,
        door: &Door<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        self.edit(door, key, plan, room, commit)
    }

    fn do_without(&self, page: PageId) -> bool {
        self.spared.lock().note(page, false)
    }

    fn try_clear_step(&self, door: &Door<'_>) -> Attempt<bool> {
        self.clear_step(door)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        self.check(each, page)
    }
}

impl Ordered for BTree {
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        scan::copy(&self.leaf_shared(edge)?, edge, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        scan::copy_if(&self.leaf_shared(edge)?, edge, select, window)
    }

    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(low))?;
        scan::copy_within(&leaf, low, high, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(position))?;
        scan::copy_span(&leaf, position, None, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.unchanged(window)
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        for _ in 0..PATIENCE {
            match self.descend(edge, 0) {
                Err(Interrupt::Conflict) => spin_loop(),
                other => return other.map(|_| ()),
            }
        }
        self.descend_shared(edge).map(|_| ())
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(edge)?;
        scan::copy(&leaf, edge, window)?;
        inside(window)
    }
}

impl Sampled for BTree {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.random_leaf(random)
    }

    fn try_leaves(&self, random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        self.random_way(random, 1).map(|(leaves, _)| Some(leaves))
    }
}

impl Runs for BTree {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.each_leaf_of(run, next, &mut |_, records, next| {
            *next = records.end;
            Ok(())
        })
    }

    fn put_run(&self, door: &Door<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_records(door, window, which)
    }
}

impl Neighbours for BTree {
    fn try_close_up(
        &self,
        door: &Door<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        self.close_up(door, from, to)
    }

    fn try_compact(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.compact(door, position, fill)
    }
}

impl InStorage for BTree {}

impl Sweep for BTree {
    fn try_visit(
        &self,
        door: &Door<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn terrace_access::RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, position, edit)
    }

    fn try_pack(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.pack(door, position, fill)
    }
}
