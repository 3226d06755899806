//! Whether a tree is what it should be: every node reached once, in order, in a memory that the
//! rules allow, and all bytes counted.

use super::common::OwnedNode;
use super::core::Core;
use super::kind::{Kind, Nodes, Rooted, Walk};
use super::nodes::{BTreeNodes, LEAF, Node};
use crate::id::{NodeId, Tier};
use crate::model::Model;
use crate::sync::whole;

impl<K: Ord, V, M: Model, T: Kind<K, V, M>> Core<K, V, M, T> {
    /// Walks all nodes.
    pub(super) fn check(&self) -> Result<(), String> {
        let dir = whole(self.dir.read());
        if dir.lows.len() + 1 != dir.parts.len() {
            return Err("the directory has a bound too many or too few".into());
        }
        if !dir.lows.is_sorted_by(|a, b| a < b) {
            return Err("the bounds of the directory are out of order".into());
        }
        let mut walk = Walk::default();
        for (i, part) in dir.parts.iter().enumerate() {
            let tree = whole(part.0.read());
            let low = i.checked_sub(1).and_then(|i| dir.lows.get(i));
            let before = walk.entries;
            T::check(&tree, &self.nodes, (low, dir.lows.get(i)), &mut walk)?;
            if walk.entries - before != tree.len() {
                return Err(format!(
                    "part {i} has {} entries and says {}",
                    walk.entries - before,
                    tree.len()
                ));
            }
        }
        let len = self.len.load(std::sync::atomic::Ordering::Relaxed);
        if walk.entries != len {
            return Err(format!("{} entries, {len} counted", walk.entries));
        }
        let budget = &self.nodes.common().budget;
        let counted = [budget.bytes(Tier::Fast), budget.bytes(Tier::Slow)];
        if walk.bytes != counted {
            return Err(format!("{:?} bytes, {counted:?} counted", walk.bytes));
        }
        let keys = T::keys(&self.nodes);
        let owned = walk.keys + dir.lows.iter().map(|low| keys.size(low)).sum::<u64>();
        if owned != keys.bytes() {
            return Err(format!("keys own {owned} bytes, {} counted", keys.bytes()));
        }
        let live: u64 = self.nodes.live().iter().flatten().sum();
        if walk.ids.len() as u64 != live {
            return Err(format!("{} nodes, {live} slots in use", walk.ids.len()));
        }
        if let Some(heat) = &self.nodes.common().heat {
            // A slot without a node has no heat.
            for slice in heat.slices() {
                for n in 0..crate::heat::CHUNK as u32 {
                    let index = slice.number as u32 * crate::heat::CHUNK as u32 + n;
                    let id = NodeId::new(slice.tier, slice.class, index);
                    if heat.of(id) > 0 && !walk.ids.contains(&id) {
                        return Err(format!("{id:?} is free and has heat"));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Walk {
    /// A node is reached, below one of this memory.
    pub(super) fn reach<N: Nodes>(
        &mut self,
        nodes: &N,
        kid: &OwnedNode,
        above: Tier,
    ) -> Result<(), String> {
        let id = kid.id();
        if !self.ids.insert(id) {
            return Err(format!("{id:?} is reached twice"));
        }
        self.bytes[id.tier() as usize] += N::bytes(id);
        if nodes.common().bounded() && above == Tier::Slow && id.tier() == Tier::Fast {
            return Err(format!("fast node {id:?} lies below a slow one"));
        }
        Ok(())
    }

    /// Walks over a B+tree.
    pub(super) fn b_tree<K: Ord + Send + Sync, V: Send + Sync, M: Model>(
        &mut self,
        nodes: &BTreeNodes<K, V, M>,
        root: &OwnedNode,
        levels: usize,
        bounds: (Option<&K>, Option<&K>),
    ) -> Result<(), String> {
        self.b_tree_below(nodes, root, levels, Tier::Fast, bounds)
    }

    fn b_tree_below<K: Ord + Send + Sync, V: Send + Sync, M: Model>(
        &mut self,
        nodes: &BTreeNodes<K, V, M>,
        kid: &OwnedNode,
        levels: usize,
        above: Tier,
        (low, high): (Option<&K>, Option<&K>),
    ) -> Result<(), String> {
        let id = kid.id();
        self.reach(nodes, kid, above)?;
        let within =
            |key: &K| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
        match nodes.node(kid) {
            Node::Leaf(leaf) => {
                self.entries += leaf.keys.len();
                self.keys += leaf
                    .keys
                    .iter()
                    .map(|key| nodes.keys.size(key))
                    .sum::<u64>();
                if levels != 0 {
                    return Err(format!("leaf {id:?} lies too high"));
                }
                if leaf.keys.len() != leaf.vals.len() || leaf.keys.len() > LEAF {
                    return Err(format!("leaf {id:?} has keys without values"));
                }
                if !leaf.keys.iter().all(within) || !leaf.keys.is_sorted_by(|a, b| a < b) {
                    return Err(format!("keys of leaf {id:?} are out of order"));
                }
            }
            Node::Inner(inner) => {
                self.keys += inner
                    .keys
                    .iter()
                    .map(|key| nodes.keys.size(key))
                    .sum::<u64>();
                if levels == 0 || inner.kids.len() != inner.keys.len() + 1 {
                    return Err(format!("inner node {id:?} is no inner node"));
                }
                if !inner.keys.iter().all(within) || !inner.keys.is_sorted_by(|a, b| a < b) {
                    return Err(format!("keys of inner node {id:?} are out of order"));
                }
                for (i, kid) in inner.kids.iter().enumerate() {
                    let low = i.checked_sub(1).map_or(low, |i| inner.keys.get(i));
                    let high = inner.keys.get(i).or(high);
                    self.b_tree_below(nodes, kid, levels - 1, id.tier(), (low, high))?;
                }
            }
        }
        Ok(())
    }
}
