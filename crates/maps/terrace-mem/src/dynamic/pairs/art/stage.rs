//! The tree as a dynamic stage.

use super::cursor::ArtPos;
use super::node::{Head, LEAF, NONE, id, kind};
use super::radix::{Art, Leaf};
use crate::family::{Family, KeyRun, WholeKeys};
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::Ordering::Relaxed;

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
