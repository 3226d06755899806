//! Ways down the tree: optimistic first, with latches when that fails too often.
//!
//! Invariants: whoever waits for a latch holds at most latches of ancestors of the page waited for,
//! so waiting threads cannot form a circle; upgrades and neighbours are only tried. A child is
//! believed to be one once its parent has been validated after the child's version was taken.

use std::sync::Arc;

use terrace_access::{Attempt, Edge, Retry, WriteGuard};
use terrace_base::PageId;
use terrace_base::sync::spin_loop;
use terrace_pages::{Exclusive, Optimistic, PageStore, Shared, Staying, View};

use super::layout::{MAX_LEVEL, Node};

/// Optimistic attempts before latches are taken on the way down, so that no caller starves.
pub(crate) const PATIENCE: u32 = 8;

pub(crate) const NO_NODE: &str = "this is not a node of a tree, or its header contradicts itself";
pub(crate) const BAD_RECORD: &str = "a slot or record of this node reaches past the page";
pub(crate) const OUTSIDE: &str =
    "the fences of this leaf, or the order of its keys, are not what the way to it says";
pub(crate) const BAD_LEVEL: &str = "this node is not on the level that its parent says";
const NO_CHILD: &str = "a child that this node names does not exist";

/// A node reached optimistically, and its parent as it was on the way.
pub(crate) struct Way<'a> {
    pub parent: Option<Optimistic<'a>>,
    pub node: Optimistic<'a>,
}

/// A node and its parent (if it has one) under exclusive latches.
pub(crate) struct Pair<'d> {
    pub parent: Option<Exclusive<'d>>,
    /// Number of the node among the children of its parent.
    pub child: usize,
    pub node: Exclusive<'d>,
}

/// Opens a latched page as a node: bytes that make no sense are damage.
macro_rules! node_of {
    ($guard:expr) => {
        $crate::btree::layout::Node::open($guard.view())
            .map_err(|_| $guard.torn($crate::btree::descend::NO_NODE))
    };
}
pub(crate) use node_of;

/// Turns bytes that make no sense into what they mean under this guard.
macro_rules! sound {
    ($guard:expr, $seen:expr) => {
        $seen.map_err(|_| $guard.torn($crate::btree::descend::BAD_RECORD))
    };
}
pub(crate) use sound;

/// A latched node, as the parent of a child that is wanted.
pub(crate) trait Latched {
    /// Its number.
    fn pid(&self) -> PageId;
    /// Its bytes.
    fn view(&self) -> View<'_>;
    /// What it means that they make no sense.
    fn torn(&self, what: &str) -> Retry;
}

macro_rules! latched {
    ($($guard:ident),*) => {
        $(impl Latched for $guard<'_> {
            fn pid(&self) -> PageId {
                $guard::pid(self)
            }

            fn view(&self) -> View<'_> {
                $guard::view(self)
            }

            fn torn(&self, what: &str) -> Retry {
                $guard::torn(self, what)
            }
        })*
    };
}
latched!(Shared, Exclusive);

/// Where a tree begins, and all ways down from there. It knows nothing of records, nor of how a tree changes.
pub(crate) struct Descent {
    store: Arc<PageStore>,
    root: PageId,
}

impl Descent {
    pub fn new(store: Arc<PageStore>, root: PageId) -> Descent {
        Descent { store, root }
    }

