//! The sweep of a hot tier page by page of storage instead of in the order of positions: the paper's
//! 2Heap-HS, for comparison.
//!
//! The records of one heap page have keys from everywhere, so each of them that is dirty takes a visit
//! of its own to the cold tier. All rules of the other sweep hold; tombstones and large values, which
//! lie on no such page, and tiers that know no such order are left to it.

use terrace_access::{AccessMethod, Ordered, Sweep};
use terrace_base::Result;

use super::entry::Entry;
use super::hand::Rounds;
use super::leaves::gather;
use super::migrate::{Down, Drops, Selected};
use super::tiers::{Pair, Tiers};
use crate::locks::RecordLock;

impl Rounds {
    /// Sweeps one page of storage, counting uses down and letting idle records go. Returns how many
    /// records went: if none, the other sweep has to make room.
    pub fn evict_stored<P: Pair>(&self, tiers: &Tiers<P>, entry: Entry<'_>) -> Result<u64> {
        let Some(hot) = tiers.hot() else {
            return Ok(0);
        };
        let mut positions = Vec::new();
        if !self.take_stored(tiers, hot, &mut positions)? {
            return Ok(0);
        }
        let mut gone = 0;
        for position in &positions {
            gone += u64::from(evict_one(tiers, hot, position, entry)?);
        }
        if P::Hot::CAPABILITIES.shares_room {
            gather(tiers, hot, entry)?;
        }
        if let Some(position) = positions.first() {
            let fill = tiers.policy().pack_fill();
            if fill > 0.0 {
                entry.attempt(tiers.store(), |door| hot.try_pack(door, position, fill))?;
            }
        }
        Ok(gone)
    }
}

/// Lets one record go if it is idle, and counts its uses down if not. Returns whether it went.
fn evict_one<P: Pair>(
    tiers: &Tiers<P>,
    hot: &P::Hot,
    position: &[u8],
    entry: Entry<'_>,
) -> Result<bool> {
    let key = P::Hot::key_at(position);
    let hash = tiers.hash(key);
    let (mut dropped, mut dirty) = (false, false);
    let visited = entry.attempt(tiers.store(), |door| {
        hot.try_visit(door, position, &mut |page| {
            let Some(i) = page.find(key)? else {
                return Ok(());
            };
            let flags = page.flags(i)?;
            let uses = flags.use_count().min(tiers.policy().most_uses());
            if tiers.levels().idle(uses) < 1.0 {
                return page.set_flags(i, flags.with_use_count(uses.saturating_sub(1)));
            }
            dirty = flags.is_dirty();
            if !dirty {
                // The cold tier has it; under its lock it can just go.
                let lock = tiers.try_lock(hash);
                if lock.is_some() {
                    page.erase(i)?;
                    lock.map(RecordLock::release_moved);
                    tiers.context().sketch.keep(hash, uses);
                    dropped = true;
                }
            }
            Ok(())
        })
    })?;
    if visited.is_none() {
        // The next round finds it.
        return Ok(false);
    }
    if dropped {
        tiers.events().demotions.add(1);
    }
    if !dirty {
        return Ok(dropped);
    }
    let next = [position, &[0]].concat();
    let down = Down {
        selected: Selected::Dirty,
        drops: Drops::Unused,
        rises: true,
    };
    Ok(tiers.write_back(position, Some(&next), down, entry)? > 0)
}
