//! From a catalog entry to a structure that works: the only place that names kinds and tiers.

use std::sync::Arc;

use terrace_access::{AccessMethod, Attempt, Door};
use terrace_base::{Result, StructureId};
use terrace_methods::BTree;
use terrace_pages::{Class, PageStore, Space};
use terrace_tier::{
    OnHotRoot, Rooted, Roots, Single, Structure, TierContext, TierOptions, Tiered, policy,
};

use crate::spec::{Policy, Spec, Tiers};

type TwoTierTree = Tiered<BTree, BTree>;
type OneTierTree = Single<BTree>;

fn tier_options(spec: Spec, on_hot_root: OnHotRoot) -> TierOptions {
    let policy: Arc<dyn policy::Policy> = match spec.policy {
        Policy::Default => Arc::new(policy::LeafLocal),
        Policy::Paper => Arc::new(policy::Sampled::default()),
    };
    TierOptions {
        policy,
        inclusive: spec.inclusive,
        on_hot_root,
    }
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
        Tiers::Two => TwoTierTree::create(context, id, door, tier_options(spec, on_hot_root))?,
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
        Tiers::Two => TwoTierTree::open(context, id, roots, tier_options(spec, on_hot_root)),
    }
}

/// Takes back, in the same entry of the gate, what [`create`] has just made.
pub fn undo_create(store: &PageStore, roots: Roots, door: &Door<'_>) -> Attempt<()> {
    store.exclusive(roots.cold, door)?.free();
    Ok(())
}

/// Removes records and pages of a structure that nobody uses, its roots excepted, in a bounded
/// step. Returns whether more is left to do.
pub fn clear_step(store: &Arc<PageStore>, roots: Roots) -> Result<bool> {
    let hot = roots.hot.map(|root| (root, Class::Hot));
    for (root, class) in hot.into_iter().chain([(roots.cold, Class::Cold)]) {
        let tree = <BTree as Rooted>::open(store, root, class);
        loop {
            let door = store.enter_for(Space::Reserve)?;
            match tree.try_clear_step(&door) {
                Ok(true) => return Ok(true),
                Ok(false) => break,
                Err(interrupt) => {
                    drop(door);
                    store.settle(interrupt)?;
                }
            }
        }
    }
    Ok(false)
}

/// Frees the roots of a structure of which nothing else is left, if `forget`, which makes sure that
/// nothing names them any more, succeeds.
pub fn free_roots(
    store: &PageStore,
    roots: Roots,
    door: &Door<'_>,
    forget: &mut dyn FnMut() -> Attempt<()>,
) -> Attempt<()> {
    let hot = roots
        .hot
        .map(|root| store.exclusive(root, door))
        .transpose()?;
    let cold = store.exclusive(roots.cold, door)?;
    forget()?;
    if let Some(hot) = hot {
        hot.free();
    }
    cold.free();
    Ok(())
}

/// What clears hint bits from a copy of any page that is about to be written.
pub fn clear_hints(page: &mut [u8]) {
    terrace_methods::btree::clear_hints(page);
}
