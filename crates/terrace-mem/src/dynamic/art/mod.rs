//! The adaptive radix tree (section 4.1, appendix A): nodes of four sizes, prefixes left out of the
//! way, whole keys in the leaves.
//!
//! What always holds: a node has two entries below it at least, each behind a child or at its end; all
//! keys below a node share the bytes on the way to it and its prefix. A key that is the beginning of
//! others hangs at the `end` of the node where it ends, so that no key needs a terminator. Nothing is
//! recursive: the depth is as great as a key is long.

mod cursor;
mod node;

pub use cursor::ArtPos;

use super::slab::Slab;
use crate::family::{Family, WholeKeys};
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::stage::KeyRun;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use core::num::NonZeroU8;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use node::{Handle, Head, LEAF, Label, NONE, Nodes, PREFIX, handle, id, kind};

/// An entry. The last field is what tells a place without an entry, so that none needs more room.
struct Leaf<H, V> {
    val: V,
    key: H,
    hot: AtomicBool,
    _there: NonZeroU8,
}

type HandleOf<F> = <<F as Family>::Whole as WholeKeys<F>>::Handle;

/// An ordered map from encoded keys to values. Every operation on a key is O(key).
pub struct Art<F: Family, V> {
    root: Handle,
    nodes: Nodes,
    leaves: Slab<Leaf<HandleOf<F>, V>>,
    keys: F::Whole,
    len: usize,
}

impl<F: Family, V> Default for Art<F, V> {
    fn default() -> Self {
        Art {
            root: NONE,
            nodes: Nodes::default(),
            leaves: Slab::default(),
            keys: F::Whole::default(),
            len: 0,
        }
    }
}

/// A link: that of a node behind a label, or the root.
type Link = Option<(Handle, Label)>;

impl<F: Family, V> Art<F, V> {
    /// The key of a leaf.
    #[inline]
    fn key(&self, leaf: Handle) -> F::Ref<'_> {
        self.keys.get(&self.leaves.get(id(leaf)).key)
    }

    /// The first leaf below.
    fn first_leaf(&self, mut at: Handle) -> Handle {
        while kind(at) != LEAF {
            match self.nodes.first(at, 0) {
                Some((_, next)) => at = next,
                None => return NONE,
            }
        }
        at
    }

    /// How much of the prefix of a node the bytes share, how long it is, and how the two compare
    /// where they part; `depth` is how much of the key is on the way to the node.
    #[inline]
    fn share(&self, node: Handle, bytes: &[u8], depth: usize) -> (usize, usize, Ordering) {
        let head = self.nodes.head(node);
        let (len, rest) = (usize::from(head.shared), &bytes[depth..]);
        let mut room = [0; 8];
        let prefix = if len <= PREFIX {
            &head.prefix[..len]
        } else {
            let whole = F::as_bytes(self.key(self.first_leaf(node)), &mut room);
            &whole[depth..depth + len]
        };
        let same = common_prefix(prefix, rest);
        let order = if same == len {
            Ordering::Equal
        } else {
            prefix[same].cmp(rest.get(same).unwrap_or(&0))
        };
        // Where the bytes end inside of the prefix, the keys below are greater.
        let order = if same < len && same == rest.len() {
            Ordering::Greater
        } else {
            order
        };
        (same, len, order)
    }

    /// The leaf of a key.
    #[inline]
    fn find(&self, key: F::Ref<'_>) -> Option<Handle> {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let (mut at, mut depth) = (self.root, 0);
        loop {
            if at == NONE {
                return None;
            }
            if kind(at) == LEAF {
                return F::cmp(self.key(at), key).is_eq().then_some(at);
            }
            // Prefixes are passed by: the leaf has the whole key.
            let head = self.nodes.head(at);
            depth += usize::from(head.shared);
            at = match bytes.get(depth) {
                Some(&byte) => self.nodes.kid(at, byte),
                None if depth == bytes.len() => head.end,
                None => return None,
            };
            depth += 1;
        }
    }

    fn new_leaf(&mut self, key: F::Ref<'_>, val: V) -> Handle {
        self.len += 1;
        let leaf = Leaf {
            val,
            key: self.keys.put(key),
            hot: AtomicBool::new(false),
            _there: NonZeroU8::MIN,
        };
        handle(LEAF, self.leaves.put(leaf))
    }

    fn set(&mut self, link: Link, to: Handle) {
        match link {
            None => self.root = to,
            Some((node, label)) => self.nodes.set_child(node, label, to),
        }
    }

    /// Hangs a leaf or a node into a new node, behind the byte that its keys go on with.
    fn hang(&mut self, node: Handle, byte: Option<u8>, what: Handle) {
        match byte {
            Some(byte) => {
                self.nodes.add(node, byte, what);
            }
            None => self.nodes.set_child(node, 0, what),
        }
    }

    /// Puts a new leaf beside what a link leads to, below a new node with the prefix
    /// `bytes[depth..depth + same]`; behind that the old keys go on with `old`.
    fn part(
        &mut self,
        (link, at): (Link, Handle),
        (key, val): (F::Ref<'_>, V),
        (depth, same): (usize, usize),
        old: Option<u8>,
    ) {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let node = self.nodes.put(Head::new(&bytes[depth..depth + same]));
        let leaf = self.new_leaf(key, val);
        self.hang(node, old, at);
        self.hang(node, bytes.get(depth + same).copied(), leaf);
        self.set(link, node);
    }

    /// Leaves a node out that has one entry below it: its only child or end comes into its place.
    fn collapse(&mut self, link: Link, node: Handle, depth: usize) {
        let head = *self.nodes.head(node);
        let only = match (head.n, head.end) {
            (0, end) => end,
            (1, NONE) => match self.nodes.first(node, 1) {
                Some((_, kid)) => kid,
                None => return,
            },
            _ => return,
        };
        if kind(only) != LEAF {
            // Its prefix is that of the node, the byte between them, and its own.
            let mut room = [0; 8];
            let below = *self.nodes.head(only);
            let len = usize::from(head.shared) + 1 + usize::from(below.shared);
            let first = self.first_leaf(only);
            let whole = F::as_bytes(self.key(first), &mut room);
            let prefix = Head::new(&whole[depth..depth + len]);
            let (n, end) = (below.n, below.end);
            *self.nodes.head_mut(only) = Head { n, end, ..prefix };
        }
        self.nodes.free(node);
        self.set(link, only);
    }
}

