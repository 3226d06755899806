//! From a catalog entry to a structure that works: the only place that names kinds and tiers.

use std::sync::Arc;

use terrace_access::{Attempt, Door, Sweep};
use terrace_base::{PageId, Result, StructureId};
use terrace_methods::{BTree, HashTable, Heap};
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

/// Makes an empty structure inside the gate.
pub fn create(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &Door<'_>,
) -> Attempt<Arc<dyn Structure>> {
    match spec.kind {
        Kind::Tree => create_of::<BTree>(context, id, spec, on_hot_root, door),
        Kind::Hash if spec.apart => {
            let options = tier_options(spec, on_hot_root);
            Ok(Tiered::<HashTable, Apart>::create(
                context, id, door, options,
            )?)
        }
        Kind::Hash => create_of::<HashTable>(context, id, spec, on_hot_root, door),
        Kind::Table => create_of::<Heap>(context, id, spec, on_hot_root, door),
    }
}

fn create_of<M: Sweep + Rooted + 'static>(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &Door<'_>,
) -> Attempt<Arc<dyn Structure>> {
    let options = tier_options(spec, on_hot_root);
    Ok(match spec.tiers {
        Tiers::One => Arc::new(Single::<M>::create(context, id, door)?),
        Tiers::Two => Tiered::<M, M>::create(context, id, door, options)?,
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
    match spec.kind {
        Kind::Tree => open_of::<BTree>(context, id, spec, on_hot_root, roots),
        Kind::Hash if spec.apart => {
            let options = tier_options(spec, on_hot_root);
            Tiered::<HashTable, Apart>::open(context, id, roots, options)
        }
        Kind::Hash => open_of::<HashTable>(context, id, spec, on_hot_root, roots),
        Kind::Table => open_of::<Heap>(context, id, spec, on_hot_root, roots),
    }
}

fn open_of<M: Sweep + Rooted + 'static>(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    roots: Roots,
) -> Arc<dyn Structure> {
    let options = tier_options(spec, on_hot_root);
    match spec.tiers {
        Tiers::One => Arc::new(Single::<M>::open(context, id, roots)),
        Tiers::Two => Tiered::<M, M>::open(context, id, roots, options),
    }
}

/// Takes back, in the same entry of the gate, what [`create`] has just made.
pub fn undo_create(
    store: &Arc<PageStore>,
    kind: Kind,
    roots: Roots,
    door: &Door<'_>,
) -> Attempt<()> {
    free_roots(store, kind, roots, door, &mut || Ok(()))
}

/// Removes records and pages of a structure that nobody uses, its roots excepted, in a bounded
/// step. Returns whether more is left to do.
pub fn clear_step(store: &Arc<PageStore>, kind: Kind, roots: Roots) -> Result<bool> {
    match kind {
        Kind::Tree => clear_step_of::<BTree>(store, roots),
        Kind::Hash => clear_step_of::<HashTable>(store, roots),
        Kind::Table => clear_step_of::<Heap>(store, roots),
    }
}

fn clear_step_of<M: Sweep + Rooted>(store: &Arc<PageStore>, roots: Roots) -> Result<bool> {
    let hot = roots.hot.map(|root| (root, Class::Hot));
    for (root, class) in hot.into_iter().chain([(roots.cold, Class::Cold)]) {
        let method = M::open(store, root, class);
        loop {
            let door = store.enter_for(Space::Reserve)?;
            match method.try_clear_step(&door) {
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

/// Frees the pages of a structure of which nothing is left but what it was made of, if `forget`,
/// which makes sure that nothing names them any more, succeeds.
pub fn free_roots(
    store: &Arc<PageStore>,
    kind: Kind,
    roots: Roots,
    door: &Door<'_>,
    forget: &mut dyn FnMut() -> Attempt<()>,
) -> Attempt<()> {
    let pages = match kind {
        Kind::Tree => pages_when_empty::<BTree>(store, roots),
        Kind::Hash => pages_when_empty::<HashTable>(store, roots),
        Kind::Table => pages_when_empty::<Heap>(store, roots),
    }?;
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

fn pages_when_empty<M: Sweep + Rooted>(
    store: &Arc<PageStore>,
    roots: Roots,
) -> Attempt<Vec<PageId>> {
    let mut pages = Vec::new();
    let hot = roots.hot.map(|root| (root, Class::Hot));
    for (root, class) in hot.into_iter().chain([(roots.cold, Class::Cold)]) {
        pages.extend(M::open(store, root, class).pages_when_empty()?);
    }
    Ok(pages)
}
