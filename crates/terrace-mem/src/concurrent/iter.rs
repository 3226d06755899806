//! Iteration over a map that changes: the entries of one part at a time, as of one moment.

use super::Shared;
use crate::dynamic::Pos;
use crate::family::Family;
use crate::key::IndexKey;
use crate::stage::{KeyCursor, KeyRun, StaticStage};
use crossbeam_epoch as epoch;
use std::marker::PhantomData;

/// Entries in order, cloned. From
/// [`ConcurrentHybridMap::iter`](crate::ConcurrentHybridMap::iter) and
/// [`ConcurrentHybridMap::range`](crate::ConcurrentHybridMap::range).
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
        ConcurrentIter {
            shared,
            next: Some(from.unwrap_or_default()),
            to,
            keys: Default::default(),
            at: 0,
            vals: Vec::new().into_iter(),
            key: PhantomData,
        }
    }

    /// Clones the entries of the part that `from` is in, from there on.
    fn fill(&mut self, from: &<K::Family as Family>::Buf) {
        let guard = epoch::pin();
        let from = <K::Family as Family>::load(from);
        let to = self.to.as_ref().map(<K::Family as Family>::load);
        let before_end = |key: <K::Family as Family>::Ref<'_>| {
            to.is_none_or(|to| <K::Family as Family>::cmp(key, to).is_lt())
        };
        loop {
            let directory = self.shared.directory.load(&guard);
            let i = directory.index(from);
            let part = &directory.parts[i];
            // Under the latch the segment and the dynamic stage belong together: a merge
            // removes nothing meanwhile, and what it publishes has what is in both.
            let dynamic = part.read();
            if dynamic.retired {
                continue;
            }
            let fixed = part.segment.load(&guard);
            let mut cursor = fixed.keys.as_ref().and_then(|keys| keys.seek_cursor(from));
            let mut pos = Pos::at_or_after(&dynamic.tree, Some(from));
            self.keys.truncate(0);
            self.at = 0;
            let mut vals = Vec::new();
            loop {
                let order = match (&pos, &cursor) {
                    (None, None) => break,
                    (Some(_), None) => std::cmp::Ordering::Less,
                    (None, Some(_)) => std::cmp::Ordering::Greater,
                    (Some(pos), Some(cursor)) => {
                        <K::Family as Family>::cmp(pos.key(), cursor.key())
                    }
                };
                if order.is_le()
                    && let Some(at) = &mut pos
                {
                    if let Some(val) = &at.val().val
                        && before_end(at.key())
                    {
                        self.keys.push(at.key());
                        vals.push(val.clone());
                    }
                    if !at.next() {
                        pos = None;
                    }
                }
                if order.is_ge()
                    && let Some(at) = &mut cursor
                {
                    if order.is_gt() && before_end(at.key()) {
                        self.keys.push(at.key());
                        vals.push(fixed.vals[at.rank()].clone());
                    }
                    if !at.next() {
                        cursor = None;
                    }
                }
            }
            self.vals = vals.into_iter();
            self.next = directory.parts.get(i + 1).map(|part| part.low.clone());
            if let (Some(next), Some(to)) = (&self.next, to)
                && <K::Family as Family>::cmp(<K::Family as Family>::load(next), to).is_ge()
            {
                self.next = None;
            }
            return;
        }
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
            let from = self.next.take()?;
            self.fill(&from);
        }
    }
}
