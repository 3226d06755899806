//! Leaf-local replacement (rule 9): a record that comes to a full hot leaf displaces the clean one of
//! the same leaf that was used least. The leaf acts as a cache set of 30 to 120 ways.
//!
//! The cold tier has a clean record, so it is just dropped, under its lock, which is tried and never
//! waited for. A record that was only read has to be worth more than the one that goes; one that was
//! written comes in whatever it is worth. A leaf in which nothing is idle splits instead, while there
//! are pages for it: that is how room moves to where it is wanted.

use terrace_access::{Attempt, RecordPage, Retry, Room};

use super::faults;
use super::tiers::{Pair, Tiers};
use crate::fault::Fault;
use crate::locks::RecordLock;

/// Clean records among which the victim is looked for: among 16 it is hardly worse than among all.
const SAMPLE: usize = 64;
/// Victims whose lock another thread holds, after which no room is made.
const BUSY: usize = 4;

/// Makes room in a leaf of the hot tier once the tier is full.
pub(crate) struct LeafRoom<'t, P: Pair> {
    tiers: &'t Tiers<P>,
    /// How often the newcomer was asked for, if it was only read.
    asked: Option<u8>,
    key: Vec<u8>,
}

impl<'t, P: Pair> LeafRoom<'t, P> {
    /// Room for a record that has been written and must come in.
    pub fn for_write(tiers: &'t Tiers<P>) -> Self {
        LeafRoom {
            tiers,
            asked: None,
            key: Vec::new(),
        }
    }

    /// Room for a record that was only read, so and so often.
    pub fn for_promotion(tiers: &'t Tiers<P>, asked: u8) -> Self {
        LeafRoom {
            asked: Some(asked),
            ..LeafRoom::for_write(tiers)
        }
    }

    /// The clean record with the lowest use count among some of the page, and that count. Its key is in
    /// `self.key`.
    fn victim(&mut self, page: &dyn RecordPage, keep: &[u8]) -> Attempt<Option<(usize, u8)>> {
        let count = page.count();
        // Anywhere in the leaf, so that neighbours of a fixed start do not always pay.
        let start = crate::random::next() as usize % count.max(1);
        let mut best: Option<(usize, u8)> = None;
        let mut seen = 0;
        for i in (start..count).chain(0..start) {
            let flags = page.flags(i)?;
            if !faults::may_go(flags, Fault::DirtyVictim) {
                continue;
            }
            let uses = flags.use_count();
            if best.is_none_or(|(_, least)| uses < least) {
                page.key(i, &mut self.key)?;
                if self.key != keep {
                    best = Some((i, uses));
                }
            }
            seen += 1;
            if seen == SAMPLE || matches!(best, Some((_, 0))) {
                break;
            }
        }
        if let Some((i, _)) = best {
            page.key(i, &mut self.key)?;
        }
        Ok(best)
    }
}

impl<P: Pair> Room for LeafRoom<'_, P> {
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool> {
        let tiers = self.tiers;
        let (context, policy) = (tiers.context(), tiers.policy());
        if !policy.replaces_in_leaf() || !context.is_full() {
            return Ok(false);
        }
        let (mut freed, mut busy) = (0, 0);
        while freed < needed && busy < BUSY {
            let Some((i, uses)) = self.victim(page, keep)? else {
                break;
            };
            if let Some(asked) = self.asked
                && !policy.displaces(asked, uses)
            {
                // What went before was worth less, and is not wanted back.
                return Err(Retry::Conflict);
            }
            if freed == 0 && !tiers.levels().is_idle(uses) && context.has_spare() {
                return Ok(false);
            }
            let hash = tiers.hash(&self.key);
            let Some(lock) = faults::lock_unless(Fault::VictimWithoutLock, tiers.try_lock(hash))
            else {
                busy += 1;
                continue;
            };
            freed += page.erase(i)?;
            lock.map(RecordLock::release_moved);
            context.sketch.keep(hash, uses);
            tiers.events().replacements.add(1);
        }
        Ok(freed > 0)
    }
}
