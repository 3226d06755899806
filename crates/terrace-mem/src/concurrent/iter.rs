//! Iteration over a map that changes: the entries of one part at a time, as of one moment.

use super::Shared;
use super::merge::PIECE;
use super::part::Directory;
use crate::dynamic::Pos;
use crate::family::Family;
use crate::key::IndexKey;
use crate::stage::{KeyCursor, KeyRun, StaticStage};
use crossbeam_epoch::{self as epoch, Guard};
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// Entries in order, cloned. From
/// [`ConcurrentHybridMap::iter`](crate::ConcurrentHybridMap::iter) and
/// [`ConcurrentHybridMap::range`](crate::ConcurrentHybridMap::range).
#[must_use = "an iterator does nothing until it is asked for entries"]
pub struct ConcurrentIter<'a, K: IndexKey, V> {
    shared: &'a Shared<K::Family, V>,
    /// Where the next part begins; none behind the last.
    next: Option<<K::Family as Family>::Buf>,
    to: Option<<K::Family as Family>::Buf>,
    keys: <K::Family as Family>::Run,
    at: usize,
    vals: std::vec::IntoIter<V>,
    key: PhantomData<fn() -> K>,
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
            next: some.then_some(from),
            to,
            keys: Default::default(),
            at: 0,
            vals: Vec::new().into_iter(),
            key: PhantomData,
        }
    }

    /// Clones the entries of the part that `from` is in, from there on.
    fn fill(&mut self, from: &<K::Family as Family>::Buf) {
        let (guard, shared) = (epoch::pin(), self.shared);
        while !self.fill_by(shared.directory.load(&guard), from, &guard) {}
    }

    /// [`ConcurrentIter::fill`] by a directory; false where it is out of date.
    fn fill_by(
        &mut self,
        directory: &Directory<K::Family, V>,
        from: &<K::Family as Family>::Buf,
        guard: &Guard,
    ) -> bool {
        let from = <K::Family as Family>::load(from);
        let to = self.to.as_ref().map(<K::Family as Family>::load);
        let i = directory.index(from);
        let part = &directory.parts[i];
        // Under the latch the segment and the dynamic stage belong together: a merge
        // removes nothing meanwhile, and what it publishes has what is in both.
        let dynamic = part.read();
        if dynamic.retired {
            return false;
        }
        // The next part may have left meanwhile and this one have got its range: the range is
        // asked for again, so its entries are left out here.
        let mut next = directory.parts.get(i + 1).map(|part| &part.low);
        if let (Some(low), Some(to)) = (next, to)
            && <K::Family as Family>::cmp(<K::Family as Family>::load(low), to).is_ge()
        {
            next = None;
        }
        let end = next.map(<K::Family as Family>::load).or(to);
        let before_end = |key: <K::Family as Family>::Ref<'_>| {
            end.is_none_or(|end| <K::Family as Family>::cmp(key, end).is_lt())
        };
        // A stage whose next key is behind the end is done: the latch is not held for a walk over
        // the rest of the part.
        let fixed = part.segment.load(guard);
        let mut cursor = fixed.keys.as_ref().and_then(|keys| keys.seek_cursor(from));
        cursor = cursor.filter(|at| before_end(at.key()));
        let mut pos = Pos::at_or_after(&dynamic.tree, Some(from));
        pos = pos.filter(|at| before_end(at.key()));
        self.keys.truncate(0);
        self.at = 0;
        let mut vals = Vec::new();
        let mut more = false;
        loop {
            // Long keys come in several pieces.
            if self.keys.key_bytes(0, vals.len()) >= PIECE {
                more = true;
                break;
            }
            let order = match (&pos, &cursor) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(pos), Some(cursor)) => <K::Family as Family>::cmp(pos.key(), cursor.key()),
            };
            if order.is_le()
                && let Some(at) = &mut pos
            {
                if let Some(val) = &at.val().val {
                    self.keys.push(at.key());
                    vals.push(val.clone());
                }
                if !at.next() || !before_end(at.key()) {
                    pos = None;
                }
            }
            if order.is_ge()
                && let Some(at) = &mut cursor
            {
                if order.is_gt() {
                    self.keys.push(at.key());
                    vals.push(fixed.vals[at.rank()].clone());
                }
                if !at.next() || !before_end(at.key()) {
                    cursor = None;
                }
            }
        }
        self.vals = vals.into_iter();
        self.next = if more {
            let last = self.keys.get(self.keys.len() - 1);
            let mut behind = <K::Family as Family>::owned(last);
            <K::Family as Family>::successor(&mut behind).then_some(behind)
        } else {
            next.cloned()
        };
        true
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Iterator for ConcurrentIter<'_, K, V> {
    type Item = (K, V);
    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(val) = self.vals.next() {
                self.at += 1;
                return Some((K::decode(self.keys.get(self.at - 1)), val));
            }
            // It stays until the part is there: a `clone` that panics has nothing left out.
            let from = self.next.clone()?;
            self.fill(&from);
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
    use super::PIECE;
    use crate::{ConcurrentHybridMap, Merging, Options, Stage};
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
                assert!(iter.keys.len() * 8 <= PIECE);
            }
            assert_eq!(iter.next(), None);
            assert!(map.range(100..600).eq((100..600).map(|i| (i, i))));
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

    /// Nodes that a range walks over come into the cache, so its bytes tell of them.
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
        let from = iter.next.take().unwrap();
        assert!(iter.fill_by(before, &from, &guard));
        let keys: Vec<u64> = iter.map(|entry| entry.0).collect();
        assert!(keys.into_iter().eq((0..13).map(|i| i * 10).chain([255])));
    }
}
