//! A place in the tree: a leaf, and the way down to it.

use super::node::{Handle, LEAF, Label, NONE, id, kind};
use super::radix::Art;
use crate::family::Family;
use crate::two_stage::DynamicCursor;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering::Relaxed;

/// Levels that a place keeps in itself: more than integers have.
const NEAR: usize = 12;

/// An entry of an [`Art`].
pub struct ArtPos<'a, F: Family, V> {
    tree: &'a Art<F, V>,
    leaf: Handle,
    /// The nodes on the way, each with the label below it: the first of them, and the others.
    path: ArrayVec<(Handle, Label), NEAR>,
    deep: Vec<(Handle, Label)>,
}

impl<'a, F: Family, V> ArtPos<'a, F, V> {
    fn new(tree: &'a Art<F, V>) -> Self {
        ArtPos {
            tree,
            leaf: NONE,
            path: ArrayVec::new(),
            deep: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, node: Handle, label: Label) {
        if self.path.is_full() {
            self.deep.push((node, label));
        } else {
            self.path.push((node, label));
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(Handle, Label)> {
        self.deep.pop().or_else(|| self.path.pop())
    }

    /// Goes down to the first leaf, or to the last one.
    fn down(&mut self, mut at: Handle, last: bool) -> bool {
        while kind(at) != LEAF {
            let next = match last {
                true => self.tree.nodes.last(at, Label::MAX),
                false => self.tree.nodes.first(at, 0),
            };
            let Some((label, next)) = next else {
                return false;
            };
            self.push(at, label);
            at = next;
        }
        self.leaf = at;
        true
    }

    /// Goes to the first leaf behind all below the last step of the way.
    fn right(&mut self) -> bool {
        while let Some((node, label)) = self.pop() {
            if let Some((label, kid)) = self.tree.nodes.first(node, label + 1) {
                self.push(node, label);
                return self.down(kid, false);
            }
        }
        false
    }

    /// Goes to the last leaf before all below the last step of the way.
    fn left(&mut self) -> bool {
        while let Some((node, label)) = self.pop() {
            if let Some((label, kid)) = self.tree.nodes.last(node, label) {
                self.push(node, label);
                return self.down(kid, true);
            }
        }
        false
    }

    /// The leaf.
    pub fn leaf(&self) -> Handle {
        self.leaf
    }

    /// The node that the leaf hangs in and its label there, and how many nodes are above that.
    pub fn parent(&self) -> Option<(Handle, Label, usize)> {
        let (node, label) = *self.deep.last().or(self.path.last())?;
        Some((node, label, self.path.len() + self.deep.len() - 1))
    }

    pub fn first(tree: &'a Art<F, V>) -> Option<Self> {
        let mut pos = Self::new(tree);
        (tree.root != NONE && pos.down(tree.root, false)).then_some(pos)
    }

    pub fn last(tree: &'a Art<F, V>) -> Option<Self> {
        let mut pos = Self::new(tree);
        (tree.root != NONE && pos.down(tree.root, true)).then_some(pos)
    }

    /// The first entry whose key is not less than `probe`.
    pub fn at_or_after(tree: &'a Art<F, V>, probe: F::Ref<'_>) -> Option<Self> {
        let mut pos = Self::new(tree);
        let mut room = [0; 8];
        let bytes = F::as_bytes(probe, &mut room);
        let (mut at, mut depth) = (tree.root, 0);
        if at == NONE {
            return None;
        }
        let found = loop {
            if kind(at) == LEAF {
                pos.leaf = at;
                break F::cmp(tree.key(at), probe).is_ge() || pos.right();
            }
            let (_, len, order) = tree.share(at, bytes, depth);
            if order.is_lt() {
                break pos.right();
            }
            depth += len;
            if order.is_gt() || depth >= bytes.len() {
                break pos.down(at, false);
            }
            let label = u16::from(bytes[depth]) + 1;
            match tree.nodes.first(at, label) {
                Some((found, kid)) => {
                    pos.push(at, found);
                    if found > label {
                        break pos.down(kid, false);
                    }
                    (at, depth) = (kid, depth + 1);
                }
                None => break pos.right(),
            }
        };
        found.then_some(pos)
    }
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for ArtPos<'a, F, V> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        self.tree.key(self.leaf)
    }
    #[inline]
    fn val(&self) -> &'a V {
        &self.tree.leaves.get(id(self.leaf)).val
    }
    fn next(&mut self) -> bool {
        self.right()
    }
    fn prev(&mut self) -> bool {
        self.left()
    }
    fn same(&self, other: &Self) -> bool {
        self.leaf == other.leaf && core::ptr::eq(self.tree, other.tree)
    }
    fn cool(&self) -> bool {
        self.tree.leaves.get(id(self.leaf)).hot.swap(false, Relaxed)
    }
}
