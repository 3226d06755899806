//! After a removal: merging thin nodes with a neighbour under the same parent, and taking back a
//! root that has one child left.
//!
//! All of it is tidying: it is done when the latches can be had at once and the neighbour is in
//! memory, and skipped otherwise, for no record depends on it.

use terrace_access::{Attempt, Edge, Retry, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::descend::{Pair, node_of, sound};
use super::image::{Item, Sizes, build, capacity, install, parts};
use super::layout::{
    CHILD_BYTES, Extra, MAX_LEVEL, Numbers, Shape, encode_inner, encode_slot, head_of, key_bytes,
};
use super::leaf::Counts;
use super::nodes::Nodes;
use crate::fault::{self, Fault};
use crate::slotted::fit::Stretch;

/// Fill above which two nodes are not merged, so that the next few inserts do not split them again.
const MERGED_FILL: f64 = 0.85;
/// Fill of an inner node below which it is merged.
const THIN_INNER: f64 = 0.3;

pub(super) const APART: &str = "this node does not begin where the one before it ends";

/// Two neighbouring nodes and their parent, all latched.
pub(crate) struct Neighbours<'d> {
    pub parent: Exclusive<'d>,
    /// The parent's entry that separates the two; its child is `right`.
    pub entry: usize,
    pub left: Exclusive<'d>,
    pub right: Exclusive<'d>,
}

impl<'d> Neighbours<'d> {
    /// The one of the two that the other one is the neighbour of, as it was before.
    pub fn let_go(self, on_the_left: bool) -> Pair<'d> {
        let (child, node) = match on_the_left {
            true => (self.entry + 1, self.right),
            false => (self.entry, self.left),
        };
        Pair {
            parent: Some(self.parent),
            child,
            node,
        }
    }
}

impl Nodes {
    /// Latches a neighbour of the pair's node: the one on its left, or the one on its right.
    /// `None` when there is none under this parent or it cannot be had at once; the pair is given
    /// back.
    pub(crate) fn neighbours<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        pair: Pair<'d>,
        on_the_left: bool,
    ) -> Attempt<Result<Neighbours<'d>, Pair<'d>>> {
        let Some(parent) = &pair.parent else {
            return Ok(Err(pair));
        };
        let above = node_of!(parent)?;
        let other = match on_the_left {
            true => pair.child.checked_sub(1),
            false => Some(pair.child + 1),
        };
        let Some(other) = other.filter(|&other| other < above.children()) else {
            return Ok(Err(pair));
        };
        let (other, level) = (
            sound!(parent, above.child(other))?,
            node_of!(pair.node)?.level,
        );
        let Some(page) = self.descent().try_neighbour(door, other, level)? else {
            return Ok(Err(pair));
        };
        let Pair {
            parent: Some(parent),
            child,
            node,
        } = pair
        else {
            return Ok(Err(pair));
        };
        let (left, right, entry) = match on_the_left {
            true => (page, node, child - 1),
            false => (node, page, child),
        };
        let low = sound!(right, node_of!(right)?.low())?;
        if sound!(left, node_of!(left)?.high())? != Some(low) {
            return Err(right.torn(APART));
        }
        Ok(Ok(Neighbours {
            parent,
            entry,
            left,
            right,
        }))
    }

    /// Merges upwards from the leaf that covers `key`, as far as nodes are thin. Best effort.
    pub(crate) fn tidy(&self, door: &WriteGuard<'_>, key: &[u8]) {
        self.tidy_from(door, key, 0);
    }

    /// As [`Nodes::tidy`], beginning at `level`.
    pub(crate) fn tidy_from(&self, door: &WriteGuard<'_>, key: &[u8], level: u8) {
        for level in level..=MAX_LEVEL {
            match self.merge(door, key, level) {
                Ok(true) => {}
                // Damage shows itself again to whoever needs the page.
                _ => return,
            }
        }
    }

    /// Merges the node at `key` with a neighbour if it is thin and both fit into one page; returns
    /// whether the parent is worth looking at. O(records).
    fn merge(&self, door: &WriteGuard<'_>, key: &[u8], level: u8) -> Attempt<bool> {
        let mut pair = self
            .descent()
            .latch(door, Edge::From(key), level, true, false)?;
        if pair.parent.is_none() {
            return self.lower_root(door, pair.node);
        }
        if level > 0 {
            let node = node_of!(pair.node)?;
            if node.count > 0 && node.fill() >= THIN_INNER {
                return Ok(false);
            }
        }
        for on_the_left in [true, false] {
            pair = match self.neighbours(door, pair, on_the_left)? {
                Err(pair) => pair,
                Ok(neighbours) => match self.join(neighbours, level)? {
                    None => return Ok(true),
                    Some(neighbours) => neighbours.let_go(on_the_left),
                },
            };
        }
        // With nothing left in it, a parent of a single child can still be taken back.
        Ok(pair
            .parent
            .is_some_and(|p| node_of!(p).is_ok_and(|node| node.count == 0)))
    }

    /// Moves everything of the right node into the left one and frees it; gives them back when it
    /// does not fit.
    pub(crate) fn join<'d>(&self, n: Neighbours<'d>, level: u8) -> Attempt<Option<Neighbours<'d>>> {
        let (a, b) = (n.left.bytes().to_vec(), n.right.bytes().to_vec());
        let a = sound!(n.left, parts(&a))?;
        let b = sound!(n.right, parts(&b))?;
        let mut separator = Vec::new();
        sound!(
            n.parent,
            node_of!(n.parent)?.append_key(n.entry, &mut separator)
        )?;
        let mut items = a.items;
        let extra = if level == 0 {
            Extra::Members(Counts::of(&n.left)?.members.wrapping_add(1))
        } else {
            let first = sound!(n.right, b.node.child(0))?;
            if !fault::planted(Fault::LostChild) {
                items.push(Item::inner(&separator, first));
            }
            Extra::FirstChild(sound!(n.left, a.node.child(0))?)
        };
        items.extend_from_slice(&b.items);
        let bytes = Sizes::of(&items).node(0, items.len(), a.low, b.high);
        let most = capacity(n.left.bytes().len());
        // An empty node always goes: a page with nothing in it has no reason to be.
        let empty = a.node.count == 0 || b.node.count == 0;
        if bytes > most || !empty && bytes as f64 > most as f64 * MERGED_FILL {
            return Ok(Some(n));
        }
        let mut image = vec![0; n.left.bytes().len()];
        let shape = Shape {
            level,
            low: a.low,
            high: b.high,
            extra,
        };
        if !build(&mut image, &shape, &items, (0, 0)) {
            return Ok(Some(n));
        }
        let Neighbours {
            mut parent,
            entry,
            mut left,
            right,
        } = n;
        drop_separator(&mut parent, entry)?;
        install(left.change_all()?, &image);
        right.free();
        Ok(None)
    }

    /// Gives the root the content of its only child. Returns whether it did.
    pub(crate) fn lower_root(
        &self,
        door: &WriteGuard<'_>,
        mut root: Exclusive<'_>,
    ) -> Attempt<bool> {
        let mut lowered = false;
        for _ in 0..MAX_LEVEL {
            let node = node_of!(root)?;
            if node.is_leaf() || node.count > 0 {
                break;
            }
            let (pid, level) = (sound!(root, node.child(0))?, node.level - 1);
            let Some(child) = self.descent().try_neighbour(door, pid, level)? else {
                break;
            };
            install(root.change_all()?, child.bytes());
            if level == 0 {
                // No reader may take the root for the leaf that it was once before.
                let mut counts = Counts::of(&root)?;
                counts.members = self.birth();
                counts.write(&mut root)?;
            }
            self.root_is_on(&mut root, level)?;
            child.free();
            lowered = true;
        }
        Ok(lowered)
    }
}

