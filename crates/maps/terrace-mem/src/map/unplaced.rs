//! One kind of memory: what is left of placement without the feature `place`, nothing.

use super::core::Core;
use crate::error::OptionsError;
use crate::family::Family;
use crate::options::Options;
use crate::slots::Vals;

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    pub fn over(options: Options, _: Option<fn(&V) -> V>) -> Result<Self, OptionsError> {
        Self::new(options)
    }

    #[inline(always)]
    pub(super) fn is_crowded(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn placed(&mut self) {}

    #[inline(always)]
    pub(super) fn tell_always(&mut self) {}
}
