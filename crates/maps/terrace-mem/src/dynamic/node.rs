//! Nodes of the dynamic stage, and what each does on its own: insert, remove, drain, count.

use super::NodeKeys;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::simd;
use crate::two_stage::Near;
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};

/// Most keys of a leaf: four cache lines of integers. At most 64, for the reference bits.
pub const CAP: usize = 32;

/// Most separators of an inner node: more than a leaf has keys, since a level less is worth more
/// than a longer search in lines that stay in the cache.
pub const FANOUT: usize = 64;

pub enum Node<F: Family, V> {
    Leaf(Box<Leaf<F, V>>),
    Inner(Box<Inner<F, V>>),
}

pub enum NodeRef<'a, F: Family, V> {
    Leaf(&'a Leaf<F, V>),
    Inner(&'a Inner<F, V>),
}

pub enum NodeMut<'a, F: Family, V> {
    Leaf(&'a mut Leaf<F, V>),
    Inner(&'a mut Inner<F, V>),
}

/// Keys and their values.
pub struct Leaf<F: Family, V> {
    pub keys: F::LeafKeys,
    pub vals: ArrayVec<V, CAP>,
    /// Bit `i` is set when entry `i` was used since the last merge passed it.
    pub hot: AtomicU64,
}

/// Separators and children.
pub struct Inner<F: Family, V> {
    pub keys: F::InnerKeys,
    pub kids: Children<F, V>,
}

/// The children of an inner node, all of one kind.
pub enum Children<F: Family, V> {
    Leaves(ArrayVec<Box<Leaf<F, V>>, { FANOUT + 1 }>),
    Inners(ArrayVec<Box<Inner<F, V>>, { FANOUT + 1 }>),
}

/// Does the same with the children of either kind.
macro_rules! each {
    ($kids:expr, $list:ident => $do:expr) => {
        match $kids {
            Children::Leaves($list) => $do,
            Children::Inners($list) => $do,
        }
    };
}

impl<F: Family, V> Children<F, V> {
    /// Two children, which are of one kind.
    pub fn pair(left: Node<F, V>, right: Node<F, V>) -> Self {
        let mut kids = match &left {
            Node::Leaf(_) => Children::Leaves(ArrayVec::new()),
            Node::Inner(_) => Children::Inners(ArrayVec::new()),
        };
        kids.insert(0, left);
        kids.insert(1, right);
        kids
    }

    #[inline]
    pub fn len(&self) -> usize {
        each!(self, list => list.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn get(&self, i: usize) -> NodeRef<'_, F, V> {
        match self {
            Children::Leaves(list) => NodeRef::Leaf(&list[i]),
            Children::Inners(list) => NodeRef::Inner(&list[i]),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, i: usize) -> NodeMut<'_, F, V> {
        match self {
            Children::Leaves(list) => NodeMut::Leaf(&mut list[i]),
            Children::Inners(list) => NodeMut::Inner(&mut list[i]),
        }
    }

    /// Puts a child in at `i`, of the kind of the others.
    fn insert(&mut self, i: usize, kid: Node<F, V>) {
        match (self, kid) {
            (Children::Leaves(list), Node::Leaf(kid)) => list.insert(i, kid),
            (Children::Inners(list), Node::Inner(kid)) => list.insert(i, kid),
            _ => unreachable!("all leaves lie equally deep"),
        }
    }

    fn remove(&mut self, i: usize) {
        each!(self, list => drop(list.remove(i)));
    }

    /// Takes the children from `at` on out.
    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Children::Leaves(list) => Children::Leaves(list.drain(at..).collect()),
            Children::Inners(list) => Children::Inners(list.drain(at..).collect()),
        }
    }

    /// Takes the last child out.
    pub fn pop(&mut self) -> Option<Node<F, V>> {
        match self {
            Children::Leaves(list) => list.pop().map(Node::Leaf),
            Children::Inners(list) => list.pop().map(Node::Inner),
        }
    }
}

/// How many nodes a tree has and what they hold beside themselves.
#[derive(Default, Clone, Copy)]
pub struct Census {
    pub leaves: u32,
    pub inners: u32,
    pub heap: usize,
}

/// What became of an insert.
pub enum Inserted<F: Family, V> {
    /// The key was there; this was its value.
    Replaced(V),
    /// The key is new.
    Added,
    /// The key is new, and the node now has a right sibling that starts at this separator.
    Split(F::Buf, Node<F, V>),
}

/// Which entries a drain takes.
pub struct DrainRange<'a, F: Family> {
    pub from: Option<F::Ref<'a>>,
    pub to: Option<F::Ref<'a>>,
    pub limit: usize,
    /// Key bytes: the entry that reaches this number is the last one.
    pub bytes: usize,
    /// Leaves entries with their reference bit set, and clears the bit.
    pub keep_hot: bool,
}

