//! Emptying a table in bounded steps, each of which leaves a sound table.
//!
//! The second bucket is emptied (its large values page by page) and merged into the first, until
//! there is one; then that one is emptied, the directory folds up, and the bucket goes, so that only
//! the root is left.

use terrace_access::{Attempt, Edge, Ordered, Retry, WriteGuard};
use terrace_base::{Error, PageId};
use terrace_pages::Exclusive;

use super::HashTable;
use super::directory::{bump_root, set_buckets, set_entry};
use super::find::{Held, page_of, root_of, sound};
use super::image::{build_bucket, install};
use super::layout::{Shape, Stored};
use crate::overflow;

/// Pages freed in one step.
const STEP_PAGES: usize = 32;

impl HashTable {
    /// Gives the root page back; the table must be empty ([`try_clear_step`](terrace_access::AccessMethod::try_clear_step) returned
    /// false), and no thread may use it any more.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory; `Fail` when the table is not empty.
    pub fn try_free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let page = self.store.exclusive(self.root, door)?;
        let root = root_of!(page)?;
        if root.height > 0
            || root.grains.count() > 1
            || !sound!(page, root.entries.get(0))?.is_none()
        {
            return Err(Error::invalid("only an empty hash table can be freed").into());
        }
        page.free();
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::try_clear_step`]. O(pages freed).
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
        let Some(mut first) = self.latch(door, 0, true)? else {
            return Ok(false);
        };
        if self.empty(door, &mut first, &[], budget)? {
            return Ok(true);
        }
        let Some(next) = first.span.last.checked_add(1) else {
            // Held, so that no other bucket can come meanwhile.
            if self.unite_some(door, &first)? {
                *budget = budget.saturating_sub(1);
                return Ok(true);
            }
            drop(first);
            return self.drop_last(door, budget);
        };
        // In memory, or else it could not be had. (Reached while nothing is held.)
        drop(first);
        self.try_reach(Edge::From(&next.to_be_bytes()))?;
        let Some(first) = self.latch(door, 0, true)? else {
            return Err(Retry::Conflict);
        };
        let Ok(mut pair) = self.neighbour(door, first, false)? else {
            return Err(Retry::Conflict);
        };
        if self.empty(door, &mut pair.right, &pair.left.pages, budget)? {
            return Ok(true);
        }
        // Both are empty. What is too much for one write guard goes in parts.
        let (grains, _) = self.size()?;
        let away = pair.merged_away();
        if grains.count_in(away) > self.most_moved() {
            let right_goes = away == pair.right.span;
            let boundary = grains.part(away, self.most_moved(), right_goes);
            let (lower, upper) = away.cut_at(boundary);
            let moved = if right_goes { lower } else { upper };
            drop(self.claim(door, moved, &[&pair.left, &pair.right])?);
            if self.divide(door, pair, &[], Some(boundary))?.is_some() {
                return Err(Retry::Conflict);
            }
            *budget = budget.saturating_sub(1);
            return Ok(true);
        }
        // The pages of the directory have to be in memory for this.
        drop(self.claim(door, pair.merged_away(), &[&pair.left, &pair.right])?);
        if self.merge_pair(door, pair)?.is_some() {
            return Err(Retry::Conflict);
        }
        *budget = budget.saturating_sub(1);
        Ok(true)
    }

    /// Frees the only bucket, which is empty.
    fn drop_last(&self, door: &WriteGuard<'_>, budget: &mut usize) -> Attempt<bool> {
        let Some(held) = self.latch(door, 0, true)? else {
            return Ok(false);
        };
        let mut root = self.store.exclusive(self.root, door)?;
        let seen = root_of!(root)?;
        if held.count() > 0 || held.pages.len() > 1 || seen.grains.count() > 1 {
            return Err(Retry::Conflict);
        }
        // The entry would be that of a page of the directory.
        if seen.height > 0 {
            return Err(root.torn(super::find::TOO_HIGH));
        }
        set_entry(&mut root, true, 0, PageId::NONE)?;
        set_buckets(&mut root, 0)?;
        bump_root(&mut root)?;
        held.pages.into_iter().for_each(|page| page.free());
        *budget = budget.saturating_sub(1);
        Ok(true)
    }

    /// Removes all records of a bucket, large values first, while the pages beside it are held, too.
    /// Returns whether there was anything.
    fn empty(
        &self,
        door: &WriteGuard<'_>,
        held: &mut Held<'_>,
        beside: &[Exclusive<'_>],
        budget: &mut usize,
    ) -> Attempt<bool> {
        if held.count() == 0 && held.pages.len() == 1 {
            return Ok(false);
        }
        for number in 0..held.pages.len() {
            for i in (0..page_of!(held.pages[number])?.count()).rev() {
                let page = &held.pages[number];
                let seen = page_of!(page)?;
                let slot = sound!(page, seen.slot(i))?;
                let record = sound!(page, seen.record(slot))?;
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
                    let mut latched = held.pages.iter().chain(beside);
                    if latched.any(|page| page.pid() == large.head) {
                        let why = "a large value of this bucket begins in a bucket";
                        return Err(held.pages[number].torn(why));
                    }
                    large.head = overflow::free_first(&self.store, door, large.head, &mut after)?;
                    held.pages[number]
                        .change(at, 8)?
                        .copy_from_slice(&large.word().to_le_bytes());
                    *budget -= 1;
                }
                held.erase(number, i)?;
            }
        }
        let shape = Shape {
            table: self.table(),
            overflow: false,
            span: held.span,
            members: held.next_members(),
            next: PageId::NONE,
        };
        if let Some(images) = build_bucket(&[], &shape, &[], self.store.page_bytes()) {
            install(&mut held.pages[0], &images[0])?;
            held.pages.drain(1..).for_each(|page| page.free());
        }
        *budget = budget.saturating_sub(1);
        Ok(true)
    }
}
