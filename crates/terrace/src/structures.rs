//! From a catalog entry to a structure that works: the only place that names kinds and tiers.

use std::sync::Arc;

use terrace_access::{AccessMethod, Attempt, Door, Ordered, Sweep};
use terrace_base::{PageId, Result, StructureId};
use terrace_methods::{BTree, HashTable, Heap, Lsm};
use terrace_pages::{Class, Exclusive, PageStore, Space};
use terrace_tier::{
    Apart, OnHotRoot, Rooted, Roots, Single, Structure, TierContext, TierOptions, Tiered, policy,
};

use crate::spec::{Kind, Policy, Spec, Tiers};

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

/// Calls a function with the access methods of a structure's tiers: that of the hot one, and that of the cold
/// one, which is the only one where there is one tier.
macro_rules! of_methods {
    ($spec:expr, $call:ident($($argument:expr),*)) => {
        match $spec.kind {
            Kind::Tree => $call::<BTree, BTree>($($argument),*),
            Kind::Hash if $spec.apart => $call::<HashTable, Apart>($($argument),*),
            Kind::Hash => $call::<HashTable, HashTable>($($argument),*),
            Kind::Table if $spec.hot_heap => $call::<Heap, Heap>($($argument),*),
            Kind::Table => $call::<BTree, Heap>($($argument),*),
            Kind::Lsm => $call::<BTree, Lsm>($($argument),*),
        }
    };
}

/// Makes an empty structure inside the gate.
pub fn create(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &Door<'_>,
) -> Attempt<Arc<dyn Structure>> {
    of_methods!(spec, create_of(context, id, spec, on_hot_root, door))
}

fn create_of<H, C>(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &Door<'_>,
) -> Attempt<Arc<dyn Structure>>
where
    H: Sweep + Rooted + 'static,
    C: Ordered + Rooted<Order = H::Order> + 'static,
{
    let options = tier_options(spec, on_hot_root);
    Ok(match spec.tiers {
        Tiers::One => Single::<C>::create(context, id, door)?,
        Tiers::Two => Tiered::<H, C>::create(context, id, door, options)?,
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
    of_methods!(spec, open_of(context, id, spec, on_hot_root, roots))
}

fn open_of<H, C>(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    roots: Roots,
) -> Arc<dyn Structure>
where
    H: Sweep + Rooted + 'static,
    C: Ordered + Rooted<Order = H::Order> + 'static,
{
    let options = tier_options(spec, on_hot_root);
    match spec.tiers {
        Tiers::One => Single::<C>::open(context, id, roots),
        Tiers::Two => Tiered::<H, C>::open(context, id, roots, options),
    }
}

/// Takes back, in the same entry of the gate, what [`create`] has just made.
pub fn undo_create(
    store: &Arc<PageStore>,
    spec: Spec,
    roots: Roots,
    door: &Door<'_>,
) -> Attempt<()> {
    free_roots(store, spec, roots, door, &mut || Ok(()))
}

/// Removes records and pages of a structure that nobody uses, its roots excepted, in a bounded
/// step. Returns whether more is left to do.
pub fn clear_step(store: &Arc<PageStore>, spec: Spec, roots: Roots) -> Result<bool> {
    of_methods!(spec, clear_step_of(store, roots))
}

fn clear_step_of<H, C>(store: &Arc<PageStore>, roots: Roots) -> Result<bool>
where
    H: Sweep + Rooted,
    C: Ordered + Rooted,
{
    if let Some(hot) = roots.hot
        && clear_tier(store, &H::open(store, hot, Class::Hot))?
    {
        return Ok(true);
    }
    clear_tier(store, &C::open(store, roots.cold, Class::Cold))
}

fn clear_tier(store: &Arc<PageStore>, method: &impl AccessMethod) -> Result<bool> {
    loop {
        let door = store.enter_for(Space::Reserve)?;
        match method.try_clear_step(&door) {
            Ok(more) => return Ok(more),
            Err(interrupt) => {
                drop(door);
                store.settle(interrupt)?;
            }
        }
    }
}

/// Frees the pages of a structure of which nothing is left but what it was made of, if `forget`,
/// which makes sure that nothing names them any more, succeeds.
pub fn free_roots(
    store: &Arc<PageStore>,
    spec: Spec,
    roots: Roots,
    door: &Door<'_>,
    forget: &mut dyn FnMut() -> Attempt<()>,
) -> Attempt<()> {
    let pages = of_methods!(spec, pages_when_empty(store, roots))?;
    // All of them are held before anything is forgotten, so that nothing is left that could fail.
    let mut held: Vec<Exclusive<'_>> = Vec::with_capacity(pages.len());
    for page in pages {
        if let Some(twice) = held.iter().find(|held| held.pid() == page) {
            return Err(twice.torn("two structures, or two tiers of one, say that it is theirs"));
        }
        held.push(store.exclusive(page, door)?);
    }
    forget()?;
    held.into_iter().for_each(|page| page.free());
    Ok(())
}

fn pages_when_empty<H, C>(store: &Arc<PageStore>, roots: Roots) -> Attempt<Vec<PageId>>
where
    H: Sweep + Rooted,
    C: Ordered + Rooted,
{
    let mut pages = Vec::new();
    if let Some(hot) = roots.hot {
        pages.extend(H::open(store, hot, Class::Hot).pages_when_empty()?);
    }
    pages.extend(C::open(store, roots.cold, Class::Cold).pages_when_empty()?);
    Ok(pages)
}
