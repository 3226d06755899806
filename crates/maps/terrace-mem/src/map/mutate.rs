//! Iteration over both stages with values to change.

use super::hybrid::HybridMap;
use super::iter::half_open;
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::segment::Segment;
use crate::slots::Slots;
use crate::stage::KeyRun;
use crate::two_stage::{DynamicStage, StaticStage};
use alloc::vec::{self, Vec};
use core::iter::FusedIterator;
use core::ops::RangeBounds;
use core::{fmt, slice};

type RunOf<K> = <<K as IndexKey>::Family as Family>::Run;
type BufOf<K> = <<K as IndexKey>::Family as Family>::Buf;

/// What is left of a segment: its keys, and the rank and value of each entry.
struct Part<'a, K: IndexKey, V> {
    keys: RunOf<K>,
    vals: vec::IntoIter<(usize, &'a mut V)>,
}

/// Entries in order, keys owned, values to change. From [`HybridMap::iter_mut`] and
/// [`HybridMap::range_mut`].
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct IterMut<'a, K: IndexKey, V> {
    /// Those of the dynamic stage: their places in the run, and their values.
    dynamic: Part<'a, K, V>,
    segs: slice::IterMut<'a, Segment<K::Family, Slots<V>>>,
    front: Option<Part<'a, K, V>>,
    back: Option<Part<'a, K, V>>,
    from: Option<BufOf<K>>,
    to: Option<BufOf<K>>,
}

impl<'a, K: IndexKey, V> Part<'a, K, V> {
    fn of(
        seg: &'a mut Segment<K::Family, Slots<V>>,
        from: &Option<BufOf<K>>,
        to: &Option<BufOf<K>>,
    ) -> Self {
        let load = <K::Family as Family>::load;
        let Segment { keys: stage, vals } = seg;
        let from = from.as_ref().map_or(0, |from| stage.seek(load(from)));
        let to = to.as_ref().map_or(stage.len(), |to| stage.seek(load(to)));
        let mut keys = RunOf::<K>::default();
        stage.decode(&mut keys);
        let vals: Vec<_> = vals.iter_mut(from..to.max(from)).collect();
        Part {
            keys,
            vals: vals.into_iter(),
        }
    }

    fn first(&self) -> Option<<K::Family as Family>::Ref<'_>> {
        self.vals.as_slice().first().map(|e| self.keys.get(e.0))
    }

    fn last(&self) -> Option<<K::Family as Family>::Ref<'_>> {
        self.vals.as_slice().last().map(|e| self.keys.get(e.0))
    }

    fn own(&self, entry: (usize, &'a mut V)) -> (K, &'a mut V) {
        (K::decode(self.keys.get(entry.0)), entry.1)
    }
}

impl<'a, K: IndexKey, V> IterMut<'a, K, V> {
    fn new(map: &'a mut HybridMap<K, V>, from: Option<BufOf<K>>, to: Option<BufOf<K>>) -> Self {
        let load = <K::Family as Family>::load;
        let (a, b) = (from.as_ref().map(load), to.as_ref().map(load));
        let (mut keys, mut vals) = (RunOf::<K>::default(), Vec::new());
        map.core.dynamic.visit_mut((a, b), |key, val| {
            keys.push(key);
            vals.push((vals.len(), val));
        });
        let segs = map.core.segments.segs_mut(a, b);
        IterMut {
            dynamic: Part {
                keys,
                vals: vals.into_iter(),
            },
            segs: segs.iter_mut(),
            front: None,
            back: None,
            from,
            to,
        }
    }

    fn front(&mut self) -> Option<&mut Part<'a, K, V>> {
        while self.front.as_ref().is_none_or(|part| part.vals.len() == 0) {
            match self.segs.next() {
                Some(seg) => self.front = Some(Part::of(seg, &self.from, &self.to)),
                None => {
                    self.front = self.back.take();
                    break;
                }
            }
        }
        self.front.as_mut()
    }

    fn back(&mut self) -> Option<&mut Part<'a, K, V>> {
        while self.back.as_ref().is_none_or(|part| part.vals.len() == 0) {
            match self.segs.next_back() {
                Some(seg) => self.back = Some(Part::of(seg, &self.from, &self.to)),
                None => {
                    self.back = self.front.take();
                    break;
                }
            }
        }
        self.back.as_mut()
    }
}

