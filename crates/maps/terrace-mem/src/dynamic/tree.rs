//! The B+tree itself: root, counts, and the operations on whole keys.

use super::NodeKeys;
use super::node::{Census, Children, DrainRange, Inner, Inserted, Leaf, Node, NodeMut, NodeRef};
use super::pos::Pos;
use crate::family::Family;
use crate::two_stage::{DynamicStage, Near, Span};
use alloc::boxed::Box;
use core::mem::{self, size_of};

/// An ordered map from encoded keys to values. Every operation on a key is O(log n).
pub struct Tree<F: Family, V> {
    root: Option<Node<F, V>>,
    census: Census,
    len: usize,
    /// Levels of inner nodes.
    height: usize,
}

impl<F: Family, V> Default for Tree<F, V> {
    fn default() -> Self {
        Tree {
            root: None,
            census: Census::default(),
            len: 0,
            height: 0,
        }
    }
}

impl<F: Family, V> Tree<F, V> {
    fn leaf(&self, key: F::Ref<'_>) -> Option<&Leaf<F, V>> {
        let mut node = self.root.as_ref()?.get();
        loop {
            match node {
                NodeRef::Inner(inner) => node = inner.kids.get(inner.keys.upper_bound(key)),
                NodeRef::Leaf(leaf) => return Some(leaf),
            }
        }
    }

    /// Frees an empty root, and roots with one child.
    fn settle(&mut self, empty: bool) {
        if empty {
            self.root = None;
            self.census = Census::default();
            self.height = 0;
        }
        while let Some(Node::Inner(inner)) = &mut self.root {
            if inner.kids.len() > 1 {
                break;
            }
            let kid = inner.kids.pop();
            self.height -= 1;
            if let Some(old) = mem::replace(&mut self.root, kid) {
                old.get().leave(&mut self.census);
            }
        }
    }
}

