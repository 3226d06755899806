//! Dividing a part in two along the way to one of its keys, and reading it in order.

use super::layers::tidy;
use super::nodes::{Below, MassNodes, Node, NodeMut, Room, search};
use super::tree::{MOST_ENTRIES, MassTree, word};
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use crate::tree::art::ArtKey;
use crate::tree::common::{Origin, OwnedNode};
use std::ops::Bound;

/// A node on the way: the place at which it is divided, and room for what goes to the right.
struct SplitNode<'a, K, V> {
    at: usize,
    room: Room<'a, K, V>,
}

/// Entries below a node.
fn count<K, V, M: Model>(nodes: &MassNodes<K, V, M>, kid: &OwnedNode) -> usize {
    match nodes.node(kid) {
        Node::Leaf(leaf) => leaf.words.len(),
        Node::Border(border) => {
            let below = |slot: &Below<K, V>| slot.layer().map_or(1, |kid| count(nodes, kid));
            border.slots.iter().map(below).sum()
        }
        Node::Inner(inner) => inner.kids.iter().map(|kid| count(nodes, kid)).sum(),
    }
}

/// The first of some whose counts, with all before it, are more than `left`; that is what is left
/// for it.
fn nth(counts: impl Iterator<Item = usize>, left: &mut usize) -> Option<usize> {
    for (at, n) in counts.enumerate() {
        if *left < n {
            return Some(at);
        }
        *left -= n;
    }
    None
}

impl MassTree {
    /// Takes the upper half of the entries off, as a tree of its own, with the least key of them;
    /// nothing if the part can still grow. Where the system has no room nothing has changed.
    pub(super) fn split<K: ArtKey + Clone, V, M: Model>(
        &mut self,
        nodes: &MassNodes<K, V, M>,
    ) -> Result<Option<(K, MassTree)>, PlacementError> {
        let (len, Some(root)) = (self.len, &self.root) else {
            return Ok(None);
        };
        if len < MOST_ENTRIES {
            return Ok(None);
        }
        // The way to the middle entry: what is before each step stays.
        let (mut way, mut left, mut kid) = (vec![], len / 2, root);
        let key = loop {
            let (at, next) = match nodes.node(kid) {
                Node::Leaf(leaf) => {
                    way.push((kid, left, false));
                    break leaf.keys.get(left).cloned();
                }
                Node::Border(border) => {
                    let below = |s: &Below<K, V>| s.layer().map_or(1, |kid| count(nodes, kid));
                    let at = nth(border.slots.iter().map(below), &mut left);
                    let Some(at) = at else { return Ok(None) };
                    let fast = border.slots[at + 1..].iter().any(Below::is_fast);
                    way.push((kid, at, fast));
                    match &border.slots[at] {
                        Below::Entry(key, _) => break Some(key.clone()),
                        Below::Layer(next) => (at, next),
                    }
                }
                Node::Inner(inner) => {
                    let at = nth(inner.kids.iter().map(|kid| count(nodes, kid)), &mut left);
                    let Some(at) = at else { return Ok(None) };
                    let behind = inner.kids[at + 1..].iter();
                    let fast = behind.fold(false, |fast, kid| fast | (kid.tier() == Tier::Fast));
                    way.push((kid, at, fast));
                    (at, &inner.kids[at])
                }
            };
            debug_assert!(at < 256, "paths name places by a byte");
            kid = next;
        };
        let Some(key) = key else { return Ok(None) };
        // Rooms from below, since what lies above a fast node must be fast.
        let (mut turns, mut below) = (vec![], Tier::Slow);
        for (depth, (kid, at, fast)) in way.into_iter().enumerate().rev() {
            let origin = Origin {
                depth,
                parent: kid.tier(),
                from: Some(kid.tier()),
                fast_kid: fast || below == Tier::Fast,
            };
            let room = match nodes.node(kid) {
                Node::Leaf(_) => nodes.leaf_room(origin),
                Node::Border(_) => nodes.border_room(origin),
                Node::Inner(_) => nodes.inner_room(origin),
            };
            let room = room?;
            below = room.tier();
            turns.push(SplitNode { at, room });
        }
        nodes.keys.came(&key);
        let (left, right) = match self.root.take() {
            Some(root) => divide(nodes, root, &mut turns),
            None => (None, None),
        };
        self.root = left;
        self.len = len / 2;
        self.version += 1;
        let right = MassTree {
            root: right,
            retired: false,
            len: len - len / 2,
            version: 0,
        };
        Ok(Some((key, right)))
    }

    /// Copies entries from `from` on, in order, up to `most` of them.
    pub(super) fn collect<K: ArtKey + Clone, V: Clone, M: Model>(
        &self,
        nodes: &MassNodes<K, V, M>,
        reading: Reads<'_, K>,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        let mut bytes = vec![];
        if let Bound::Included(key) | Bound::Excluded(key) = reading.bound {
            key.bytes(&mut bytes);
        }
        if let Some(root) = &self.root {
            let bound = (!bytes.is_empty()).then_some(&bytes[..]);
            let mut reading = Reading {
                nodes,
                reads: reading,
                note,
                out,
            };
            reading.below(root, 0, bound);
        }
    }
}

/// Divides the tree of a layer: both halves without roots that have one child.
fn divide<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    root: OwnedNode,
    turns: &mut Vec<SplitNode<'_, K, V>>,
) -> (Option<OwnedNode>, Option<OwnedNode>) {
    let (mut left, mut right) = divide_below(nodes, root, turns);
    for root in left.iter_mut().chain(&mut right) {
        tidy(nodes, root);
    }
    (left, right)
}

