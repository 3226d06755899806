//! A structure when its turn comes among all: what makes room, ages, and merges has it do.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use terrace_access::{Attempt, Sweep, Tier, Waits};
use terrace_base::Result;
use terrace_pages::{Cause, Space};

use super::Tiered;
use crate::hot_tiers::{HotTier, Merging, MoreHotTiers};

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// There is a hot tier now.
    pub(crate) fn register(&self) {
        self.registered.get_or_init(|| {
            let weak = self.me.clone() as Weak<dyn HotTier>;
            self.context.hot.register(weak)
        });
    }

    /// Whether there is a hot tier, or may be one: its root takes a frame for good, so that where there are
    /// very many structures, small ones do without, and then all. O(1), or a path of the cold tier.
    pub(crate) fn may_be_hot(&self) -> Attempt<bool> {
        Ok(self.hot().is_some()
            || match self.context.hot.more(self.context.store.hot_cap()) {
                MoreHotTiers::Any => true,
                MoreHotTiers::Large => {
                    let (leaves, _) = self.cold.try_random(&mut crate::random::next)?;
                    leaves > 1.0
                }
                MoreHotTiers::None => false,
            })
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> HotTier for Tiered<H, C> {
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<()> {
        if !C::BLIND || self.retired.load(Ordering::SeqCst) {
            return Ok(());
        }
        if self.cold.catch_up(space, waits)? {
            self.context.merger.notify();
        }
        Ok(())
    }

    fn evict_step(&self, space: Space) -> Result<Option<u64>> {
        if self.retired.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.sweep_step(space)
    }

    fn is_one_leaf(&self) -> bool {
        self.one_leaf.load(Ordering::Relaxed)
    }

    fn age(&self) -> Result<()> {
        if self.retired.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.pass_time();
        let _because = Cause::Ageing.begin();
        self.age_due()
    }

    fn purge(&self, waited: bool) -> Result<bool> {
        if self.retired.load(Ordering::SeqCst) {
            return Ok(false);
        }
        if self.is_purging(waited)? {
            self.catch_up(Space::Reserve, &mut Waits::in_background())?;
        }
        self.purge_due(waited)
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Merging for Tiered<H, C> {
    fn merge(&self) -> Result<()> {
        if self.retired.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.cold.tend()
    }

    fn purge_below(&self, waited: bool) -> Result<bool> {
        if self.retired.load(Ordering::SeqCst) {
            return Ok(false);
        }
        self.cold.purge(waited)
    }
}