    /// Number of the root page; never changes.
    #[inline]
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The store that all pages lie in.
    #[inline]
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// The root under its shared latch.
    pub fn root_shared(&self) -> Attempt<Shared<'_>> {
        self.store.shared(self.root)
    }

    /// The root under its exclusive latch.
    pub fn root_exclusive<'d>(&'d self, door: &'d WriteGuard<'_>) -> Attempt<Exclusive<'d>> {
        self.store.exclusive(self.root, door)
    }

    /// Goes down to `level` without latches. The parent was valid when the node's version was
    /// taken; what is read of the node is still to be validated. O(height).
    #[inline]
    pub fn descend(&self, edge: Edge<'_>, level: u8) -> Attempt<Way<'_>> {
        self.descend_and(edge, level, |_| {})
    }

    /// The same; `arriving` is called with the node before anything is read of it, but for a root.
    #[inline]
    fn descend_and(
        &self,
        edge: Edge<'_>,
        level: u8,
        arriving: impl Fn(View<'_>),
    ) -> Attempt<Way<'_>> {
        let mut node = self.store.optimistic(self.root)?;
        let mut parent: Option<Optimistic<'_>> = None;
        let mut expected = None;
        for _ in 0..=MAX_LEVEL {
            let seen = match Node::open(node.view()) {
                Ok(seen) => seen,
                Err(_) => return Err(node.torn(NO_NODE)),
            };
            if expected.is_some_and(|level| level != seen.level) {
                return Err(node.torn(BAD_LEVEL));
            }
            if seen.level <= level {
                node.validate()?;
                return if seen.level == level {
                    Ok(Way { parent, node })
                } else {
                    Err(Retry::Conflict)
                };
            }
            let pid = match seen.step(edge) {
                Ok((_, pid)) => pid,
                Err(_) => return Err(node.torn(BAD_RECORD)),
            };
            let next = self.store.optimistic(pid);
            if let Ok(next) = &next
                && seen.level == level + 1
            {
                arriving(next.view());
            }
            node.validate()?;
            expected = Some(seen.level - 1);
            parent = Some(std::mem::replace(&mut node, next?));
        }
        Err(Retry::Conflict)
    }

    /// Goes down to the leaf with shared latches, from parent to child: slower, but it arrives.
    pub fn descend_shared(&self, edge: Edge<'_>) -> Attempt<Shared<'_>> {
        let mut node = self.root_shared()?;
        let mut level = node_of!(node)?.level;
        while level > 0 {
            let (_, pid) = sound!(node, node_of!(node)?.step(edge))?;
            node = self.shared_below(&node, pid)?;
            level -= 1;
        }
        Ok(node)
    }

    /// Where the leaf behind the one at this position begins; `None` behind the last, and where that is the root. The
    /// leaf itself is not looked at.
    pub fn behind(&self, position: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let mut node = self.root_shared()?;
        loop {
            let now = node_of!(node)?;
            if now.is_leaf() {
                return Ok(None);
            }
            let (at, pid) = sound!(node, now.step(Edge::From(position)))?;
            if now.level > 1 {
                node = self.shared_below(&node, pid)?;
                continue;
            }
            if at == now.count {
                return sound!(node, now.high());
            }
            let mut begin = Vec::new();
            sound!(node, now.append_key(at, &mut begin))?;
            return Ok(Some(begin));
        }
    }

    /// Makes sure that the leaf at this edge is in memory.
    pub fn reach(&self, edge: Edge<'_>) -> Attempt<()> {
        for _ in 0..PATIENCE {
            match self.descend(edge, 0) {
                Err(Retry::Conflict) => spin_loop(),
                other => return self.note_following(edge, other.map(|_| ())),
            }
        }
        self.descend_shared(edge).map(|_| ())
    }

    /// As [`PageStore::note_following`](terrace_pages::PageStore::note_following), if a leaf was missed at this edge.
    pub fn note_following<T>(&self, edge: Edge<'_>, reached: Attempt<T>) -> Attempt<T> {
        if let Err(Retry::Miss(leaf)) = reached {
            // A hint: whatever stands in the way, there is none.
            let _ = self.following(edge, leaf);
        }
        reached
    }

    fn following(&self, edge: Edge<'_>, leaf: PageId) -> Attempt<()> {
        let most = self.store.most_following();
        let parent = self.descend(edge, 1)?.node;
        let Ok(node) = Node::open(parent.view()) else {
            return Err(Retry::Conflict);
        };
        let Ok((at, pid)) = node.step(edge) else {
            return Err(Retry::Conflict);
        };
        let places = match edge {
            Edge::From(_) => at + 1..node.children().min(at + 1 + most),
            _ => at.saturating_sub(most)..at,
        };
        let mut pages: Vec<PageId> = places.filter_map(|i| node.child(i).ok()).collect();
        parent.validate()?;
        if !matches!(edge, Edge::From(_)) {
            pages.reverse();
        }
        if pid == leaf {
            self.store.note_following(leaf, pages.into_iter());
        }
        Ok(())
    }

    /// Number of levels, 1 when the root is a leaf. For statistics: it may grow at any time.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory.
    pub fn try_height(&self) -> Attempt<usize> {
        let root = self.root_shared()?;
        Ok(node_of!(root)?.level as usize + 1)
    }

    /// Lets the pages on the way to the leaf at this edge stay in memory; `staying` says which do already. For
    /// who knows that the tree does not change meanwhile. O(height²).
    pub fn let_way_stay<'s>(
        &'s self,
        edge: Edge<'_>,
        staying: &mut Vec<(PageId, Staying<'s>)>,
    ) -> Attempt<()> {
        for level in 0..self.try_height()? {
            let node = self.descend(edge, level as u8)?.node;
            let pid = node.pid();
            if staying.iter().all(|(there, _)| *there != pid) {
                staying.push((pid, self.store.let_stay(pid)?));
            }
        }
        Ok(())
    }

    /// The leaf at this edge under its shared latch.
    pub fn leaf_shared(&self, edge: Edge<'_>) -> Attempt<Shared<'_>> {
        for _ in 0..PATIENCE {
            match self
                .descend(edge, 0)
                .and_then(|way| way.node.upgrade_shared())
            {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        self.descend_shared(edge)
    }

    /// The node on `level` at this edge under its exclusive latch, with its parent under its own
    /// if `with_parent`. `patient`: waits for latches instead of giving up on a conflict.
    pub fn latch<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        edge: Edge<'_>,
        level: u8,
        with_parent: bool,
        patient: bool,
    ) -> Attempt<Pair<'d>> {
        if patient {
            return self.latch_patiently(door, edge, level, with_parent);
        }
        // Whoever changes it looks at its fences first, which lie at its end.
        let way = self.descend_and(edge, level, |node| node.prefetch(node.len() - 1, 0))?;
        if !with_parent {
            return Ok(Pair {
                parent: None,
                child: 0,
                node: way.node.upgrade_exclusive(door)?,
            });
        }
        let parent = way
            .parent
            .map(|parent| parent.upgrade_exclusive(door))
            .transpose()?;
        let node = way.node.upgrade_exclusive(door)?;
        let child = match &parent {
            Some(parent) => sound!(parent, node_of!(parent)?.child_towards(edge))?,
            None => 0,
        };
        Ok(Pair {
            parent,
            child,
            node,
        })
    }

    fn latch_patiently<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        edge: Edge<'_>,
        level: u8,
        with_parent: bool,
    ) -> Attempt<Pair<'d>> {
        // The highest level that is latched exclusively.
        let top = level + u8::from(with_parent);
        let mut above = self.root_shared()?;
        let height = node_of!(above)?.level;
        if height < level {
            return Err(Retry::Conflict);
        }
        let first = if height <= top {
            drop(above);
            let root = self.root_exclusive(door)?;
            if node_of!(root)?.level != height {
                return Err(Retry::Conflict);
            }
            root
        } else {
            let first = loop {
                let seen = node_of!(above)?;
                let at = seen.level;
                let (_, pid) = sound!(above, seen.step(edge))?;
                if at == top + 1 {
                    break self.exclusive_under(door, &above, pid)?;
                }
                above = self.shared_below(&above, pid)?;
            };
            // A page that names this one as its child would be waited for while it is held.
            drop(above);
            first
        };
        let seen = node_of!(first)?;
        if seen.level == level {
            return Ok(Pair {
                parent: None,
                child: 0,
                node: first,
            });
        }
        if seen.level != level + 1 {
            return Err(first.torn(BAD_LEVEL));
        }
        let (child, pid) = sound!(first, seen.step(edge))?;
        let node = self.exclusive_below(door, &first, pid)?;
        Ok(Pair {
            parent: Some(first),
            child,
            node,
        })
    }

    /// A neighbour of a latched node, if it is in memory and no thread holds it: never waits, because
    /// neighbours have no order. `None` also when it is not on `level`.
    pub fn try_neighbour<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        pid: PageId,
        level: u8,
    ) -> Attempt<Option<Exclusive<'d>>> {
        match self.store.try_exclusive(pid, door) {
            Ok(page) => {
                if node_of!(page)?.level != level {
                    return Err(page.torn(BAD_LEVEL));
                }
                Ok(Some(page))
            }
            Err(Retry::Fail(e)) => Err(Retry::Fail(e)),
            Err(_) => Ok(None),
        }
    }

    /// A child of a latched node under its shared latch, whatever its level.
    pub fn shared_under(&self, parent: &impl Latched, child: PageId) -> Attempt<Shared<'_>> {
        self.under(parent, child, || self.store.shared(child))
    }

    /// The same under its exclusive latch.
    pub fn exclusive_under<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        parent: &impl Latched,
        child: PageId,
    ) -> Attempt<Exclusive<'d>> {
        self.under(parent, child, || self.store.exclusive(child, door))
    }

    /// A child of a latched node under its shared latch, which must be a node of the level below.
    pub fn shared_below(&self, parent: &impl Latched, child: PageId) -> Attempt<Shared<'_>> {
        below(parent, self.shared_under(parent, child)?)
    }

    /// The same under its exclusive latch.
    pub fn exclusive_below<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        parent: &impl Latched,
        child: PageId,
    ) -> Attempt<Exclusive<'d>> {
        below(parent, self.exclusive_under(door, parent, child)?)
    }

    /// Gets a child while its parent is latched: it exists, so a conflict passes. A page that
    /// names itself as its child would be waited for without end, and is damaged.
    fn under<T>(
        &self,
        parent: &impl Latched,
        child: PageId,
        get: impl Fn() -> Attempt<T>,
    ) -> Attempt<T> {
        while child != parent.pid() {
            match get() {
                Err(Retry::Conflict) if self.store.exists(child) => self.store.back_off()?,
                Err(Retry::Conflict) => break,
                other => return other,
            }
        }
        Err(parent.torn(NO_CHILD))
    }
}

/// The child, if it is a node of the level below its parent's.
fn below<T: Latched>(parent: &impl Latched, child: T) -> Attempt<T> {
    match node_of!(child)?.level + 1 == node_of!(parent)?.level {
        true => Ok(child),
        false => Err(child.torn(BAD_LEVEL)),
    }
}
