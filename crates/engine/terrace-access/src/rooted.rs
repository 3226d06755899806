//! Where a structure of a method begins, and what makes a method a tier.

use std::sync::Arc;

use terrace_base::PageId;
use terrace_pages::{Class, PageStore};

use crate::{Attempt, InStorage, Neighbours, RangeDeletes, Runs, Sampled, WriteGuard};

/// An access method whose structure begins at a fixed root page, as the composition makes and opens
/// it.
pub trait Rooted: Sized {
    /// What decides on the order of the records and two tiers of one structure must have in common:
    /// the secret of a hash table, nothing for a tree.
    type Order: Copy + PartialEq + Send + Sync;
    /// A new one, from random numbers.
    fn new_order(random: &mut dyn FnMut() -> u64) -> Self::Order;
    /// Makes an empty structure.
    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        order: Self::Order,
    ) -> Attempt<Self>;
    /// Its order.
    fn try_order(&self) -> Attempt<Self::Order>;
    /// The structure with this root. Reads nothing.
    fn open(store: &Arc<PageStore>, root: PageId, class: Class) -> Self;
    /// The structure as a hot tier above one whose records are reached by an index.
    fn above_an_index(self) -> Self {
        self
    }
    /// The structure as the only tier: no other one gathers changes above it.
    fn into_only_tier(self) -> Self {
        self
    }
    /// The structure as one of which only a part is left: it was taken out of another ([`crate::RangeDeletes`]), and begins
    /// and ends anywhere.
    fn into_part(self) -> Self {
        self
    }
    /// Its root page.
    fn root(&self) -> PageId;
    /// The pages that an empty structure is made of: its root, unless it has more.
    fn pages_when_empty(&self) -> Attempt<Vec<PageId>> {
        Ok(vec![self.root()])
    }
    /// Frees the root of an empty structure that is not used any more.
    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()>;
    /// Longest value that is stored beside its key, in pages of this size.
    fn max_inline(page_bytes: usize) -> usize;
}

/// A method that can be the only tier of a structure, or the cold one of two; with [`crate::Sweep`] the hot one.
pub trait Tier: Sampled + Runs + Neighbours + InStorage + RangeDeletes + Rooted + 'static {}

impl<M: Sampled + Runs + Neighbours + InStorage + RangeDeletes + Rooted + 'static> Tier for M {}
