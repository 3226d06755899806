//! Taking an entry out: nodes that run empty go, small ones are merged, and a layer of one entry
//! gives that to the border above it.
//!
//! Kept true: of two nodes that become one the fast one stays, since the other has no fast child.

use super::layers::tidy;
use super::nodes::{Below, Inner, MassNodes, Node, NodeMut, Taken, search};
use super::tree::word;
use crate::faults::{Fault, planted};
use crate::id::Tier;
use crate::model::Model;
use crate::tree::common::{Origin, OwnedNode};
use crate::tree::nodes::{INNER, LEAF};
use std::borrow::Borrow;

/// Whether nothing is below a node.
pub(super) fn is_empty<K, V, M: Model>(nodes: &MassNodes<K, V, M>, kid: &OwnedNode) -> bool {
    fill(nodes, kid).0 == 0
}

/// What a node has, and how much room.
fn fill<K, V, M: Model>(nodes: &MassNodes<K, V, M>, kid: &OwnedNode) -> (usize, usize) {
    match nodes.node(kid) {
        Node::Leaf(leaf) => (leaf.words.len(), LEAF),
        Node::Border(border) => (border.words.len(), LEAF),
        Node::Inner(inner) => (inner.kids.len(), INNER),
    }
}

/// Takes an entry out below a node, which may be empty then.
pub(super) fn take_below<K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
    nodes: &MassNodes<K, V, M>,
    kid: &mut OwnedNode,
    key: &Q,
    bytes: &[u8],
    layer: usize,
    changed: &mut bool,
) -> Option<(K, V)> {
    let sought = word(bytes, layer);
    let _ = nodes.touch(kid);
    let (taken, plain) = match nodes.node_mut(kid) {
        NodeMut::Inner(inner) => {
            let at = inner.place(sought);
            let below = inner.kids.get_mut(at)?;
            let taken = take_below(nodes, below, key, bytes, layer, changed)?;
            if is_empty(nodes, below) {
                nodes.take(inner.kids.remove(at));
                if !inner.words.is_empty() {
                    inner.words.remove(at.saturating_sub(1));
                }
                *changed = true;
            } else {
                *changed |= merge_kid(nodes, inner, at);
            }
            return Some(taken);
        }
        NodeMut::Leaf(leaf) => {
            let at = search(&leaf.words, sought).ok()?;
            if leaf.keys[at].borrow() != key {
                return None;
            }
            leaf.words.remove(at);
            nodes.keys.goes(&leaf.keys[at]);
            return Some((leaf.keys.remove(at), leaf.vals.remove(at)));
        }
        NodeMut::Border(border) => {
            let at = search(&border.words, sought).ok()?;
            let taken = match &mut border.slots[at] {
                Below::Entry(k, _) if (*k).borrow() != key => return None,
                Below::Entry(..) => None,
                Below::Layer(root) => {
                    let taken = take_below(nodes, root, key, bytes, layer + 1, changed)?;
                    *changed |= tidy(nodes, root);
                    Some(taken)
                }
            };
            let taken = match taken {
                Some(taken) => {
                    *changed |= fold(nodes, &mut border.words, &mut border.slots, at);
                    Some(taken)
                }
                None => {
                    border.words.remove(at);
                    *changed = true;
                    match border.slots.remove(at) {
                        Below::Entry(key, val) => {
                            nodes.keys.goes(&key);
                            Some((key, val))
                        }
                        Below::Layer(_) => None,
                    }
                }
            };
            (taken, !border.has_layers() && !border.words.is_empty())
        }
    };
    if plain {
        *changed |= to_leaf(nodes, kid);
    }
    taken
}

type Words = arrayvec::ArrayVec<u64, LEAF>;
type Slots<K, V> = arrayvec::ArrayVec<Below<K, V>, LEAF>;

/// A layer without entries goes, and one of a single entry gives it up. Whether it was so.
fn fold<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    words: &mut Words,
    slots: &mut Slots<K, V>,
    at: usize,
) -> bool {
    let Some(root) = slots[at].layer() else {
        return false;
    };
    let single = match nodes.node(root) {
        Node::Leaf(leaf) => leaf.words.len() == 1,
        Node::Border(border) => border.words.len() == 1 && !border.has_layers(),
        Node::Inner(_) => false,
    };
    if !single && !is_empty(nodes, root) {
        return false;
    }
    let word = words.remove(at);
    if let Below::Layer(root) = slots.remove(at) {
        let entry = match nodes.take(root) {
            Taken::Leaf(leaf) => leaf.into_border().slots.pop(),
            Taken::Border(mut border) => border.slots.pop(),
            Taken::Inner(_) => None,
        };
        if let Some(entry) = entry {
            words.insert(at, word);
            slots.insert(at, entry);
        }
    }
    true
}

