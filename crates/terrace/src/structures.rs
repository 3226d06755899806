//! From a catalog entry to a structure that works: the only place that names kinds and tiers.

use std::sync::Arc;

use terrace_access::{Attempt, Door};
use terrace_base::{Result, StructureId};
use terrace_methods::BTree;
use terrace_pages::{Interrupt, PageStore};
use terrace_tier::{
    OnHotRoot, Roots, Single, Structure, TierContext, TierOptions, Tiered, policy,
};

use crate::spec::{Policy, Spec, Tiers};

type TwoTierTree = Tiered<BTree, BTree>;
type OneTierTree = Single<BTree>;

fn tier_options(spec: Spec, on_hot_root: OnHotRoot) -> TierOptions {
    let policy: Arc<dyn policy::Policy> = match spec.policy {
        Policy::Default => Arc::new(policy::LeafLocal),
        Policy::Paper => Arc::new(policy::Sampled::default()),
    };
    TierOptions { policy, inclusive: spec.inclusive, on_hot_root }
}

/// Makes an empty structure inside the gate.
pub fn create(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &Door<'_>,
) -> Attempt<Arc<dyn Structure>> {
    Ok(match spec.tiers {
        Tiers::One => Arc::new(OneTierTree::create(context, id, door)?),
        Tiers::Two => {
            TwoTierTree::create(context, id, door, tier_options(spec, on_hot_root))?
        }
    })
}

/// The structure with these roots.
pub fn open(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    roots: Roots,
) -> Arc<dyn Structure> {
    match spec.tiers {
        Tiers::One => Arc::new(OneTierTree::open(context, id, roots)),
        Tiers::Two => {
            TwoTierTree::open(context, id, roots, tier_options(spec, on_hot_root))
        }
    }
}

/// Takes back, in the same entry of the gate, what [`create`] has just made.
pub fn undo_create(store: &PageStore, roots: Roots, door: &Door<'_>) -> Attempt<()> {
    store.exclusive(roots.cold, door)?.free();
    Ok(())
}

/// What clears hint bits from a copy of any page that is about to be written.
pub fn clear_hints(page: &mut [u8]) {
    terrace_methods::btree::clear_hints(page);
}

/// Settles what interrupted an attempt of this crate, which never asks for hot pages.
pub fn settle(store: &PageStore, interrupt: Interrupt) -> Result<()> {
    store.settle(interrupt)
}
