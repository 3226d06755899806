//! A structure when its turn comes among all: what makes room, ages, and merges has it do.

use terrace_access::{Merging, Sweep, Tier, Waits};
use terrace_base::Result;
use terrace_pages::{Cause, Space};

use super::Tiered;
use crate::hot_tiers::{HotTier, MergingStructure};
use crate::merging::catch_up;
use crate::tiered::entry::Entry;
use crate::tiered::flush::pass_time;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> HotTier for Tiered<H, C> {
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<()> {
        match MergingStructure::merging(self) {
            Some(merging) => catch_up(self.tiers.context(), merging, space, waits),
            None => Ok(()),
        }
    }

    fn evict_step(&self, space: Space) -> Result<Option<u64>> {
        if self.tiers.is_retired() {
            return Ok(None);
        }
        self.rounds.evict(&self.tiers, Entry::Wait(space))
    }

    fn is_one_leaf(&self) -> bool {
        self.tiers.is_one_leaf()
    }

    fn age(&self) -> Result<()> {
        if self.tiers.is_retired() {
            return Ok(());
        }
        pass_time(&self.tiers);
        let _because = Cause::Ageing.begin();
        self.rounds.age_due(&self.tiers)
    }

    fn purge(&self, waited: bool) -> Result<bool> {
        if self.tiers.is_retired() {
            return Ok(false);
        }
        if self.purges.is_under_way(&self.tiers, waited)? {
            self.catch_up(Space::Reserve, &mut Waits::in_background())?;
        }
        self.purges.go_on(&self.tiers, waited)
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> MergingStructure for Tiered<H, C> {
    fn merging(&self) -> Option<&dyn Merging> {
        let retired = self.tiers.is_retired();
        self.cold().merging().filter(|_| !retired)
    }
}
