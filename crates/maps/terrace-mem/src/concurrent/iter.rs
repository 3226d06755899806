//! Iteration over a map that changes: a run of entries at a time, as of one moment.

use super::merge::PIECE;
use super::part::Directory;
use super::shared::Shared;
use super::walk::walk;
use crate::family::Family;
use crate::key::IndexKey;
use crate::stage::KeyRun;
use crossbeam_epoch::{self as epoch, Guard};
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// Entries in order, cloned, from both ends. From
/// [`ConcurrentHybridMap::iter`](crate::ConcurrentHybridMap::iter) and
/// [`ConcurrentHybridMap::range`](crate::ConcurrentHybridMap::range).
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct ConcurrentIter<'a, K: IndexKey, V> {
    shared: &'a Shared<K::Family, V>,
    /// What was not asked for yet; none where nothing is left.
    rest: Option<Rest<<K::Family as Family>::Buf>>,
    front: Chunk<K::Family, V>,
    back: Chunk<K::Family, V>,
    key: PhantomData<fn() -> K>,
}

/// A range of keys; without an end, up to the greatest one.
#[derive(Clone)]
struct Rest<B> {
    from: B,
    to: Option<B>,
}

/// Entries on their way out, those of the back in falling order: first the one that is its end's
/// next.
struct Chunk<F: Family, V> {
    keys: F::Run,
    /// How many of the keys are gone from the beginning.
    at: usize,
    vals: std::vec::IntoIter<V>,
    /// How many entries the next one has at most.
    most: usize,
}

/// Entries of the first chunk. Most iterators are left after some dozens of entries, and to clone a
/// whole part for them would cost twenty times as much.
const FEW: usize = 64;

/// A chunk has this many times as many entries as the one before, at most: the part as a whole
/// soon.
const GROWTH: usize = 4;

impl<F: Family, V> Chunk<F, V> {
    fn empty() -> Self {
        Chunk {
            keys: F::Run::default(),
            at: 0,
            vals: Vec::new().into_iter(),
            most: FEW,
        }
    }

    /// The next entry of the end that the chunk was made for.
    fn first(&mut self) -> Option<(F::Ref<'_>, V)> {
        let val = self.vals.next()?;
        self.at += 1;
        Some((self.keys.get(self.at - 1), val))
    }

    /// The next entry of the other end.
    fn last(&mut self) -> Option<(F::Ref<'_>, V)> {
        let val = self.vals.next_back()?;
        Some((self.keys.get(self.at + self.vals.len()), val))
    }
}

impl<'a, K: IndexKey, V: Clone + Send + Sync + 'static> ConcurrentIter<'a, K, V> {
    pub(super) fn new(
        shared: &'a Shared<K::Family, V>,
        from: Option<<K::Family as Family>::Buf>,
        to: Option<<K::Family as Family>::Buf>,
    ) -> Self {
        let from = from.unwrap_or_default();
        // Nothing lies in a range that ends before it begins.
        let load = <K::Family as Family>::load;
        let some = to
            .as_ref()
            .is_none_or(|to| <K::Family as Family>::cmp(load(&from), load(to)).is_lt());
        ConcurrentIter {
            shared,
            rest: some.then_some(Rest { from, to }),
            front: Chunk::empty(),
            back: Chunk::empty(),
            key: PhantomData,
        }
    }

    /// Clones the first or the last entries of the rest that lie in one part, some of them where it
    /// has many, as of one moment. A `clone` that panics leaves the rest as it is.
    fn fill(&mut self, rest: Rest<<K::Family as Family>::Buf>, back: bool) {
        let (guard, shared) = (epoch::pin(), self.shared);
        while !self.fill_by(shared.directory.load(&guard), &rest, back, &guard) {}
    }

    /// [`ConcurrentIter::fill`] by a directory; false where it is out of date.
    fn fill_by(
        &mut self,
        directory: &Directory<K::Family, V>,
        rest: &Rest<<K::Family as Family>::Buf>,
        back: bool,
        guard: &Guard,
    ) -> bool {
        let load = <K::Family as Family>::load;
        let is_lt = |a, b| <K::Family as Family>::cmp(load(a), load(b)).is_lt();
        let parts = &directory.parts;
        let i = match (back, &rest.to) {
            (false, _) => directory.index(load(&rest.from)),
            (true, Some(to)) => directory.index_before(load(to)),
            (true, None) => parts.len() - 1,
        };
        // A part beside this one may have left meanwhile and this one have got its range: the range
        // is asked for again, so its entries are left out here.
        let mut here = rest.clone();
        if back && i > 0 && is_lt(&rest.from, &parts[i].low) {
            here.from = parts[i].low.clone();
        }
        if !back
            && let Some(next) = parts.get(i + 1)
            && rest.to.as_ref().is_none_or(|to| is_lt(&next.low, to))
        {
            here.to = Some(next.low.clone());
        }
        let part = &parts[i];
        let chunk = if back {
            &mut self.back
        } else {
            &mut self.front
        };
        let most = chunk.most;
        // Dropped without the latch, also where a `clone` panics.
        let mut vals = Vec::with_capacity(FEW);
        let dynamic = part.read();
        if dynamic.retired {
            return false;
        }
        let mut keys = std::mem::take(&mut chunk.keys);
        keys.truncate(0);
        let mut whole = true;
        let bounds = (Some(load(&here.from)), here.to.as_ref().map(load));
        let fixed = part.segment.load(guard);
        self.shared.place.touched(fixed);
        walk(&dynamic, fixed, bounds, back, |key, val| {
            keys.push(key);
            vals.push(val.clone());
            whole = vals.len() < most && keys.key_bytes(0, vals.len()) < PIECE;
            whole
        });
        drop(dynamic);
        let mut end = None;
        if !whole {
            end = Some(<K::Family as Family>::owned(keys.get(keys.len() - 1)));
        }
        self.rest = behind::<K::Family>(rest, here, end, back);
        *chunk = Chunk {
            keys,
            at: 0,
            vals: vals.into_iter(),
            most: most.saturating_mul(GROWTH),
        };
        true
    }
}

