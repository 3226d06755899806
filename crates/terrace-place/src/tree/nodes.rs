//! The nodes of a tree in their slots: made, found, moved, freed. The only file of the tree that
//! deals with slots as such.
//!
//! Kept true: a [`Kid`] is the only owner of its node. It is made here, lies in one parent, in the
//! root of a part or in a function that takes it away, and is used only with the `Nodes` that made
//! it: a map has one, and gives no `Kid` away.

use crate::arena::{Pool, Slot, Vacant};
use crate::budget::Budget;
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::heat::Heat;
use crate::id::{CLASSES, NodeId, Tier};
use crate::memory::Source;
use crate::model::Model;
use crate::placed::Outcome;
use crate::policy::{Birth, Births};
use arrayvec::ArrayVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries of a leaf: smaller ones place better, larger ones take fewer bytes.
pub const LEAF: usize = if cfg!(feature = "shuttle") { 4 } else { 16 };
/// Children of an inner node.
pub const INNER: usize = if cfg!(feature = "shuttle") { 4 } else { 32 };

/// Classes of ids.
pub(super) const LEAF_CLASS: u8 = 0;
pub(super) const INNER_CLASS: u8 = 1;

/// While less than this part of the limit is used, new nodes fill fast memory.
const ROOMY: f64 = 0.9;

/// Entries in the order of their keys.
pub(super) struct Leaf<K, V> {
    pub(super) keys: ArrayVec<K, LEAF>,
    pub(super) vals: ArrayVec<V, LEAF>,
}

/// Children, and between them the first key of the right one.
pub(super) struct Inner<K> {
    pub(super) keys: ArrayVec<K, { INNER - 1 }>,
    pub(super) kids: ArrayVec<Kid, INNER>,
}

impl<K> Inner<K> {
    pub(super) fn has_fast_kid(&self) -> bool {
        self.kids.iter().any(|kid| kid.tier() == Tier::Fast)
    }
}

/// The owner of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kid(NodeId);

impl Kid {
    #[inline]
    pub(super) fn id(&self) -> NodeId {
        self.0
    }

    #[inline]
    pub(super) fn tier(&self) -> Tier {
        self.0.tier()
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.0.class() == LEAF_CLASS
    }
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

/// Where a new node comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) depth: usize,
    pub(super) parent: Tier,
    pub(super) from: Option<Tier>,
    /// It must be fast, since it gets a fast child.
    pub(super) fast_kid: bool,
}

/// All nodes of a map.
#[derive(Debug)]
pub(super) struct Nodes<K, V, M> {
    leaves: Pool<Leaf<K, V>>,
    inners: Pool<Inner<K>>,
    pub(super) budget: Budget,
    pub(super) heat: Option<Heat>,
    births: Births,
    born: AtomicU64,
    pub(super) model: M,
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

impl<K, V, M: Model> Nodes<K, V, M> {
    pub(super) fn new(
        slots: u64,
        sources: [Source; 2],
        budget: Budget,
        births: Births,
        heat: bool,
        model: M,
    ) -> Result<Self, PlacementError> {
        Ok(Nodes {
            leaves: Pool::new(LEAF_CLASS, slots, sources.clone())?,
            inners: Pool::new(INNER_CLASS, slots.div_ceil(8), sources)?,
            budget,
            heat: heat.then(|| {
                let mut classes = [0; CLASSES];
                classes[LEAF_CLASS as usize] = slots;
                classes[INNER_CLASS as usize] = slots.div_ceil(8);
                Heat::new(classes)
            }),
            births,
            born: AtomicU64::new(0),
            model,
        })
    }

    /// Bytes of a leaf and of an inner node.
    pub(super) const LEAF_BYTES: usize = Pool::<Leaf<K, V>>::STRIDE;
    pub(super) const INNER_BYTES: usize = Pool::<Inner<K>>::STRIDE;

    fn bytes(id: NodeId) -> u64 {
        match id.class() {
            LEAF_CLASS => Self::LEAF_BYTES as u64,
            _ => Self::INNER_BYTES as u64,
        }
    }

    /// Whether no fast node may lie below a slow one.
    pub(super) fn bounded(&self) -> bool {
        self.births.bounded()
    }

