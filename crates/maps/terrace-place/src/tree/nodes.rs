//! The nodes of a B+tree in their slots: made, found, freed. The only file of this tree that deals
//! with slots as such.

use super::common::{Common, LEAF_CLASS, Origin, OwnedNode, Reserved};
use super::keys::KeyBytes;
use super::kind::{Making, Nodes};
use crate::arena::Pool;
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::heat::Heat;
use crate::id::{CLASSES, NodeId, Tier};
use crate::model::Model;
use crate::placed::Outcome;
use arrayvec::ArrayVec;

/// Entries of a leaf: smaller ones place better, larger ones take fewer bytes.
pub const LEAF: usize = if cfg!(feature = "shuttle") { 4 } else { 16 };
/// Children of an inner node.
pub const INNER: usize = if cfg!(feature = "shuttle") { 4 } else { 32 };

/// The class of inner nodes.
const INNER_CLASS: u8 = 1;

/// Entries in the order of their keys.
pub struct Leaf<K, V> {
    pub(super) keys: ArrayVec<K, LEAF>,
    pub(super) vals: ArrayVec<V, LEAF>,
}

/// Children, and between them the first key of the right one.
pub struct Inner<K> {
    pub(super) keys: ArrayVec<K, { INNER - 1 }>,
    pub(super) kids: ArrayVec<OwnedNode, INNER>,
}

/// A node to be read.
pub(super) enum Node<'a, K, V> {
    Leaf(&'a Leaf<K, V>),
    Inner(&'a Inner<K>),
}

/// A node to be changed.
pub(super) enum NodeMut<'a, K, V> {
    Leaf(&'a mut Leaf<K, V>),
    Inner(&'a mut Inner<K>),
}

/// All nodes of a map.
#[derive(Debug)]
pub struct BTreeNodes<K, V, M> {
    leaves: Pool<Leaf<K, V>>,
    inners: Pool<Inner<K>>,
    pub(super) common: Common<M>,
    pub(super) keys: KeyBytes<K>,
}

impl<K, V> std::fmt::Debug for Leaf<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "leaf of {}", self.keys.len())
    }
}

impl<K> std::fmt::Debug for Inner<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inner node of {}", self.kids.len())
    }
}

impl<K, V, M: Model> BTreeNodes<K, V, M> {
    pub(super) fn new(making: Making<M>) -> Result<Self, PlacementError>
    where
        K: 'static,
    {
        let (slots, sources) = (making.slots, making.sources);
        let heat = making.heat.then(|| {
            let mut classes = [0; CLASSES];
            classes[LEAF_CLASS as usize] = slots;
            classes[INNER_CLASS as usize] = slots.div_ceil(8);
            Heat::new(classes)
        });
        Ok(BTreeNodes {
            leaves: Pool::new(LEAF_CLASS, slots, sources.clone())?,
            inners: Pool::new(INNER_CLASS, slots.div_ceil(8), sources)?,
            common: Common::new(making.budget, making.births, heat, making.model),
            keys: KeyBytes::new(),
        })
    }

    /// Bytes of a leaf and of an inner node.
    pub(super) const LEAF_BYTES: usize = Pool::<Leaf<K, V>>::STRIDE;
    pub(super) const INNER_BYTES: usize = Pool::<Inner<K>>::STRIDE;

    fn bytes_of(id: NodeId) -> u64 {
        match id.class() {
            LEAF_CLASS => Self::LEAF_BYTES as u64,
            _ => Self::INNER_BYTES as u64,
        }
    }

    /// The node, without telling the model.
    #[inline(always)]
    pub(super) fn node<'a>(&'a self, kid: &'a OwnedNode) -> Node<'a, K, V> {
        match kid.0.class() {
            // SAFETY: the class says which pool made the slot; a child is the only owner, and who
            // has `&OwnedNode` excludes everyone with `&mut OwnedNode`.
            LEAF_CLASS => Node::Leaf(unsafe { &*std::ptr::from_ref(self.leaves.get(&kid.slot())) }),
            // SAFETY: as above.
            _ => Node::Inner(unsafe { &*std::ptr::from_ref(self.inners.get(&kid.slot())) }),
        }
    }

    /// The node, and the model hears of it.
    #[inline(always)]
    pub(super) fn touch<'a>(&'a self, kid: &'a OwnedNode) -> Node<'a, K, V> {
        let at = match kid.0.class() {
            LEAF_CLASS => self.leaves.address(kid.0),
            _ => self.inners.address(kid.0),
        };
        self.common.model.touch(kid.0, at);
        self.node(kid)
    }

    /// The node, to be changed.
    pub(super) fn node_mut<'a>(&'a self, kid: &'a mut OwnedNode) -> NodeMut<'a, K, V> {
        match kid.0.class() {
            // SAFETY: as in `node`; `&mut OwnedNode` excludes all others for as long as the result
            // lives.
            LEAF_CLASS => NodeMut::Leaf(unsafe {
                &mut *std::ptr::from_mut(self.leaves.get_mut(&mut kid.slot()))
            }),
            // SAFETY: as above.
            _ => NodeMut::Inner(unsafe {
                &mut *std::ptr::from_mut(self.inners.get_mut(&mut kid.slot()))
            }),
        }
    }

