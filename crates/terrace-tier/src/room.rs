//! Leaf-local replacement (rule 9): a record that comes to a full hot leaf displaces an unused clean
//! one of the same leaf, which acts as a cache set of 30 to 120 ways.
//!
//! The cold tier has a clean record, so it is just dropped, under its lock, which is tried and never
//! waited for. When every clean record has been used, the leaf ages until one has not.

use terrace_access::{Attempt, Ordered, RecordPage, Room, Sweep};

use crate::context::Rooted;
use crate::fault::{Fault, planted};
use crate::tiered::Tiered;

/// Makes room in a leaf of the hot tier once the tier is full.
pub(crate) struct LeafRoom<'t, H, C> {
    tiered: &'t Tiered<H, C>,
    key: Vec<u8>,
}

impl<'t, H, C> LeafRoom<'t, H, C> {
    pub fn new(tiered: &'t Tiered<H, C>) -> Self {
        LeafRoom {
            tiered,
            key: Vec::new(),
        }
    }
}

impl<H, C> Room for LeafRoom<'_, H, C>
where
    H: Sweep + Rooted + 'static,
    C: Ordered + Rooted<Order = H::Order> + 'static,
{
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool> {
        let tiered = self.tiered;
        let policy = &tiered.options.policy;
        if !policy.replaces_in_leaf() || !tiered.context.is_full() {
            return Ok(false);
        }
        let count = page.count();
        if count == 0 {
            return Ok(false);
        }
        let mut freed = 0;
        for _ in 0..=policy.most_uses() {
            // Anywhere in the leaf, so that neighbours of a fixed start do not always pay.
            let mut i = crate::random::next() as usize % count;
            let mut left = count;
            let mut used_clean = false;
            while left > 0 && page.count() > 0 {
                left -= 1;
                i = if i >= page.count() { 0 } else { i };
                let flags = page.flags(i)?;
                let dirty = flags.is_dirty() && !planted(Fault::DirtyVictim);
                if dirty || flags.use_count() > 0 {
                    used_clean |= !flags.is_dirty();
                    i += 1;
                    continue;
                }
                page.key(i, &mut self.key)?;
                let slot = tiered.context.locks.slot(tiered.id, &self.key);
                if self.key == keep {
                    i += 1;
                    continue;
                }
                let lock = tiered.context.locks.try_lock(slot);
                if lock.is_none() && !planted(Fault::VictimWithoutLock) {
                    i += 1;
                    continue;
                }
                freed += page.erase(i)?;
                drop(lock);
                tiered.events.replacements.add(1);
                if freed >= needed {
                    return Ok(true);
                }
            }
            if !used_clean {
                break;
            }
            for i in 0..page.count() {
                let flags = page.flags(i)?;
                if flags.use_count() > 0 {
                    page.set_flags(i, flags.with_use_count(flags.use_count() - 1))?;
                }
            }
        }
        Ok(freed > 0)
    }
}
