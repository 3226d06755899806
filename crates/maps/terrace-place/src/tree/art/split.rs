//! Dividing a part in two along the way to one of its keys, and reading it in order.

use super::nodes::{ArtNodes, Node, NodeMut, Room};
use super::ops::{collapse, prefix};
use super::{ArtKey, ArtTree, MOST_ENTRIES};
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use crate::tree::common::{Origin, OwnedNode};
use std::cmp::Ordering;
use std::ops::Bound;

/// A node on the way: the byte of the next one, and room for what goes to the right.
struct SplitNode<'a> {
    byte: u8,
    room: Option<Room<'a>>,
}

/// Entries below a node.
fn count<K, V, M: Model>(nodes: &ArtNodes<K, V, M>, kid: &OwnedNode) -> usize {
    if kid.is_leaf() {
        return 1;
    }
    let mut sum = 0;
    if let Node::Inner(inner) = nodes.node(kid) {
        inner.each(&mut |_, kid| sum += count(nodes, kid));
    }
    sum
}

impl ArtTree {
    /// Takes the upper half of the entries off, as a tree of its own, with the least key of them;
    /// nothing if the part can still grow. Where the system has no room nothing has changed.
    pub(super) fn split<K: ArtKey + Clone, V, M: Model>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
    ) -> Result<Option<(K, ArtTree)>, PlacementError> {
        let (len, Some(root)) = (self.len, &mut self.root) else {
            return Ok(None);
        };
        if len < MOST_ENTRIES {
            return Ok(None);
        }
        // The way to the middle entry; what is before each step stays.
        let (mut way, mut left, mut kid) = (vec![], len / 2, &*root);
        let key = loop {
            match nodes.node(kid) {
                Node::Leaf(leaf) => break leaf.key.clone(),
                Node::Inner(inner) => {
                    let (mut next, mut right, mut fast) = (None, 0, false);
                    inner.each(&mut |byte, kid| {
                        if next.is_some() {
                            right += 1;
                            fast |= kid.tier() == Tier::Fast;
                            return;
                        }
                        let n = count(nodes, kid);
                        if left < n {
                            next = Some(byte);
                        } else {
                            left -= n;
                        }
                    });
                    let Some(byte) = next else { return Ok(None) };
                    way.push((byte, right, fast, kid.tier()));
                    let Some(next) = inner.find(byte) else {
                        return Ok(None);
                    };
                    kid = next;
                }
            }
        };
        let stays = len / 2 - left;
        // Rooms from below, since what lies above a fast node must be fast.
        let (mut turns, mut below) = (vec![], kid.tier());
        for (depth, (byte, right, fast, tier)) in way.into_iter().enumerate().rev() {
            let origin = Origin {
                depth,
                parent: tier,
                from: Some(tier),
                fast_kid: fast || below == Tier::Fast,
            };
            // With nothing to the right, what is below goes there alone.
            let room = match right {
                0 => None,
                right => Some(nodes.room(right + 1, origin)?),
            };
            below = room.as_ref().map_or(below, Room::tier);
            turns.push(SplitNode { byte, room });
        }
        nodes.keys.came(&key);
        let (left, right) = divide(nodes, self.root.take(), &mut turns);
        self.root = left;
        self.len = stays;
        self.version += 1;
        let right = ArtTree {
            root: right,
            retired: false,
            len: len - stays,
            version: 0,
        };
        Ok(Some((key, right)))
    }

    /// Copies entries from a bound on, in order or back, up to `most` of them.
    pub(super) fn collect<K: ArtKey + Clone, V: Clone, M: Model>(
        &self,
        nodes: &ArtNodes<K, V, M>,
        (bound, back): (Bound<&K>, bool),
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        let mut bytes = vec![];
        if let Bound::Included(key) | Bound::Excluded(key) = bound {
            key.bytes(&mut bytes);
        }
        if let Some(root) = &self.root {
            let bytes = (!bytes.is_empty()).then_some(&bytes[..]);
            let mut reading = Reading {
                nodes,
                bound,
                back,
                most,
                note,
                out,
            };
            reading.below(root, 0, bytes);
        }
    }
}

