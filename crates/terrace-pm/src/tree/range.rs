//! Ranges from both ends, window by window.
//!
//! A window is some leaves of one node with what is buffered for them, copied under the node's latch. Each
//! window is what was there at one instant; a range as a whole is no snapshot.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use terrace_base::{Error, Result};

use super::Tree;
use crate::arena::BlobRef;
use crate::key::{Own, ValueOut};
use crate::last::Body;
use crate::leaf::Leaf;

/// Pairs of the first window; each one after it wants twice as many.
const FIRST_WINDOW: usize = 16;
/// Pairs of a window at most: they are held in memory.
const LAST_WINDOW: usize = 256;
/// A window ends with the value that makes it longer than this many bytes.
const WINDOW_BYTES: usize = 256 << 10;

/// Both ends.
pub type Bounds<O> = (Bound<O>, Bound<O>);

/// A range that is being read.
pub struct Cursor<O: Own> {
    tree: Arc<Tree<O>>,
    left: Option<Bounds<O>>,
    front: VecDeque<(O, ValueOut)>,
    back: VecDeque<(O, ValueOut)>,
    want: usize,
    /// What is wrong with a leaf; told behind the pairs before it.
    failed: Option<Error>,
    /// A child process was told, and once is enough.
    is_told: bool,
}

/// Some pairs of a leaf, in the order in which they are asked for.
struct Window<O> {
    pairs: Vec<(O, ValueOut)>,
    /// The last key, where the leaf has more behind it.
    cut: Option<O>,
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
            failed: None,
            is_told: false,
        }
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        self.tree.arena.pm().name()
    }

    /// The next pair from the front.
    pub fn next_front(&mut self) -> Result<Option<(O, ValueOut)>> {
        if self.ends()? {
            return Ok(None);
        }
        while self.front.is_empty() {
            if let Some(failed) = self.failed.take() {
                return Err(failed);
            }
            if self.left.is_none() {
                break;
            }
            self.fill_front()?;
        }
        Ok(self.front.pop_front().or_else(|| self.back.pop_back()))
    }

    /// The next pair from the back.
    pub fn next_back(&mut self) -> Result<Option<(O, ValueOut)>> {
        if self.ends()? {
            return Ok(None);
        }
        while self.back.is_empty() {
            if let Some(failed) = self.failed.take() {
                return Err(failed);
            }
            if self.left.is_none() {
                break;
            }
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
            let mut room = WINDOW_BYTES;
            while leaf < body.leaves.len() && self.front.len() < self.want {
                match self.tree.window(&body, leaf, &bounds, false, &mut room) {
                    Ok(window) => {
                        self.front.extend(window.pairs);
                        if let Some(cut) = window.cut {
                            self.left = Some((Bound::Excluded(cut), bounds.1));
                            return Ok(());
                        }
                    }
                    // Who goes on goes on behind it.
                    Err(error) => self.failed = Some(error),
                }
                leaf += 1;
                if room == 0 || self.failed.is_some() {
                    break;
                }
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
            let mut room = WINDOW_BYTES;
            while leaf > 0 && self.back.len() < self.want {
                leaf -= 1;
                match self.tree.window(&body, leaf, &bounds, true, &mut room) {
                    Ok(window) => {
                        self.back.extend(window.pairs);
                        if let Some(cut) = window.cut {
                            self.left = Some((bounds.0, Bound::Excluded(cut)));
                            return Ok(());
                        }
                    }
                    Err(error) => self.failed = Some(error),
                }
                if room == 0 || self.failed.is_some() {
                    break;
                }
            }
            break body.lows[leaf].clone();
        };
        let rest = (bounds.0, Bound::Excluded(next.clone()));
        self.left = (next > O::least() && !is_empty(&rest)).then_some(rest);
        self.want = (self.want * 2).min(LAST_WINDOW);
        Ok(())
    }
}

/// A pair of a window before its value is read.
struct Found<O> {
    key: O,
    /// The value, or blob; none for a key that is deleted.
    value: Option<u64>,
    is_buffered: bool,
    /// The value, where it was read with the key.
    read: Option<ValueOut>,
}

impl<O: Own> Tree<O> {
    /// Pairs of one leaf of a node with what is buffered for it, until `room` is used up. Keys and blobs are
    /// checked: a damaged one is an error, not another key or none.
    fn window(
        &self,
        body: &Body<O>,
        leaf: usize,
        bounds: &Bounds<O>,
        is_back: bool,
        room: &mut usize,
    ) -> Result<Window<O>> {
        let mut found: Vec<Found<O>> = Vec::new();
        let mut kept = 0;
        for (_, entry) in body.buffer.of_leaves(1 << leaf) {
            let value = (!entry.is_delete).then_some(entry.value);
            found.push(self.found((entry.key, entry.value), value, true, &mut kept)?);
        }
        let number = body.leaves[leaf];
        if let Some(stored) = Leaf::new(&self.arena, number) {
            stored.check_header(&self.arena)?;
            let pm = self.arena.pm();
            pm.has_read(1 + u64::from(stored.len()).div_ceil(4));
            stored.check_keys(&self.arena)?;
            for (_, (key, value)) in stored.pairs() {
                found.push(self.found((key, value), Some(value), false, &mut kept)?);
            }
        }
        // Of two of one key the buffered one comes first, and counts.
        found.sort_by(|a, b| a.key.cmp(&b.key).then(b.is_buffered.cmp(&a.is_buffered)));
        found.dedup_by(|later, first| later.key == first.key);
        found.retain(|pair| pair.value.is_some() && within(bounds, &pair.key));
        if is_back {
            found.reverse();
        }
        let mut window = Window {
            pairs: Vec::with_capacity(found.len()),
            cut: None,
        };
        let mut left = found.into_iter();
        for pair in left.by_ref() {
            let value = match pair.read {
                Some(read) => read,
                None => self.value_of(&pair.key, pair.value.unwrap_or_default())?,
            };
            let len = match &value {
                ValueOut::Bytes(bytes) => bytes.len(),
                ValueOut::Int(_) => 0,
            };
            *room = room.saturating_sub(len);
            window.pairs.push((pair.key, value));
            if *room == 0 {
                break;
            }
        }
        if left.len() > 0 {
            window.cut = window.pairs.last().map(|pair| pair.0.clone());
        }
        Ok(window)
    }

    /// A pair with its key, and with its value if that was read with it and there is room to keep it.
    fn found(
        &self,
        pair: (u64, u64),
        value: Option<u64>,
        is_buffered: bool,
        kept: &mut usize,
    ) -> Result<Found<O>> {
        let (mut key, mut read) = (O::of_pair(&self.arena, pair.0, 0), None);
        if O::BYTES {
            let blob = self.arena.whole_blob(BlobRef(pair.1))?;
            key = O::of_bytes(blob.key);
            if key.word() != pair.0 || key.hash() >> 40 << 40 != BlobRef(pair.1).hash() {
                return Err(Error::corrupt(
                    self.arena.pm().name(),
                    BlobRef(pair.1).byte(),
                    "a pair refers to the blob of another key",
                ));
            }
            if *kept < WINDOW_BYTES {
                *kept += blob.value.len();
                read = Some(self.value_in(blob.value));
            }
        }
        Ok(Found {
            key,
            value,
            is_buffered,
            read,
        })
    }
}
