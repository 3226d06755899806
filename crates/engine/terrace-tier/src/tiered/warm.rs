//! What was hot before the database was closed is hot again, and is known to have been used.
//!
//! Hot tiers in memory alone begin empty. Which records they had, and how often those were used, was noted; what was
//! saved of them is back already, as something new. Promotions like any others (rules 1, 2 and 13), but that nobody
//! asked for the record: it is no access in the figures of the structure.

use terrace_access::{AccessMethod, Edge, Flags, Neighbours, Ordered, Retry, Sweep, Touch, Window};
use terrace_base::Result;

use super::entry::{Entry, until_settled};
use super::promote::{ColdRead, Promotions};
use super::purge::unless_unreadable;
use super::save::Saved;
use super::tiers::{Pair, Tiers};

/// Times that the pages are fetched which records need next on their way: once for each level of most trees.
const LEVELS: usize = 4;
/// How often a page is tried that other threads are at work on, when pages are closed up.
const TRIES: usize = 8;

impl Promotions {
    /// See [`crate::Structure::warm_up`].
    pub fn warm_up<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        saved: &Saved<P>,
        records: &[(Vec<u8>, u8)],
    ) -> Result<usize> {
        if !tiers.is_in_memory() {
            return Ok(records.len());
        }
        let context = tiers.context();
        let mut below = Vec::new();
        for (i, (key, uses)) in records.iter().enumerate() {
            // What was saved of it cannot be read.
            let is_loaded = saved.load_key(tiers, key).map(|()| true);
            if !is_loaded.or_else(|e| unless_unreadable(e).map(|()| false))?
                || tiers.raise(key, *uses)?
            {
                continue;
            }
            match context.is_full() && tiers.levels().is_idle(*uses) {
                // That it was used is known from now on, as of what has left.
                true => context.sketch.keep(tiers.hash(key), *uses),
                false => below.push((i, key.as_slice(), *uses)),
            }
        }
        let (mut value, mut pages, mut done) = (Vec::new(), Vec::new(), records.len());
        for _ in 0..LEVELS {
            for &(i, key, _) in below.iter().take_while(|(i, ..)| *i < done) {
                if let Err(Retry::Miss(page)) = tiers.cold().try_get(key, Touch::No, &mut value)
                    && pages.last() != Some(&page)
                {
                    if pages.len() == tiers.store().most_together() {
                        done = i;
                        break;
                    }
                    pages.push(page);
                }
            }
            if pages.is_empty() {
                break;
            }
            // What cannot be read stops no others: they need not wait until somebody asks for them.
            tiers.store().fetch(&mut pages).or_else(unless_unreadable)?;
            pages.clear();
        }
        for (_, key, uses) in below.into_iter().take_while(|(i, ..)| *i < done) {
            let slot = context.locks.slot_of(tiers.hash(key));
            let read = tiers.read(slot, key, &mut value, &|| true);
            if let Some((Some((found, false)), version, missed)) =
                read.or_else(|e| unless_unreadable(e).map(|()| None))?
            {
                let read = ColdRead {
                    slot,
                    version,
                    key,
                    value: &value,
                    found,
                    missed: missed > 0,
                    may_wait: true,
                };
                self.bring_up(tiers, read, uses);
            }
        }
        Ok(done)
    }
}

impl<P: Pair> Tiers<P> {
    /// A hot record counts as used so often at least; false where it is not there. Another thread in its leaf is reason
    /// enough to say so: whoever looks closer finds it.
    fn raise(&self, key: &[u8], uses: u8) -> Result<bool> {
        let Some(hot) = self.hot() else {
            return Ok(false);
        };
        let (mut place, mut is_there) = (Vec::new(), false);
        Entry::Try.attempt(self.store(), |door| {
            let position = hot.try_position(key, &mut place)?;
            hot.try_visit(door, position, &mut |page| {
                if let Some(i) = page.find(key)? {
                    let flags = page.flags(i)?;
                    if flags.use_count() < uses {
                        page.set_flags(i, flags.with_use_count(uses))?;
                    }
                    is_there = true;
                }
                Ok(())
            })
        })?;
        Ok(is_there)
    }

    /// See [`crate::Structure::close_up_hot`].
    pub fn close_up_hot(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let Some(hot) = self.hot().filter(|_| self.is_in_memory()) else {
            return Ok(());
        };
        let (mut next, mut tries) = (Some(low.to_vec()), 0);
        while let Some(from) = next {
            // Who drops a structure, or verifies it, waits for this.
            let _at_work = self.context().background.read();
            if self.is_retired() {
                return Ok(());
            }
            let closed =
                Entry::Try.attempt(self.store(), |door| hot.try_close_up(door, &from, high))?;
            (next, tries) = match closed {
                Some(next) => (next, 0),
                None if tries < TRIES => {
                    self.store().back_off()?;
                    (Some(from), tries + 1)
                }
                None => return Ok(()),
            };
        }
        Ok(())
    }

    /// Copies the keys of hot records from a position on; see [`crate::Structure::hot_up`].
    pub fn hot_window(&self, from: &[u8], least: u8, window: &mut Window) -> Result<bool> {
        let Some(hot) = self.hot().filter(|_| self.is_in_memory()) else {
            return Ok(false);
        };
        let mut select = |flags: Flags| flags.use_count() >= least;
        until_settled(self.store(), || {
            hot.try_window_if(Edge::From(from), &mut select, window)
        })?;
        window.restrict(from, None);
        Ok(true)
    }
}
