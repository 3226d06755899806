//! Lookup, insertion and removal in the Masstree of a part.
//!
//! Kept true: a new node gets its room before anything changes; what replaces a node, is split off
//! one, or comes to lie above one, is fast if a child of it is. Full nodes are split on the way
//! down, so there is always room for what is split off.

use super::layers::{grow, is_full, split_kid, tidy};
use super::nodes::{Below, Leaf, MassNodes, Node, NodeMut, Room, Taken, search};
use super::tree::{MOST_ENTRIES, MassTree, word};
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use crate::tree::art::{ArtKey, MOST_KEY};
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

impl MassTree {
    /// The value of a key.
    #[inline]
    pub(super) fn get<'a, K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a self,
        nodes: &'a MassNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
        noting: Option<Noting>,
    ) -> Option<&'a V> {
        let mut kid = self.root.as_ref()?;
        let mut layer = 0;
        let mut sought = word(bytes, 0);
        loop {
            let node = nodes.touch(kid);
            let at = match node {
                Node::Inner(inner) => {
                    nodes.common.passed(kid, noting);
                    kid = &inner.kids[inner.place(sought)];
                    continue;
                }
                Node::Leaf(leaf) => search(&leaf.words, sought),
                Node::Border(border) => search(&border.words, sought),
            };
            // What is not held is compared with the whole key of the entry.
            let found = match (node, at) {
                (Node::Leaf(leaf), Ok(at)) => {
                    (leaf.keys[at].borrow() == key).then_some(&leaf.vals[at])
                }
                (Node::Border(border), Ok(at)) => match &border.slots[at] {
                    Below::Entry(k, val) => (k.borrow() == key).then_some(val),
                    Below::Layer(next) => {
                        nodes.common.passed(kid, noting);
                        kid = next;
                        layer += 1;
                        sought = word(bytes, layer);
                        continue;
                    }
                },
                _ => None,
            };
            nodes.common.ended(kid, noting);
            return found;
        }
    }

    /// The value of a key, to be changed.
    pub(super) fn get_mut<'a, K: Borrow<Q>, V, M: Model, Q: Ord + ?Sized>(
        &'a mut self,
        nodes: &'a MassNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
        noting: Option<Noting>,
    ) -> Option<&'a mut V> {
        let mut kid = self.root.as_mut()?;
        let mut layer = 0;
        let mut sought = word(bytes, 0);
        loop {
            let _ = nodes.touch(kid);
            match kid.is_leaf() {
                true => nodes.common.ended(kid, noting),
                false => nodes.common.passed(kid, noting),
            }
            match nodes.node_mut(kid) {
                NodeMut::Inner(inner) => {
                    let at = inner.place(sought);
                    kid = &mut inner.kids[at];
                }
                NodeMut::Leaf(leaf) => {
                    let at = search(&leaf.words, sought).ok()?;
                    return (leaf.keys[at].borrow() == key).then_some(&mut leaf.vals[at]);
                }
                NodeMut::Border(border) => {
                    let at = search(&border.words, sought).ok()?;
                    match &mut border.slots[at] {
                        Below::Entry(k, val) => return ((*k).borrow() == key).then_some(val),
                        Below::Layer(next) => kid = next,
                    }
                    layer += 1;
                    sought = word(bytes, layer);
                }
            }
        }
    }

    /// Puts an entry in.
    pub(super) fn insert<K: ArtKey, V, M: Model>(
        &mut self,
        nodes: &MassNodes<K, V, M>,
        entry: (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        let mut bytes = Vec::with_capacity(16);
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
            Some(root) => entry.put_layer(nodes, root, Tier::Fast, (0, 0))?,
            None => {
                let room = nodes.leaf_room(Origin {
                    depth: 0,
                    parent: Tier::Fast,
                    from: None,
                    fast_kid: false,
                })?;
                let root = self.root.insert(nodes.fill(room));
                *entry.version += 1;
                entry.put_layer(nodes, root, Tier::Fast, (0, 0))?;
            }
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
        nodes: &MassNodes<K, V, M>,
        key: &Q,
        bytes: &[u8],
    ) -> Option<Removed<K, V>> {
        let root = self.root.as_mut()?;
        let mut changed = false;
        let (key, val) = super::remove::take_below(nodes, root, key, bytes, 0, &mut changed)?;
        changed |= tidy(nodes, root);
        if super::remove::is_empty(nodes, root) {
            if let Some(root) = self.root.take() {
                nodes.take(root);
            }
            changed = true;
        }
        self.version += u64::from(changed);
        self.len -= 1;
        Some(Removed {
            key,
            val,
            between: None,
        })
    }
}

