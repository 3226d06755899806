//! From a catalog entry to a structure that works.

use std::sync::Arc;

use terrace_access::{Attempt, WriteGuard};
use terrace_base::{PageId, Result, StructureId};
use terrace_pages::{Exclusive, PageStore};
use terrace_tier::{OnHotRoot, Roots, Structure, TierContext, TierOptions, policy};

use crate::kinds::methods::Methods;
use crate::kinds::spec::{Policy, Spec, Tiers};

/// The paper's policy: for an LSM-tree that of its BiLSM-tree, if its options were set.
#[cfg_attr(not(feature = "paper"), allow(unused_variables))]
fn papers(context: &TierContext, spec: Spec) -> Arc<dyn policy::Policy> {
    #[cfg(feature = "paper")]
    if spec.kind == crate::kinds::Kind::Lsm
        && let Some(options) = context.bilsm()
    {
        return Arc::new(terrace_tier::bilsm::BiLsm::new(options));
    }
    Arc::new(policy::Sampled::default())
}

fn tier_options(context: &TierContext, spec: Spec, on_hot_root: OnHotRoot) -> Option<TierOptions> {
    let policy: Arc<dyn policy::Policy> = match spec.policy {
        Policy::Default => Arc::new(policy::LeafLocal),
        Policy::Paper => papers(context, spec),
    };
    let options = TierOptions {
        policy,
        inclusive: spec.inclusive,
        in_memory: spec.in_memory,
        on_hot_root,
    };
    (spec.tiers == Tiers::Two).then_some(options)
}

fn methods(spec: Spec) -> &'static dyn Methods {
    (spec.kind.row().methods)(spec.variant())
}

/// Makes an empty structure inside the gate.
pub fn create(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    door: &WriteGuard<'_>,
) -> Attempt<Arc<dyn Structure>> {
    let made = methods(spec).create(context, id, tier_options(context, spec, on_hot_root), door)?;
    made.compress(spec.compression.levels());
    Ok(made)
}

/// The structure with these roots.
pub fn open(
    context: &Arc<TierContext>,
    id: StructureId,
    spec: Spec,
    on_hot_root: OnHotRoot,
    roots: Roots,
) -> Arc<dyn Structure> {
    let opened = methods(spec).open(context, id, tier_options(context, spec, on_hot_root), roots);
    opened.compress(spec.compression.levels());
    opened
}

/// Takes back, in the same entry of the gate, what [`create`] has just made.
pub fn undo_create(
    store: &Arc<PageStore>,
    spec: Spec,
    roots: Roots,
    door: &WriteGuard<'_>,
) -> Attempt<()> {
    free_roots(store, spec, roots, door, &mut || Ok(()))
}

/// Removes records and pages of a structure that no thread uses, its roots excepted, in a bounded
/// step. Returns whether more is left to do.
pub fn clear_step(store: &Arc<PageStore>, spec: Spec, roots: Roots) -> Result<bool> {
    methods(spec).clear_step(store, roots)
}

/// Names the pages of a structure that is being taken apart, and checks what can be checked of them.
pub fn verify_pages(
    store: &Arc<PageStore>,
    spec: Spec,
    roots: Roots,
    page: &mut dyn FnMut(PageId) -> Result<()>,
) -> Result<()> {
    methods(spec).verify_pages(store, roots, page)
}

/// Frees the pages of a structure of which nothing is left but what it was made of, if `forget`,
/// which makes sure that nothing names them any more, succeeds.
pub fn free_roots(
    store: &Arc<PageStore>,
    spec: Spec,
    roots: Roots,
    door: &WriteGuard<'_>,
    forget: &mut dyn FnMut() -> Attempt<()>,
) -> Attempt<()> {
    let pages = methods(spec).pages_when_empty(store, roots)?;
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
