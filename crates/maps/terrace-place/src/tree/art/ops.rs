//! Lookup, insertion and removal in the radix tree of a part.
//!
//! Kept true: a new node gets its room before anything changes; what replaces a node, or comes to
//! lie above one, is fast if a child of it is.

use super::key::MOST_KEY;
use super::nodes::{ArtNodes, HELD, Head, Leaf, Node, NodeMut, ROOMS};
use super::{ArtKey, ArtTree, MOST_ENTRIES};
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use crate::tree::common::{Origin, OwnedNode};
use crate::tree::kind::{Inserted, Removed};
use std::borrow::Borrow;

/// What an insertion is about.
struct Entry<'a, K, V> {
    bytes: &'a [u8],
    entry: Option<(K, V)>,
    /// The value that there was, and the key that was not needed.
    old: Option<(V, K)>,
    noting: Option<Noting>,
    /// The version of the tree, which changes with paths.
    version: &'a mut u64,
}

/// What became of a node below which an entry was taken out.
enum Left {
    /// Nothing: the entry is not there.
    NotThere,
    /// It is gone, or another one is in its place.
    Changed,
    /// It has no entries any more, and is freed.
    Nothing,
}

impl ArtTree {
    /// The value of a key.
    #[inline]
    pub(super) fn get<'a, K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a self,
        nodes: &'a ArtNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
        noting: Option<Noting>,
    ) -> Option<&'a V> {
        let mut kid = self.root.as_ref()?;
        let mut at = 0;
        loop {
            let node = nodes.touch(kid);
            if let Some(noting) = noting {
                nodes.common.note(kid, noting);
            }
            match node {
                Node::Leaf(leaf) => return (leaf.key.borrow() == key).then_some(&leaf.val),
                Node::Inner(inner) => {
                    let head = inner.head();
                    let rest = bytes.get(at..)?;
                    if !rest.starts_with(head.held()) {
                        return None;
                    }
                    // What is not held is compared with the whole key in the leaf.
                    at += head.len as usize;
                    kid = inner.find(*bytes.get(at)?)?;
                    at += 1;
                }
            }
        }
    }

    /// The value of a key, to be changed.
    pub(super) fn get_mut<'a, K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a mut self,
        nodes: &'a ArtNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
        noting: Option<Noting>,
    ) -> Option<&'a mut V> {
        let mut kid = self.root.as_mut()?;
        let mut at = 0;
        loop {
            let _ = nodes.touch(kid);
            if let Some(noting) = noting {
                nodes.common.note(kid, noting);
            }
            match nodes.node_mut(kid) {
                NodeMut::Leaf(leaf) => {
                    return (leaf.key.borrow() == key).then_some(&mut leaf.val);
                }
                NodeMut::Inner(inner) => {
                    let head = inner.head();
                    if !bytes.get(at..)?.starts_with(head.held()) {
                        return None;
                    }
                    at += head.len as usize;
                    kid = inner.find_mut(*bytes.get(at)?)?;
                    at += 1;
                }
            }
        }
    }

    /// Puts an entry in.
    pub(super) fn insert<K: ArtKey, V, M: Model>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
        entry: (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        let mut bytes = vec![];
        entry.0.bytes(&mut bytes);
        if bytes.len() > MOST_KEY {
            return Err(PlacementError::KeyTooLong {
                bytes: bytes.len(),
                most: MOST_KEY,
            });
        }
        let full = self.len >= MOST_ENTRIES && self.get(nodes, &entry.0, &bytes, None).is_none();
        if self.retired || full {
            return Ok(Inserted::Full(entry.0, entry.1));
        }
        let owned = nodes.keys.size(&entry.0);
        let mut entry = Entry {
            bytes: &bytes,
            entry: Some(entry),
            old: None,
            noting,
            version: &mut self.version,
        };
        match &mut self.root {
            None => {
                let origin = Origin {
                    depth: 0,
                    parent: Tier::Fast,
                    from: None,
                    fast_kid: false,
                };
                let room = nodes.leaf_room(origin)?;
                *entry.version += 1;
                if let Some((key, val)) = entry.entry.take() {
                    self.root = Some(nodes.new_leaf(room, key, val));
                }
            }
            Some(root) => entry.put(nodes, root, Tier::Fast, (0, 0))?,
        }
        Ok(match entry.old {
            Some((old, key)) => Inserted::Replaced(old, key),
            None => {
                self.len += 1;
                nodes.keys.add(owned);
                Inserted::New
            }
        })
    }

    /// Takes an entry out.
    pub(super) fn remove<K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
    ) -> Option<Removed<K, V>> {
        let root = self.root.as_mut()?;
        let mut taken = None;
        match take_below(nodes, root, key, bytes, 0, &mut taken) {
            Left::Nothing => {
                self.root = None;
                self.version += 1;
            }
            Left::Changed => self.version += 1,
            Left::NotThere => {}
        }
        let Leaf { key, val } = taken?;
        self.len -= 1;
        Some(Removed {
            key,
            val,
            between: None,
        })
    }
}

