//! A Masstree whose nodes lie in two memories: Y. Mao and others, "Cache Craftiness for Fast
//! Multicore Key-Value Storage", EuroSys 2012. A trie of B+trees: that of a layer has the next
//! eight bytes of all keys that share those before, as one word. A word that several keys share
//! leads to a layer of its own; numbers of up to eight bytes have one layer.
//!
//! Keys are encoded as for the radix tree: none begins another, so the last word of a key can be
//! filled with zeros, and needs no length.

mod layers;
mod nodes;
mod ops;
mod remove;
mod split;
mod tree;

use super::art::ArtKey;
use super::common::OwnedNode;
use super::keys::KeyBytes;
use super::kind::{Cleared, Inserted, Kind, Making, Removed, Sought, Walk};
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::Tier;
use crate::model::Model;
use nodes::{Below, MassNodes, Node};
use split::Reads;
use std::borrow::Borrow;
use std::ops::Bound;
use tree::{MassTree, word};

/// The Masstree as a kind of tree: for keys that are an [`ArtKey`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Masstree;

impl<Q: ArtKey + ?Sized> Sought<Masstree> for Q {
    fn encode(&self, into: &mut Vec<u8>) {
        self.bytes(into);
    }
}

/// The bytes of a key.
fn bytes_of<Q: Sought<Masstree> + ?Sized>(key: &Q) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    key.encode(&mut bytes);
    bytes
}

impl<K, V, M> Kind<K, V, M> for Masstree
where
    K: ArtKey + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    type Nodes = MassNodes<K, V, M>;
    type Tree = MassTree;

    fn nodes(making: Making<M>) -> Result<MassNodes<K, V, M>, PlacementError> {
        MassNodes::new(making)
    }

    fn keys(nodes: &MassNodes<K, V, M>) -> &KeyBytes<K> {
        &nodes.keys
    }

    fn tree(_: &MassNodes<K, V, M>) -> Result<MassTree, PlacementError> {
        Ok(MassTree::default())
    }

    #[inline]
    fn get<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a MassTree,
        nodes: &'a MassNodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a V>
    where
        K: Borrow<Q>,
    {
        tree.get(nodes, key, &bytes_of(key), noting)
    }

    fn get_mut<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a mut MassTree,
        nodes: &'a MassNodes<K, V, M>,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a mut V>
    where
        K: Borrow<Q>,
    {
        tree.get_mut(nodes, key, &bytes_of(key), noting)
    }

    fn insert(
        tree: &mut MassTree,
        nodes: &MassNodes<K, V, M>,
        entry: (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError> {
        tree.insert(nodes, entry, noting)
    }

    fn remove<Q: Sought<Self> + ?Sized>(
        tree: &mut MassTree,
        nodes: &MassNodes<K, V, M>,
        key: &Q,
    ) -> Option<Removed<K, V>>
    where
        K: Borrow<Q>,
    {
        tree.remove(nodes, key, &bytes_of(key))
    }

    fn clear(tree: &mut MassTree, _: &MassNodes<K, V, M>) -> Cleared<K, V> {
        tree.len = 0;
        tree.version += 1;
        Cleared {
            kid: tree.root.take(),
            entries: vec![],
        }
    }

    fn split(
        tree: &mut MassTree,
        nodes: &MassNodes<K, V, M>,
    ) -> Result<Option<(K, MassTree)>, PlacementError> {
        tree.split(nodes)
    }

    fn collect(
        tree: &MassTree,
        nodes: &MassNodes<K, V, M>,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        let reads = Reads {
            bound: from,
            most,
            back: false,
        };
        tree.collect(nodes, reads, note, out);
    }

    fn collect_back(
        tree: &MassTree,
        nodes: &MassNodes<K, V, M>,
        to: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    ) {
        let reads = Reads {
            bound: to,
            most,
            back: true,
        };
        tree.collect(nodes, reads, note, out);
    }

    fn check(
        tree: &MassTree,
        nodes: &MassNodes<K, V, M>,
        (low, high): (Option<&K>, Option<&K>),
        walk: &mut Walk,
    ) -> Result<(), String> {
        let Some(root) = &tree.root else {
            return Ok(());
        };
        let (keys, way) = (vec![], vec![]);
        let mut checking = Checking {
            nodes,
            walk,
            keys,
            way,
        };
        checking.below(root, Tier::Fast, (0, u64::MAX))?;
        let keys = checking.keys;
        let within =
            |key: &&K| low.is_none_or(|low| low <= *key) && high.is_none_or(|high| *key < high);
        if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(within) {
            return Err("keys of a part are out of order".into());
        }
        Ok(())
    }
}

/// A walk over the nodes of a part.
struct Checking<'a, K, V, M> {
    nodes: &'a MassNodes<K, V, M>,
    walk: &'a mut Walk,
    keys: Vec<&'a K>,
    /// The words that lead to the layer.
    way: Vec<u64>,
}