/// What is left of `all` when its end `here` was asked for, as far as the key `end` where one is
/// given.
fn behind<F: Family>(
    all: &Rest<F::Buf>,
    here: Rest<F::Buf>,
    end: Option<F::Buf>,
    back: bool,
) -> Option<Rest<F::Buf>> {
    let mut left = all.clone();
    match (back, end) {
        (true, Some(end)) => left.to = Some(end),
        (true, None) => left.to = Some(here.from),
        (false, Some(mut end)) => {
            if !F::successor(&mut end) {
                return None;
            }
            left.from = end;
        }
        (false, None) => left.from = here.to?,
    }
    let to = left.to.as_ref();
    to.is_none_or(|to| F::cmp(F::load(&left.from), F::load(to)).is_lt())
        .then_some(left)
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Iterator for ConcurrentIter<'_, K, V> {
    type Item = (K, V);
    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some((key, val)) = self.front.first() {
                return Some((K::decode(key), val));
            }
            let Some(rest) = self.rest.clone() else {
                let (key, val) = self.back.last()?;
                return Some((K::decode(key), val));
            };
            self.fill(rest, false);
        }
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> DoubleEndedIterator
    for ConcurrentIter<'_, K, V>
{
    fn next_back(&mut self) -> Option<(K, V)> {
        loop {
            if let Some((key, val)) = self.back.first() {
                return Some((K::decode(key), val));
            }
            let Some(rest) = self.rest.clone() else {
                let (key, val) = self.front.last()?;
                return Some((K::decode(key), val));
            };
            self.fill(rest, true);
        }
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> FusedIterator for ConcurrentIter<'_, K, V> {}

impl<K: IndexKey, V> fmt::Debug for ConcurrentIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentIter").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::{FEW, PIECE};
    #[cfg(feature = "compressed")]
    use crate::Stage;
    use crate::{ConcurrentHybridMap, Merging, Options};
    use crossbeam_epoch as epoch;

    #[test]
    fn merges_and_iterators_take_pieces_of_bounded_size() {
        let options = Options {
            segment_len: 512,
            merging: Merging::Manual,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        let n = 2000;
        let is_whole = || {
            let mut iter = map.iter();
            for i in 0..n {
                assert_eq!(iter.next(), Some((i, i)));
                assert!(iter.front.keys.len() * 8 <= PIECE);
            }
            assert_eq!(iter.next(), None);
            assert!(map.range(100..600).eq((100..600).map(|i| (i, i))));
            let mut iter = map.iter();
            for i in (0..n).rev() {
                assert_eq!(iter.next_back(), Some((i, i)));
                assert!(iter.back.keys.len() * 8 <= PIECE);
            }
            assert_eq!(iter.next_back(), None);
            let middle = map.range(100..600).rev();
            assert!(middle.eq((100..600).rev().map(|i| (i, i))));
        };
        (0..n).for_each(|i| assert_eq!(map.insert(&i, i), None));
        is_whole();
        let part = map.shared.directory.load(&epoch::pin()).parts[0].clone();
        assert!(map.shared.merge_part(&part, false));
        assert_eq!(map.stage_lens(), (n as usize - PIECE / 8, PIECE / 8));
        is_whole();
        map.merge_all();
        assert_eq!(map.stage_lens(), (0, n as usize));
        is_whole();
        (0..n).for_each(|i| assert_eq!(map.remove(&i), Some(i)));
        map.merge_all();
        assert_eq!((map.stage_lens(), map.iter().next()), ((0, 0), None));
    }

    #[test]
    fn few_entries_are_cloned_for_few() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        // Not the copies that there are: what was replaced goes whenever an epoch ends.
        struct Counted(Arc<AtomicUsize>);
        impl Clone for Counted {
            fn clone(&self) -> Self {
                self.0.fetch_add(1, Ordering::Relaxed);
                Counted(self.0.clone())
            }
        }
        let options = Options {
            merging: Merging::Manual,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, Counted>::with_options(options).unwrap();
        let val = Counted(Arc::default());
        (0..4000).for_each(|i| assert!(map.insert(&i, val.clone()).is_none()));
        map.merge_all();
        assert_eq!(map.shared.directory.load(&epoch::pin()).parts.len(), 1);
        let before = val.0.load(Ordering::Relaxed);
        let cloned = || val.0.load(Ordering::Relaxed) - before;
        let mut iter = map.range(1000..);
        for i in 0..50 {
            assert_eq!(iter.next().map(|entry| entry.0), Some(1000 + i));
            assert_eq!(iter.next_back().map(|entry| entry.0), Some(3999 - i));
        }
        assert!(cloned() <= 2 * FEW, "{} for 100", cloned());
        // To walk over many takes fewer steps, which pieces bound.
        let mut steps = 0;
        while iter.rest.is_some() {
            let left = iter.front.vals.len();
            assert!((0..=left).all(|_| iter.next().is_some()));
            steps += 1;
        }
        assert!(steps <= 4000 / (PIECE / 8), "{steps} steps");
        let keys: Vec<u64> = iter.map(|entry| entry.0).collect();
        assert!(keys.is_sorted() && keys.last() == Some(&3949), "{keys:?}");
    }

    /// Nodes that a range walks over come into the cache, so its bytes tell of them.
    #[cfg(feature = "compressed")]
    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn a_range_does_not_walk_to_the_end_of_the_part_it_ends_in() {
        let options = Options {
            merging: Merging::Manual,
            stage: Stage::Compressed,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        (0..4000).for_each(|i| assert_eq!(map.insert(&(i * 2), i), None));
        map.merge_all();
        assert_eq!(map.shared.directory.load(&epoch::pin()).parts.len(), 1);
        let none = map.memory_usage().cache;
        for (from, to) in [(3000, 3000), (3000, 1000), (0, 0)] {
            assert_eq!(map.range(from..to).next(), None);
            assert_eq!(
                map.memory_usage().cache,
                none,
                "{from}..{to} looked at a node"
            );
        }
        // Entries of the dynamic stage are met on the way, and behind the end.
        (1500..1520).for_each(|i| assert_eq!(map.insert(&(i * 2 + 1), i), None));
        assert!(map.range(3001..3005).map(|entry| entry.0).eq(3001..3005));
        // All that was looked at lies in one node; there are 63.
        let one = map.memory_usage().cache;
        assert!(one < none + 3 * 64 * 8, "{one} after {none}");
        assert_eq!(map.iter().count(), 4020);
        assert!(map.memory_usage().cache > none + 60 * 64 * 8);
    }

    #[test]
    fn an_entry_in_the_range_of_a_part_that_left_comes_once() {
        let options = Options {
            segment_len: 16,
            merging: Merging::Manual,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u32>::with_options(options).unwrap();
        (0..26).for_each(|i| assert_eq!(map.insert(&(i * 10), 0), None));
        map.merge_all();
        let guard = epoch::pin();
        let before = map.shared.directory.load(&guard);
        assert_eq!(before.parts.len(), 2);
        (13..26).for_each(|i| assert_eq!(map.remove(&(i * 10)), Some(0)));
        map.merge_all();
        map.insert(&255, 1);
        // What an iterator does that had looked at the directory before all that.
        let mut iter = map.iter();
        let rest = iter.rest.take().unwrap();
        assert!(iter.fill_by(before, &rest, false, &guard));
        let keys: Vec<u64> = iter.map(|entry| entry.0).collect();
        assert!(keys.into_iter().eq((0..13).map(|i| i * 10).chain([255])));
    }
}
