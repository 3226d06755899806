//! Ranges from both ends, window by window.
//!
//! A window is a leaf of a node with what is buffered for it, copied under the node's latch. Each window is
//! what was there at one instant; a range as a whole is no snapshot. Where the next window begins is known as
//! a key. The node of the last one is looked at first: it is asked, as any, whether the key is its own.

use std::ops::Bound;
use std::sync::Arc;
use terrace_base::Result;
use terrace_base::process::Watch;

use super::core::Tree;
use super::window::{Bounds, Window};
use crate::key::{Own, ValueOut};
use crate::last::Node;

/// A range that is being read.
pub struct Cursor<O: Own> {
    tree: Arc<Tree<O>>,
    left: Option<Bounds<O>>,
    front: Window<O>,
    back: Window<O>,
    /// The node in which the last window from the front, or from the back, was.
    near: [Option<Arc<Node<O>>>; 2],
    /// The process that opened the map.
    here: Watch,
    /// A child process was told, and once is enough.
    is_told: bool,
}

fn is_empty<O: Ord>(bounds: &Bounds<O>) -> bool {
    match bounds {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    }
}

impl<O: Own> Cursor<O> {
    /// The pairs between these bounds.
    pub fn new(tree: Arc<Tree<O>>, bounds: Bounds<O>) -> Cursor<O> {
        Cursor {
            here: tree.watch(),
            tree,
            left: (!is_empty(&bounds)).then_some(bounds),
            front: Window::default(),
            back: Window::default(),
            near: [None, None],
            is_told: false,
        }
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        self.tree.arena.pm().name()
    }

    /// The next pair from the front, where it is two numbers that are at hand.
    #[inline]
    pub fn next_plain(&mut self) -> Option<(u64, u64)> {
        if !self.here.is_here() {
            return None;
        }
        self.front.first_plain()
    }

    /// The next pair from the front. Behind an error it goes on with the next leaf.
    pub fn next_front(&mut self) -> Result<Option<(O, ValueOut)>> {
        if !self.here.is_here() {
            return self.tell();
        }
        if self.front.is_empty() {
            while self.front.is_empty() && self.left.is_some() {
                self.fill_front()?;
            }
            if self.front.is_empty() {
                return Ok(self.back.first(&self.tree));
            }
        }
        Ok(self.front.first(&self.tree))
    }

    /// The next pair from the back. Behind an error it goes on with the leaf before.
    pub fn next_back(&mut self) -> Result<Option<(O, ValueOut)>> {
        if !self.here.is_here() {
            return self.tell();
        }
        if self.back.is_empty() {
            while self.back.is_empty() && self.left.is_some() {
                self.fill_back()?;
            }
            if self.back.is_empty() {
                return Ok(self.front.last(&self.tree));
            }
        }
        Ok(self.back.last(&self.tree))
    }

    /// A child process is told once.
    #[cold]
    fn tell(&mut self) -> Result<Option<(O, ValueOut)>> {
        if std::mem::replace(&mut self.is_told, true) {
            return Ok(None);
        }
        self.tree.check_process().map(|()| None)
    }

    fn fill_front(&mut self) -> Result<()> {
        let Some(bounds) = self.left.take() else {
            return Ok(());
        };
        let least = O::least();
        let start = match &bounds.0 {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &least,
        };
        let (node, filled, next) = loop {
            let node = match self.near[0].take() {
                Some(node) => node,
                None => self.tree.node(start)?,
            };
            let body = node.body.read();
            if !body.covers(start) {
                continue;
            }
            let leaf = body.leaf_of(start);
            let filled = self.front.fill(&self.tree, &body, leaf, &bounds, false);
            let next = body.lows.get(leaf + 1).or(body.high.as_ref()).cloned();
            let is_last = leaf + 1 == body.leaves.len();
            drop(body);
            break ((!is_last).then_some(node), filled, next);
        };
        self.near[0] = node;
        match filled {
            Ok(Some(cut)) => self.left = Some((Bound::Excluded(cut), bounds.1)),
            // Who goes on behind an error goes on behind the leaf.
            filled => {
                if let Some(next) = next {
                    let rest = (Bound::Included(next), bounds.1);
                    self.left = (!is_empty(&rest)).then_some(rest);
                }
                filled?;
            }
        }
        Ok(())
    }

    fn fill_back(&mut self) -> Result<()> {
        let Some(bounds) = self.left.take() else {
            return Ok(());
        };
        let (node, filled, low) = loop {
            let known = self.near[1].take();
            let found = known.or_else(|| match &bounds.1 {
                Bound::Included(key) => self.tree.directory.find(key),
                Bound::Excluded(key) => self.tree.directory.find_below(key),
                Bound::Unbounded => self.tree.directory.last(),
            });
            let Some(node) = found else {
                // Nothing is below the least key.
                return Ok(());
            };
            let body = node.body.read();
            let covers = match &bounds.1 {
                Bound::Included(key) => body.covers(key),
                Bound::Excluded(key) => {
                    !body.is_dead
                        && body.lows.first().is_some_and(|low| low < key)
                        && body.high.as_ref().is_none_or(|high| key <= high)
                }
                Bound::Unbounded => !body.is_dead && body.high.is_none(),
            };
            if !covers {
                continue;
            }
            let behind = match &bounds.1 {
                Bound::Included(key) => body.leaf_of(key) + 1,
                Bound::Excluded(key) => body.lows.partition_point(|low| low < key),
                Bound::Unbounded => body.leaves.len(),
            };
            let leaf = behind - 1;
            let filled = self.back.fill(&self.tree, &body, leaf, &bounds, true);
            let low = body.lows[leaf].clone();
            drop(body);
            break ((leaf > 0).then_some(node), filled, low);
        };
        self.near[1] = node;
        match filled {
            Ok(Some(cut)) => self.left = Some((bounds.0, Bound::Excluded(cut))),
            filled => {
                let is_least = low == O::least();
                let rest = (bounds.0, Bound::Excluded(low));
                self.left = (!is_least && !is_empty(&rest)).then_some(rest);
                filled?;
            }
        }
        Ok(())
    }
}