impl<'a, K: ArtKey + Send + Sync, V: Send + Sync, M: Model> Checking<'a, K, V, M> {
    /// Checks a node whose words lie from the first of these to the second. Returns the levels
    /// below it in its layer.
    fn below(
        &mut self,
        kid: &'a OwnedNode,
        above: Tier,
        range: (u64, u64),
    ) -> Result<usize, String> {
        let id = kid.id();
        self.walk.reach(self.nodes, kid, above)?;
        let (words, fits) = match self.nodes.node(kid) {
            Node::Leaf(leaf) => {
                let len = leaf.words.len();
                let fits = leaf.keys.len() == len && leaf.vals.len() == len && len > 0;
                (&leaf.words[..], fits)
            }
            Node::Border(border) => {
                let fits = border.slots.len() == border.words.len() && !border.words.is_empty();
                (&border.words[..], fits)
            }
            Node::Inner(inner) => (&inner.words[..], inner.kids.len() == inner.words.len() + 1),
        };
        if !fits {
            return Err(format!("node {id:?} has words without what they lead to"));
        }
        let within = words.iter().all(|w| (range.0..=range.1).contains(w));
        if !within || !words.is_sorted_by(|a, b| a < b) {
            return Err(format!("words of {id:?} are out of order"));
        }
        match self.nodes.node(kid) {
            Node::Leaf(leaf) => {
                for (word, key) in leaf.words.iter().zip(&leaf.keys) {
                    self.entry(*word, key)?;
                }
                Ok(0)
            }
            Node::Border(border) => {
                for (word, slot) in border.words.iter().zip(&border.slots) {
                    match slot {
                        Below::Entry(key, _) => self.entry(*word, key)?,
                        Below::Layer(root) => {
                            self.way.push(*word);
                            self.below(root, id.tier(), (0, u64::MAX))?;
                            self.way.pop();
                        }
                    }
                }
                Ok(0)
            }
            Node::Inner(inner) => {
                let mut levels = None;
                for (i, kid) in inner.kids.iter().enumerate() {
                    let low = i.checked_sub(1).map_or(range.0, |i| inner.words[i]);
                    let high = inner
                        .words
                        .get(i)
                        .map_or(range.1, |word| word.saturating_sub(1));
                    let found = self.below(kid, id.tier(), (low, high))?;
                    if *levels.get_or_insert(found) != found {
                        return Err(format!("children of {id:?} are not equally deep"));
                    }
                }
                Ok(levels.unwrap_or(0) + 1)
            }
        }
    }

    fn entry(&mut self, last: u64, key: &'a K) -> Result<(), String> {
        self.walk.entries += 1;
        self.walk.keys += self.nodes.keys.size(key);
        let mut bytes = vec![];
        key.bytes(&mut bytes);
        let here = self.way.iter().chain([&last]).enumerate();
        if !here.into_iter().all(|(layer, w)| word(&bytes, layer) == *w) {
            return Err("an entry lies where another key should".into());
        }
        self.keys.push(key);
        Ok(())
    }
}
