//! Entries in order, read a window at a time: no latch is held between two of them.

use super::kind::Kind;
use super::map::Core;
use super::part::BTree;
use crate::model::Model;
use crate::sync::{Arc, whole};
use std::ops::Bound;

/// Entries that are copied under one latch.
const WINDOW: usize = 64;

/// Entries of a range of keys, in order. Each window is as it was when it was read; entries that
/// come or go behind it are not seen.
pub struct Range<K, V, M: Model, T: Kind<K, V, M> = BTree> {
    core: Arc<Core<K, V, M, T>>,
    from: Bound<K>,
    to: Bound<K>,
    window: std::vec::IntoIter<(K, V)>,
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
            window: vec![].into_iter(),
            done: false,
        }
    }

    fn refill(&mut self) {
        let mut window = Vec::with_capacity(WINDOW);
        let core = &*self.core;
        let dir = whole(core.dir.read());
        let mut at = match &self.from {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => dir.find(key),
        };
        while window.is_empty() && at < dir.parts.len() {
            let tree = whole(dir.parts[at].0.read());
            let mut note = || core.tick();
            T::collect(
                &tree,
                &core.nodes,
                self.from.as_ref(),
                WINDOW,
                &mut note,
                &mut window,
            );
            at += 1;
        }
        match window.last() {
            Some((key, _)) => self.from = Bound::Excluded(key.clone()),
            None => self.done = true,
        }
        self.window = window.into_iter();
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Iterator for Range<K, V, M, T> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some((key, val)) = self.window.next() {
                let inside = match &self.to {
                    Bound::Unbounded => true,
                    Bound::Included(to) => key <= *to,
                    Bound::Excluded(to) => key < *to,
                };
                if inside {
                    return Some((key, val));
                }
                self.done = true;
                self.window = vec![].into_iter();
            }
            if self.done {
                return None;
            }
            self.refill();
        }
    }
}
