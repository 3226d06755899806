//! A part: a B+tree of at most three levels under one latch.
//!
//! Kept true: all leaves are equally deep; no fast node lies below a slow one, if the policy of
//! births wants it so. A new node gets its room before anything changes, so a failed insertion
//! leaves the tree as it was, or split once more.

use super::common::{Origin, OwnedNode};
use super::kind::{Cleared, Inserted, Removed};
use super::nodes::{BTreeNodes as Nodes, INNER, Inner, LEAF, Leaf, Node, NodeMut};
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use arrayvec::ArrayVec;
use std::borrow::Borrow;
use std::ops::Bound;

/// Levels of inner nodes of a part: 32 x 32 leaves of 16, so 16 Ki entries at most.
#[cfg(not(feature = "shuttle"))]
pub(super) const MOST_LEVELS: usize = 2;
/// Small ones, so that the scheduler of tests sees parts that are split.
#[cfg(feature = "shuttle")]
pub(super) const MOST_LEVELS: usize = 1;

/// The tree of a part; without a root when the part has left the directory.
#[derive(Debug)]
pub struct Tree {
    pub(super) root: Option<OwnedNode>,
    /// Levels of inner nodes.
    pub(super) levels: usize,
    pub(super) len: usize,
    /// Changes with every change of paths.
    pub(super) version: u64,
}

impl<K: Ord> Inner<K> {
    #[inline(always)]
    pub(super) fn place<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.keys.partition_point(|k| k.borrow() <= key)
    }
}

impl<K: Ord, V> Leaf<K, V> {
    #[inline(always)]
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        let at = self.keys.partition_point(|k| k.borrow() < key);
        match self.keys.get(at) {
            Some(k) if k.borrow() == key => Ok(at),
            _ => Err(at),
        }
    }
}

impl Tree {
    /// An empty leaf.
    pub(super) fn new<K, V, M: Model>(nodes: &Nodes<K, V, M>) -> Result<Tree, PlacementError> {
        let vacant = nodes.vacant_leaf(Origin {
            depth: 0,
            parent: Tier::Fast,
            from: None,
            fast_kid: false,
        })?;
        let leaf = Leaf {
            keys: ArrayVec::new(),
            vals: ArrayVec::new(),
        };
        Ok(Tree {
            root: Some(nodes.new_leaf(vacant, leaf)),
            levels: 0,
            len: 0,
            version: 0,
        })
    }

