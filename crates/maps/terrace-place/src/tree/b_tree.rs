//! The B+tree as a kind of tree.

use super::common::OwnedNode;
use super::keys::KeyBytes;
use super::kind::{Cleared, Inserted, Kind, Making, Removed, Rooted, Sought, Walk};
use super::nodes::BTreeNodes as Nodes;
use super::part::Tree;
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::model::Model;
use std::borrow::Borrow;
use std::ops::Bound;

/// The B+tree as a kind of tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct BTree;

impl Rooted for Tree {
    fn root(&self) -> Option<&OwnedNode> {
        self.root.as_ref()
    }
    fn root_mut(&mut self) -> Option<&mut OwnedNode> {
        self.root.as_mut()
    }
    fn retire(&mut self) -> Option<OwnedNode> {
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

impl<Q: Ord + ?Sized> Sought<BTree> for Q {
    fn encode(&self, _: &mut Vec<u8>) {}
}

impl<K, V, M> Kind<K, V, M> for BTree
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    type Nodes = Nodes<K, V, M>;
    type Tree = Tree;

    fn nodes(making: Making<M>) -> Result<Nodes<K, V, M>, PlacementError> {
        Nodes::new(making)
    }

    fn keys(nodes: &Nodes<K, V, M>) -> &KeyBytes<K> {
        &nodes.keys
    }

    fn tree(nodes: &Nodes<K, V, M>) -> Result<Tree, PlacementError> {
        Tree::new(nodes)
    }

    #[inline(always)]
    fn get<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a Tree,
        nodes: &'a Nodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a V>
    where
        K: Borrow<Q>,
    {
        match noting {
            None => tree.get(nodes, key),
            Some(noting) => tree.get_noted(nodes, key, noting),
        }
    }

    fn get_mut<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a mut Tree,
        nodes: &'a Nodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a mut V>
    where
        K: Borrow<Q>,
    {
        tree.get_mut(nodes, key, noting)
    }

    fn insert(
        tree: &mut Tree,
        nodes: &Nodes<K, V, M>,
        (key, val): (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        tree.insert(nodes, key, val, noting)
    }

    fn remove<Q: Sought<Self> + ?Sized>(
        tree: &mut Tree,
        nodes: &Nodes<K, V, M>,
        key: &Q,
    ) -> Option<Removed<K, V>>
    where
        K: Borrow<Q>,
    {
        tree.remove(nodes, key)
    }

    fn clear(tree: &mut Tree, nodes: &Nodes<K, V, M>) -> Cleared<K, V> {
        tree.clear(nodes)
    }

    fn split(tree: &mut Tree, nodes: &Nodes<K, V, M>) -> Result<Option<(K, Tree)>, PlacementError> {
        tree.split(nodes)
    }

    fn collect(
        tree: &Tree,
        nodes: &Nodes<K, V, M>,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        tree.collect(nodes, from, most, note, out);
    }

    fn collect_back(
        tree: &Tree,
        nodes: &Nodes<K, V, M>,
        to: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        if let Some(root) = &tree.root {
            Tree::collect_back(nodes, root, to, most, note, out);
        }
    }

    fn check(
        tree: &Tree,
        nodes: &Nodes<K, V, M>,
        bounds: (Option<&K>, Option<&K>),
        walk: &mut Walk,
    ) -> Result<(), String> {
        let root = tree.root.as_ref().ok_or("a part has no root")?;
        walk.b_tree(nodes, root, tree.levels, bounds)
    }
}
