//! Emptying an LSM-tree in bounded steps: the top, then each level, page by page. What is left are the root
//! and the roots of its parts, which its root names.

use terrace_access::{
    AccessMethod, Attempt, Door, Edge, Flags, LargeRef, NoRoom, Ordered, Plan, Value, Window,
};
use terrace_base::PageId;

use super::level::Level;
use super::{Lsm, page};
use crate::btree::Floor;
use crate::btree::layout::Stored;
use crate::overflow;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl Lsm {
    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(height + pages freed).
    pub(crate) fn clear_step(&self, door: &Door<'_>) -> Attempt<bool> {
        let state = self.state()?;
        if state.top.try_clear_step(door)? {
            return Ok(true);
        }
        for level in state.downwards() {
            if self.clear_level(door, level)? || level.index.try_clear_step(door)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees some pages of a level. Returns whether there was any.
    fn clear_level(&self, door: &Door<'_>, level: &Level) -> Attempt<bool> {
        let mut budget = STEP_PAGES;
        let mut floor = Floor::default();
        let mut any = false;
        // From the end: the first entry stays to the last.
        while budget > 0 && level.index.floor(Edge::End, &mut floor)? {
            any = true;
            if let Some(entry) = level.entry_at(Edge::End, &mut floor)? {
                if entry.has_large && !self.free_chains(door, entry.name.page, &mut budget)? {
                    return Ok(true);
                }
                self.store.free_unread(door, entry.name.page)?;
            }
            budget = budget.saturating_sub(1);
            let erase = &mut |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
            level
                .index
                .try_edit(door, &floor.key, erase, &mut NoRoom, &mut || Ok(()))?;
        }
        Ok(any)
    }

    /// Frees the large values of a page, as far as the budget goes. Each record keeps what is left of its
    /// chain, so that nothing is lost if this ends half-way. Returns whether all of it is done.
    fn free_chains(&self, door: &Door<'_>, pid: PageId, budget: &mut usize) -> Attempt<bool> {
        let mut latched = self.store.exclusive(pid, door)?;
        let chains = chains_of(latched.view()).map_err(|_| latched.torn(page::BAD))?;
        for (at, mut large) in chains {
            let mut after = None;
            while !large.head.is_none() {
                if *budget == 0 {
                    return Ok(false);
                }
                if large.head == pid {
                    return Err(
                        latched.torn("a large value of this page begins in the page itself")
                    );
                }
                large.head = overflow::free_first(&self.store, door, large.head, &mut after)?;
                latched
                    .change(at, 8)?
                    .copy_from_slice(&large.head.0.to_le_bytes());
                *budget -= 1;
            }
        }
        Ok(true)
    }

    /// The records of a window, for those who go through all of it.
    pub(crate) fn window_from(&self, at: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_window(Edge::From(at), window)
    }
}

/// Where the large references of a page are, and what they are.
fn chains_of(view: terrace_pages::View<'_>) -> crate::btree::layout::Seen<Vec<(usize, LargeRef)>> {
    let node = crate::btree::layout::Node::open_as(view, page::TAG)?;
    let mut chains = Vec::new();
    for i in 0..node.count {
        if let Stored::Large { at, large } = node.leaf_record(node.slot(i)?)?.value {
            chains.push((at, large));
        }
    }
    Ok(chains)
}