impl<F: Family, V> Art<F, V> {
    /// Gives the node so many steps below the root on the way of a key the size that its children
    /// need, or leaves it out; true where the one above has a child less for that. All below it must
    /// have been set right.
    fn tidy(&mut self, key: F::Ref<'_>, steps: usize) -> bool {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let (mut link, mut at, mut depth) = (None, self.root, 0);
        for step in 0..=steps {
            if at == NONE || kind(at) == LEAF {
                return false;
            }
            if step == steps {
                break;
            }
            depth += usize::from(self.nodes.head(at).shared);
            let Some(&byte) = bytes.get(depth) else {
                return false;
            };
            link = Some((at, u16::from(byte) + 1));
            (at, depth) = (self.nodes.kid(at, byte), depth + 1);
        }
        let head = self.nodes.head(at);
        match (head.n, head.end) {
            (0, NONE) => {
                self.nodes.free(at);
                match link {
                    None => self.root = NONE,
                    Some((node, label)) => self.nodes.unlink(node, label),
                }
                return link.is_some();
            }
            (0, _) | (1, NONE) => self.collapse(link, at, depth),
            _ => {
                let shrunk = self.nodes.shrink(at);
                if shrunk != at {
                    self.set(link, shrunk);
                }
            }
        }
        false
    }
}