/// Takes entry `i` out of an inner node.
pub(crate) fn drop_separator(parent: &mut Exclusive<'_>, i: usize) -> Attempt<()> {
    let node = node_of!(parent)?;
    let record = sound!(
        parent,
        node.slot(i).and_then(|slot| node.inner_record(slot))
    )?;
    let mut numbers = node.numbers();
    let bytes = record.end() - record.start;
    numbers.check_loss(parent, bytes)?;
    numbers.remove(parent, i, bytes)?;
    numbers.write(parent)
}

/// How an entry's separator will be replaced.
pub(crate) enum Replace {
    Over,
    Fresh,
    Rewrite(Vec<u8>),
}

/// Finds out how the separator of entry `i` can become another one; `None` when it does not fit.
/// Changes nothing.
pub(crate) fn plan_separator(
    parent: &Exclusive<'_>,
    i: usize,
    separator: &[u8],
) -> Attempt<Option<Replace>> {
    let node = node_of!(parent)?;
    let old = sound!(
        parent,
        node.slot(i).and_then(|slot| node.inner_record(slot))
    )?;
    let Some(suffix_len) = separator.len().checked_sub(node.prefix_len) else {
        return Err(parent.torn("a separator below this node lies outside its fences"));
    };
    let (needed, held) = (CHILD_BYTES + key_bytes(suffix_len), old.end() - old.start);
    if needed <= held {
        return Ok(Some(Replace::Over));
    }
    if needed <= node.free() {
        return Ok(Some(Replace::Fresh));
    }
    if needed > node.reclaimable() + held {
        return Ok(None);
    }
    let mut now = sound!(parent, parts(parent.bytes()))?;
    match now.items.get_mut(i) {
        Some(item) => *item = Item::inner(separator, old.child),
        None => return Err(parent.torn("an entry vanished under the latch")),
    }
    let image = super::insert::rebuilt_inner(parent, now.low, now.high, &now.items)?;
    Ok(image.map(Replace::Rewrite))
}

/// Replaces the separator of entry `i` as planned.
pub(crate) fn replace_separator(
    parent: &mut Exclusive<'_>,
    i: usize,
    separator: &[u8],
    how: Replace,
) -> Attempt<()> {
    let node = node_of!(parent)?;
    let old = sound!(
        parent,
        node.slot(i).and_then(|slot| node.inner_record(slot))
    )?;
    let (child, held): (PageId, usize) = (old.child, old.end() - old.start);
    let Some(suffix) = separator.get(node.prefix_len..) else {
        return Err(Retry::Conflict);
    };
    let shift = node.shift;
    let len = CHILD_BYTES + key_bytes(suffix.len());
    let mut numbers = node.numbers();
    let stretch = match how {
        Replace::Rewrite(image) => {
            install(parent.change_all()?, &image);
            return Ok(());
        }
        Replace::Over => Stretch::Within(old.start),
        Replace::Fresh => Stretch::Free,
    };
    let (offset, out) = numbers.take(parent, stretch, held, len)?;
    encode_inner(out, (suffix, &[]), child);
    let slot = encode_slot(offset, head_of(suffix, shift), terrace_access::Flags::NONE);
    Numbers::set_slot(parent, i, slot)?;
    numbers.write(parent)
}