impl<'a, K: IndexKey, V> Iterator for IterMut<'a, K, V> {
    type Item = (K, &'a mut V);

    fn next(&mut self) -> Option<(K, &'a mut V)> {
        let fixed = self.front().is_some_and(|part| part.vals.len() > 0);
        let dynamic = match (self.dynamic.first(), &self.front) {
            (None, _) => false,
            (Some(_), _) if !fixed => true,
            (Some(key), Some(part)) => part
                .first()
                .is_none_or(|other| <K::Family as Family>::cmp(key, other).is_lt()),
            (Some(_), None) => true,
        };
        let part = match dynamic {
            true => &mut self.dynamic,
            false => self.front.as_mut()?,
        };
        let entry = part.vals.next()?;
        Some(part.own(entry))
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for IterMut<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let fixed = self.back().is_some_and(|part| part.vals.len() > 0);
        let dynamic = match (self.dynamic.last(), &self.back) {
            (None, _) => false,
            (Some(_), _) if !fixed => true,
            (Some(key), Some(part)) => part
                .last()
                .is_none_or(|other| <K::Family as Family>::cmp(key, other).is_gt()),
            (Some(_), None) => true,
        };
        let part = match dynamic {
            true => &mut self.dynamic,
            false => self.back.as_mut()?,
        };
        let entry = part.vals.next_back()?;
        Some(part.own(entry))
    }
}

impl<K: IndexKey, V> FusedIterator for IterMut<'_, K, V> {}

/// Values in the order of their keys, to change.
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct ValuesMut<'a, K: IndexKey, V>(IterMut<'a, K, V>);

impl<'a, K: IndexKey, V> Iterator for ValuesMut<'a, K, V> {
    type Item = &'a mut V;
    fn next(&mut self) -> Option<&'a mut V> {
        self.0.next().map(|entry| entry.1)
    }
}

impl<K: IndexKey, V> DoubleEndedIterator for ValuesMut<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|entry| entry.1)
    }
}

impl<K: IndexKey, V> FusedIterator for ValuesMut<'_, K, V> {}

impl<K: IndexKey, V> fmt::Debug for IterMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").finish_non_exhaustive()
    }
}

impl<K: IndexKey, V> fmt::Debug for ValuesMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValuesMut").finish_non_exhaustive()
    }
}

impl<'a, K: IndexKey, V> IntoIterator for &'a mut HybridMap<K, V> {
    type Item = (K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;
    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// All entries in order of their keys, values to change where they are. Entries of the dynamic
    /// stage are listed first, and keys decoded a segment at a time: O(entries of the dynamic stage)
    /// to begin, O(1) amortised for each.
    ///
    /// ```
    /// let mut map: terrace_mem::HybridMap<u64, u64> = (0..5000).map(|i| (i, i)).collect();
    /// map.iter_mut().filter(|(key, _)| key % 2 == 0).for_each(|(_, val)| *val = 0);
    /// assert_eq!((map[&4000], map[&4001]), (0, 4001));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut::new(self, None, None)
    }

    /// All values in the order of their keys, to change; as [`HybridMap::iter_mut`].
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.iter_mut())
    }

    /// The entries whose keys lie in `range`, in order, values to change; as
    /// [`HybridMap::iter_mut`]. Empty where the start is behind the end.
    pub fn range_mut<Q, R>(&mut self, range: R) -> IterMut<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        let (from, to, empty) = half_open::<K, Q, R>(&range);
        let least = BufOf::<K>::default;
        match empty {
            true => IterMut::new(self, Some(least()), Some(least())),
            false => IterMut::new(self, from, to),
        }
    }
}
