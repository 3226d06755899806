//! How the B+tree of a layer grows: full nodes are split, and roots put above roots.

use super::nodes::{Inner, MassNodes, Node, NodeMut, Room, search};
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::id::Tier;
use crate::model::Model;
use crate::tree::common::{Origin, OwnedNode};
use crate::tree::nodes::{INNER, LEAF};

/// Whether a node must be split before a word comes below it.
#[inline]
pub(super) fn is_full<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    kid: &OwnedNode,
    word: u64,
) -> bool {
    match nodes.node(kid) {
        Node::Leaf(leaf) => leaf.words.is_full() && search(&leaf.words, word).is_err(),
        Node::Border(border) => border.words.is_full() && search(&border.words, word).is_err(),
        Node::Inner(inner) => inner.kids.is_full(),
    }
}

/// Puts a root above the full root of a layer.
pub(super) fn grow<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    root: &mut OwnedNode,
    parent: Tier,
    depth: usize,
) -> Result<(), PlacementError> {
    let forgets = planted(Fault::SlowRoot);
    let room = nodes.inner_room(Origin {
        depth,
        parent: if forgets { Tier::Slow } else { parent },
        from: Some(root.tier()),
        fast_kid: root.tier() == Tier::Fast && !forgets,
    })?;
    let old = std::mem::replace(root, nodes.fill(room));
    let tier = root.tier();
    if let NodeMut::Inner(inner) = nodes.node_mut(root) {
        inner.kids.push(old);
        // If there is no room for the half, the root has one child: also a tree.
        split_kid(nodes, inner, tier, 0, depth + 1)?;
    }
    Ok(())
}

/// Splits a full child; the parent has room.
pub(super) fn split_kid<K, V, M: Model>(
    nodes: &MassNodes<K, V, M>,
    parent: &mut Inner,
    tier: Tier,
    at: usize,
    depth: usize,
) -> Result<(), PlacementError> {
    let kid = &mut parent.kids[at];
    let id = kid.id();
    let forgets = planted(Fault::SlowSibling);
    let origin = |fast_kid: bool| Origin {
        depth,
        parent: if forgets { Tier::Slow } else { tier },
        from: Some(if forgets { Tier::Slow } else { id.tier() }),
        fast_kid: fast_kid && !forgets,
    };
    let (word, new) = match nodes.node_mut(kid) {
        NodeMut::Leaf(leaf) => {
            let mut new = nodes.fill(nodes.leaf_room(origin(false))?);
            let word = leaf.words[LEAF / 2];
            if let NodeMut::Leaf(right) = nodes.node_mut(&mut new) {
                right.words.extend(leaf.words.drain(LEAF / 2..));
                right.keys.extend(leaf.keys.drain(LEAF / 2..));
                right.vals.extend(leaf.vals.drain(LEAF / 2..));
            }
            (word, new)
        }
        NodeMut::Border(border) => {
            let fast = border.slots[LEAF / 2..].iter().any(|slot| slot.is_fast());
            let mut new = nodes.fill(nodes.border_room(origin(fast))?);
            let word = border.words[LEAF / 2];
            if let NodeMut::Border(right) = nodes.node_mut(&mut new) {
                right.words.extend(border.words.drain(LEAF / 2..));
                right.slots.extend(border.slots.drain(LEAF / 2..));
            }
            (word, new)
        }
        NodeMut::Inner(inner) => {
            let fast = inner.kids[INNER / 2..].iter();
            let fast = fast.fold(false, |fast, kid| fast | (kid.tier() == Tier::Fast));
            let room: Room<'_, K, V> = nodes.inner_room(origin(fast))?;
            let mut new = nodes.fill(room);
            if let NodeMut::Inner(right) = nodes.node_mut(&mut new) {
                right.words.extend(inner.words.drain(INNER / 2..));
                right.kids.extend(inner.kids.drain(INNER / 2..));
            }
            (inner.words.remove(INNER / 2 - 1), new)
        }
    };
    nodes.common.divided(id, new.id());
    parent.words.insert(at, word);
    parent.kids.insert(at + 1, new);
    Ok(())
}

/// The root of a layer that has one child gives its place to that one.
pub(super) fn tidy<K, V, M: Model>(nodes: &MassNodes<K, V, M>, root: &mut OwnedNode) -> bool {
    let mut changed = false;
    loop {
        let only = match nodes.node_mut(root) {
            NodeMut::Inner(inner) if inner.kids.len() == 1 => inner.kids.pop(),
            _ => None,
        };
        let Some(only) = only else { return changed };
        let old = std::mem::replace(root, only);
        nodes.take(old);
        changed = true;
    }
}
