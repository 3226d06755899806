//! A hot tier that is a memtable (a policy says so): what makes room is written down, leaf after leaf in the
//! order of keys, clean records too; of those that were read since the last time some stay.
//!
//! What stays are clean records alone, which came in by being read: what was written goes down in any case,
//! and so gets to the disk. A clean record is written under its lock, for else it might overrule what
//! a writer has just written (rule 2).

use terrace_access::{AccessMethod, Attempt, RecordPage, Sweep};
use terrace_base::Result;

use super::entry::Entry;
use super::hand::{Rounds, Task};
use super::leaves::pack;
use super::migrate::{Down, Drops, Selected};
use super::tiers::{Pair, Tiers};

/// Of the leaf's clean records that were used the first `most` stay so; none of the others was.
fn choose(page: &mut dyn RecordPage, most: usize) -> Attempt<()> {
    let mut kept = 0;
    for i in 0..page.count() {
        let flags = page.flags(i)?;
        if flags.is_dirty() || flags.use_count() == 0 {
            continue;
        }
        kept += 1;
        let uses = u8::from(kept <= most);
        if flags.use_count() != uses {
            page.set_flags(i, flags.with_use_count(uses))?;
        }
    }
    Ok(())
}

impl Rounds {
    /// Writes the leaf at the hand down, but for the share `keeps` of it, which must have been used and will
    /// not count as used any more. Returns how many records went, `None` when there is no hot tier.
    pub fn flush_leaf<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        entry: Entry<'_>,
        keeps: f64,
    ) -> Result<Option<u64>> {
        let Some(hot) = tiers.hot() else {
            return Ok(None);
        };
        tiers.context().with_windows(|leaf, _| {
            leaf.set_keys_only(true);
            let position = self.take_leaf(tiers, hot, Task::Evict, &mut |_| true, leaf)?;
            let most = (leaf.len() as f64 * keeps) as usize;
            let visited = entry.attempt(tiers.store(), |door| {
                hot.try_visit(door, &position, &mut |page| choose(page, most))
            })?;
            if visited.is_none() {
                // The next round finds it.
                return Ok(Some(0));
            }
            let down = Down {
                selected: Selected::Flushed,
                drops: Drops::All,
                rises: true,
            };
            let range = (leaf.low.as_slice(), leaf.high.as_deref());
            let gone = tiers.write_range(range, down, entry, usize::MAX)? as u64;
            if keeps > 0.0 {
                entry.inside(tiers.store(), |door| {
                    hot.try_visit(door, &position, &mut |page| choose(page, 0))
                })?;
            }
            if !entry.is_inside() || tiers.store().has_slack() {
                pack(tiers, hot, &position, entry)?;
            }
            Ok(Some(gone))
        })
    }
}

/// Tells the policy that time has passed.
pub(super) fn pass_time<P: Pair>(tiers: &Tiers<P>) {
    let policy = tiers.policy();
    if policy.observes() {
        policy.pass_time(&|| {
            let merging = tiers.cold().merging();
            merging.map_or(0, |merging| merging.merge_figures().levels.len())
        });
    }
}
