//! Entries in order, or from behind, read a window at a time: no latch is held between two of them.

use super::b_tree::BTree;
use super::core::Core;
use super::kind::Kind;
use crate::model::Model;
use crate::sync::{Arc, whole};
use std::ops::Bound;

/// Entries that are copied under one latch.
const WINDOW: usize = 64;

/// Entries of a range of keys, in order from both ends. Each window is as it was when it was read;
/// entries that come or go behind it are not seen. Both ends together give no key twice.
pub struct Range<K, V, M: Model, T: Kind<K, V, M> = BTree> {
    core: Arc<Core<K, V, M, T>>,
    /// What neither window has, and is still to be read.
    from: Bound<K>,
    to: Bound<K>,
    /// Entries before that, and behind it, each in order.
    front: std::vec::IntoIter<(K, V)>,
    back: std::vec::IntoIter<(K, V)>,
    done: bool,
}

impl<K, V, M: Model, T: Kind<K, V, M>> std::fmt::Debug for Range<K, V, M, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range")
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Range<K, V, M, T> {
    pub(super) fn new(core: Arc<Core<K, V, M, T>>, from: Bound<K>, to: Bound<K>) -> Self {
        Range {
            core,
            from,
            to,
            front: vec![].into_iter(),
            back: vec![].into_iter(),
            done: false,
        }
    }

    /// Reads the next window from the front.
    fn read_front(&mut self) {
        let mut window = Vec::with_capacity(WINDOW);
        {
            let core = &*self.core;
            let dir = whole(core.dir.read());
            let mut at = match &self.from {
                Bound::Unbounded => 0,
                Bound::Included(key) | Bound::Excluded(key) => dir.find(key),
            };
            let mut note = || core.tick();
            while window.is_empty() && at < dir.parts.len() {
                let tree = whole(dir.parts[at].0.read());
                let from = self.from.as_ref();
                T::collect(&tree, &core.nodes, from, WINDOW, &mut note, &mut window);
                at += 1;
            }
        }
        let inside = |key: &K| match &self.to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
        };
        let len = window.partition_point(|(key, _)| inside(key));
        let done = len < window.len() || window.is_empty();
        let beyond = window.split_off(len);
        let mut from = window.last().map(|(key, _)| Bound::Excluded(key.clone()));
        // No key or value is cloned or dropped between these.
        self.done = done;
        if let Some(from) = &mut from {
            std::mem::swap(&mut self.from, from);
        }
        let spent = std::mem::replace(&mut self.front, window.into_iter());
        drop((beyond, from, spent));
    }

    /// Reads the next window from behind.
    fn read_back(&mut self) {
        let mut window = Vec::with_capacity(WINDOW);
        {
            let core = &*self.core;
            let dir = whole(core.dir.read());
            let mut end = match &self.to {
                Bound::Unbounded => dir.parts.len(),
                Bound::Included(key) | Bound::Excluded(key) => dir.find(key) + 1,
            };
            let mut note = || core.tick();
            while window.is_empty() && end > 0 {
                end -= 1;
                let tree = whole(dir.parts[end].0.read());
                let to = self.to.as_ref();
                T::collect_back(&tree, &core.nodes, to, WINDOW, &mut note, &mut window);
            }
        }
        let inside = |key: &K| match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
        };
        let len = window.partition_point(|(key, _)| inside(key));
        let done = len < window.len() || window.is_empty();
        let beyond = window.split_off(len);
        window.reverse();
        let mut to = window.first().map(|(key, _)| Bound::Excluded(key.clone()));
        // No key or value is cloned or dropped between these.
        self.done = done;
        if let Some(to) = &mut to {
            std::mem::swap(&mut self.to, to);
        }
        let spent = std::mem::replace(&mut self.back, window.into_iter());
        drop((beyond, to, spent));
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Iterator for Range<K, V, M, T> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(entry) = self.front.next() {
                return Some(entry);
            }
            if self.done {
                return self.back.next();
            }
            self.read_front();
        }
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> DoubleEndedIterator
    for Range<K, V, M, T>
{
    fn next_back(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(entry) = self.back.next_back() {
                return Some(entry);
            }
            if self.done {
                return self.front.next_back();
            }
            self.read_back();
        }
    }
}
