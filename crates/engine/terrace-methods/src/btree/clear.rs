//! Emptying a tree in bounded steps, each of which leaves a sound tree.
//!
//! A step walks down from the root to the first place where two children can be made one: leaves
//! are emptied (their large values page by page), then two empty neighbours become one. An inner
//! node with one child below which nothing is left is as empty as it gets. So the tree folds up
//! from the left until the root is an empty leaf.

use terrace_access::{Attempt, Retry, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::BTree;
use super::descend::{Descent, node_of, sound};
use super::image::{build, install};
use super::layout::{Shape, Stored};
use super::leaf::{Counts, erase};
use super::remove::Neighbours;
use crate::overflow;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl BTree {
    /// Gives the root page back; the tree must be empty ([`try_clear_step`](terrace_access::AccessMethod::try_clear_step) returned
    /// false), and no thread may use it any more.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory; `Fail` when the tree is not empty.
    pub fn try_free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let root = self.descent().root_exclusive(door)?;
        let node = node_of!(root)?;
        if !node.is_leaf() || node.count > 0 {
            return Err(terrace_base::Error::invalid("only an empty tree can be freed").into());
        }
        root.free();
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(height² + pages freed).
    pub(crate) fn clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        let mut budget = STEP_PAGES;
        while budget > 0 {
            if !self.fold(door, &mut budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does one thing towards emptiness; returns whether there was any to do.
    fn fold(&self, door: &WriteGuard<'_>, budget: &mut usize) -> Attempt<bool> {
        let descent = self.descent();
        let mut page = descent.root_exclusive(door)?;
        loop {
            let (at, node) = (page.pid(), node_of!(page)?);
            if node.is_leaf() {
                return self.empty_leaf(door, page, budget);
            }
            let first = sound!(page, node.child(0))?;
            if node.count == 0 {
                if at == descent.root() {
                    // In memory, or else it could not be taken back.
                    drop(descent.shared_under(&page, first)?);
                    // One child is left: its content becomes the root's.
                    if !self.nodes().lower_root(door, page)? {
                        return Err(Retry::Conflict);
                    }
                    *budget = budget.saturating_sub(1);
                    return Ok(true);
                }
                page = descent.exclusive_below(door, &page, first)?;
                continue;
            }
            let (level, second) = (node.level - 1, sound!(page, node.child(1))?);
            // Down from here no other thread is waited for: only this call works on what is below.
            // A page that refers to itself, or twice to another, would be waited for without end.
            if first == second || first == at || second == at {
                return Err(page.torn("this node names itself or one child twice"));
            }
            if !is_bare(descent, &page, first)? {
                page = descent.exclusive_below(door, &page, first)?;
                continue;
            }
            if !is_bare(descent, &page, second)? {
                page = descent.exclusive_below(door, &page, second)?;
                continue;
            }
            let left = descent.exclusive_under(door, &page, first)?;
            let right = descent.exclusive_under(door, &page, second)?;
            let pair = Neighbours {
                parent: page,
                entry: 0,
                left,
                right,
            };
            if let Some(pair) = self.nodes().join(pair, level)? {
                // Another thread may have put a record there before they were latched.
                return Err(
                    match node_of!(pair.left)?.count + node_of!(pair.right)?.count {
                        0 => pair.left.torn("two empty nodes do not fit into one page"),
                        _ => Retry::Conflict,
                    },
                );
            }
            *budget = budget.saturating_sub(1);
            return Ok(true);
        }
    }

    /// Removes all records of a leaf, large values first. Returns whether there was anything.
    fn empty_leaf(
        &self,
        door: &WriteGuard<'_>,
        mut page: Exclusive<'_>,
        budget: &mut usize,
    ) -> Attempt<bool> {
        let node = node_of!(page)?;
        if node.count == 0 {
            return Ok(false);
        }
        for i in (0..node.count).rev() {
            let node = node_of!(page)?;
            let slot = sound!(page, node.slot(i))?;
            let record = sound!(page, node.leaf_record(slot))?;
            let Stored::Large { at, mut large } = record.value else {
                continue;
            };
            if !self.owns_chain(slot.flags()) {
                continue;
            }
            // The record keeps what is left of its chain, so that nothing is lost if this ends
            // half-way; as a value it is of no use any more.
            let mut after = None;
            while !large.head.is_none() {
                if *budget == 0 {
                    return Ok(true);
                }
                if large.head == page.pid() {
                    return Err(page.torn("a large value of this leaf begins in the leaf itself"));
                }
                large.head = overflow::free_first(self.store(), door, large.head, &mut after)?;
                page.change(at, 8)?
                    .copy_from_slice(&large.word().to_le_bytes());
                *budget -= 1;
            }
            erase(&mut page, i)?;
        }
        let node = node_of!(page)?;
        let (low, high) = (sound!(page, node.low())?, sound!(page, node.high())?);
        let members = Counts::of(&page)?.members.wrapping_add(1);
        let mut image = vec![0; page.bytes().len()];
        build(
            &mut image,
            &Shape::leaf(&low, high.as_deref(), members),
            &[],
            (0, 0),
        );
        install(page.change_all()?, &image);
        *budget = budget.saturating_sub(1);
        Ok(true)
    }
}

/// Whether there is nothing below this child of a latched node: an empty leaf, or a chain of single
/// children that ends in one.
fn is_bare(descent: &Descent, parent: &Exclusive<'_>, child: PageId) -> Attempt<bool> {
    let mut page = descent.shared_below(parent, child)?;
    loop {
        let node = node_of!(page)?;
        if node.count > 0 || node.is_leaf() {
            return Ok(node.count == 0);
        }
        let pid = sound!(page, node.child(0))?;
        if pid == parent.pid() {
            return Err(page.torn("this node has an ancestor as its child"));
        }
        page = descent.shared_below(&page, pid)?;
    }
}
