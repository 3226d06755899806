//! Where segments lie: on the heap.

use super::seat::Seat;
use crate::concurrent::part::{Dynamic, Fixed, Part};
use crate::family::Family;
use crate::options::Options;
use crossbeam_epoch::Guard;
use std::marker::PhantomData;

/// Where segments lie: on the heap.
pub struct Placing<F, V>(PhantomData<fn() -> (F, V)>);

impl<F: Family, V: Clone + Send + Sync + 'static> Placing<F, V> {
    pub fn new(_: &Options) -> Self {
        Placing(PhantomData)
    }

    pub fn stop(&self) {}

    pub fn fix(
        &self,
        keys: Option<F::Stage>,
        vals: Vec<V>,
        _: Option<&Fixed<F, V>>,
    ) -> Fixed<F, V> {
        let (vals, seat) = (vals.into(), Seat {});
        Fixed { keys, vals, seat }
    }

    #[inline(always)]
    pub fn look<R>(
        &self,
        _: &Part<F, V>,
        fixed: &Fixed<F, V>,
        key: F::Ref<'_>,
        _: &Guard,
        see: impl FnOnce(Option<&V>) -> R,
    ) -> R {
        see(fixed.get(key))
    }

    #[inline(always)]
    pub fn touched(&self, _: &Fixed<F, V>) {}

    #[inline(always)]
    pub fn wrote(&self, _: &Fixed<F, V>, _: &Dynamic<F, V>) {}

    #[inline(always)]
    pub fn merged(&self, _: &Part<F, V>, _: &Guard) {}

    #[inline(always)]
    pub fn changed<'a>(&self, _: impl Iterator<Item = (F::Ref<'a>, Option<&'a V>)>, _: &Guard)
    where
        V: 'a,
    {
    }

    pub fn cleared(&self, _: &Guard) {}

    #[inline(always)]
    pub fn most(&self) -> usize {
        usize::MAX
    }

    pub fn copy_bytes(&self) -> usize {
        0
    }
}