impl<K: ArtKey, V> Entry<'_, K, V> {
    /// Puts the entry below a node, which begins at byte `at` of the keys and lies this many steps
    /// below the root.
    fn put<M: Model>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
        kid: &mut OwnedNode,
        parent: Tier,
        (depth, at): (usize, usize),
    ) -> Result<(), PlacementError> {
        let tier = kid.tier();
        let _ = nodes.touch(kid);
        if let Some(noting) = self.noting {
            nodes.common.note(kid, noting);
        }
        let (skip, next) = match nodes.node_mut(kid) {
            NodeMut::Leaf(leaf) => {
                if let Some((key, val)) = self.entry.take_if(|(key, _)| *key == leaf.key) {
                    self.old = Some((std::mem::replace(&mut leaf.val, val), key));
                    return Ok(());
                }
                let mut other = vec![];
                leaf.key.bytes(&mut other);
                return self.fork(
                    nodes,
                    kid,
                    parent,
                    (depth, at),
                    other.get(at..).unwrap_or(&[]),
                );
            }
            NodeMut::Inner(inner) => {
                let head = *inner.head();
                let rest = self.bytes.get(at..).unwrap_or(&[]);
                if head.len as usize > HELD || !rest.starts_with(head.held()) {
                    let whole = prefix(nodes, kid, at)?;
                    if !rest.starts_with(&whole) {
                        return self.fork(nodes, kid, parent, (depth, at), &whole);
                    }
                }
                let skip = at + head.len as usize;
                let byte = self.bytes.get(skip).copied().unwrap_or_default();
                (skip, byte)
            }
        };
        if let NodeMut::Inner(inner) = nodes.node_mut(kid)
            && let Some(child) = inner.find_mut(next)
        {
            return self.put(nodes, child, tier, (depth + 1, skip + 1));
        }
        self.add(nodes, kid, parent, depth, next)
    }

    /// Puts an inner node above a node: where the entry's bytes differ from those that lead to it.
    fn fork<M: Model>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
        kid: &mut OwnedNode,
        parent: Tier,
        (depth, at): (usize, usize),
        others: &[u8],
    ) -> Result<(), PlacementError> {
        let mine = self.bytes.get(at..).unwrap_or(&[]);
        let same = mine.iter().zip(others).take_while(|(a, b)| a == b).count();
        let (Some(&my_byte), Some(&its_byte)) = (mine.get(same), others.get(same)) else {
            // No key begins another: they differ somewhere.
            return Err(PlacementError::BadKeyBytes);
        };
        let forgets = planted(Fault::SlowRoot);
        let above = nodes.room(
            2,
            Origin {
                depth,
                parent: if forgets { Tier::Slow } else { parent },
                from: Some(kid.tier()),
                fast_kid: kid.tier() == Tier::Fast && !forgets,
            },
        )?;
        let origin = Origin {
            depth: depth + 1,
            parent: above.tier(),
            from: None,
            fast_kid: false,
        };
        let room = nodes.leaf_room(origin)?;
        *self.version += 1;
        let Some((key, val)) = self.entry.take() else {
            return Ok(());
        };
        if let NodeMut::Inner(inner) = nodes.node_mut(kid) {
            *inner.head_mut() = Head::of(&others[same + 1..]);
        }
        let new = nodes.new_inner(above, Head::of(&mine[..same]));
        let leaf = nodes.new_leaf(room, key, val);
        let under = std::mem::replace(kid, new);
        nodes.common.divided(under.id(), kid.id());
        if let NodeMut::Inner(inner) = nodes.node_mut(kid) {
            inner.add(its_byte, under);
            inner.add(my_byte, leaf);
        }
        Ok(())
    }

    /// Adds the entry as a child of an inner node, which grows if it is full.
    fn add<M: Model>(
        &mut self,
        nodes: &ArtNodes<K, V, M>,
        kid: &mut OwnedNode,
        parent: Tier,
        depth: usize,
        byte: u8,
    ) -> Result<(), PlacementError> {
        let full = match nodes.node(kid) {
            Node::Inner(inner) => inner.is_full().then(|| inner.len()),
            Node::Leaf(_) => return Ok(()),
        };
        if let Some(len) = full {
            *self.version += 1;
            resize(nodes, kid, parent, depth, len + 1)?;
        }
        let origin = Origin {
            depth: depth + 1,
            parent: kid.tier(),
            from: None,
            fast_kid: false,
        };
        let room = nodes.leaf_room(origin)?;
        *self.version += 1;
        if let NodeMut::Inner(inner) = nodes.node_mut(kid)
            && let Some((key, val)) = self.entry.take()
        {
            inner.add(byte, nodes.new_leaf(room, key, val));
        }
        Ok(())
    }
}

