//! A place in the dynamic stage: an entry and the way down to it.

use super::NodeKeys;
use super::node::{Inner, Leaf, Node, NodeRef};
use crate::family::Family;
use crate::simd;
use crate::two_stage::DynamicCursor;
use arrayvec::ArrayVec;

/// The most levels of inner nodes. A node is split when it has more than 20 separators, 64 unless
/// its keys are long; in the middle, so that each half must be given ten children or more before it
/// is split again, or at the end, where the new node must be given twenty and the other one two. So
/// each level takes ten times the inserts of the one below at least, whatever was removed between
/// them: one level more would take 10^16 inserts, which are centuries of them.
const MAX_HEIGHT: usize = 16;

/// An entry of a B+tree, which is given by its root.
pub struct Pos<'a, F: Family, V> {
    path: ArrayVec<(&'a Inner<F, V>, u32), MAX_HEIGHT>,
    leaf: &'a Leaf<F, V>,
    i: usize,
}

impl<'a, F: Family, V> Pos<'a, F, V> {
    /// The first entry whose key is not less than `probe`; the first of all for `None`. Calls
    /// `meanwhile` when it has asked for the lines of the leaf and would wait for them.
    #[inline]
    pub fn at_or_after_and(
        root: Option<&'a Node<F, V>>,
        probe: Option<F::Ref<'_>>,
        meanwhile: impl FnOnce(),
    ) -> Option<Self> {
        let mut pos = Self::descend(root, |inner| match probe {
            Some(probe) => inner.keys.upper_bound(probe),
            None => 0,
        })?;
        simd::prefetch_whole(pos.leaf);
        meanwhile();
        pos.i = probe.map_or(0, |probe| pos.leaf.keys.lower_bound(probe));
        (pos.i < pos.leaf.vals.len() || pos.step_right()).then_some(pos)
    }

    /// The last entry whose key is less than `probe`; the last of all for `None`.
    pub fn before(root: Option<&'a Node<F, V>>, probe: Option<F::Ref<'_>>) -> Option<Self> {
        let mut pos = Self::descend(root, |inner| match probe {
            Some(probe) => inner.keys.upper_bound(probe),
            None => inner.keys.len(),
        })?;
        let past = probe.map_or(pos.leaf.vals.len(), |probe| {
            pos.leaf.keys.lower_bound(probe)
        });
        pos.i = past.wrapping_sub(1);
        (past > 0 || pos.step_left()).then_some(pos)
    }

    fn descend(
        root: Option<&'a Node<F, V>>,
        choose: impl Fn(&Inner<F, V>) -> usize,
    ) -> Option<Self> {
        let mut node = root?.get();
        let mut path = ArrayVec::new();
        loop {
            match node {
                NodeRef::Inner(inner) => {
                    let i = choose(inner);
                    path.push((inner, i as u32));
                    node = inner.kids.get(i);
                }
                NodeRef::Leaf(leaf) => return Some(Pos { path, leaf, i: 0 }),
            }
        }
    }

    fn step_right(&mut self) -> bool {
        while let Some((inner, i)) = self.path.pop() {
            let next = i as usize + 1;
            if next < inner.kids.len() {
                self.path.push((inner, next as u32));
                self.down(inner.kids.get(next), |_| 0);
                self.i = 0;
                return true;
            }
        }
        false
    }

    fn step_left(&mut self) -> bool {
        while let Some((inner, i)) = self.path.pop() {
            if i > 0 {
                self.path.push((inner, i - 1));
                self.down(inner.kids.get(i as usize - 1), |inner| inner.kids.len() - 1);
                self.i = self.leaf.vals.len() - 1;
                return true;
            }
        }
        false
    }

    fn down(&mut self, mut node: NodeRef<'a, F, V>, choose: impl Fn(&Inner<F, V>) -> usize) {
        loop {
            match node {
                NodeRef::Inner(inner) => {
                    let i = choose(inner);
                    self.path.push((inner, i as u32));
                    node = inner.kids.get(i);
                }
                NodeRef::Leaf(leaf) => {
                    self.leaf = leaf;
                    return;
                }
            }
        }
    }
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for Pos<'a, F, V> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        self.leaf.keys.get(self.i)
    }

    #[inline]
    fn val(&self) -> &'a V {
        &self.leaf.vals[self.i]
    }

    #[inline]
    fn next(&mut self) -> bool {
        self.i += 1;
        self.i < self.leaf.vals.len() || self.step_right()
    }

    #[inline]
    fn prev(&mut self) -> bool {
        self.i = self.i.wrapping_sub(1);
        self.i != usize::MAX || self.step_left()
    }

    #[inline]
    fn same(&self, other: &Self) -> bool {
        self.i == other.i && core::ptr::eq(self.leaf, other.leaf)
    }

    fn cool(&self) -> bool {
        self.leaf.cool(self.i)
    }
}
