//! A hot tier that is a memtable (a policy says so): what makes room is written down, leaf after leaf in the
//! order of keys, clean records too; of those that were read since the last time some stay.
//!
//! What stays are clean records alone, which came in by being read: what was written goes down in any case,
//! and so gets to the disk. A clean record is written under its lock, for else it might overrule what
//! somebody has just written (rule 2).

use std::sync::atomic::Ordering;

use terrace_access::{Attempt, Edge, RecordPage, Sweep, Tier};
use terrace_base::Result;
use terrace_pages::Interrupt;

use super::Tiered;
use super::migrate::{Down, Entry, Selected};
#[cfg(feature = "paper")]
use crate::locks::hash_of;

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

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Writes the leaf at the hand down, but for the share `keeps` of it, which must have been used and will
    /// not count as used any more. Returns how many records went, `None` when there is no hot tier.
    pub(crate) fn flush_leaf(&self, entry: Entry<'_>, keeps: f64) -> Result<Option<u64>> {
        let Some(hot) = self.hot() else {
            return Ok(None);
        };
        self.context.with_windows(|leaf, _| {
            leaf.set_keys_only(true);
            let position = loop {
                let mut hand = self.hand.lock();
                let at = hand.evicting.clone();
                match hot.try_window_if(Edge::From(&at), &mut |_| true, leaf) {
                    Ok(()) => {
                        hand.evicting = leaf.high.clone().unwrap_or_default();
                        let one_leaf = leaf.high.is_none() && at.is_empty();
                        self.one_leaf.store(one_leaf, Ordering::Relaxed);
                        break at;
                    }
                    Err(interrupt) => {
                        drop(hand);
                        let Err(e) = self.context.store.settle(interrupt) else {
                            continue;
                        };
                        // The hand goes past a leaf that cannot be read, or it would stand there for good.
                        if e.is_unreadable() {
                            let behind = self.behind(hot, &at).unwrap_or_default();
                            let mut hand = self.hand.lock();
                            if hand.evicting == at {
                                hand.evicting = behind;
                            }
                        }
                        return Err(e);
                    }
                }
            };
            let most = (leaf.len() as f64 * keeps) as usize;
            let visited = self.inside(entry, |door| {
                hot.try_visit(door, &position, &mut |page| choose(page, most))
            })?;
            match visited {
                Some(Ok(())) => {}
                Some(Err(Interrupt::Fail(e))) => return Err(e),
                // Somebody is working on the leaf, or the gate is closed: the next round finds it.
                Some(Err(_)) | None => return Ok(Some(0)),
            }
            let down = Down {
                selected: Selected::Flushed,
                drop_unused: true,
                rises: true,
            };
            let range = (leaf.low.as_slice(), leaf.high.as_deref());
            let gone = self.write_range(range, down, entry, usize::MAX)? as u64;
            if keeps > 0.0 {
                self.inside(entry, |door| {
                    hot.try_visit(door, &position, &mut |page| choose(page, 0))
                })?;
            }
            if !matches!(entry, Entry::Inside(_)) || self.context.store.has_slack() {
                self.pack_leaf(hot, &position, entry)?;
            }
            Ok(Some(gone))
        })
    }

    /// A lookup has ended, for policies that go by that.
    #[inline]
    #[cfg_attr(not(feature = "paper"), allow(unused_variables))]
    pub(crate) fn observe(&self, key: &[u8], depth: u8, missed: bool) {
        #[cfg(feature = "paper")]
        if C::BLIND && self.observed {
            let hash = hash_of(self.id, key);
            self.options.policy.note_lookup(hash, depth, missed);
        }
    }

    /// Tells the policy that time has passed.
    pub(crate) fn pass_time(&self) {
        let policy = &self.options.policy;
        if policy.observes() {
            policy.pass_time(&|| {
                let figures = self.cold.merge_figures();
                figures.map_or(0, |figures| figures.levels.len())
            });
        }
    }
}