/// A border without layers becomes a leaf, which is smaller; without room it stays as it is.
fn to_leaf<K, V, M: Model>(nodes: &MassNodes<K, V, M>, kid: &mut OwnedNode) -> bool {
    // Its own memory is good enough for a leaf.
    let origin = Origin {
        depth: 1,
        parent: kid.tier(),
        from: Some(kid.tier()),
        fast_kid: false,
    };
    let Ok(room) = nodes.leaf_room(origin) else {
        return false;
    };
    let old = std::mem::replace(kid, nodes.fill(room));
    let taken = nodes.take_for(old, kid.id());
    if let (NodeMut::Leaf(leaf), Taken::Border(border)) = (nodes.node_mut(kid), taken) {
        for (word, slot) in border.words.into_iter().zip(border.slots) {
            if let Below::Entry(key, val) = slot {
                leaf.words.push(word);
                leaf.keys.push(key);
                leaf.vals.push(val);
            }
        }
    }
    true
}

/// Merges a child that is nearly empty with its neighbour, if both fit well into one.
fn merge_kid<K, V, M: Model>(nodes: &MassNodes<K, V, M>, parent: &mut Inner, at: usize) -> bool {
    let (len, most) = fill(nodes, &parent.kids[at]);
    if len > most / 4 || parent.kids.len() < 2 {
        return false;
    }
    let left = at.saturating_sub(1);
    let sum = len + fill(nodes, &parent.kids[if at == 0 { 1 } else { left }]).0;
    if sum > most * 3 / 4 && (len > 1 || sum > most) {
        return false;
    }
    let between = parent.words.remove(left);
    let right_kid = parent.kids.remove(left + 1);
    let left_kid = parent.kids.remove(left);
    let right_stays = match (left_kid.is_leaf(), right_kid.is_leaf()) {
        // What a leaf has fits into a border.
        (true, false) => true,
        (false, true) => false,
        // The fast one stays: the other may have no fast child, it may.
        _ => {
            right_kid.tier() == Tier::Fast
                && left_kid.tier() == Tier::Slow
                && !planted(Fault::SlowMerge)
        }
    };
    let (mut stays, goes) = if right_stays {
        (right_kid, left_kid)
    } else {
        (left_kid, right_kid)
    };
    let taken = nodes.take_for(goes, stays.id());
    match (nodes.node_mut(&mut stays), taken) {
        (NodeMut::Leaf(stay), Taken::Leaf(go)) => {
            if right_stays {
                prepend(&mut stay.words, go.words);
                prepend(&mut stay.keys, go.keys);
                prepend(&mut stay.vals, go.vals);
            } else {
                stay.words.extend(go.words);
                stay.keys.extend(go.keys);
                stay.vals.extend(go.vals);
            }
        }
        (NodeMut::Border(stay), go @ (Taken::Leaf(_) | Taken::Border(_))) => {
            let go = match go {
                Taken::Leaf(go) => go.into_border(),
                Taken::Border(go) => go,
                Taken::Inner(_) => return true,
            };
            if right_stays {
                prepend(&mut stay.words, go.words);
                prepend(&mut stay.slots, go.slots);
            } else {
                stay.words.extend(go.words);
                stay.slots.extend(go.slots);
            }
        }
        (NodeMut::Inner(stay), Taken::Inner(go)) => {
            if right_stays {
                stay.words.insert(0, between);
                prepend(&mut stay.words, go.words);
                prepend(&mut stay.kids, go.kids);
            } else {
                stay.words.push(between);
                stay.words.extend(go.words);
                stay.kids.extend(go.kids);
            }
        }
        _ => debug_assert!(false, "children of a node are equally deep"),
    }
    parent.kids.insert(left, stays);
    true
}

/// Puts items before those that there are; there is room.
fn prepend<T, const N: usize>(
    to: &mut arrayvec::ArrayVec<T, N>,
    mut items: arrayvec::ArrayVec<T, N>,
) {
    items.extend(to.drain(..));
    *to = items;
}