impl<F: Family, V> DynamicStage<F, V> for Tree<F, V> {
    type Cursor<'a>
        = Pos<'a, F, V>
    where
        V: 'a;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.census.leaves as usize * size_of::<Leaf<F, V>>()
            + self.census.inners as usize * size_of::<Inner<F, V>>()
            + self.census.heap
    }

    #[inline]
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        let leaf = self.leaf(key)?;
        let i = leaf.find(key).ok()?;
        if touch {
            leaf.touch(i);
        }
        Some(&leaf.vals[i])
    }

    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let mut node = self.root.as_mut()?.get_mut();
        loop {
            match node {
                NodeMut::Inner(inner) => {
                    let i = inner.keys.upper_bound(key);
                    node = inner.kids.get_mut(i);
                }
                NodeMut::Leaf(leaf) => {
                    let i = leaf.find(key).ok()?;
                    leaf.touch(i);
                    return Some(&mut leaf.vals[i]);
                }
            }
        }
    }

    fn insert_and(
        &mut self,
        key: F::Ref<'_>,
        val: V,
        mut meanwhile: impl FnMut(Near),
    ) -> Option<V> {
        let root = self.root.get_or_insert_with(|| {
            self.census.leaves += 1;
            Node::Leaf(Box::default())
        });
        if self.height == 0 {
            meanwhile(Near::Inner);
        }
        let way = (&mut self.census, &mut meanwhile);
        match root.get_mut().insert(key, val, way, (self.height, true)) {
            Inserted::Replaced(old) => return Some(old),
            Inserted::Added => {}
            Inserted::Split(sep, right) => {
                let mut keys = F::InnerKeys::default();
                keys.insert(0, F::load(&sep));
                self.census.inners += 1;
                self.census.heap += keys.heap();
                if let Some(left) = self.root.take() {
                    let kids = Children::pair(left, right);
                    self.height += 1;
                    self.root = Some(Node::Inner(Box::new(Inner { keys, kids })));
                }
            }
        }
        self.len += 1;
        None
    }

    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        let root = self.root.as_mut()?.get_mut();
        let (val, empty) = root.remove(key, &mut self.census);
        self.len -= usize::from(val.is_some());
        self.settle(empty);
        val
    }

    fn drain(
        &mut self,
        range: Span<'_, F>,
        (limit, bytes): (usize, usize),
        keep_hot: bool,
        mut sink: impl FnMut(F::Ref<'_>, V),
        mut kept: impl FnMut(F::Ref<'_>),
    ) -> (usize, bool) {
        let Some(root) = &mut self.root else {
            return (0, false);
        };
        if let (Some(from), Some(to)) = range
            && F::cmp(from, to).is_ge()
        {
            return (0, false);
        }
        let mut cut = DrainRange {
            from: range.0,
            to: range.1,
            limit,
            bytes,
            keep_hot,
        };
        let mut taken = 0;
        let mut sink = |key: F::Ref<'_>, val| {
            taken += 1;
            sink(key, val);
        };
        let empty = root
            .get_mut()
            .drain(&mut cut, &mut self.census, &mut sink, &mut kept);
        self.len -= taken;
        self.settle(empty);
        (limit - cut.limit, cut.limit == 0 || cut.bytes == 0)
    }

    fn count(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        match (&self.root, from, to) {
            (None, ..) => 0,
            (_, Some(from), Some(to)) if F::cmp(from, to).is_ge() => 0,
            (Some(root), ..) => root.get().count(from, to, limit),
        }
    }

    fn room(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        self.count(from, to, limit)
    }

    #[inline]
    fn seek(&self, from: Option<F::Ref<'_>>, meanwhile: impl FnOnce()) -> Option<Pos<'_, F, V>> {
        Pos::at_or_after_and(self.root.as_ref(), from, meanwhile)
    }

    fn visit_mut<'a>(
        &'a mut self,
        (from, to): Span<'_, F>,
        mut see: impl FnMut(F::Ref<'_>, &'a mut V),
    ) where
        V: 'a,
    {
        if let (Some(from), Some(to)) = (from, to)
            && F::cmp(from, to).is_ge()
        {
            return;
        }
        if let Some(root) = &mut self.root {
            root.get_mut().visit(from, to, &mut see);
        }
    }

    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<Pos<'_, F, V>> {
        Pos::before(self.root.as_ref(), to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{ByteFamily, IntFamily};
    use crate::two_stage::DynamicCursor;
    use std::collections::BTreeMap;

    fn census<F: Family, V>(
        node: NodeRef<'_, F, V>,
        depth: usize,
        out: &mut (Census, Option<usize>),
    ) {
        match node {
            NodeRef::Leaf(leaf) => {
                assert!(!leaf.vals.is_empty() && leaf.vals.len() == leaf.keys.len());
                assert_eq!(
                    *out.1.get_or_insert(depth),
                    depth,
                    "leaves lie equally deep"
                );
                out.0.leaves += 1;
                out.0.heap += leaf.keys.heap();
            }
            NodeRef::Inner(inner) => {
                assert_eq!(inner.keys.len() + 1, inner.kids.len());
                out.0.inners += 1;
                out.0.heap += inner.keys.heap();
                for i in 0..inner.kids.len() {
                    census(inner.kids.get(i), depth + 1, out);
                }
            }
        }
    }

    fn check<F: Family>(tree: &Tree<F, u32>, model: &BTreeMap<Vec<u8>, (F::Buf, u32)>) {
        assert_eq!(tree.len(), model.len());
        let mut found = (Census::default(), None);
        if let Some(root) = &tree.root {
            census(root.get(), 0, &mut found);
        }
        let (a, b) = (found.0, tree.census);
        assert_eq!((a.leaves, a.inners, a.heap), (b.leaves, b.inners, b.heap));
        assert_eq!(tree.height, found.1.unwrap_or(0));
        let mut pos = Pos::at_or_after_and(tree.root.as_ref(), None, || {});
        for (key, val) in model.values() {
            let p = pos.as_mut().expect("an entry is missing");
            assert!(F::cmp(p.key(), F::load(key)).is_eq());
            assert_eq!(p.val(), val);
            if !p.next() {
                pos = None;
            }
        }
        assert!(pos.is_none());
        let mut pos = Pos::before(tree.root.as_ref(), None);
        for (key, _) in model.values().rev() {
            let p = pos.as_mut().expect("an entry is missing");
            assert!(F::cmp(p.key(), F::load(key)).is_eq());
            if !p.prev() {
                pos = None;
            }
        }
        assert!(pos.is_none());
    }

    /// `make` gives the key and its place in the order as bytes.
    fn drive<F: Family>(seed: u64, make: impl Fn(u64) -> (F::Buf, Vec<u8>)) {
        let mut tree = Tree::<F, u32>::default();
        let mut model: BTreeMap<Vec<u8>, (F::Buf, u32)> = BTreeMap::new();
        let mut x = seed;
        for round in 0..if cfg!(miri) { 300 } else { 6000u32 } {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (buf, order) = make(x >> 33);
            let key = F::load(&buf);
            match x >> 8 & 15 {
                0..10 => {
                    let old = model.insert(order, (buf.clone(), round));
                    let mut steps = Vec::new();
                    let before = tree.insert_and(key, round, |near| steps.push(near));
                    assert_eq!(before, old.map(|o| o.1));
                    assert_eq!(steps, [Near::Inner, Near::Leaf]);
                }
                10..12 => {
                    assert_eq!(tree.remove(key), model.remove(&order).map(|o| o.1));
                }
                12..15 => {
                    assert_eq!(tree.get(key, true).copied(), model.get(&order).map(|o| o.1));
                    if let Some(val) = tree.get_mut(key) {
                        *val += 1;
                        model.get_mut(&order).expect("the model lacks it").1 += 1;
                    }
                }
                _ => {
                    let limit = (x >> 20) as usize % 100;
                    let bytes = (x >> 30) as usize % 3000 + 1;
                    assert_eq!(
                        tree.count(Some(key), None, limit),
                        model.range(order.clone()..).take(limit).count()
                    );
                    let (mut span, mut sum) = (0, 0);
                    for (key, _) in model.range(order.clone()..).take(limit).map(|e| e.1) {
                        span += 1;
                        sum += F::size(F::load(key));
                        if sum >= bytes {
                            break;
                        }
                    }
                    let (mut out, mut hot) = (Vec::new(), 0);
                    let keep = x >> 40 & 1 == 1;
                    let (met, full) = tree.drain(
                        (Some(key), None),
                        (limit, bytes),
                        keep,
                        |k, v| out.push((F::owned(k), v)),
                        |_| hot += 1,
                    );
                    assert_eq!((met, met), (span, out.len() + hot));
                    assert_eq!(full, met == limit || sum >= bytes);
                    assert!(keep || hot == 0);
                    for (k, v) in out {
                        let at = model
                            .iter()
                            .find(|e| F::cmp(F::load(&e.1.0), F::load(&k)).is_eq());
                        let at = at.expect("drained what was never there").0.clone();
                        assert_eq!(model.remove(&at).map(|o| o.1), Some(v));
                    }
                }
            }
            if round.is_multiple_of(97) {
                check(&tree, &model);
            }
        }
        check(&tree, &model);
        let all = (usize::MAX, usize::MAX);
        let (met, _) = tree.drain((None, None), all, false, |_, _| {}, |_| {});
        assert_eq!((met, tree.len(), tree.bytes()), (model.len(), 0, 0));
    }

    #[test]
    fn integers_against_a_model() {
        for (seed, range) in [(1, 200), (2, 5000), (3, u64::MAX)] {
            drive::<IntFamily>(seed, |x| (x % range, (x % range).to_be_bytes().to_vec()));
        }
    }

    #[test]
    fn byte_strings_against_a_model() {
        for (seed, range, pad) in [(1, 200, 0), (2, 5000, 3), (3, 3000, 2000)] {
            drive::<ByteFamily>(seed, |x| {
                let mut key = (x % range).to_string().into_bytes();
                key.resize(key.len() + (x % 7) as usize * pad, b'x');
                (key.clone(), key)
            });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn long_keys_in_falling_order_make_no_high_tree() {
        let mut tree = Tree::<ByteFamily, u64>::default();
        for i in (0..3000u64).rev() {
            let mut key = vec![b'x'; 11_000];
            key.extend(i.to_be_bytes());
            tree.insert(&key, i);
        }
        let mut out = (Census::default(), None);
        census(
            tree.root.as_ref().expect("it is not empty").get(),
            0,
            &mut out,
        );
        // Leaves of two keys, and ten children or more in each node above.
        assert!(out.1 <= Some(4), "{:?} levels", out.1);
        let mut pos =
            Pos::at_or_after_and(tree.root.as_ref(), None, || {}).expect("it is not empty");
        assert!((1..3000).all(|i| pos.next() && *pos.val() == i));
        assert!(!pos.next());
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn keys_in_order_fill_their_leaves() {
        let mut tree = Tree::<IntFamily, u64>::default();
        for i in 0..100_000u64 {
            tree.insert(i, i);
        }
        assert!(
            tree.bytes() / tree.len() <= 17,
            "{}",
            tree.bytes() / tree.len()
        );
    }
}
