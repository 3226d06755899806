//! The sweep of a hot tier page by page of storage instead of in the order of positions: the paper's
//! 2Heap-HS, for comparison.
//!
//! The records of one heap page have keys from everywhere, so each of them that is dirty takes a visit
//! of its own to the cold tier. All rules of the other sweep hold; tombstones and large values, which
//! lie on no such page, and tiers that know no such order are left to it.

use terrace_access::{Sweep, Tier};
use terrace_base::Result;
use terrace_pages::Interrupt;

use super::Tiered;
use super::migrate::Entry;
use crate::locks::{RecordLock, hash_of};

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Sweeps one page of storage, counting uses down and letting idle records go. Returns how many
    /// records went: if none, the other sweep has to make room.
    pub(crate) fn evict_stored(&self, entry: Entry<'_>) -> Result<u64> {
        let Some(hot) = self.hot() else {
            return Ok(0);
        };
        let mut positions = Vec::new();
        loop {
            // The page is this call's alone: the hand moves on at once.
            let collected = {
                let mut hand = self.hand.lock();
                hot.try_collect_stored(&mut hand.stored, &mut positions)
            };
            match collected {
                Ok(true) => break,
                Ok(false) => return Ok(0),
                Err(Interrupt::Conflict) => self.context.store.back_off()?,
                Err(interrupt) => self.context.store.settle(interrupt)?,
            }
        }
        let mut gone = 0;
        for position in &positions {
            gone += u64::from(self.evict_one(hot, position, entry)?);
        }
        if H::SHARES_ROOM {
            self.room_for_pages(hot, entry)?;
        }
        if let Some(position) = positions.first() {
            let fill = self.options.policy.pack_fill();
            if fill > 0.0
                && let Some(Err(Interrupt::Fail(e))) =
                    self.inside(entry, |door| hot.try_pack(door, position, fill))?
            {
                return Err(e);
            }
        }
        Ok(gone)
    }

    /// Lets one record go if it is idle, and counts its uses down if not. Returns whether it went.
    fn evict_one(&self, hot: &H, position: &[u8], entry: Entry<'_>) -> Result<bool> {
        let key = H::key_at(position);
        let locks = &self.context.locks;
        let hash = hash_of(self.id, key);
        let (mut dropped, mut dirty) = (false, false);
        let visited = self.inside(entry, |door| {
            hot.try_visit(door, position, &mut |page| {
                let Some(i) = page.find(key)? else {
                    return Ok(());
                };
                let flags = page.flags(i)?;
                let uses = flags.use_count().min(self.options.policy.most_uses());
                if self.levels.idle(uses) < 1.0 {
                    return page.set_flags(i, flags.with_use_count(uses.saturating_sub(1)));
                }
                dirty = flags.is_dirty();
                if !dirty {
                    // The cold tier has it; under its lock it can just go.
                    let lock = locks.try_lock(locks.slot_of(hash));
                    if lock.is_some() {
                        page.erase(i)?;
                        lock.map(RecordLock::release_moved);
                        self.context.sketch.keep(hash, uses);
                        dropped = true;
                    }
                }
                Ok(())
            })
        })?;
        match visited {
            Some(Ok(())) => {}
            Some(Err(Interrupt::Fail(e))) => return Err(e),
            // Somebody is working on the leaf, or the gate is closed: the next round finds it.
            Some(Err(_)) | None => return Ok(false),
        }
        if dropped {
            self.events.demotions.add(1);
        }
        if !dirty {
            return Ok(dropped);
        }
        let next = [position, &[0]].concat();
        Ok(self.write_back(position, Some(&next), (true, true), entry)? > 0)
    }
}