/// All bytes of the prefix of an inner node, which begins at byte `at` of the keys.
pub(super) fn prefix<K: ArtKey, V, M: Model>(
    nodes: &ArtNodes<K, V, M>,
    kid: &OwnedNode,
    at: usize,
) -> Result<Vec<u8>, PlacementError> {
    let head = match nodes.node(kid) {
        Node::Inner(inner) => *inner.head(),
        Node::Leaf(_) => return Ok(vec![]),
    };
    if head.len as usize <= HELD {
        return Ok(head.held().to_vec());
    }
    let mut bytes = vec![];
    if let Some(leaf) = nodes.any_leaf(kid) {
        leaf.key.bytes(&mut bytes);
    }
    let whole = bytes.get(at..at + head.len as usize);
    whole.map(<[u8]>::to_vec).ok_or(PlacementError::BadKeyBytes)
}

/// Puts a node with room for this many children in the place of an inner node.
fn resize<K, V, M: Model>(
    nodes: &ArtNodes<K, V, M>,
    kid: &mut OwnedNode,
    parent: Tier,
    depth: usize,
    kids: usize,
) -> Result<(), PlacementError> {
    let (head, fast) = match nodes.node(kid) {
        Node::Inner(inner) => (*inner.head(), inner.has_fast_kid()),
        Node::Leaf(_) => return Ok(()),
    };
    let forgets = planted(Fault::SlowSibling);
    let room = nodes.room(
        kids,
        Origin {
            depth,
            parent: if forgets { Tier::Slow } else { parent },
            from: Some(kid.tier()),
            fast_kid: fast && !forgets,
        },
    )?;
    let mut new = nodes.new_inner(room, head);
    if let (NodeMut::Inner(from), NodeMut::Inner(to)) =
        (nodes.node_mut(kid), nodes.node_mut(&mut new))
    {
        for byte in 0..=255 {
            if let Some(kid) = from.take(byte) {
                to.add(byte, kid);
            }
        }
    }
    let old = std::mem::replace(kid, new);
    if let Some(heat) = &nodes.common.heat {
        heat.add(kid.id(), heat.of(old.id()));
    }
    nodes.free_inner(old);
    Ok(())
}

/// An inner node with one child gives its place to that one.
pub(super) fn collapse<K, V, M: Model>(nodes: &ArtNodes<K, V, M>, kid: &mut OwnedNode) -> bool {
    let (byte, head) = match nodes.node(kid) {
        Node::Inner(inner) if inner.len() == 1 => match inner.first() {
            Some((byte, _)) => (byte, *inner.head()),
            None => return false,
        },
        _ => return false,
    };
    let only = match nodes.node_mut(kid) {
        NodeMut::Inner(inner) => inner.take(byte),
        NodeMut::Leaf(_) => None,
    };
    let Some(mut only) = only else { return false };
    if let NodeMut::Inner(inner) = nodes.node_mut(&mut only) {
        *inner.head_mut() = head.join(byte, inner.head());
    }
    let old = std::mem::replace(kid, only);
    nodes.free_inner(old);
    true
}

/// Children with which a node becomes one of the next smaller class: some fewer than that has
/// room for, so that it does not go back and forth.
fn shrinks(len: usize, class: u8) -> bool {
    let smaller = (class as usize).checked_sub(2).and_then(|i| ROOMS.get(i));
    smaller.is_some_and(|room| len <= room - room / 4)
}

fn take_below<K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
    nodes: &ArtNodes<K, V, M>,
    kid: &mut OwnedNode,
    key: &Q,
    bytes: &[u8],
    at: usize,
    taken: &mut Option<Leaf<K, V>>,
) -> Left {
    let _ = nodes.touch(kid);
    let (left, byte) = match nodes.node_mut(kid) {
        NodeMut::Leaf(leaf) => {
            if leaf.key.borrow() != key {
                return Left::NotThere;
            }
            (Left::Nothing, 0)
        }
        NodeMut::Inner(inner) => {
            let skip = at + inner.head().len as usize;
            let rest = bytes.get(at..).unwrap_or(&[]);
            if !rest.starts_with(inner.head().held()) {
                return Left::NotThere;
            }
            let Some(&byte) = bytes.get(skip) else {
                return Left::NotThere;
            };
            let Some(child) = inner.find_mut(byte) else {
                return Left::NotThere;
            };
            if !child.is_leaf() {
                return take_below(nodes, child, key, bytes, skip + 1, taken);
            }
            (take_below(nodes, child, key, bytes, skip + 1, taken), byte)
        }
    };
    if kid.is_leaf() {
        // The handle is left behind without a node; who holds it throws it away.
        let gone = OwnedNode(kid.id());
        *taken = nodes.take_leaf(gone);
        return left;
    }
    if !matches!(left, Left::Nothing) {
        return left;
    }
    let len = match nodes.node_mut(kid) {
        NodeMut::Inner(inner) => {
            let gone = inner.take(byte);
            debug_assert!(gone.is_some(), "the leaf that was freed had this handle");
            inner.len()
        }
        NodeMut::Leaf(_) => return left,
    };
    if len == 1 {
        collapse(nodes, kid);
    } else if shrinks(len, kid.id().class()) {
        // Its own memory is good enough for a smaller one; without room it stays as it is.
        let parent = kid.tier();
        let _ = resize(nodes, kid, parent, 1, len);
    }
    Left::Changed
}