    /// The node, without telling the model.
    #[inline(always)]
    pub(super) fn node<'a>(&'a self, kid: &'a Kid) -> Node<'a, K, V> {
        match kid.0.class() {
            // SAFETY: the class says which pool made the slot; a kid is the only owner, and who
            // has `&Kid` excludes everyone with `&mut Kid`.
            LEAF_CLASS => Node::Leaf(unsafe { &*std::ptr::from_ref(self.leaves.get(&slot(kid))) }),
            // SAFETY: as above.
            _ => Node::Inner(unsafe { &*std::ptr::from_ref(self.inners.get(&slot(kid))) }),
        }
    }

    /// The node, and the model hears of it.
    #[inline(always)]
    pub(super) fn touch<'a>(&'a self, kid: &'a Kid) -> Node<'a, K, V> {
        let at = match kid.0.class() {
            LEAF_CLASS => self.leaves.address(kid.0),
            _ => self.inners.address(kid.0),
        };
        self.model.touch(kid.0, at);
        self.node(kid)
    }

    /// The node, to be changed.
    pub(super) fn node_mut<'a>(&'a self, kid: &'a mut Kid) -> NodeMut<'a, K, V> {
        match kid.0.class() {
            // SAFETY: as in `node`; `&mut Kid` excludes everybody else for as long as the result
            // lives.
            LEAF_CLASS => NodeMut::Leaf(unsafe {
                &mut *std::ptr::from_mut(self.leaves.get_mut(&mut slot(kid)))
            }),
            // SAFETY: as above.
            _ => NodeMut::Inner(unsafe {
                &mut *std::ptr::from_mut(self.inners.get_mut(&mut slot(kid)))
            }),
        }
    }

