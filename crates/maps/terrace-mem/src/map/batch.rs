//! Many lookups at once, in step: each asks for its next cache line before any needs it.

use super::core::Core;
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::slots::Vals;
use crate::two_stage::{DynamicStage, StaticStage};
use alloc::vec::Vec;

/// Lookups in flight: about as many as a core has line fill buffers.
const GROUP: usize = 16;

pub fn get<'a, K, V, Q>(core: &'a Core<K::Family, V>, keys: &[&Q]) -> Vec<Option<&'a V>>
where
    K: IndexKey,
    Q: Probe<K> + ?Sized,
{
    let mut found = Vec::with_capacity(keys.len());
    let mut at = [0; GROUP];
    for group in keys.chunks(GROUP) {
        for (key, at) in group.iter().zip(&mut at) {
            key.probe(|key| *at = core.approach_segment(key));
        }
        for (key, &at) in group.iter().zip(&at) {
            key.probe(|key| core.approach_keys(at, key));
        }
        for (key, &at) in group.iter().zip(&at) {
            key.probe(|key| core.approach_value(at, key));
        }
        found.extend(group.iter().map(|key| key.probe(|key| core.get(key))));
    }
    found
}

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    fn approach_segment(&self, key: F::Ref<'_>) -> usize {
        if self.dynamic.len() > 0 && self.options.filter {
            self.filter.prefetch(F::hash(key));
        }
        let i = self.segments.locate(key);
        if let Some(seg) = self.segments.segs().get(i) {
            crate::simd::prefetch_whole(seg);
        }
        i
    }

    fn approach_keys(&self, i: usize, key: F::Ref<'_>) {
        if let Some(seg) = self.segments.segs().get(i) {
            seg.keys.prefetch(key, || F::hash(key));
        }
    }

    fn approach_value(&self, i: usize, key: F::Ref<'_>) {
        if let Some(seg) = self.segments.segs().get(i) {
            let near = seg.keys.approach(key, || F::hash(key));
            near.into_iter().for_each(|rank| seg.vals.prefetch(rank));
        }
    }
}