/// Divides a node: what lies before the way stays, the way and what lies behind it goes.
fn divide_below<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    mut kid: OwnedNode,
    turns: &mut Vec<SplitNode<'_, K, V>>,
) -> (Option<OwnedNode>, Option<OwnedNode>) {
    let Some(SplitNode { at, room }) = turns.pop() else {
        return (Some(kid), None);
    };
    let mut new = nodes.fill(room);
    let empty = match (nodes.node_mut(&mut kid), nodes.node_mut(&mut new)) {
        (NodeMut::Leaf(from), NodeMut::Leaf(to)) => {
            to.words.extend(from.words.drain(at..));
            to.keys.extend(from.keys.drain(at..));
            to.vals.extend(from.vals.drain(at..));
            from.words.is_empty()
        }
        (NodeMut::Border(from), NodeMut::Border(to)) => {
            to.words.extend(from.words.drain(at..));
            to.slots.extend(from.slots.drain(at..));
            if let Some(Below::Layer(_)) = to.slots.first()
                && let Some(Below::Layer(root)) = to.slots.pop_at(0)
            {
                let (left, right) = divide(nodes, root, turns);
                if let Some(right) = right {
                    to.slots.insert(0, Below::Layer(right));
                }
                if let Some(left) = left {
                    from.words.push(to.words[0]);
                    from.slots.push(Below::Layer(left));
                }
            }
            from.words.is_empty()
        }
        (NodeMut::Inner(from), NodeMut::Inner(to)) => {
            to.words.extend(from.words.drain(at..));
            to.kids.extend(from.kids.drain(at..));
            if let Some(kid) = to.kids.pop_at(0) {
                let (left, right) = divide_below(nodes, kid, turns);
                if let Some(right) = right {
                    to.kids.insert(0, right);
                }
                match left {
                    Some(left) => from.kids.push(left),
                    // The word before what has gone leads nowhere.
                    None => drop(from.words.pop()),
                }
            }
            from.kids.is_empty()
        }
        _ => false,
    };
    nodes.common.divided(kid.id(), new.id());
    if empty {
        nodes.take(kid);
        return (None, Some(new));
    }
    (Some(kid), Some(new))
}

/// What is to be read: from where on, how much, and which way.
pub(super) struct Reads<'a, K> {
    pub bound: Bound<&'a K>,
    pub most: usize,
    pub back: bool,
}

/// Reads entries in order, or against it.
struct Reading<'a, K, V, M> {
    nodes: &'a MassNodes<K, V, M>,
    reads: Reads<'a, K>,
    note: &'a mut dyn FnMut() -> Option<Noting>,
    out: &'a mut Vec<(K, V)>,
}

impl<K: ArtKey + Clone, V: Clone, M: Model> Reading<'_, K, V, M> {
    fn note(&mut self, kid: &OwnedNode) {
        let noting = (self.note)();
        self.nodes.common.ended(kid, noting);
    }

    fn entry(&mut self, key: &K, val: &V, edge: bool) {
        let wanted = !edge
            || match (self.reads.bound, self.reads.back) {
                (Bound::Unbounded, _) => true,
                (Bound::Included(bound), false) => key >= bound,
                (Bound::Excluded(bound), false) => key > bound,
                (Bound::Included(bound), true) => key <= bound,
                (Bound::Excluded(bound), true) => key < bound,
            };
        if wanted && self.out.len() < self.reads.most {
            self.out.push((key.clone(), val.clone()));
        }
    }

    /// Calls `see` with each place from that of the bound on, and whether it is that one.
    fn each(&mut self, len: usize, edge: Option<usize>, see: impl Fn(&mut Self, usize, bool)) {
        let (first, last) = match (edge, self.reads.back) {
            (None, _) => (0, len),
            (Some(at), false) => (at, len),
            (Some(at), true) => (0, len.min(at.wrapping_add(1))),
        };
        for i in 0..last.saturating_sub(first) {
            if self.out.len() >= self.reads.most {
                return;
            }
            let at = match self.reads.back {
                true => last - 1 - i,
                false => first + i,
            };
            see(self, at, edge == Some(at));
        }
    }

    /// Reads below a node of a layer; `bound` are the bytes of the bound, where keys below may lie
    /// on both sides of it.
    fn below(&mut self, kid: &OwnedNode, layer: usize, bound: Option<&[u8]>) {
        let nodes = self.nodes;
        let sought = bound.map(|bytes| word(bytes, layer));
        let edge = |words: &[u64]| {
            let at = search(words, sought?);
            // Where the word is not there, the first place behind it, or the last before.
            match (at, self.reads.back) {
                (Ok(at) | Err(at), false) | (Ok(at), true) => Some(at),
                (Err(at), true) => Some(at.wrapping_sub(1)),
            }
        };
        match nodes.touch(kid) {
            Node::Leaf(leaf) => {
                let edge = edge(&leaf.words);
                self.note(kid);
                self.each(leaf.words.len(), edge, |reading, at, edge| {
                    reading.entry(&leaf.keys[at], &leaf.vals[at], edge);
                });
            }
            Node::Border(border) => {
                let edge = edge(&border.words);
                self.note(kid);
                self.each(
                    border.words.len(),
                    edge,
                    |reading, at, edge| match &border.slots[at] {
                        Below::Entry(key, val) => reading.entry(key, val, edge),
                        Below::Layer(root) => {
                            let same = edge && sought == Some(border.words[at]);
                            reading.below(root, layer + 1, bound.filter(|_| same));
                        }
                    },
                );
            }
            Node::Inner(inner) => {
                let edge = sought.map(|word| inner.place(word));
                self.each(inner.kids.len(), edge, |reading, at, edge| {
                    reading.below(&inner.kids[at], layer, bound.filter(|_| edge));
                });
            }
        }
    }
}
