//! What trees of all kinds share of their nodes: who owns one, where a new one goes, and how one
//! moves to the other memory.
//!
//! Kept true: a [`OwnedNode`] is the only owner of its node. It lies in one parent, in the root of a part
//! or in a function that takes it away, and is used only with the nodes that made it: a map has
//! one set of them, and gives no `OwnedNode` away.

use crate::arena::{Pool, Slot, Vacant};
use crate::budget::Budget;
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::heat::{Heat, INNER_WEIGHT, Noting};
use crate::id::{NodeId, Tier};
use crate::model::Model;
use crate::placed::Outcome;
use crate::policy::{Birth, Births};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// While less than this part of the limit is used, new nodes fill fast memory.
const ROOMY: f64 = 0.9;

/// The class of leaves, in all trees.
pub const LEAF_CLASS: u8 = 0;

/// The owner of a node.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedNode(pub(super) NodeId);

impl OwnedNode {
    /// The handle.
    #[inline]
    pub fn id(&self) -> NodeId {
        self.0
    }

    /// The memory in which the node lies.
    #[inline]
    pub fn tier(&self) -> Tier {
        self.0.tier()
    }

    /// Whether it is a leaf.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.0.class() == LEAF_CLASS
    }

    /// The slot, for one call.
    #[inline(always)]
    pub(super) fn slot<T>(&self) -> Slot<T> {
        Slot::from_id(self.0)
    }
}

/// Where a new node comes from.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Steps from the root of its part.
    pub depth: usize,
    /// The memory of its parent.
    pub parent: Tier,
    /// That of the node it replaces, or was split off.
    pub from: Option<Tier>,
    /// It must be fast, since it gets a fast child.
    pub fast_kid: bool,
}

/// A slot for a node, and its bytes of the budget. Both are given back where no node comes.
pub struct Reserved<'a, T> {
    vacant: Vacant<'a, T>,
    bytes: Bytes<'a>,
}

impl<T> Reserved<'_, T> {
    /// The memory in which it is.
    pub fn tier(&self) -> Tier {
        self.bytes.tier
    }
}

/// Bytes of the budget, which are given back when this is dropped.
struct Bytes<'a> {
    budget: &'a Budget,
    tier: Tier,
    bytes: u64,
}

impl Drop for Bytes<'_> {
    fn drop(&mut self) {
        self.budget.give(self.tier, self.bytes);
    }
}

/// What the nodes of a map have in common.
#[derive(Debug)]
pub struct Common<M> {
    pub(super) budget: Budget,
    pub(super) heat: Option<Heat>,
    births: Births,
    born: AtomicU64,
    pub(super) model: M,
}

impl<M: Model> Common<M> {
    pub(super) fn new(budget: Budget, births: Births, heat: Option<Heat>, model: M) -> Self {
        Common {
            budget,
            heat,
            births,
            born: AtomicU64::new(0),
            model,
        }
    }

    /// Whether no fast node may lie below a slow one.
    pub(super) fn bounded(&self) -> bool {
        self.births.bounded()
    }

    /// Takes the bytes for a new node, and a slot.
    pub(super) fn vacant<'a, T>(
        &'a self,
        pool: &'a Pool<T>,
        leaf: bool,
        origin: Origin,
    ) -> Result<Reserved<'a, T>, PlacementError> {
        let bytes = Pool::<T>::STRIDE as u64;
        let budget = &self.budget;
        let reserved = |vacant: Vacant<'a, T>| Reserved {
            bytes: Bytes {
                budget,
                tier: vacant.id().tier(),
                bytes,
            },
            vacant,
        };
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
                Ok(vacant) => return Ok(reserved(vacant)),
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
        vacant.map(reserved)
    }

    /// The room becomes a node.
    pub(super) fn fill<T>(&self, room: Reserved<'_, T>, node: T) -> OwnedNode {
        let kid = OwnedNode(room.vacant.fill(node).into_id());
        std::mem::forget(room.bytes);
        self.model.born(kid.0, Pool::<T>::STRIDE);
        kid
    }

    /// What is to be noted when a node of this many bytes goes: its bytes and its heat.
    pub(super) fn gone(&self, id: NodeId, bytes: u64) {
        self.budget.give(id.tier(), bytes);
        if let Some(heat) = &self.heat {
            heat.clear(id);
        }
        self.model.gone(id);
    }

    /// Moves a node to the other memory, if its bytes stay below `bound` there.
    ///
    /// # Safety
    /// The node of `child` is one of this pool.
    pub(super) unsafe fn shift<T>(
        &self,
        pool: &Pool<T>,
        kid: &mut OwnedNode,
        to: Tier,
        bound: u64,
    ) -> Outcome {
        let (old, bytes) = (kid.0, Pool::<T>::STRIDE as u64);
        if old.tier() == to {
            return Outcome::There;
        }
        match to {
            Tier::Fast if planted(Fault::BoundIgnored) => self.budget.take(Tier::Fast, bytes),
            Tier::Fast if !self.budget.try_take(bytes, bound) => return Outcome::NoRoom(0),
            Tier::Fast => {}
            Tier::Slow => self.budget.take(Tier::Slow, bytes),
        }
        let Ok(vacant) = pool.vacant(to) else {
            self.budget.give(to, bytes);
            return Outcome::NoRoom(0);
        };
        let mut slot = kid.slot();
        // SAFETY: a child is the only owner of its slot, which the caller says is of this pool;
        // `&mut OwnedNode` excludes all others.
        unsafe { pool.shift(&mut slot, vacant) };
        let new = slot.id();
        kid.0 = new;
        self.budget.give(old.tier(), bytes);
        if let Some(heat) = &self.heat {
            heat.moved(old, new);
        }
        Outcome::Moved(1)
    }

    /// Another node has taken the place of this one: its heat is that of the other.
    pub(super) fn replaced(&self, goes: NodeId, stays: NodeId, bytes: u64) {
        if let Some(heat) = &self.heat {
            heat.add(stays, heat.of(goes));
        }
        self.gone(goes, bytes);
    }

    /// A node was divided.
    pub(super) fn divided(&self, node: NodeId, new: NodeId) {
        if let Some(heat) = &self.heat {
            heat.divided(node, new);
        }
    }

    /// A lookup that may be to be noted goes on below this node.
    #[inline]
    pub(super) fn passed(&self, kid: &OwnedNode, noting: Option<Noting>) {
        if let (Some(heat), Some(Noting::Path)) = (&self.heat, noting) {
            heat.add(kid.id(), INNER_WEIGHT);
        }
    }

    /// A lookup that may be to be noted ends in this node, whether or not others go on below it.
    #[inline]
    pub(super) fn ended(&self, kid: &OwnedNode, noting: Option<Noting>) {
        if let (Some(heat), Some(_)) = (&self.heat, noting) {
            heat.note_leaf(kid.id());
        }
    }

    /// A node was touched by a lookup that is to be noted.
    pub(super) fn note(&self, kid: &OwnedNode, noting: Noting) {
        let Some(heat) = &self.heat else { return };
        match (kid.is_leaf(), noting) {
            (true, _) => heat.note_leaf(kid.id()),
            (false, Noting::Path) => heat.add(kid.id(), INNER_WEIGHT),
            (false, Noting::Leaf) => {}
        }
    }
}