impl<F: Family, V> Default for Leaf<F, V> {
    fn default() -> Self {
        Leaf {
            keys: F::LeafKeys::default(),
            vals: ArrayVec::new(),
            hot: AtomicU64::new(0),
        }
    }
}

fn low_bits(n: usize) -> u64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

impl<F: Family, V> Leaf<F, V> {
    #[inline]
    pub fn find(&self, key: F::Ref<'_>) -> Result<usize, usize> {
        self.keys.find(key)
    }

    pub fn touch(&self, i: usize) {
        let bit = 1 << i;
        if self.hot.load(Ordering::Relaxed) & bit == 0 {
            self.hot.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether the entry was marked as used; it is not from then on.
    pub fn cool(&self, i: usize) -> bool {
        let bit = 1 << i;
        self.hot.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    pub fn put(&mut self, i: usize, key: F::Ref<'_>, val: V) {
        self.keys.insert(i, key);
        self.vals.insert(i, val);
        let hot = self.hot.get_mut();
        *hot = (*hot & low_bits(i)) | ((*hot & !low_bits(i)) << 1);
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.keys.remove(from, to);
        let hot = self.hot.get_mut();
        let above = if to >= 64 { 0 } else { *hot >> to };
        let above = if from >= 64 { 0 } else { above << from };
        *hot = (*hot & low_bits(from)) | above;
    }

    pub fn take(&mut self, i: usize) -> V {
        self.cut(i, i + 1);
        self.vals.remove(i)
    }

    pub fn split(&mut self, at: usize) -> Self {
        let hot = self.hot.get_mut();
        let above = if at >= 64 { 0 } else { *hot >> at };
        *hot &= low_bits(at);
        Leaf {
            keys: self.keys.split_off(at),
            vals: self.vals.drain(at..).collect(),
            hot: AtomicU64::new(above),
        }
    }
}

impl<F: Family, V> Inner<F, V> {
    /// Asks for the lines that a search may look at.
    #[inline]
    fn prefetch(&self) {
        simd::prefetch_whole(&self.keys);
        simd::prefetch_whole(&self.kids);
    }

    /// Takes out an empty child; its range goes to a neighbour.
    fn remove_kid(&mut self, i: usize, census: &mut Census) {
        self.kids.get(i).leave(census);
        self.kids.remove(i);
        if self.keys.len() > 0 {
            let (sep, before) = (i.saturating_sub(1), self.keys.heap());
            self.keys.remove(sep, sep + 1);
            census.heap = census.heap + self.keys.heap() - before;
        }
    }
}

impl<F: Family, V> Node<F, V> {
    #[inline]
    pub fn get(&self) -> NodeRef<'_, F, V> {
        match self {
            Node::Leaf(leaf) => NodeRef::Leaf(leaf),
            Node::Inner(inner) => NodeRef::Inner(inner),
        }
    }

    #[inline]
    pub fn get_mut(&mut self) -> NodeMut<'_, F, V> {
        match self {
            Node::Leaf(leaf) => NodeMut::Leaf(leaf),
            Node::Inner(inner) => NodeMut::Inner(inner),
        }
    }
}

impl<F: Family, V> NodeMut<'_, F, V> {
    /// Inserts an entry; `meanwhile` is called when the lines of the last inner node, and when those
    /// of the leaf, are on their way. From here down there are `height` levels of inner nodes.
    pub fn insert(
        self,
        key: F::Ref<'_>,
        val: V,
        (census, meanwhile): (&mut Census, &mut impl FnMut(Near)),
        (height, rightmost): (usize, bool),
    ) -> Inserted<F, V> {
        match self {
            NodeMut::Leaf(leaf) => {
                // Most of its lines will be looked at or moved.
                simd::prefetch_whole(leaf);
                meanwhile(Near::Leaf);
                leaf.keys.warm();
                insert_leaf(leaf, key, val, census, rightmost)
            }
            NodeMut::Inner(inner) => {
                if height == 1 {
                    // Those above are in the cache.
                    inner.prefetch();
                    meanwhile(Near::Inner);
                }
                let i = inner.keys.upper_bound(key);
                let last = rightmost && i == inner.keys.len();
                let way = (&mut *census, meanwhile);
                match inner
                    .kids
                    .get_mut(i)
                    .insert(key, val, way, (height - 1, last))
                {
                    Inserted::Split(sep, kid) => {
                        insert_kid(inner, i, F::load(&sep), kid, census, last)
                    }
                    done => done,
                }
            }
        }
    }