impl<K: ArtKey, V> Entry<'_, K, V> {
    /// Puts the entry into a layer, whose root lies this many steps below that of the part.
    fn put_layer<M: Model>(
        &mut self,
        nodes: &MassNodes<K, V, M>,
        root: &mut OwnedNode,
        parent: Tier,
        (depth, layer): (usize, usize),
    ) -> Result<(), PlacementError> {
        if is_full(nodes, root, word(self.bytes, layer)) {
            *self.version += 1;
            grow(nodes, root, parent, depth)?;
        }
        self.put(nodes, root, parent, (depth, layer))
    }

    /// Puts the entry below a node that is not full.
    fn put<M: Model>(
        &mut self,
        nodes: &MassNodes<K, V, M>,
        kid: &mut OwnedNode,
        parent: Tier,
        (depth, layer): (usize, usize),
    ) -> Result<(), PlacementError> {
        let (tier, sought) = (kid.tier(), word(self.bytes, layer));
        let _ = nodes.touch(kid);
        match kid.is_leaf() {
            true => nodes.common.ended(kid, self.noting),
            false => nodes.common.passed(kid, self.noting),
        }
        let at = match nodes.node_mut(kid) {
            NodeMut::Inner(inner) => {
                let mut at = inner.place(sought);
                if is_full(nodes, &inner.kids[at], sought) {
                    *self.version += 1;
                    split_kid(nodes, inner, tier, at, depth + 1)?;
                    at = inner.place(sought);
                }
                return self.put(nodes, &mut inner.kids[at], tier, (depth + 1, layer));
            }
            NodeMut::Leaf(leaf) => match search(&leaf.words, sought) {
                Err(at) => {
                    if let Some((key, val)) = self.entry.take() {
                        leaf.words.insert(at, sought);
                        leaf.keys.insert(at, key);
                        leaf.vals.insert(at, val);
                    }
                    return Ok(());
                }
                Ok(at) => {
                    if let Some((key, val)) = self.entry.take_if(|(k, _)| *k == leaf.keys[at]) {
                        self.old = Some((std::mem::replace(&mut leaf.vals[at], val), key));
                        return Ok(());
                    }
                    at
                }
            },
            NodeMut::Border(border) => match search(&border.words, sought) {
                Err(at) => {
                    if let Some((key, val)) = self.entry.take() {
                        border.words.insert(at, sought);
                        border.slots.insert(at, Below::Entry(key, val));
                        // Layers behind it have other places.
                        *self.version += 1;
                    }
                    return Ok(());
                }
                Ok(at) => match &mut border.slots[at] {
                    Below::Layer(root) => {
                        return self.put_layer(nodes, root, tier, (depth + 1, layer + 1));
                    }
                    Below::Entry(key, old) => {
                        if let Some((key, val)) = self.entry.take_if(|(k, _)| k == key) {
                            self.old = Some((std::mem::replace(old, val), key));
                            return Ok(());
                        }
                        at
                    }
                },
            },
        };
        self.fork(nodes, kid, parent, (depth, layer, at))
    }

    /// Two keys have the same word: puts both into a layer below it, or several.
    fn fork<M: Model>(
        &mut self,
        nodes: &MassNodes<K, V, M>,
        kid: &mut OwnedNode,
        parent: Tier,
        (depth, layer, at): (usize, usize, usize),
    ) -> Result<(), PlacementError> {
        let mut other = vec![];
        match nodes.node(kid) {
            Node::Leaf(leaf) => leaf.keys[at].bytes(&mut other),
            Node::Border(border) => match &border.slots[at] {
                Below::Entry(key, _) => key.bytes(&mut other),
                Below::Layer(_) => return Ok(()),
            },
            Node::Inner(_) => return Ok(()),
        }
        let words = self.bytes.len().max(other.len()).div_ceil(8);
        let differs = (layer + 1..words).find(|&i| word(self.bytes, i) != word(&other, i));
        // No key begins another: they differ somewhere.
        let last = differs.ok_or(PlacementError::BadKeyBytes)?;
        let mut rooms = vec![];
        rooms_below(nodes, kid, parent, (depth, last - layer), &mut rooms)?;
        *self.version += 1;
        let leaf = rooms.pop().map(|room| nodes.fill(room));
        if kid.is_leaf()
            && let Some(room) = (!rooms.is_empty()).then(|| rooms.remove(0))
        {
            let old = std::mem::replace(kid, nodes.fill(room));
            let entries = nodes.take_for(old, kid.id());
            if let (NodeMut::Border(border), Taken::Leaf(leaf)) = (nodes.node_mut(kid), entries) {
                *border = leaf.into_border();
            }
        }
        let (NodeMut::Border(border), Some(mut below)) = (nodes.node_mut(kid), leaf) else {
            return Ok(());
        };
        let (mine, its) = (word(self.bytes, last), word(&other, last));
        let taken = border.slots.swap_pop(at);
        if let (Some(Below::Entry(k, v)), Some((key, val)), NodeMut::Leaf(leaf)) =
            (taken, self.entry.take(), nodes.node_mut(&mut below))
        {
            put_two(leaf, (mine, key, val), (its, k, v));
        }
        for (i, room) in rooms.into_iter().enumerate().rev() {
            let mut above = nodes.fill(room);
            if let NodeMut::Border(border) = nodes.node_mut(&mut above) {
                border.words.push(word(self.bytes, layer + 1 + i));
                border.slots.push(Below::Layer(below));
            }
            below = above;
        }
        // Where the entry was that went below: the last one came to its place.
        border.slots.push(Below::Layer(below));
        let end = border.slots.len() - 1;
        border.slots.swap(at, end);
        Ok(())
    }
}