    /// Takes the bytes for a new node, and a slot.
    fn vacant<'a, T>(
        &'a self,
        pool: &'a Pool<T>,
        leaf: bool,
        origin: Origin,
    ) -> Result<Vacant<'a, T>, PlacementError> {
        let bytes = Pool::<T>::STRIDE as u64;
        let budget = &self.budget;
        let number = self.born.fetch_add(1, Relaxed);
        let limit = budget.limit();
        let wanted = self.births.choose(&Birth {
            leaf,
            depth: origin.depth as u8,
            parent: origin.parent,
            origin: origin.from,
            number,
            roomy: (budget.used() as f64) < ROOMY * limit as f64,
        });
        // Inner nodes come first where they are to: leaves leave them some room.
        let room = match (&self.births, leaf) {
            (Births::InnerFirst, true) => budget.target(),
            _ => limit,
        };
        let forced = origin.fast_kid && self.bounded();
        let allowed = origin.parent == Tier::Fast || !self.bounded();
        if forced {
            budget.take(Tier::Fast, bytes);
        } else if wanted == Tier::Fast && allowed && budget.try_take(bytes, room) {
            match pool.vacant(Tier::Fast) {
                Ok(vacant) => return Ok(vacant),
                // A full fast memory is no reason to fail: slow memory may have room.
                Err(_) => budget.give(Tier::Fast, bytes),
            }
            budget.take(Tier::Slow, bytes);
        } else {
            budget.take(Tier::Slow, bytes);
        }
        let tier = if forced { Tier::Fast } else { Tier::Slow };
        let vacant = pool.vacant(tier);
        if vacant.is_err() {
            budget.give(tier, bytes);
        }
        vacant
    }

    /// Takes room for a leaf.
    pub(super) fn vacant_leaf(
        &self,
        origin: Origin,
    ) -> Result<Vacant<'_, Leaf<K, V>>, PlacementError> {
        self.vacant(&self.leaves, true, origin)
    }

    /// Takes room for an inner node.
    pub(super) fn vacant_inner(
        &self,
        origin: Origin,
    ) -> Result<Vacant<'_, Inner<K>>, PlacementError> {
        self.vacant(&self.inners, false, origin)
    }

    /// The room becomes a leaf.
    pub(super) fn new_leaf(&self, vacant: Vacant<'_, Leaf<K, V>>, leaf: Leaf<K, V>) -> Kid {
        let kid = Kid(vacant.fill(leaf).into_id());
        self.model.born(kid.0, Self::LEAF_BYTES);
        kid
    }

    /// The room becomes an inner node.
    pub(super) fn new_inner(&self, vacant: Vacant<'_, Inner<K>>, inner: Inner<K>) -> Kid {
        let kid = Kid(vacant.fill(inner).into_id());
        self.model.born(kid.0, Self::INNER_BYTES);
        kid
    }

    /// Takes a leaf out of its slot.
    pub(super) fn take_leaf(&self, kid: Kid) -> Option<Leaf<K, V>> {
        // SAFETY: a kid is the only owner of its slot, and it ends here.
        (kid.is_leaf()).then(|| unsafe { self.leaves.take(slot(&kid)) })
    }

    /// Takes an inner node out of its slot.
    pub(super) fn take_inner(&self, kid: Kid) -> Option<Inner<K>> {
        // SAFETY: as above.
        (!kid.is_leaf()).then(|| unsafe { self.inners.take(slot(&kid)) })
    }

    /// What is to be noted when a node goes: its bytes and its heat.
    pub(super) fn gone(&self, id: NodeId) {
        self.budget.give(id.tier(), Self::bytes(id));
        if let Some(heat) = &self.heat {
            heat.clear(id);
        }
    }

    /// Moves a node to the other memory, if its bytes stay below `bound` there.
    pub(super) fn shift(&self, kid: &mut Kid, to: Tier, bound: u64) -> Outcome {
        let (old, bytes) = (kid.0, Self::bytes(kid.0));
        if old.tier() == to {
            return Outcome::There;
        }
        match to {
            Tier::Fast if planted(Fault::BoundIgnored) => self.budget.take(Tier::Fast, bytes),
            Tier::Fast if !self.budget.try_take(bytes, bound) => return Outcome::NoRoom(0),
            Tier::Fast => {}
            Tier::Slow => self.budget.take(Tier::Slow, bytes),
        }
        let moved = match old.class() {
            // SAFETY: a kid is the only owner of its slot; `&mut Kid` excludes all others.
            LEAF_CLASS => self.leaves.vacant(to).map(|vacant| unsafe {
                let mut slot = slot(kid);
                self.leaves.shift(&mut slot, vacant);
                slot.id()
            }),
            // SAFETY: as above.
            _ => self.inners.vacant(to).map(|vacant| unsafe {
                let mut slot = slot(kid);
                self.inners.shift(&mut slot, vacant);
                slot.id()
            }),
        };
        let Ok(new) = moved else {
            self.budget.give(to, bytes);
            return Outcome::NoRoom(0);
        };
        kid.0 = new;
        self.budget.give(old.tier(), bytes);
        if let Some(heat) = &self.heat {
            heat.moved(old, new);
        }
        Outcome::Moved(1)
    }

    /// Two nodes became one: the heat of both is that of the one that stays.
    pub(super) fn merged(&self, stays: NodeId, goes: NodeId) {
        if let Some(heat) = &self.heat {
            heat.add(stays, heat.of(goes));
        }
        self.gone(goes);
    }

    /// A node was divided.
    pub(super) fn divided(&self, node: NodeId, new: NodeId) {
        if let Some(heat) = &self.heat {
            heat.divided(node, new);
        }
    }

    /// Nodes that there are: leaves and inner nodes, by tier.
    pub(super) fn live(&self) -> [[u64; 2]; 2] {
        let of = |tier| [self.leaves.live(tier), self.inners.live(tier)];
        let (fast, slow) = (of(Tier::Fast), of(Tier::Slow));
        [[fast[0], slow[0]], [fast[1], slow[1]]]
    }

    /// Bytes of slabs by tier.
    pub(super) fn committed(&self) -> [u64; 2] {
        [Tier::Fast, Tier::Slow].map(|t| self.leaves.committed(t) + self.inners.committed(t))
    }

    /// Pages looked up, and those on a wrong node.
    pub(super) fn residence(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for tier in [Tier::Fast, Tier::Slow] {
            for (asked, wrong) in [self.leaves.residence(tier), self.inners.residence(tier)] {
                sum = (sum.0 + asked, sum.1 + wrong);
            }
        }
        sum
    }

    /// Frees a node and all below it.
    pub(super) fn free_all(&self, kid: Kid) {
        let id = kid.id();
        if kid.is_leaf() {
            self.gone(id);
            drop(self.take_leaf(kid));
        } else if let Some(inner) = self.take_inner(kid) {
            self.gone(id);
            for kid in inner.kids {
                self.free_all(kid);
            }
        }
    }

    /// Whether what is split off, or a new root, may be slow although a child is fast: planted.
    pub(super) fn forgets(fault: Fault) -> bool {
        planted(fault)
    }
}

/// The slot of a kid, for one call.
#[inline(always)]
fn slot<T>(kid: &Kid) -> Slot<T> {
    Slot::from_id(kid.0)
}
