//! What was hot before the database was closed is hot again, and is known to have been used.
//!
//! Hot tiers in memory alone begin empty. Which records they had, and how often those were used, was noted; what was
//! saved of them is back already, as something new. Promotions like any others (rules 1, 2 and 13), but that nobody
//! asked for the record: it is no access in any figure.

use terrace_access::{AccessMethod, Edge, Flags, Neighbours, Ordered, Retry, Sweep, Touch, Window};
use terrace_base::Result;

use super::entry::Entry;
use super::promote::{ColdRead, Promotions};
use super::save::until_settled;
use super::tiers::{Pair, Tiers};

/// How often a page is tried that other threads are at work on, when pages are closed up.
const TRIES: usize = 8;

impl Promotions {
    /// See [`crate::Structure::warm_up`].
    pub fn warm_up<P: Pair>(&self, tiers: &Tiers<P>, records: &[(Vec<u8>, u8)]) -> Result<()> {
        if !tiers.is_in_memory() {
            return Ok(());
        }
        let mut below = Vec::new();
        for (key, uses) in records {
            if !tiers.raise(key, *uses)? {
                below.push((key.as_slice(), *uses));
            }
        }
        if tiers.context().is_full() {
            below.retain(|(key, uses)| {
                let is_worth_it = !tiers.levels().is_idle(*uses);
                if !is_worth_it {
                    // That it was used is known from now on, as of what has left.
                    tiers.context().sketch.keep(tiers.hash(key), *uses);
                }
                is_worth_it
            });
        }
        let mut value = Vec::new();
        let mut pages = Vec::new();
        for (key, _) in &below {
            if let Err(Retry::Miss(page)) = tiers.cold().try_get(key, Touch::No, &mut value)
                && pages.last() != Some(&page)
                && pages.len() < tiers.store().most_together()
            {
                pages.push(page);
            }
        }
        tiers.store().fetch(&mut pages)?;
        for (key, uses) in below {
            let slot = tiers.context().locks.slot_of(tiers.hash(key));
            if let Some((Some((found, false)), version, missed)) =
                tiers.read(slot, key, &mut value, &|| true)?
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
        Ok(())
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
        let mut select = |flags: Flags| !flags.is_deleted() && flags.use_count() >= least;
        until_settled(self.store(), || {
            hot.try_window_if(Edge::From(from), &mut select, window)
        })?;
        window.restrict(from, None);
        Ok(true)
    }
}
