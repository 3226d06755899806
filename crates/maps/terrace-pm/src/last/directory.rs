//! From a key to its last-level node: two sorted levels in memory.
//!
//! A lookup takes the lock shared for as long as two binary searches take; only a split or a merge of nodes
//! takes it exclusively, with the latches of those nodes held. No thread waits for a latch while it has
//! this lock.

use std::sync::Arc;
use terrace_base::sync::RwLock;

use super::node::Node;
use crate::key::Own;

/// Nodes of one part of the lower level at most.
const PART_NODES: usize = 256;

struct Part<O> {
    lows: Vec<O>,
    nodes: Vec<Arc<Node<O>>>,
}

struct Parts<O> {
    firsts: Vec<O>,
    parts: Vec<Part<O>>,
}

/// Numbers of nodes, in the order of their keys, as long as nothing changes.
pub struct Ranks<'a, O> {
    parts: &'a Parts<O>,
    /// The number of the first node of each part, and how many nodes there are.
    starts: Vec<u32>,
}

impl<O: Own> Ranks<'_, O> {
    /// The number of the node that has this key.
    #[inline]
    pub fn of(&self, key: &O) -> u32 {
        let p = at(&self.parts.firsts, key);
        let part = self.parts.parts.get(p);
        self.starts[p] + part.map_or(0, |part| at(&part.lows, key)) as u32
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.starts.last().map_or(0, |count| *count as usize)
    }
}

/// All nodes, by their lowest key.
pub struct Directory<O> {
    inner: RwLock<Parts<O>>,
}

fn at<O: Ord>(lows: &[O], key: &O) -> usize {
    lows.partition_point(|low| low <= key).saturating_sub(1)
}

impl<O: Own> Directory<O> {
    /// Of these nodes, in order, the first of which begins at the least key.
    pub fn new(nodes: Vec<(O, Arc<Node<O>>)>) -> Self {
        let mut parts: Vec<Part<O>> = Vec::new();
        let mut firsts = Vec::new();
        for (low, node) in nodes {
            match parts.last_mut() {
                Some(part) if part.lows.len() < PART_NODES * 2 / 3 => {
                    part.lows.push(low);
                    part.nodes.push(node);
                }
                _ => {
                    firsts.push(low.clone());
                    parts.push(Part {
                        lows: vec![low],
                        nodes: vec![node],
                    });
                }
            }
        }
        Directory {
            inner: RwLock::new(Parts { firsts, parts }),
        }
    }

    /// The node that has, or had a moment ago, this key.
    pub fn find(&self, key: &O) -> Option<Arc<Node<O>>> {
        let parts = self.inner.read();
        let part = parts.parts.get(at(&parts.firsts, key))?;
        part.nodes.get(at(&part.lows, key)).cloned()
    }

    /// Lends out the numbers of the nodes that there are; nothing changes meanwhile.
    pub fn with_ranks<T>(&self, work: impl FnOnce(&Ranks<'_, O>) -> T) -> T {
        let parts = self.inner.read();
        let mut starts = vec![0];
        starts.extend(parts.parts.iter().scan(0, |sum, part| {
            *sum += part.nodes.len() as u32;
            Some(*sum)
        }));
        let parts = &*parts;
        work(&Ranks { parts, starts })
    }

    /// The node of the keys right below this one; `None` below the least.
    pub fn find_below(&self, key: &O) -> Option<Arc<Node<O>>> {
        let parts = self.inner.read();
        let p = parts
            .firsts
            .partition_point(|low| low < key)
            .checked_sub(1)?;
        let part = parts.parts.get(p)?;
        let i = part.lows.partition_point(|low| low < key).checked_sub(1)?;
        part.nodes.get(i).cloned()
    }

    /// The last node.
    pub fn last(&self) -> Option<Arc<Node<O>>> {
        let parts = self.inner.read();
        parts.parts.last()?.nodes.last().cloned()
    }

    /// Every node there is now, in order.
    pub fn all(&self) -> Vec<Arc<Node<O>>> {
        let parts = self.inner.read();
        let nodes = parts.parts.iter().flat_map(|part| part.nodes.iter());
        nodes.cloned().collect()
    }

    /// Adds nodes of a split; the caller holds the latch of the node that was split.
    pub fn insert(&self, nodes: Vec<(O, Arc<Node<O>>)>) {
        let mut parts = self.inner.write();
        for (low, node) in nodes {
            let p = at(&parts.firsts, &low);
            let Some(part) = parts.parts.get_mut(p) else {
                continue;
            };
            let i = part.lows.partition_point(|known| *known <= low);
            part.lows.insert(i, low);
            part.nodes.insert(i, node);
            if part.lows.len() > PART_NODES {
                let half = part.lows.len() / 2;
                let right = Part {
                    lows: part.lows.split_off(half),
                    nodes: part.nodes.split_off(half),
                };
                part.lows.shrink_to_fit();
                part.nodes.shrink_to_fit();
                let first = right.lows[0].clone();
                parts.firsts.insert(p + 1, first);
                parts.parts.insert(p + 1, right);
            }
        }
    }

    /// Takes out the node that begins here; the caller holds its latch, and that of the one before.
    pub fn remove(&self, low: &O) {
        let mut parts = self.inner.write();
        let p = at(&parts.firsts, low);
        let Some(part) = parts.parts.get_mut(p) else {
            return;
        };
        let i = at(&part.lows, low);
        if part.lows.get(i) != Some(low) {
            return;
        }
        part.lows.remove(i);
        part.nodes.remove(i);
        if part.lows.is_empty() {
            parts.parts.remove(p);
            parts.firsts.remove(p);
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let parts = self.inner.read();
        let lower: usize = parts
            .parts
            .iter()
            .map(|part| part.lows.capacity() * size_of::<O>() + part.nodes.capacity() * 8 + 48)
            .sum();
        lower + parts.firsts.capacity() * size_of::<O>()
    }
}