    /// The value of a key.
    #[inline(always)]
    pub(super) fn get<'a, K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a self,
        nodes: &'a Nodes<K, V, M>,
        key: &Q,
    ) -> Option<&'a V> {
        let mut kid = self.root.as_ref()?;
        loop {
            match nodes.touch(kid) {
                Node::Inner(inner) => kid = &inner.kids[inner.place(key)],
                Node::Leaf(leaf) => return leaf.search(key).ok().map(|at| &leaf.vals[at]),
            }
        }
    }

    /// The value of a key; its leaf is noted, or the whole way to it.
    #[inline(always)]
    pub(super) fn get_noted<'a, K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a self,
        nodes: &'a Nodes<K, V, M>,
        key: &Q,
        noting: Noting,
    ) -> Option<&'a V> {
        if noting == Noting::Path {
            self.note_way(nodes, key);
        }
        let mut kid = self.root.as_ref()?;
        loop {
            match nodes.touch(kid) {
                Node::Inner(inner) => kid = &inner.kids[inner.place(key)],
                Node::Leaf(leaf) => {
                    if let Some(heat) = &nodes.common.heat {
                        heat.note_leaf(kid.id());
                    }
                    return leaf.search(key).ok().map(|at| &leaf.vals[at]);
                }
            }
        }
    }

    /// Notes the inner nodes above the leaf of a key: so seldom that the way is gone for it alone.
    #[cold]
    #[inline(never)]
    fn note_way<K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &self,
        nodes: &Nodes<K, V, M>,
        key: &Q,
    ) {
        let mut way = self.root.as_ref();
        while let Some(kid) = way
            && let Node::Inner(inner) = nodes.node(kid)
        {
            nodes.common.note(kid, Noting::Path);
            way = inner.kids.get(inner.place(key));
        }
    }

    /// The value of a key, to be changed.
    pub(super) fn get_mut<'a, K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a mut self,
        nodes: &'a Nodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a mut V> {
        let mut kid = self.root.as_mut()?;
        loop {
            if let Some(noting) = noting {
                nodes.common.note(kid, noting);
            }
            let _ = nodes.touch(kid);
            match nodes.node_mut(kid) {
                NodeMut::Inner(inner) => {
                    let at = inner.place(key);
                    kid = &mut inner.kids[at];
                }
                NodeMut::Leaf(leaf) => return leaf.search(key).ok().map(|at| &mut leaf.vals[at]),
            }
        }
    }

    /// Makes the tree empty: the first leaf stays, without entries.
    pub(super) fn clear<K, V, M: Model>(&mut self, nodes: &Nodes<K, V, M>) -> Cleared<K, V> {
        let mut cleared = Cleared {
            kid: None,
            entries: vec![],
        };
        let Some(mut root) = self.root.take() else {
            return cleared;
        };
        let mut leaf = match first_leaf(nodes, &mut root) {
            Some(leaf) => {
                cleared.kid = Some(root);
                leaf
            }
            None => root,
        };
        if let NodeMut::Leaf(leaf) = nodes.node_mut(&mut leaf) {
            leaf.keys.iter().for_each(|key| nodes.keys.goes(key));
            cleared.entries = leaf.keys.drain(..).zip(leaf.vals.drain(..)).collect();
        }
        self.root = Some(leaf);
        (self.levels, self.len) = (0, 0);
        self.version += 1;
        cleared
    }

    fn is_full<K: Ord, V, M: Model>(nodes: &Nodes<K, V, M>, kid: &OwnedNode, key: &K) -> bool {
        match nodes.node(kid) {
            Node::Leaf(leaf) => leaf.keys.is_full() && leaf.search(key).is_err(),
            Node::Inner(inner) => inner.kids.is_full(),
        }
    }

    /// Puts an entry in.
    pub(super) fn insert<K: Ord + Clone, V, M: Model>(
        &mut self,
        nodes: &Nodes<K, V, M>,
        key: K,
        val: V,
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        let Some(root) = &mut self.root else {
            return Ok(Inserted::Full(key, val));
        };
        if Self::is_full(nodes, root, &key) {
            if self.levels == MOST_LEVELS {
                return Ok(Inserted::Full(key, val));
            }
            self.grow(nodes)?;
        }
        let Some(mut kid) = self.root.as_mut() else {
            return Ok(Inserted::Full(key, val));
        };
        let mut depth = 0;
        loop {
            let tier = kid.tier();
            if let Some(noting) = noting {
                nodes.common.note(kid, noting);
            }
            let _ = nodes.touch(kid);
            match nodes.node_mut(kid) {
                NodeMut::Leaf(leaf) => {
                    return Ok(match leaf.search(&key) {
                        Ok(at) => {
                            Inserted::Replaced(std::mem::replace(&mut leaf.vals[at], val), key)
                        }
                        Err(at) => {
                            nodes.keys.came(&key);
                            leaf.keys.insert(at, key);
                            leaf.vals.insert(at, val);
                            self.len += 1;
                            Inserted::New
                        }
                    });
                }
                NodeMut::Inner(inner) => {
                    depth += 1;
                    let mut at = inner.place(&key);
                    if Self::is_full(nodes, &inner.kids[at], &key) {
                        Self::split_kid(nodes, inner, tier, at, depth)?;
                        self.version += 1;
                        at = inner.place(&key);
                    }
                    kid = &mut inner.kids[at];
                }
            }
        }
    }

    /// Puts a root above the root.
    fn grow<K: Ord + Clone, V, M: Model>(
        &mut self,
        nodes: &Nodes<K, V, M>,
    ) -> Result<(), PlacementError> {
        let Some(old) = &self.root else { return Ok(()) };
        let fast = old.tier() == Tier::Fast && !planted(Fault::SlowRoot);
        let vacant = nodes.vacant_inner(Origin {
            depth: 0,
            parent: if planted(Fault::SlowRoot) {
                Tier::Slow
            } else {
                Tier::Fast
            },
            from: Some(old.tier()),
            fast_kid: fast,
        })?;
        let mut inner = Inner {
            keys: ArrayVec::new(),
            kids: ArrayVec::new(),
        };
        inner.kids.extend(self.root.take());
        self.root = Some(nodes.new_inner(vacant, inner));
        self.levels += 1;
        self.version += 1;
        if let Some(root) = &mut self.root {
            let tier = root.tier();
            if let NodeMut::Inner(inner) = nodes.node_mut(root) {
                // If there is no room for the half, the root has one child: also a tree.
                Self::split_kid(nodes, inner, tier, 0, 1)?;
            }
        }
        Ok(())
    }

    /// Splits a full child; the parent has room.
    fn split_kid<K: Ord + Clone, V, M: Model>(
        nodes: &Nodes<K, V, M>,
        parent: &mut Inner<K>,
        tier: Tier,
        at: usize,
        depth: usize,
    ) -> Result<(), PlacementError> {
        let kid = &mut parent.kids[at];
        let id = kid.id();
        let mut origin = Origin {
            depth,
            parent: tier,
            from: Some(id.tier()),
            fast_kid: false,
        };
        let (key, new) = match nodes.node_mut(kid) {
            NodeMut::Leaf(leaf) => {
                let vacant = nodes.vacant_leaf(origin)?;
                let key = leaf.keys[LEAF / 2].clone();
                nodes.keys.came(&key);
                let right = Leaf {
                    keys: leaf.keys.drain(LEAF / 2..).collect(),
                    vals: leaf.vals.drain(LEAF / 2..).collect(),
                };
                (key, nodes.new_leaf(vacant, right))
            }
            NodeMut::Inner(inner) => {
                let half = &inner.kids[INNER / 2..];
                let slow = Nodes::<K, V, M>::forgets(Fault::SlowSibling);
                origin.fast_kid = half.iter().any(|kid| kid.tier() == Tier::Fast) && !slow;
                if slow {
                    (origin.from, origin.parent) = (Some(Tier::Slow), Tier::Slow);
                }
                let vacant = nodes.vacant_inner(origin)?;
                let (key, right) = Self::upper_half(inner);
                (key, nodes.new_inner(vacant, right))
            }
        };
        nodes.common.divided(id, new.id());
        parent.keys.insert(at, key);
        parent.kids.insert(at + 1, new);
        Ok(())
    }

    /// Takes the upper half of a full inner node off, and the key between.
    fn upper_half<K>(inner: &mut Inner<K>) -> (K, Inner<K>) {
        let right = Inner {
            keys: inner.keys.drain(INNER / 2..).collect(),
            kids: inner.kids.drain(INNER / 2..).collect(),
        };
        let key = inner.keys.remove(INNER / 2 - 1);
        (key, right)
    }

    /// Splits the part: the upper half becomes a part of its own. The least key of that one is
    /// returned; nothing if the part can still grow.
    pub(super) fn split<K: Ord + Clone, V, M: Model>(
        &mut self,
        nodes: &Nodes<K, V, M>,
    ) -> Result<Option<(K, Tree)>, PlacementError> {
        let levels = self.levels;
        let Some(root) = &mut self.root else {
            return Ok(None);
        };
        let id = root.id();
        let NodeMut::Inner(inner) = nodes.node_mut(root) else {
            return Ok(None);
        };
        if levels < MOST_LEVELS || !inner.kids.is_full() {
            return Ok(None);
        }
        let half = &inner.kids[INNER / 2..];
        let vacant = nodes.vacant_inner(Origin {
            depth: 0,
            parent: Tier::Fast,
            from: Some(id.tier()),
            fast_kid: half.iter().any(|kid| kid.tier() == Tier::Fast),
        })?;
        let (key, right) = Self::upper_half(inner);
        let len = right.kids.iter().map(|kid| Self::count(nodes, kid)).sum();
        let new = nodes.new_inner(vacant, right);
        nodes.common.divided(id, new.id());
        self.version += 1;
        self.len -= len;
        let tree = Tree {
            root: Some(new),
            levels,
            len,
            version: 0,
        };
        Ok(Some((key, tree)))
    }

    fn count<K, V, M: Model>(nodes: &Nodes<K, V, M>, kid: &OwnedNode) -> usize {
        match nodes.node(kid) {
            Node::Leaf(leaf) => leaf.keys.len(),
            Node::Inner(inner) => inner.kids.iter().map(|kid| Self::count(nodes, kid)).sum(),
        }
    }

    /// Takes an entry out.
    pub(super) fn remove<K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &mut self,
        nodes: &Nodes<K, V, M>,
        key: &Q,
    ) -> Option<Removed<K, V>> {
        let root = self.root.as_mut()?;
        let removed = Self::remove_below(nodes, root, key, &mut self.version)?;
        self.len -= 1;
        // A root with one child goes, unless it is all that holds an empty leaf.
        while let Some(root) = self.root.take() {
            match nodes.node(&root) {
                Node::Inner(inner) if inner.kids.len() == 1 => {}
                _ => {
                    self.root = Some(root);
                    break;
                }
            }
            let id = root.id();
            let inner = nodes.take_inner(root);
            nodes.gone(id);
            self.root = inner.and_then(|mut inner| inner.kids.pop());
            self.levels -= 1;
            self.version += 1;
        }
        Some(removed)
    }

    fn remove_below<K: Ord + Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        nodes: &Nodes<K, V, M>,
        kid: &mut OwnedNode,
        key: &Q,
        version: &mut u64,
    ) -> Option<Removed<K, V>> {
        let _ = nodes.touch(kid);
        match nodes.node_mut(kid) {
            NodeMut::Leaf(leaf) => {
                let at = leaf.search(key).ok()?;
                nodes.keys.goes(&leaf.keys[at]);
                Some(Removed {
                    key: leaf.keys.remove(at),
                    val: leaf.vals.remove(at),
                    between: None,
                })
            }
            NodeMut::Inner(inner) => {
                let at = inner.place(key);
                let mut removed = Self::remove_below(nodes, &mut inner.kids[at], key, version)?;
                if Self::merge_kid(nodes, inner, at, &mut removed.between) {
                    *version += 1;
                }
                Some(removed)
            }
        }
    }

    fn fill<K, V, M: Model>(nodes: &Nodes<K, V, M>, kid: &OwnedNode) -> (usize, usize) {
        match nodes.node(kid) {
            Node::Leaf(leaf) => (leaf.keys.len(), LEAF),
            Node::Inner(inner) => (inner.kids.len(), INNER),
        }
    }

    /// Merges a child that is nearly empty with its neighbour, if both fit well into one. The key
    /// that stood between two leaves goes to `gone`.
    fn merge_kid<K: Ord, V, M: Model>(
        nodes: &Nodes<K, V, M>,
        parent: &mut Inner<K>,
        at: usize,
        gone: &mut Option<K>,
    ) -> bool {
        let (len, most) = Self::fill(nodes, &parent.kids[at]);
        if len > most / 4 || parent.kids.len() < 2 {
            return false;
        }
        let left = at.saturating_sub(1);
        let sum = len + Self::fill(nodes, &parent.kids[if at == 0 { 1 } else { left }]).0;
        if sum > most * 3 / 4 && (len > 1 || sum > most) {
            return false;
        }
        let between = parent.keys.remove(left);
        let right_kid = parent.kids.remove(left + 1);
        let left_kid = parent.kids.remove(left);
        // The fast one stays: the other may have no fast child, it may.
        let right_stays = right_kid.tier() == Tier::Fast
            && left_kid.tier() == Tier::Slow
            && !planted(Fault::SlowMerge);
        let (mut stays, goes) = if right_stays {
            (right_kid, left_kid)
        } else {
            (left_kid, right_kid)
        };
        nodes.merged(stays.id(), goes.id());
        let leaf = goes.is_leaf();
        if leaf {
            nodes.keys.goes(&between);
            debug_assert!(gone.is_none(), "only leaves lose the key between them");
            *gone = Some(between);
            if let (NodeMut::Leaf(stay), Some(go)) =
                (nodes.node_mut(&mut stays), nodes.take_leaf(goes))
            {
                let (mut low, high) = in_order(stay, go, right_stays);
                low.keys.extend(high.keys);
                low.vals.extend(high.vals);
                *stay = low;
            }
        } else if let (NodeMut::Inner(stay), Some(go)) =
            (nodes.node_mut(&mut stays), nodes.take_inner(goes))
        {
            let (mut low, high) = in_order(stay, go, right_stays);
            low.keys.push(between);
            low.keys.extend(high.keys);
            low.kids.extend(high.kids);
            *stay = low;
        }
        parent.kids.insert(left, stays);
        true
    }

    /// Copies entries down from `to`, against the order, up to `most` of them.
    pub(super) fn collect_back<K: Ord + Clone, V: Clone, M: Model>(
        nodes: &Nodes<K, V, M>,
        kid: &OwnedNode,
        to: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        match nodes.touch(kid) {
            Node::Leaf(leaf) => {
                if let Some(noting) = note() {
                    nodes.common.note(kid, noting);
                }
                let end = match to {
                    Bound::Unbounded => leaf.keys.len(),
                    Bound::Included(key) => leaf.keys.partition_point(|k| k <= key),
                    Bound::Excluded(key) => leaf.keys.partition_point(|k| k < key),
                };
                let room = most.saturating_sub(out.len());
                let entries = leaf.keys[..end].iter().zip(&leaf.vals[..end]).rev();
                out.extend(entries.take(room).map(|(k, v)| (k.clone(), v.clone())));
            }
            Node::Inner(inner) => {
                let last = match to {
                    Bound::Unbounded => inner.kids.len() - 1,
                    Bound::Included(key) | Bound::Excluded(key) => inner.place(key),
                };
                for kid in inner.kids[..=last].iter().rev() {
                    if out.len() >= most {
                        break;
                    }
                    Self::collect_back(nodes, kid, to, most, note, out);
                }
            }
        }
    }

    /// Copies entries from `from` on, in order, up to `most` of them, into `out`. Each leaf that
    /// is read may be noted.
    pub(super) fn collect<K: Ord + Clone, V: Clone, M: Model>(
        &self,
        nodes: &Nodes<K, V, M>,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        if let Some(root) = &self.root {
            self.collect_below(nodes, root, from, most, note, out);
        }
    }

    fn collect_below<K: Ord + Clone, V: Clone, M: Model>(
        &self,
        nodes: &Nodes<K, V, M>,
        kid: &OwnedNode,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        match nodes.touch(kid) {
            Node::Leaf(leaf) => {
                if let Some(noting) = note() {
                    nodes.common.note(kid, noting);
                }
                let start = match from {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => leaf.keys.partition_point(|k| k < key),
                    Bound::Excluded(key) => leaf.keys.partition_point(|k| k <= key),
                };
                let room = most.saturating_sub(out.len());
                let entries = leaf.keys[start..].iter().zip(&leaf.vals[start..]);
                out.extend(entries.take(room).map(|(k, v)| (k.clone(), v.clone())));
            }
            Node::Inner(inner) => {
                let start = match from {
                    Bound::Unbounded => 0,
                    Bound::Included(key) | Bound::Excluded(key) => inner.place(key),
                };
                for kid in &inner.kids[start..] {
                    if out.len() >= most {
                        break;
                    }
                    self.collect_below(nodes, kid, from, most, note, out);
                }
            }
        }
    }
}

/// Takes the first leaf below an inner node out of it, which is of no use then.
fn first_leaf<K, V, M: Model>(nodes: &Nodes<K, V, M>, kid: &mut OwnedNode) -> Option<OwnedNode> {
    match nodes.node_mut(kid) {
        NodeMut::Leaf(_) => None,
        NodeMut::Inner(inner) => match inner.kids.first_mut() {
            Some(first) if !first.is_leaf() => first_leaf(nodes, first),
            first => first.is_some().then(|| inner.kids.remove(0)),
        },
    }
}

/// The node with the lower keys, then the one with the higher; what stays is left without content.
fn in_order<T: Empty>(stay: &mut T, go: T, right_stays: bool) -> (T, T) {
    let stay = std::mem::replace(stay, T::empty());
    if right_stays { (go, stay) } else { (stay, go) }
}

trait Empty {
    fn empty() -> Self;
}

impl<K, V> Empty for Leaf<K, V> {
    fn empty() -> Self {
        Leaf {
            keys: ArrayVec::new(),
            vals: ArrayVec::new(),
        }
    }
}

impl<K> Empty for Inner<K> {
    fn empty() -> Self {
        Inner {
            keys: ArrayVec::new(),
            kids: ArrayVec::new(),
        }
    }
}
