//! Emptying an LSM-tree in bounded steps: the top, then each level, page by page. What is left are the root
//! and the roots of its parts, which its root names.

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, LargeRef, NoRoom, Ordered, Plan, Value, Window, WriteGuard,
};
use terrace_base::PageId;

use super::entry::Entry;
use super::level::Level;
use super::{Lsm, State, page};
use crate::btree::Predecessor;
use crate::btree::layout::Stored;
use crate::overflow;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl Lsm {
    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(height + pages freed).
    pub(crate) fn clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        let state = self.state()?;
        if state.top.try_clear_step(door)? {
            return Ok(true);
        }
        for level in state.downwards() {
            if self.clear_level(state, door, level)? || level.index.try_clear_step(door)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees some pages of a level. Returns whether there was any.
    ///
    /// What is left is a level at every instant: a page that goes leaves a gap, and the root says what there is.
    fn clear_level(&self, state: &State, door: &WriteGuard<'_>, level: &Level) -> Attempt<bool> {
        if !level.index.floor(Edge::End, &mut Predecessor::default())? {
            return Ok(false);
        }
        // Held from here on: what the root says is written in the end, however this ends.
        let mut root = self.store.exclusive(self.root, door)?;
        let mut budget = STEP_PAGES;
        let cleared = self.clear_pages(door, level, &mut budget);
        if budget < STEP_PAGES {
            self.until_done(|| state.root().write(&mut root))?;
        }
        cleared
    }

    /// Makes gaps of the pages of a level, from the end, as far as the budget goes.
    fn clear_pages(
        &self,
        door: &WriteGuard<'_>,
        level: &Level,
        budget: &mut usize,
    ) -> Attempt<bool> {
        let mut floor = Predecessor::default();
        let mut any = false;
        while *budget > 0 {
            let Some(entry) = level.entry_at(Edge::End, &mut floor)? else {
                // A gap. What lies before it is the last page; where it is the first one, nothing is left.
                if floor.key.is_empty() {
                    return Ok(any);
                }
                let gap = std::mem::take(&mut floor.key);
                if !level.index.floor(Edge::Below(&gap), &mut floor)? {
                    // The first one of a part.
                    return Ok(any);
                }
                if let Some(entry) = level.decode(&floor.value)? {
                    any = true;
                    if !self.clear_page(door, level, (&floor.key, entry), budget)? {
                        return Ok(true);
                    }
                }
                let erase = &mut |_: Option<(Flags, Value<'_>)>| Ok(Plan::Erase);
                level
                    .index
                    .try_edit(door, &gap, erase, &mut NoRoom, &mut || Ok(()))?;
                continue;
            };
            any = true;
            if !self.clear_page(door, level, (&floor.key, entry), budget)? {
                return Ok(true);
            }
        }
        Ok(any)
    }

    /// Frees a page, and makes a gap of its entry. Returns false where the budget ended with its large values.
    fn clear_page(
        &self,
        door: &WriteGuard<'_>,
        level: &Level,
        (low, entry): (&[u8], Entry),
        budget: &mut usize,
    ) -> Attempt<bool> {
        if entry.has_large && !self.free_chains(door, entry.name.page, budget)? {
            return Ok(false);
        }
        let gap =
            &mut |_: Option<(Flags, Value<'_>)>| Ok(Plan::Put(Value::Inline(&[]), Flags::NONE));
        let free = &mut || self.store.free_unread(door, entry.name.page);
        level.index.try_edit(door, low, gap, &mut NoRoom, free)?;
        *budget = budget.saturating_sub(1);
        let mut figures = level.figures();
        entry.take_from(&mut figures);
        level.set_figures(figures);
        Ok(true)
    }

    /// Frees the large values of a page, as far as the budget goes. Each record keeps what is left of its
    /// chain, so that nothing is lost if this ends half-way. Returns whether all of it is done.
    fn free_chains(&self, door: &WriteGuard<'_>, pid: PageId, budget: &mut usize) -> Attempt<bool> {
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
                    .copy_from_slice(&large.word().to_le_bytes());
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
