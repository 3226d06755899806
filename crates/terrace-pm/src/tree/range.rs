//! Ranges from both ends, window by window.
//!
//! A window is some leaves of one node with what is buffered for them, copied under the node's latch. Each
//! window is what was there at one instant; a range as a whole is no snapshot.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use terrace_base::Result;

use super::Tree;
use crate::key::{Own, ValueOut};
use crate::last::Body;
use crate::leaf::Leaf;

/// Pairs of the first window; each one after it wants twice as many.
const FIRST_WINDOW: usize = 16;
/// Pairs of a window at most: they are held in memory.
const LAST_WINDOW: usize = 256;

/// Both ends.
pub type Bounds<O> = (Bound<O>, Bound<O>);

/// A range that is being read.
pub struct Cursor<O: Own> {
    tree: Arc<Tree<O>>,
    left: Option<Bounds<O>>,
    front: VecDeque<(O, ValueOut)>,
    back: VecDeque<(O, ValueOut)>,
    want: usize,
    /// A child process was told, and once is enough.
    is_told: bool,
}

fn within<O: Ord>(bounds: &Bounds<O>, key: &O) -> bool {
    let low = match &bounds.0 {
        Bound::Included(low) => low <= key,
        Bound::Excluded(low) => low < key,
        Bound::Unbounded => true,
    };
    low && match &bounds.1 {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
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
            tree,
            left: (!is_empty(&bounds)).then_some(bounds),
            front: VecDeque::new(),
            back: VecDeque::new(),
            want: FIRST_WINDOW,
            is_told: false,
        }
    }

    /// The next pair from the front.
    pub fn next_front(&mut self) -> Result<Option<(O, ValueOut)>> {
        if self.ends()? {
            return Ok(None);
        }
        while self.front.is_empty() && self.left.is_some() {
            self.fill_front()?;
        }
        Ok(self.front.pop_front().or_else(|| self.back.pop_back()))
    }

    /// The next pair from the back.
    pub fn next_back(&mut self) -> Result<Option<(O, ValueOut)>> {
        if self.ends()? {
            return Ok(None);
        }
        while self.back.is_empty() && self.left.is_some() {
            self.fill_back()?;
        }
        Ok(self.back.pop_front().or_else(|| self.front.pop_back()))
    }

    /// Whether it ends here: a child process is told once.
    fn ends(&mut self) -> Result<bool> {
        if self.tree.is_here() {
            return Ok(false);
        }
        if std::mem::replace(&mut self.is_told, true) {
            return Ok(true);
        }
        self.tree.check_process().map(|()| true)
    }

    fn fill_front(&mut self) -> Result<()> {
        let Some(bounds) = self.left.take() else {
            return Ok(());
        };
        let start = match &bounds.0 {
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
            Bound::Unbounded => O::least(),
        };
        let next = loop {
            let node = self.tree.node(&start)?;
            let body = node.body.read();
            if !body.covers(&start) {
                continue;
            }
            let mut leaf = body.leaf_of(&start);
            while leaf < body.leaves.len() && self.front.len() < self.want {
                self.front.extend(self.tree.window(&body, leaf, &bounds));
                leaf += 1;
            }
            break body.lows.get(leaf).or(body.high.as_ref()).cloned();
        };
        if let Some(next) = next {
            let rest = (Bound::Included(next), bounds.1);
            self.left = (!is_empty(&rest)).then_some(rest);
        }
        self.want = (self.want * 2).min(LAST_WINDOW);
        Ok(())
    }

    fn fill_back(&mut self) -> Result<()> {
        let Some(bounds) = self.left.take() else {
            return Ok(());
        };
        let next = loop {
            let found = match &bounds.1 {
                Bound::Included(key) => self.tree.directory.find(key),
                Bound::Excluded(key) => self.tree.directory.find_below(key),
                Bound::Unbounded => self.tree.directory.last(),
            };
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
            let mut leaf = match &bounds.1 {
                Bound::Included(key) => body.leaf_of(key) + 1,
                Bound::Excluded(key) => body.lows.partition_point(|low| low < key),
                Bound::Unbounded => body.leaves.len(),
            };
            while leaf > 0 && self.back.len() < self.want {
                leaf -= 1;
                let window = self.tree.window(&body, leaf, &bounds);
                self.back.extend(window.into_iter().rev());
            }
            break body.lows[leaf].clone();
        };
        let rest = (bounds.0, Bound::Excluded(next.clone()));
        self.left = (next > O::least() && !is_empty(&rest)).then_some(rest);
        self.want = (self.want * 2).min(LAST_WINDOW);
        Ok(())
    }
}

impl<O: Own> Tree<O> {
    /// One leaf of a node with what is buffered for it, in order.
    fn window(&self, body: &Body<O>, leaf: usize, bounds: &Bounds<O>) -> Vec<(O, ValueOut)> {
        let mut pairs: Vec<(O, Option<u64>, bool)> = Vec::new();
        for (_, entry) in body.buffer.iter() {
            if entry.leaf as usize == leaf {
                let own = O::of_pair(&self.arena, entry.key, entry.value);
                pairs.push((own, (!entry.is_delete).then_some(entry.value), true));
            }
        }
        if let Some(stored) = Leaf::new(&self.arena, body.leaves[leaf]) {
            self.arena
                .pm()
                .has_read(1 + u64::from(stored.len()).div_ceil(4));
            for (_, (key, value)) in stored.pairs() {
                pairs.push((O::of_pair(&self.arena, key, value), Some(value), false));
            }
        }
        // Of two of one key the buffered one comes first, and counts.
        pairs.sort_by(|a, b| a.0.cmp(&b.0).then(b.2.cmp(&a.2)));
        pairs.dedup_by(|later, first| later.0 == first.0);
        pairs
            .into_iter()
            .filter(|(key, ..)| within(bounds, key))
            .filter_map(|(key, value, _)| Some((key, self.value_of(value?))))
            .collect()
    }
}
