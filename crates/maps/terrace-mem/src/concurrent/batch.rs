//! Many lookups at once, in step: each asks for its next cache lines before any waits for them.

use super::shared::Shared;
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::simd::{prefetch, prefetch_whole};
use crate::two_stage::StaticStage;
use crossbeam_epoch::{self as epoch, Guard};
use std::array;

/// Lookups in flight: about as many as a core has line fill buffers.
const GROUP: usize = 16;

/// The values of many keys, in the order asked for.
pub fn get<K, V, Q>(shared: &Shared<K::Family, V>, keys: &[&Q]) -> Vec<Option<V>>
where
    K: IndexKey,
    V: Clone + Send + Sync + 'static,
    Q: Probe<K> + ?Sized,
{
    let mut found = Vec::with_capacity(keys.len());
    for group in keys.chunks(GROUP) {
        // Held over the lookups, too, which need not pin for themselves then.
        let guard = epoch::pin();
        approach(shared, group, &guard);
        found.extend(
            group
                .iter()
                .map(|key| key.probe(|key| shared.look(key, |val| val.cloned()))),
        );
    }
    found
}

/// Brings what the lookups of a group will look at into the cache. What changes meanwhile is looked
/// at anew: nothing that is seen here counts.
fn approach<K, V, Q>(shared: &Shared<K::Family, V>, group: &[&Q], guard: &Guard)
where
    K: IndexKey,
    V: Clone + Send + Sync + 'static,
    Q: Probe<K> + ?Sized,
{
    let directory = shared.directory.load(guard);
    let mut parts = [None; GROUP];
    for (key, at) in group.iter().zip(&mut parts) {
        let part = key.probe(|key| directory.find(key));
        prefetch_whole(&**part);
        *at = Some(part);
    }
    let segments: [_; GROUP] = array::from_fn(|i| {
        let fixed = parts[i]?.segment.load(guard);
        // Its entry may have a copy in fast memory, which is asked first.
        if fixed.seat.is_slow() {
            return None;
        }
        prefetch_whole(fixed);
        Some(fixed)
    });
    for (key, fixed) in group.iter().zip(segments) {
        if let Some(keys) = fixed.and_then(|fixed| fixed.keys.as_ref()) {
            key.probe(|key| keys.prefetch(key, || K::Family::hash(key)));
        }
    }
    for (key, fixed) in group.iter().zip(segments) {
        if let Some(fixed) = fixed
            && let Some(keys) = &fixed.keys
        {
            let near = key.probe(|key| keys.approach(key, || K::Family::hash(key)));
            near.into_iter()
                .for_each(|rank| prefetch(&fixed.vals, rank));
        }
    }
}