    /// Takes room for a leaf.
    pub(super) fn vacant_leaf(
        &self,
        origin: Origin,
    ) -> Result<Reserved<'_, Leaf<K, V>>, PlacementError> {
        self.common.vacant(&self.leaves, true, origin)
    }

    /// Takes room for an inner node.
    pub(super) fn vacant_inner(
        &self,
        origin: Origin,
    ) -> Result<Reserved<'_, Inner<K>>, PlacementError> {
        self.common.vacant(&self.inners, false, origin)
    }

    /// The room becomes a leaf.
    pub(super) fn new_leaf(&self, vacant: Reserved<'_, Leaf<K, V>>, leaf: Leaf<K, V>) -> OwnedNode {
        self.common.fill(vacant, leaf)
    }

    /// The room becomes an inner node.
    pub(super) fn new_inner(&self, vacant: Reserved<'_, Inner<K>>, inner: Inner<K>) -> OwnedNode {
        self.common.fill(vacant, inner)
    }

    /// Takes a leaf out of its slot.
    pub(super) fn take_leaf(&self, kid: OwnedNode) -> Option<Leaf<K, V>> {
        // SAFETY: a child is the only owner of its slot, and it ends here.
        (kid.is_leaf()).then(|| unsafe { self.leaves.take(kid.slot()) })
    }

    /// Takes an inner node out of its slot.
    pub(super) fn take_inner(&self, kid: OwnedNode) -> Option<Inner<K>> {
        // SAFETY: as above.
        (!kid.is_leaf()).then(|| unsafe { self.inners.take(kid.slot()) })
    }

    /// What is to be noted when a node goes: its bytes and its heat.
    pub(super) fn gone(&self, id: NodeId) {
        self.common.gone(id, Self::bytes_of(id));
    }

    /// Two nodes became one: the heat of both is that of the one that stays.
    pub(super) fn merged(&self, stays: NodeId, goes: NodeId) {
        self.common.replaced(goes, stays, Self::bytes_of(goes));
    }

    /// Whether what is split off, or a new root, may be slow although a child is fast: planted.
    pub(super) fn forgets(fault: Fault) -> bool {
        planted(fault)
    }
}

impl<K: Send + Sync, V: Send + Sync, M: Model> Nodes for BTreeNodes<K, V, M> {
    type Model = M;

    fn common(&self) -> &Common<M> {
        &self.common
    }

    fn kid_at<'a>(&'a self, kid: &'a OwnedNode, place: usize) -> Option<&'a OwnedNode> {
        match self.node(kid) {
            Node::Inner(inner) => inner.kids.get(place),
            Node::Leaf(_) => None,
        }
    }

    fn kid_at_mut<'a>(&'a self, kid: &'a mut OwnedNode, place: usize) -> Option<&'a mut OwnedNode> {
        match self.node_mut(kid) {
            NodeMut::Inner(inner) => inner.kids.get_mut(place),
            NodeMut::Leaf(_) => None,
        }
    }

    fn each_kid(&self, kid: &OwnedNode, see: &mut dyn FnMut(usize, &OwnedNode)) {
        if !kid.is_leaf()
            && let Node::Inner(inner) = self.node(kid)
        {
            for (place, kid) in inner.kids.iter().enumerate() {
                see(place, kid);
            }
        }
    }

    fn shift(&self, kid: &mut OwnedNode, to: Tier, bound: u64) -> Outcome {
        match kid.id().class() {
            // SAFETY: the class says which pool made the slot.
            LEAF_CLASS => unsafe { self.common.shift(&self.leaves, kid, to, bound) },
            // SAFETY: as above.
            _ => unsafe { self.common.shift(&self.inners, kid, to, bound) },
        }
    }

    fn mix_up(&self, kid: &mut OwnedNode, place: usize) {
        if let NodeMut::Inner(inner) = self.node_mut(kid)
            && place + 1 < inner.kids.len()
        {
            inner.kids.swap(place, place + 1);
        }
    }

    fn sizes() -> [u64; CLASSES] {
        let mut sizes = [0; CLASSES];
        sizes[LEAF_CLASS as usize] = Self::LEAF_BYTES as u64;
        sizes[INNER_CLASS as usize] = Self::INNER_BYTES as u64;
        sizes
    }

    fn live(&self) -> [[u64; 2]; CLASSES] {
        let mut live = [[0; 2]; CLASSES];
        live[LEAF_CLASS as usize] = [Tier::Fast, Tier::Slow].map(|tier| self.leaves.live(tier));
        live[INNER_CLASS as usize] = [Tier::Fast, Tier::Slow].map(|tier| self.inners.live(tier));
        live
    }

    fn committed(&self) -> [u64; 2] {
        [Tier::Fast, Tier::Slow].map(|t| self.leaves.committed(t) + self.inners.committed(t))
    }

    fn residence(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for tier in [Tier::Fast, Tier::Slow] {
            for (asked, wrong) in [self.leaves.residence(tier), self.inners.residence(tier)] {
                sum = (sum.0 + asked, sum.1 + wrong);
            }
        }
        sum
    }

    fn free(&self, kid: OwnedNode, kids: &mut Vec<OwnedNode>) {
        self.gone(kid.id());
        if kid.is_leaf() {
            if let Some(leaf) = self.take_leaf(kid) {
                leaf.keys.iter().for_each(|key| self.keys.goes(key));
            }
        } else if let Some(mut inner) = self.take_inner(kid) {
            inner.keys.iter().for_each(|key| self.keys.goes(key));
            kids.extend(inner.kids.drain(..));
        }
    }
}