/// Divides a node: what lies before the way stays, the way and what lies behind it goes.
fn divide<K, V, M: Model>(
    nodes: &ArtNodes<K, V, M>,
    kid: Option<OwnedNode>,
    turns: &mut Vec<SplitNode<'_>>,
) -> (Option<OwnedNode>, Option<OwnedNode>) {
    let (Some(mut kid), Some(turn)) = (kid, turns.pop()) else {
        return (None, None);
    };
    let (mut head, mut under, mut behind) = (None, None, vec![]);
    if let NodeMut::Inner(inner) = nodes.node_mut(&mut kid) {
        head = Some(*inner.head());
        under = inner.take(turn.byte);
        let bytes = (turn.byte..=255).skip(1);
        behind.extend(bytes.filter_map(|byte| Some((byte, inner.take(byte)?))));
    }
    // A leaf on the way goes.
    let (before, mut after) = match under {
        Some(under) if under.is_leaf() => (None, Some(under)),
        under => divide(nodes, under, turns),
    };
    let head = head.unwrap_or_default();
    match (turn.room, &mut after) {
        (Some(room), _) => {
            let mut right = nodes.new_inner(room, head);
            if let NodeMut::Inner(inner) = nodes.node_mut(&mut right) {
                if let Some(after) = after.take() {
                    inner.add(turn.byte, after);
                }
                for (byte, kid) in behind {
                    inner.add(byte, kid);
                }
            }
            nodes.common.divided(kid.id(), right.id());
            after = Some(right);
        }
        (None, Some(after)) => {
            if let NodeMut::Inner(inner) = nodes.node_mut(after) {
                *inner.head_mut() = head.join(turn.byte, inner.head());
            }
        }
        (None, None) => {}
    }
    let mut len = 0;
    if let NodeMut::Inner(inner) = nodes.node_mut(&mut kid) {
        if let Some(before) = before {
            inner.add(turn.byte, before);
        }
        len = inner.len();
    }
    if len == 0 {
        nodes.free_inner(kid);
        return (None, after);
    }
    collapse(nodes, &mut kid);
    (Some(kid), after)
}

/// Reads entries in order, or against it.
struct Reading<'a, K, V, M> {
    nodes: &'a ArtNodes<K, V, M>,
    bound: Bound<&'a K>,
    back: bool,
    most: usize,
    note: &'a mut dyn FnMut() -> Option<Noting>,
    out: &'a mut Vec<(K, V)>,
}

impl<K: ArtKey + Clone, V: Clone, M: Model> Reading<'_, K, V, M> {
    /// Reads below a node that begins at byte `at` of the keys; `bound` are the bytes of the
    /// first one that is wanted, where keys below may lie before it.
    fn below(&mut self, kid: &OwnedNode, at: usize, bound: Option<&[u8]>) {
        if self.out.len() >= self.most {
            return;
        }
        let nodes = self.nodes;
        match nodes.touch(kid) {
            Node::Leaf(leaf) => {
                if let Some(noting) = (self.note)() {
                    nodes.common.note(kid, noting);
                }
                let wanted = bound.is_none()
                    || match (self.bound, self.back) {
                        (Bound::Unbounded, _) => true,
                        (Bound::Included(key), false) => leaf.key >= *key,
                        (Bound::Excluded(key), false) => leaf.key > *key,
                        (Bound::Included(key), true) => leaf.key <= *key,
                        (Bound::Excluded(key), true) => leaf.key < *key,
                    };
                if wanted {
                    self.out.push((leaf.key.clone(), leaf.val.clone()));
                }
            }
            Node::Inner(inner) => {
                let skip = at + inner.head().len as usize;
                let mut bound = bound;
                if let Some(bytes) = bound
                    && let Ok(whole) = prefix(nodes, kid, at)
                {
                    let rest = bytes.get(at..).unwrap_or(&[]);
                    let n = whole.len().min(rest.len());
                    match (whole[..n].cmp(&rest[..n]), self.back) {
                        (Ordering::Equal, _) => {}
                        (Ordering::Less, false) | (Ordering::Greater, true) => return,
                        _ => bound = None,
                    }
                }
                let edge = bound.and_then(|bytes| bytes.get(skip).copied());
                let back = self.back;
                let mut see = |byte: u8, kid: &OwnedNode| {
                    let bound = match edge.map(|edge| byte.cmp(&edge)) {
                        Some(Ordering::Equal) => bound,
                        Some(Ordering::Less) if !back => return,
                        Some(Ordering::Greater) if back => return,
                        _ => None,
                    };
                    self.below(kid, skip + 1, bound);
                };
                match back {
                    false => inner.each(&mut see),
                    true => {
                        let bytes = (0..=255).rev();
                        let kids = bytes.filter_map(|byte| Some((byte, inner.find(byte)?)));
                        kids.for_each(|(byte, kid)| see(byte, kid));
                    }
                }
            }
        }
    }
}