impl<F: Family, V> DynamicStage<F, V> for Art<F, V> {
    type Cursor<'a>
        = ArtPos<'a, F, V>
    where
        V: 'a;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.leaves.bytes() + self.keys.bytes() + size_of::<Self>()
    }

    #[inline]
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        let leaf = self.leaves.get(id(self.find(key)?));
        if touch && !leaf.hot.load(Relaxed) {
            leaf.hot.store(true, Relaxed);
        }
        Some(&leaf.val)
    }

    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let leaf = self.find(key)?;
        let leaf = self.leaves.get_mut(id(leaf));
        *leaf.hot.get_mut() = true;
        Some(&mut leaf.val)
    }

    fn insert_and(
        &mut self,
        key: F::Ref<'_>,
        val: V,
        mut meanwhile: impl FnMut(Near),
    ) -> Option<V> {
        meanwhile(Near::Inner);
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let (mut link, mut at, mut depth) = (None, self.root, 0);
        loop {
            if at == NONE {
                // Only an empty tree has none here.
                meanwhile(Near::Leaf);
                self.root = self.new_leaf(key, val);
                return None;
            }
            if kind(at) == LEAF {
                self.leaves.prefetch(id(at));
                meanwhile(Near::Leaf);
                let mut room = [0; 8];
                let old = F::as_bytes(self.key(at), &mut room);
                let same = common_prefix(&old[depth..], &bytes[depth..]);
                if depth + same == old.len() && old.len() == bytes.len() {
                    return Some(mem::replace(&mut self.leaves.get_mut(id(at)).val, val));
                }
                let byte = old.get(depth + same).copied();
                self.part((link, at), (key, val), (depth, same), byte);
                return None;
            }
            let (same, len, _) = self.share(at, bytes, depth);
            if same < len {
                meanwhile(Near::Leaf);
                let first = self.first_leaf(at);
                let mut room = [0; 8];
                let whole = F::as_bytes(self.key(first), &mut room);
                let byte = whole[depth + same];
                let prefix = Head::new(&whole[depth + same + 1..depth + len]);
                let head = self.nodes.head_mut(at);
                let (n, end) = (head.n, head.end);
                *head = Head { n, end, ..prefix };
                self.part((link, at), (key, val), (depth, same), Some(byte));
                return None;
            }
            depth += len;
            let Some(&byte) = bytes.get(depth) else {
                meanwhile(Near::Leaf);
                let end = self.nodes.head(at).end;
                if end != NONE {
                    return Some(mem::replace(&mut self.leaves.get_mut(id(end)).val, val));
                }
                let leaf = self.new_leaf(key, val);
                self.nodes.set_child(at, 0, leaf);
                return None;
            };
            let next = self.nodes.kid(at, byte);
            if next == NONE {
                meanwhile(Near::Leaf);
                let leaf = self.new_leaf(key, val);
                let grown = self.nodes.add(at, byte, leaf);
                if grown != at {
                    self.set(link, grown);
                }
                return None;
            }
            link = Some((at, u16::from(byte) + 1));
            (at, depth) = (next, depth + 1);
        }
    }

    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        // The link to the node above the leaf, that node, its depth, and the label of the leaf.
        let (mut above, mut link) = (None, None);
        let (mut at, mut depth, mut from) = (self.root, 0, 0);
        while at != NONE && kind(at) != LEAF {
            let head = self.nodes.head(at);
            (above, from) = (link, depth);
            depth += usize::from(head.shared);
            if depth > bytes.len() {
                return None;
            }
            let (label, next) = match bytes.get(depth) {
                Some(&byte) => (u16::from(byte) + 1, self.nodes.kid(at, byte)),
                None => (0, head.end),
            };
            link = Some((at, label));
            (at, depth) = (next, depth + 1);
        }
        if at == NONE || F::cmp(self.key(at), key).is_ne() {
            return None;
        }
        let leaf = self.leaves.take(id(at))?;
        self.keys.free(leaf.key);
        self.len -= 1;
        match link {
            None => self.root = NONE,
            Some((node, 0)) => {
                self.nodes.set_child(node, 0, NONE);
                self.collapse(above, node, from);
            }
            Some((node, label)) => {
                let shrunk = self.nodes.cut(node, (label - 1) as u8);
                if shrunk != node {
                    self.set(above, shrunk);
                }
                self.collapse(above, shrunk, from);
            }
        }
        Some(leaf.val)
    }

    /// All that goes is unlinked first, and then each node that lost something set right once, those
    /// below before those above.
    fn drain(
        &mut self,
        (from, to): Span<'_, F>,
        (limit, bytes): (usize, usize),
        keep_hot: bool,
        mut sink: impl FnMut(F::Ref<'_>, V),
        mut kept: impl FnMut(F::Ref<'_>),
    ) -> (usize, bool) {
        let (mut met, mut left, mut out) = (0, bytes, Vec::new());
        let mut at = self.seek(from, || {});
        while met < limit
            && left > 0
            && let Some(pos) = &mut at
            && to.is_none_or(|to| F::cmp(pos.key(), to).is_lt())
        {
            met += 1;
            left = left.saturating_sub(F::size(pos.key()));
            if keep_hot && pos.cool() && !planted(Fault::LostMark) {
                kept(pos.key());
            } else {
                out.push((pos.leaf(), pos.parent()));
            }
            if !pos.next() {
                at = None;
            }
        }
        drop(at);
        // Of each node that lost something a key that was below it, by the nodes above.
        let (mut keys, mut levels, mut last) = (F::Run::default(), Vec::new(), NONE);
        for (leaf, parent) in out {
            let Some(Leaf { key, val, .. }) = self.leaves.take(id(leaf)) else {
                continue;
            };
            self.len -= 1;
            match parent {
                None => self.root = NONE,
                Some((node, label, steps)) => {
                    self.nodes.unlink(node, label);
                    if node != last {
                        last = node;
                        if levels.len() <= steps {
                            levels.resize_with(steps + 1, Vec::new);
                        }
                        levels[steps].push(keys.len());
                        keys.push(self.keys.get(&key));
                    }
                }
            }
            sink(self.keys.get(&key), val);
            self.keys.free(key);
        }
        while let Some(level) = levels.pop() {
            for i in level {
                let steps = levels.len();
                if self.tidy(keys.get(i), steps) {
                    levels[steps - 1].push(i);
                }
            }
        }
        (met, met == limit || left == 0)
    }

    fn seek(&self, from: Option<F::Ref<'_>>, meanwhile: impl FnOnce()) -> Option<ArtPos<'_, F, V>> {
        meanwhile();
        match from {
            Some(from) => ArtPos::at_or_after(self, from),
            None => ArtPos::first(self),
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        (from, to): Span<'_, F>,
        mut see: impl FnMut(F::Ref<'_>, &'a mut V),
    ) where
        V: 'a,
    {
        let mut order = Vec::new();
        let mut at = self.seek(from, || {});
        while let Some(pos) = &mut at
            && to.is_none_or(|to| F::cmp(pos.key(), to).is_lt())
        {
            order.push(pos.leaf());
            if !pos.next() {
                at = None;
            }
        }
        drop(at);
        let mut all = self.leaves.all_mut();
        for leaf in order {
            if let Some(Leaf { key, val, .. }) = all[id(leaf) as usize].take() {
                see(self.keys.get(key), val);
            }
        }
    }

    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<ArtPos<'_, F, V>> {
        let Some(mut pos) = to.and_then(|to| ArtPos::at_or_after(self, to)) else {
            // All are less.
            return ArtPos::last(self);
        };
        pos.prev().then_some(pos)
    }
}