/// Takes room for this many layers below a leaf or border, of which the last one is a leaf; before
/// them for a border in the place of a leaf.
fn rooms_below<'a, K, V, M: Model>(
    nodes: &'a MassNodes<K, V, M>,
    kid: &OwnedNode,
    parent: Tier,
    (depth, layers): (usize, usize),
    rooms: &mut Vec<Room<'a, K, V>>,
) -> Result<(), PlacementError> {
    let mut above = kid.tier();
    if kid.is_leaf() {
        let room = nodes.border_room(Origin {
            depth,
            parent,
            from: Some(kid.tier()),
            fast_kid: false,
        })?;
        above = room.tier();
        rooms.push(room);
    }
    for layer in 1..=layers {
        let origin = Origin {
            depth: depth + layer,
            parent: above,
            from: Some(above),
            fast_kid: false,
        };
        let room = match layer == layers {
            true => nodes.leaf_room(origin)?,
            false => nodes.border_room(origin)?,
        };
        above = room.tier();
        rooms.push(room);
    }
    Ok(())
}

/// Puts two entries into an empty leaf, in order.
fn put_two<K, V>(leaf: &mut Leaf<K, V>, one: (u64, K, V), two: (u64, K, V)) {
    let (low, high) = if one.0 < two.0 {
        (one, two)
    } else {
        (two, one)
    };
    for (word, key, val) in [low, high] {
        leaf.words.push(word);
        leaf.keys.push(key);
        leaf.vals.push(val);
    }
}
