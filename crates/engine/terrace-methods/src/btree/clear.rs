//! Emptying a tree in bounded steps, each of which leaves a sound tree.
//!
//! A step walks down from the root to the first place where two children can be made one: leaves
//! are emptied (their large values page by page), then two empty neighbours become one. An inner
//! node with one child below which nothing is left is as empty as it gets. So the tree folds up
//! from the left until the root is an empty leaf.

use terrace_access::{Attempt, Door, Interrupt};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::BTree;
use super::descend::{BAD_LEVEL, node_of, sound};
use super::image::{build, install};
use super::layout::{Extra, Shape, Stored};
use super::leaf::{Counts, erase};
use super::remove::Neighbours;
use crate::overflow;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl BTree {
    /// Gives the root page back; the tree must be empty ([`try_clear_step`](terrace_access::AccessMethod::try_clear_step) returned
    /// false), and nobody may use it any more.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory; `Fail` when the tree is not empty.
    pub fn try_free_root(&self, door: &Door<'_>) -> Attempt<()> {
        let root = self.store.exclusive(self.root, door)?;
        let node = node_of!(root)?;
        if !node.is_leaf() || node.count > 0 {
            return Err(terrace_base::Error::invalid("only an empty tree can be freed").into());
        }
        root.free();
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(height² + pages freed).
    pub(crate) fn clear_step(&self, door: &Door<'_>) -> Attempt<bool> {
        let mut budget = STEP_PAGES;
        while budget > 0 {
            if !self.fold(door, &mut budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does one thing towards emptiness; returns whether there was any to do.
    fn fold(&self, door: &Door<'_>, budget: &mut usize) -> Attempt<bool> {
        let mut page = self.store.exclusive(self.root, door)?;
        loop {
            let (at, node) = (page.pid(), node_of!(page)?);
            if node.is_leaf() {
                return self.empty_leaf(door, page, budget);
            }
            let first = sound!(page, node.child(0))?;
            if node.count == 0 {
                if at == self.root {
                    // In memory, or else it could not be taken back.
                    drop(self.child_of(&page, first, || self.store.shared(first))?);
                    // One child is left: its content becomes the root's.
                    if !self.lower_root(door, page)? {
                        return Err(Interrupt::Conflict);
                    }
                    *budget = budget.saturating_sub(1);
                    return Ok(true);
                }
                page = self.step_down(door, page, first)?;
                continue;
            }
            let (level, second) = (node.level - 1, sound!(page, node.child(1))?);
            // Down from here nobody else is waited for: only this call works on what is below.
            // A page that refers to itself, or twice to another, would be waited for without end.
            if first == second || first == at || second == at {
                return Err(page.torn("this node names itself or one child twice"));
            }
            if !self.is_bare(&page, first)? {
                page = self.step_down(door, page, first)?;
                continue;
            }
            if !self.is_bare(&page, second)? {
                page = self.step_down(door, page, second)?;
                continue;
            }
            let left = self.child_of(&page, first, || self.store.exclusive(first, door))?;
            let right = self.child_of(&page, second, || self.store.exclusive(second, door))?;
            let pair = Neighbours {
                parent: page,
                entry: 0,
                left,
                right,
            };
            if let Some(pair) = self.join(pair, level)? {
                // Somebody may have put a record there before they were latched.
                return Err(
                    match node_of!(pair.left)?.count + node_of!(pair.right)?.count {
                        0 => pair.left.torn("two empty nodes do not fit into one page"),
                        _ => Interrupt::Conflict,
                    },
                );
            }
            *budget = budget.saturating_sub(1);
            return Ok(true);
        }
    }

    /// Gets a child of a latched node.
    fn child_of<T>(
        &self,
        parent: &Exclusive<'_>,
        child: PageId,
        get: impl Fn() -> Attempt<T>,
    ) -> Attempt<T> {
        self.look(parent.pid(), child, get, |why| parent.torn(why))
    }

    /// Goes on to a child, which must be a node of the level below.
    fn step_down<'d>(
        &'d self,
        door: &'d Door<'_>,
        page: Exclusive<'d>,
        child: PageId,
    ) -> Attempt<Exclusive<'d>> {
        let below = self.child_of(&page, child, || self.store.exclusive(child, door))?;
        match node_of!(below)?.level + 1 == node_of!(page)?.level {
            true => Ok(below),
            false => Err(below.torn(BAD_LEVEL)),
        }
    }

    /// Whether there is nothing below this child of a latched node: an empty leaf, or a chain of single
    /// children that ends in one.
    fn is_bare(&self, parent: &Exclusive<'_>, child: PageId) -> Attempt<bool> {
        let mut page = self.child_of(parent, child, || self.store.shared(child))?;
        let mut above = node_of!(parent)?.level;
        loop {
            let node = node_of!(page)?;
            if node.level + 1 != above {
                return Err(page.torn(BAD_LEVEL));
            }
            above = node.level;
            if node.count > 0 || node.is_leaf() {
                return Ok(node.count == 0);
            }
            let pid = sound!(page, node.child(0))?;
            if pid == parent.pid() {
                return Err(page.torn("this node has an ancestor as its child"));
            }
            page = self.look(
                page.pid(),
                pid,
                || self.store.shared(pid),
                |why| page.torn(why),
            )?;
        }
    }

    /// Removes all records of a leaf, large values first. Returns whether there was anything.
    fn empty_leaf(
        &self,
        door: &Door<'_>,
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
            // half-way; as a value it is of no use to anybody any more.
            let mut after = None;
            while !large.head.is_none() {
                if *budget == 0 {
                    return Ok(true);
                }
                if large.head == page.pid() {
                    return Err(page.torn("a large value of this leaf begins in the leaf itself"));
                }
                large.head = overflow::free_first(&self.store, door, large.head, &mut after)?;
                page.change(at, 8)?
                    .copy_from_slice(&large.word().to_le_bytes());
                *budget -= 1;
            }
            erase(&mut page, i)?;
        }
        let node = node_of!(page)?;
        let (low, high) = (sound!(page, node.low())?, sound!(page, node.high())?);
        let members = Counts::of(&page)?.members.wrapping_add(1);
        let extra = Extra::Members(members);
        let mut image = vec![0; page.bytes().len()];
        build(
            &mut image,
            &Shape {
                level: 0,
                low: &low,
                high: high.as_deref(),
                extra,
            },
            &[],
            (0, 0),
        );
        install(page.change_all()?, &image);
        *budget = budget.saturating_sub(1);
        Ok(true)
    }
}
