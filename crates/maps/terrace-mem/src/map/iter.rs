//! Iteration over both stages in order, from both ends.

use super::core::Core;
use super::merged::Merged;
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::segment::Segment;
use crate::slots::{Slots, Vals};
use crate::stage::KeyRun;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};

/// A range of probes as a half-open range of encoded keys.
pub fn bounded<'a, K, V, S, Q, R>(
    core: &'a Core<K::Family, V, S>,
    range: &R,
) -> Merged<'a, K::Family, V, S>
where
    K: IndexKey,
    S: Vals<Own = V>,
    Q: Probe<K> + ?Sized,
    R: RangeBounds<Q>,
{
    let (from, to, empty) = half_open::<K, Q, R>(range);
    let load = <K::Family as Family>::load;
    if empty {
        let least = <K::Family as Family>::Buf::default();
        return core.range(Some(load(&least)), Some(load(&least)));
    }
    core.range(from.as_ref().map(load), to.as_ref().map(load))
}

type BufOf<K> = <<K as IndexKey>::Family as Family>::Buf;

/// The least key in the range, the least behind it, and whether it is empty by its form.
pub fn half_open<K, Q, R>(range: &R) -> (Option<BufOf<K>>, Option<BufOf<K>>, bool)
where
    K: IndexKey,
    Q: Probe<K> + ?Sized,
    R: RangeBounds<Q>,
{
    let owned = |key: &Q| key.probe(|key| <K::Family as Family>::owned(key));
    let after = |key: &Q| {
        let mut buf = owned(key);
        <K::Family as Family>::successor(&mut buf).then_some(buf)
    };
    let (mut empty, mut from, mut to) = (false, None, None);
    match range.start_bound() {
        Bound::Unbounded => {}
        Bound::Included(key) => from = Some(owned(key)),
        Bound::Excluded(key) => {
            from = after(key);
            empty = from.is_none();
        }
    }
    match range.end_bound() {
        Bound::Unbounded => {}
        Bound::Included(key) => to = after(key),
        Bound::Excluded(key) => to = Some(owned(key)),
    }
    (from, to, empty)
}

/// Lends the entries of a range, keys encoded; see [`HybridMap::cursor`](crate::HybridMap::cursor).
#[must_use = "a cursor does nothing until it is asked for entries"]
pub struct Cursor<'a, K: IndexKey, V> {
    merged: Merged<'a, K::Family, V>,
    key: PhantomData<fn() -> K>,
}

impl<'a, K: IndexKey, V> Cursor<'a, K, V> {
    pub(super) fn new(merged: Merged<'a, K::Family, V>) -> Self {
        Cursor {
            merged,
            key: PhantomData,
        }
    }

    /// The next entry from the front. O(1) amortised.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends, which Iterator cannot"
    )]
    pub fn next(&mut self) -> Option<(<K::Family as Family>::Ref<'_>, &'a V)> {
        self.merged.next()
    }

    /// The next entry from the back. O(1) amortised.
    pub fn next_back(&mut self) -> Option<(<K::Family as Family>::Ref<'_>, &'a V)> {
        self.merged.next_back()
    }
}

/// Entries in order, keys owned. From [`HybridMap::iter`](crate::HybridMap::iter) and
/// [`HybridMap::range`](crate::HybridMap::range).
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct Iter<'a, K: IndexKey, V> {
    merged: Merged<'a, K::Family, V>,
    key: PhantomData<fn() -> K>,
}

impl<'a, K: IndexKey, V> Iter<'a, K, V> {
    pub(super) fn new(merged: Merged<'a, K::Family, V>) -> Self {
        Iter {
            merged,
            key: PhantomData,
        }
    }
}

impl<'a, K: IndexKey, V> Iterator for Iter<'a, K, V> {
    type Item = (K, &'a V);
    #[inline]
    fn next(&mut self) -> Option<(K, &'a V)> {
        self.merged.next().map(|(key, val)| (K::decode(key), val))
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.merged
            .next_back()
            .map(|(key, val)| (K::decode(key), val))
    }
}

/// Keys in order.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct Keys<'a, K: IndexKey, V>(pub(super) Iter<'a, K, V>);

impl<K: IndexKey, V> Iterator for Keys<'_, K, V> {
    type Item = K;
    fn next(&mut self) -> Option<K> {
        self.0.next().map(|entry| entry.0)
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for Keys<'_, K, V> {
    fn next_back(&mut self) -> Option<K> {
        self.0.next_back().map(|entry| entry.0)
    }
}

/// Values in the order of their keys.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct Values<'a, K: IndexKey, V>(pub(super) Iter<'a, K, V>);

impl<'a, K: IndexKey, V> Iterator for Values<'a, K, V> {
    type Item = &'a V;
    fn next(&mut self) -> Option<&'a V> {
        self.0.next().map(|entry| entry.1)
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for Values<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|entry| entry.1)
    }
}

/// Entries in order, owned. Unpacks one segment at a time.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct IntoIter<K: IndexKey, V> {
    segs: alloc::vec::IntoIter<Segment<K::Family, Slots<V>>>,
    keys: <K::Family as Family>::Run,
    next: usize,
    vals: alloc::vec::IntoIter<V>,
}

impl<K: IndexKey, V> IntoIter<K, V> {
    pub(super) fn new(mut core: Core<K::Family, V>) -> Self {
        core.merge_all();
        IntoIter {
            segs: core.segments.take_all().into_iter(),
            keys: Default::default(),
            next: 0,
            vals: Vec::new().into_iter(),
        }
    }
}

impl<K: IndexKey, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);
    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(val) = self.vals.next() {
                self.next += 1;
                return Some((K::decode(self.keys.get(self.next - 1)), val));
            }
            let mut seg = self.segs.next()?;
            let mut vals = Vec::new();
            self.keys.truncate(0);
            self.next = 0;
            seg.unpack(&mut self.keys, &mut vals);
            self.vals = vals.into_iter();
        }
    }
}
