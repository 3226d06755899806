//! A structure with two tiers: what it is made of, and how it is made and opened.
//!
//! Beside the tiers themselves ([`Tiers`]) each of the jobs that go on over them has a part with what it remembers. A
//! part is handed the tiers when it works, and none sees what another one keeps. What others ask of all of it together
//! is in the modules below.

mod as_structure;
mod maintenance;

use std::sync::{Arc, Weak};

use terrace_access::{Attempt, Sweep, Tier, Waits, WriteGuard};
use terrace_base::{PageId, Result, StructureId};
use terrace_pages::{Class, Space};

use super::entry::Entry;
use super::hand::Rounds;
use super::promote::Promotions;
use super::purge::Purges;
use super::save::Saved;
use super::tiers::{TierOptions, Tiers};
use crate::context::TierContext;
use crate::hot_tiers::HotTier;
use crate::structure::Roots;
use crate::watch::Watches;

/// See the text of the module `tiered`. `H` is the access method of the hot tier, `C` that of the cold one.
pub struct Tiered<H: Sweep + Tier, C: Tier<Order = H::Order>> {
    tiers: Tiers<(H, C)>,
    saved: Saved<(H, C)>,
    rounds: Rounds,
    purges: Purges,
    promotions: Promotions,
    watches: Watches,
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Makes an empty structure. Its hot tier comes with the first put.
    pub fn create(
        context: &Arc<TierContext>,
        id: StructureId,
        door: &WriteGuard<'_>,
        options: TierOptions,
    ) -> Attempt<Arc<Self>> {
        let cold = C::create(&context.store, door, Class::Cold, context.new_order::<C>())?;
        Ok(Tiered::with(context, id, cold, None, options))
    }

    /// The structure with these roots. Reads nothing.
    pub fn open(
        context: &Arc<TierContext>,
        id: StructureId,
        roots: Roots,
        options: TierOptions,
    ) -> Arc<Self> {
        let cold = C::open(&context.store, roots.cold, Class::Cold);
        Tiered::with(context, id, cold, roots.hot, options)
    }

    fn with(
        context: &Arc<TierContext>,
        id: StructureId,
        cold: C,
        root: Option<PageId>,
        mut options: TierOptions,
    ) -> Arc<Self> {
        // In an image what was saved is the hot tier.
        options.in_memory &= !context.store.is_image();
        let (hot, saved) = match options.in_memory {
            true => (None, root),
            false => (root, None),
        };
        if let Some(share) = options.policy.hot_share() {
            context.share.fix(&context.store, share);
        }
        let tiered = Arc::new_cyclic(|me: &Weak<Self>| {
            let me = me.clone() as Weak<dyn HotTier>;
            Tiered {
                tiers: Tiers::new(context, id, cold, options, me),
                saved: Saved::open(&context.store, saved),
                rounds: Rounds::default(),
                purges: Purges::of(hot.is_none()),
                promotions: Promotions::default(),
                watches: Watches::default(),
            }
        });
        if tiered.cold().merging().is_some() {
            let weak: Weak<Self> = Arc::downgrade(&tiered);
            context.register_merging(weak);
        }
        if let Some(root) = hot {
            tiered.tiers.open_hot(root);
        }
        tiered
    }

    /// The hot tier, if there is one yet.
    pub fn hot(&self) -> Option<&H> {
        self.tiers.hot()
    }

    /// The cold tier.
    pub fn cold(&self) -> &C {
        self.tiers.cold()
    }

    /// One step of what the background demotion does, for those who do without its thread: sweeps
    /// the leaf at the hand, letting unused records go. Returns false when there is no hot tier.
    /// Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sweep_once(&self) -> Result<bool> {
        let space = Space::Reserve;
        HotTier::catch_up(self, space, &mut Waits::in_background())?;
        Ok(self
            .rounds
            .evict(&self.tiers, Entry::Wait(space))?
            .is_some())
    }
}
