//! The access methods of a structure's tiers, chosen when it is known what kind it is, behind one face.

use std::marker::PhantomData;
use std::sync::Arc;

use terrace_access::{AccessMethod, Attempt, Sweep, Tier, WriteGuard};
use terrace_base::{PageId, Result, StructureId};
use terrace_pages::{Class, PageStore, Space};
use terrace_tier::{Roots, Single, Structure, TierContext, TierOptions, Tiered};

/// What can be asked of the access methods of a structure. Its options are those of two tiers; without, it has one.
pub trait Methods: Sync {
    /// Makes an empty structure inside the gate.
    fn create(
        &self,
        context: &Arc<TierContext>,
        id: StructureId,
        two: Option<TierOptions>,
        door: &WriteGuard<'_>,
    ) -> Attempt<Arc<dyn Structure>>;

    /// The structure with these roots.
    fn open(
        &self,
        context: &Arc<TierContext>,
        id: StructureId,
        two: Option<TierOptions>,
        roots: Roots,
    ) -> Arc<dyn Structure>;

    /// Removes records and pages of a structure that no thread uses, its roots excepted, in a bounded
    /// step. Returns whether more is left to do.
    fn clear_step(&self, store: &Arc<PageStore>, roots: Roots) -> Result<bool>;

    /// Names the pages of a structure of which records and pages may have been removed, and checks each tier by
    /// itself. What its records are cannot be told any more: a tier of it may be empty already.
    fn verify_pages(
        &self,
        store: &Arc<PageStore>,
        roots: Roots,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()>;

    /// The pages that are left of it then.
    fn pages_when_empty(&self, store: &Arc<PageStore>, roots: Roots) -> Attempt<Vec<PageId>>;
}

/// The access methods of the hot tier, and of the cold one, which is the only one where there is one tier.
pub struct Pair<H, C>(pub PhantomData<fn() -> (H, C)>);

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Methods for Pair<H, C> {
    fn create(
        &self,
        context: &Arc<TierContext>,
        id: StructureId,
        two: Option<TierOptions>,
        door: &WriteGuard<'_>,
    ) -> Attempt<Arc<dyn Structure>> {
        Ok(match two {
            None => Single::<C>::create(context, id, door)?,
            Some(options) => Tiered::<H, C>::create(context, id, door, options)?,
        })
    }

    fn open(
        &self,
        context: &Arc<TierContext>,
        id: StructureId,
        two: Option<TierOptions>,
        roots: Roots,
    ) -> Arc<dyn Structure> {
        match two {
            None => Single::<C>::open(context, id, roots),
            Some(options) => Tiered::<H, C>::open(context, id, roots, options),
        }
    }

    fn clear_step(&self, store: &Arc<PageStore>, roots: Roots) -> Result<bool> {
        if let Some(hot) = roots.hot
            && clear_tier(store, &H::open(store, hot, Class::Hot).into_part())?
        {
            return Ok(true);
        }
        // It may never have been whole.
        clear_tier(store, &C::open(store, roots.cold, Class::Cold).into_part())
    }

    fn verify_pages(
        &self,
        store: &Arc<PageStore>,
        roots: Roots,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        // Opened for this: what a method keeps of its pages in memory is not what it was before they went.
        if let Some(hot) = roots.hot {
            let hot = H::open(store, hot, Class::Hot).into_part();
            hot.verify(&mut |_, _, _| Ok(()), page)?;
        }
        // Or it never was whole: it was taken out of another.
        let cold = C::open(store, roots.cold, Class::Cold).into_part();
        cold.verify(&mut |_, _, _| Ok(()), page)
    }

    fn pages_when_empty(&self, store: &Arc<PageStore>, roots: Roots) -> Attempt<Vec<PageId>> {
        let mut pages = Vec::new();
        if let Some(hot) = roots.hot {
            pages.extend(H::open(store, hot, Class::Hot).pages_when_empty()?);
        }
        pages.extend(C::open(store, roots.cold, Class::Cold).pages_when_empty()?);
        Ok(pages)
    }
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
