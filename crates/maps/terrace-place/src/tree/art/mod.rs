//! An adaptive radix tree whose nodes lie in two memories: V. Leis and others, "The Adaptive Radix
//! Tree: ARTful Indexing for Main-Memory Databases", ICDE 2013. Leaves have one entry each, so what
//! is hot is told from what lies beside it, and a node takes more bytes of heat for each byte of
//! its own than in a B+tree.

mod key;
mod nodes;
mod ops;
mod split;
#[cfg(test)]
mod tests;

pub use key::ArtKey;
pub(super) use key::MOST_KEY;

use super::common::OwnedNode;
use super::keys::KeyBytes;
use super::kind::{Cleared, Inserted, Kind, Making, Removed, Rooted, Sought, Walk};
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use nodes::{ArtNodes, Head, Node, ROOMS};
use std::borrow::Borrow;
use std::ops::Bound;

/// Entries of a part at most.
pub(super) const MOST_ENTRIES: usize = if cfg!(feature = "shuttle") {
    6
} else {
    8 << 10
};

/// The adaptive radix tree as a kind of tree: for keys that are an [`ArtKey`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Art;

impl<Q: ArtKey + ?Sized> Sought<Art> for Q {
    fn encode(&self, into: &mut Vec<u8>) {
        self.bytes(into);
    }
}

/// The tree of a part.
#[derive(Debug, Default)]
pub struct ArtTree {
    root: Option<OwnedNode>,
    /// The part has left the directory.
    retired: bool,
    len: usize,
    version: u64,
}

impl Rooted for ArtTree {
    fn root(&self) -> Option<&OwnedNode> {
        self.root.as_ref()
    }
    fn root_mut(&mut self) -> Option<&mut OwnedNode> {
        self.root.as_mut()
    }
    fn retire(&mut self) -> Option<OwnedNode> {
        self.retired = true;
        self.root.take()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn changed(&mut self) {
        self.version += 1;
    }
}

/// The bytes of a key.
fn bytes_of<Q: Sought<Art> + ?Sized>(key: &Q) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    key.encode(&mut bytes);
    bytes
}

impl<K, V, M> Kind<K, V, M> for Art
where
    K: ArtKey + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    type Nodes = ArtNodes<K, V, M>;
    type Tree = ArtTree;

    fn nodes(making: Making<M>) -> Result<ArtNodes<K, V, M>, PlacementError> {
        ArtNodes::new(making)
    }

    fn keys(nodes: &ArtNodes<K, V, M>) -> &KeyBytes<K> {
        &nodes.keys
    }

    fn tree(_: &ArtNodes<K, V, M>) -> Result<ArtTree, PlacementError> {
        Ok(ArtTree::default())
    }

    fn get<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a ArtTree,
        nodes: &'a ArtNodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a V>
    where
        K: Borrow<Q>,
    {
        tree.get(nodes, key, &bytes_of(key), noting)
    }

    fn get_mut<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a mut ArtTree,
        nodes: &'a ArtNodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a mut V>
    where
        K: Borrow<Q>,
    {
        tree.get_mut(nodes, key, &bytes_of(key), noting)
    }

    fn insert(
        tree: &mut ArtTree,
        nodes: &ArtNodes<K, V, M>,
        entry: (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        tree.insert(nodes, entry, noting)
    }

    fn remove<Q: Sought<Self> + ?Sized>(
        tree: &mut ArtTree,
        nodes: &ArtNodes<K, V, M>,
        key: &Q,
    ) -> Option<Removed<K, V>>
    where
        K: Borrow<Q>,
    {
        tree.remove(nodes, key, &bytes_of(key))
    }

    fn clear(tree: &mut ArtTree, _: &ArtNodes<K, V, M>) -> Cleared<K, V> {
        tree.len = 0;
        tree.version += 1;
        Cleared {
            kid: tree.root.take(),
            entries: vec![],
        }
    }

    fn split(
        tree: &mut ArtTree,
        nodes: &ArtNodes<K, V, M>,
    ) -> Result<Option<(K, ArtTree)>, PlacementError> {
        tree.split(nodes)
    }

    fn collect(
        tree: &ArtTree,
        nodes: &ArtNodes<K, V, M>,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        tree.collect(nodes, (from, false), most, note, out);
    }

    fn collect_back(
        tree: &ArtTree,
        nodes: &ArtNodes<K, V, M>,
        to: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        tree.collect(nodes, (to, true), most, note, out);
    }

    fn check(
        tree: &ArtTree,
        nodes: &ArtNodes<K, V, M>,
        (low, high): (Option<&K>, Option<&K>),
        walk: &mut Walk,
    ) -> Result<(), String> {
        let Some(root) = &tree.root else {
            return Ok(());
        };
        let mut keys = vec![];
        check_below(nodes, root, Tier::Fast, &mut vec![], walk, &mut keys)?;
        let within =
            |key: &&K| low.is_none_or(|low| low <= *key) && high.is_none_or(|high| *key < high);
        if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(within) {
            return Err("keys of a part are out of order".into());
        }
        Ok(())
    }
}

/// Checks a node that these bytes lead to.
fn check_below<'a, K: ArtKey + Send + Sync, V: Send + Sync, M: Model>(
    nodes: &'a ArtNodes<K, V, M>,
    kid: &'a OwnedNode,
    above: Tier,
    way: &mut Vec<u8>,
    walk: &mut Walk,
    keys: &mut Vec<&'a K>,
) -> Result<(), String> {
    let id = kid.id();
    walk.reach(nodes, kid, above)?;
    let inner = match nodes.node(kid) {
        Node::Leaf(leaf) => {
            walk.entries += 1;
            walk.keys += nodes.keys.size(&leaf.key);
            let mut bytes = vec![];
            leaf.key.bytes(&mut bytes);
            if !bytes.starts_with(way) {
                return Err(format!("leaf {id:?} lies where another key should"));
            }
            keys.push(&leaf.key);
            return Ok(());
        }
        Node::Inner(inner) => inner,
    };
    let (mut bytes, at) = (vec![], way.len());
    if let Some(leaf) = nodes.any_leaf(kid) {
        leaf.key.bytes(&mut bytes);
    }
    let head = inner.head();
    let whole = bytes.get(at..at + head.len as usize);
    if whole.is_none_or(|whole| Head::of(whole).bytes != head.bytes) {
        return Err(format!(
            "inner node {id:?} has another prefix than its keys"
        ));
    }
    let room = ROOMS.get((id.class() as usize).wrapping_sub(1)).copied();
    if inner.len() < 2 || inner.len() > room.unwrap_or(0) {
        return Err(format!("inner node {id:?} has {} children", inner.len()));
    }
    way.extend_from_slice(whole.unwrap_or(&[]));
    let mut kids = vec![];
    inner.each(&mut |byte, _| kids.push(byte));
    if !kids.is_sorted_by(|a, b| a < b) || kids.len() != inner.len() {
        return Err(format!("children of {id:?} are out of order"));
    }
    for byte in kids {
        way.push(byte);
        let kid = inner.find(byte).ok_or("a child is not found")?;
        check_below(nodes, kid, id.tier(), way, walk, keys)?;
        way.pop();
    }
    way.truncate(at);
    Ok(())
}