    /// The value of `key`, taken out, and whether the node is empty now.
    pub fn remove(self, key: F::Ref<'_>, census: &mut Census) -> (Option<V>, bool) {
        match self {
            NodeMut::Leaf(leaf) => {
                let before = leaf.keys.heap();
                let val = leaf.find(key).ok().map(|i| leaf.take(i));
                census.heap = census.heap + leaf.keys.heap() - before;
                (val, leaf.vals.is_empty())
            }
            NodeMut::Inner(inner) => {
                let i = inner.keys.upper_bound(key);
                let (val, empty) = inner.kids.get_mut(i).remove(key, census);
                if empty {
                    inner.remove_kid(i, census);
                }
                (val, inner.kids.is_empty())
            }
        }
    }

    /// Moves the entries of the cut into `sink`; true when the node is empty now.
    pub fn drain(
        self,
        cut: &mut DrainRange<'_, F>,
        census: &mut Census,
        sink: &mut impl FnMut(F::Ref<'_>, V),
        kept: &mut impl FnMut(F::Ref<'_>),
    ) -> bool {
        match self {
            NodeMut::Leaf(leaf) => {
                let before = leaf.keys.heap();
                drain_leaf(leaf, cut, sink, kept);
                census.heap = census.heap + leaf.keys.heap() - before;
                leaf.vals.is_empty()
            }
            NodeMut::Inner(inner) => {
                let mut i = cut.from.map_or(0, |from| inner.keys.upper_bound(from));
                let past = cut
                    .to
                    .map_or(inner.kids.len(), |to| inner.keys.lower_bound(to) + 1);
                let mut left = past - i;
                while left > 0 && cut.limit > 0 && cut.bytes > 0 {
                    if inner.kids.get_mut(i).drain(cut, census, sink, kept) {
                        inner.remove_kid(i, census);
                    } else {
                        i += 1;
                    }
                    left -= 1;
                }
                inner.kids.is_empty()
            }
        }
    }
}

impl<'a, F: Family, V> NodeMut<'a, F, V> {
    /// Shows the entries of `from..to` in order.
    pub fn visit(
        self,
        from: Option<F::Ref<'_>>,
        to: Option<F::Ref<'_>>,
        see: &mut impl FnMut(F::Ref<'_>, &'a mut V),
    ) {
        match self {
            NodeMut::Leaf(Leaf { keys, vals, .. }) => {
                let a = from.map_or(0, |from| keys.lower_bound(from));
                let b = to.map_or(vals.len(), |to| keys.lower_bound(to));
                for (i, val) in vals.iter_mut().enumerate().take(b).skip(a) {
                    see(keys.get(i), val);
                }
            }
            NodeMut::Inner(Inner { keys, kids }) => {
                let a = from.map_or(0, |from| keys.upper_bound(from));
                let b = to.map_or(kids.len(), |to| keys.lower_bound(to) + 1);
                match kids {
                    Children::Leaves(list) => list[a..b]
                        .iter_mut()
                        .for_each(|kid| NodeMut::Leaf(kid).visit(from, to, see)),
                    Children::Inners(list) => list[a..b]
                        .iter_mut()
                        .for_each(|kid| NodeMut::Inner(kid).visit(from, to, see)),
                }
            }
        }
    }
}

impl<F: Family, V> NodeRef<'_, F, V> {
    /// Takes the node out of the census.
    pub fn leave(self, census: &mut Census) {
        match self {
            NodeRef::Leaf(leaf) => {
                census.leaves -= 1;
                census.heap -= leaf.keys.heap();
            }
            NodeRef::Inner(inner) => {
                census.inners -= 1;
                census.heap -= inner.keys.heap();
            }
        }
    }

    /// How many entries lie in `from..to`, counting no further than `limit`.
    pub fn count(self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        match self {
            NodeRef::Leaf(leaf) => {
                let a = from.map_or(0, |from| leaf.keys.lower_bound(from));
                let b = to.map_or(leaf.vals.len(), |to| leaf.keys.lower_bound(to));
                b.saturating_sub(a).min(limit)
            }
            NodeRef::Inner(inner) => {
                let a = from.map_or(0, |from| inner.keys.upper_bound(from));
                let b = to.map_or(inner.kids.len(), |to| inner.keys.lower_bound(to) + 1);
                let mut n = 0;
                for i in a..b {
                    if n >= limit {
                        break;
                    }
                    n += inner.kids.get(i).count(from, to, limit - n);
                }
                n
            }
        }
    }
}

/// Where a full node is cut: in the middle, but at its end while keys arrive in order.
fn split_point(len: usize, i: usize, rightmost: bool) -> usize {
    if rightmost && i == len { len } else { len / 2 }
}

fn insert_leaf<F: Family, V>(
    leaf: &mut Leaf<F, V>,
    key: F::Ref<'_>,
    val: V,
    census: &mut Census,
    rightmost: bool,
) -> Inserted<F, V> {
    let i = match leaf.find(key) {
        Ok(i) => return Inserted::Replaced(mem::replace(&mut leaf.vals[i], val)),
        Err(i) => i,
    };
    let before = leaf.keys.heap();
    if !leaf.keys.is_full() {
        leaf.put(i, key, val);
        census.heap = census.heap + leaf.keys.heap() - before;
        return Inserted::Added;
    }
    let at = split_point(leaf.vals.len(), i, rightmost);
    let mut right = Box::new(leaf.split(at));
    if i <= at && at < right.vals.len() + at {
        leaf.put(i, key, val);
    } else {
        right.put(i - at, key, val);
    }
    let mut sep = F::owned(right.keys.get(0));
    F::shorten(leaf.keys.get(leaf.keys.len() - 1), &mut sep);
    census.leaves += 1;
    census.heap = census.heap + leaf.keys.heap() + right.keys.heap() - before;
    Inserted::Split(sep, Node::Leaf(right))
}

fn insert_kid<F: Family, V>(
    inner: &mut Inner<F, V>,
    i: usize,
    sep: F::Ref<'_>,
    kid: Node<F, V>,
    census: &mut Census,
    rightmost: bool,
) -> Inserted<F, V> {
    let before = inner.keys.heap();
    if !inner.keys.is_full() {
        inner.keys.insert(i, sep);
        inner.kids.insert(i + 1, kid);
        census.heap = census.heap + inner.keys.heap() - before;
        return Inserted::Added;
    }
    // The separator at `mid` moves up; one separator at least stays on the left.
    let mid = split_point(inner.keys.len(), i, rightmost).min(inner.keys.len() - 1);
    let mut right = Box::new(Inner {
        keys: inner.keys.split_off(mid + 1),
        kids: inner.kids.split_off(mid + 1),
    });
    let up = F::owned(inner.keys.get(mid));
    inner.keys.remove(mid, mid + 1);
    if i <= mid {
        inner.keys.insert(i, sep);
        inner.kids.insert(i + 1, kid);
    } else {
        right.keys.insert(i - mid - 1, sep);
        right.kids.insert(i - mid, kid);
    }
    census.inners += 1;
    census.heap = census.heap + inner.keys.heap() + right.keys.heap() - before;
    Inserted::Split(up, Node::Inner(right))
}

/// Takes what is to be cut out of a leaf.
pub fn drain_leaf<F: Family, V>(
    leaf: &mut Leaf<F, V>,
    cut: &mut DrainRange<'_, F>,
    sink: &mut impl FnMut(F::Ref<'_>, V),
    kept: &mut impl FnMut(F::Ref<'_>),
) {
    let a = cut.from.map_or(0, |from| leaf.keys.lower_bound(from));
    let b = cut
        .to
        .map_or(leaf.vals.len(), |to| leaf.keys.lower_bound(to));
    let mut b = b.min(a.saturating_add(cut.limit));
    if a >= b {
        return;
    }
    if leaf.keys.bytes(a, b) >= cut.bytes {
        // The one that reaches the limit is one of these.
        b = (a..b)
            .find(|&i| leaf.keys.bytes(a, i + 1) >= cut.bytes)
            .map_or(b, |i| i + 1);
    }
    cut.bytes = cut.bytes.saturating_sub(leaf.keys.bytes(a, b));
    cut.limit -= b - a;
    let mask = low_bits(b) & !low_bits(a);
    let hot = *leaf.hot.get_mut() & mask;
    if cut.keep_hot && hot != 0 && !planted(Fault::LostMark) {
        *leaf.hot.get_mut() &= !mask;
        let mut i = a;
        for bit in a..b {
            if hot >> bit & 1 == 1 {
                kept(leaf.keys.get(i));
                i += 1;
            } else {
                let val = leaf.vals.remove(i);
                sink(leaf.keys.get(i), val);
                leaf.cut(i, i + 1);
            }
        }
    } else {
        for (i, val) in leaf.vals.drain(a..b).enumerate() {
            sink(leaf.keys.get(a + i), val);
        }
        leaf.cut(a, b);
    }
}
