//! What a map needs of its dynamic stage: an ordered structure that takes all writes.

use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::stage::KeyRun;

/// What an insert waits for next: its lines have been asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// The last inner node of the way down.
    Inner,
    /// The leaf.
    Leaf,
}

/// A pair of optional bounds: from the one up to the other.
pub type Span<'k, F> = (
    Option<<F as Family>::Ref<'k>>,
    Option<<F as Family>::Ref<'k>>,
);

/// An ordered map from encoded keys to values that takes writes. Every operation on a key is O(log n)
/// or O(key); each entry has a reference bit, which `get` sets if told so and `get_mut` always.
pub trait DynamicStage<F: Family, V>: Default {
    /// A place in it.
    type Cursor<'a>: DynamicCursor<'a, F, V>
    where
        Self: 'a,
        V: 'a;

    /// How many entries there are. O(1).
    fn len(&self) -> usize;

    /// Bytes allocated. O(1).
    fn bytes(&self) -> usize;

    /// The value of `key`; `touch` marks the entry as used.
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V>;

    /// The value of `key`, to change; marks the entry as used.
    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V>;

    /// Sets the value of `key` and returns the one it had.
    fn insert(&mut self, key: F::Ref<'_>, val: V) -> Option<V> {
        self.insert_and(key, val, |_| {})
    }

    /// [`DynamicStage::insert`] that calls `meanwhile` once with each [`Near`]: when it has asked
    /// for the lines of the last steps of its way, and would wait for them.
    fn insert_and(&mut self, key: F::Ref<'_>, val: V, meanwhile: impl FnMut(Near)) -> Option<V>;

    /// Takes out the entry of `key`.
    fn remove(&mut self, key: F::Ref<'_>) -> Option<V>;

    /// The first entry whose key is not less than `from`; the first of all for `None`. Calls
    /// `meanwhile` when it has asked for the last lines and would wait for them, if it does.
    fn seek(&self, from: Option<F::Ref<'_>>, meanwhile: impl FnOnce()) -> Option<Self::Cursor<'_>>;

    /// The last entry whose key is less than `to`; the last of all for `None`.
    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<Self::Cursor<'_>>;

    /// Shows the entries of a span in order, their values to change. O(log n + entries) of a B+tree,
    /// O(n) of others. Marks none as used.
    fn visit_mut<'a>(&'a mut self, span: Span<'_, F>, see: impl FnMut(F::Ref<'_>, &'a mut V))
    where
        V: 'a;

    /// How many entries lie in `from..to`, counted no further than `limit`. O(log n + limit).
    fn count(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        let mut n = 0;
        let mut at = self.seek(from, || {});
        while let Some(pos) = &mut at {
            if n == limit || to.is_some_and(|to| F::cmp(pos.key(), to).is_ge()) {
                break;
            }
            n += 1;
            if !pos.next() {
                break;
            }
        }
        n
    }

    /// [`DynamicStage::count`] where it takes no walk over the entries; 0 elsewhere.
    fn room(&self, _from: Option<F::Ref<'_>>, _to: Option<F::Ref<'_>>, _limit: usize) -> usize {
        0
    }

    /// Takes out at most `limit` entries of a span in order, no more behind the one with which
    /// their keys have `bytes` bytes, and gives them to `sink`. With `keep_hot`, used ones stay,
    /// count against both limits, are given to `kept`, and are no longer marked. Returns how many
    /// entries were met, and whether a limit was. O(met log n).
    fn drain(
        &mut self,
        (from, to): Span<'_, F>,
        (limit, bytes): (usize, usize),
        keep_hot: bool,
        mut sink: impl FnMut(F::Ref<'_>, V),
        mut kept: impl FnMut(F::Ref<'_>),
    ) -> (usize, bool) {
        let (mut met, mut left, mut out) = (0, bytes, F::Run::default());
        let mut at = self.seek(from, || {});
        while met < limit
            && left > 0
            && let Some(pos) = &mut at
            && to.is_none_or(|to| F::cmp(pos.key(), to).is_lt())
        {
            met += 1;
            left = left.saturating_sub(F::size(pos.key()));
            if keep_hot && pos.cool() && !planted(Fault::LostMark) {
                kept(pos.key());
            } else {
                out.push(pos.key());
            }
            if !pos.next() {
                at = None;
            }
        }
        drop(at);
        for i in 0..out.len() {
            if let Some(val) = self.remove(out.get(i)) {
                sink(out.get(i), val);
            }
        }
        (met, met == limit || left == 0)
    }
}

/// An entry of a dynamic stage. Lends its key, which some structures put together.
pub trait DynamicCursor<'a, F: Family, V: 'a> {
    /// The key.
    fn key(&self) -> F::Ref<'_>;
    /// The value.
    fn val(&self) -> &'a V;
    /// Moves to the next entry; false, and somewhere undefined, where there is none.
    fn next(&mut self) -> bool;
    /// Moves to the entry before; false, and somewhere undefined, where there is none.
    fn prev(&mut self) -> bool;
    /// Whether both are the same entry of the same structure.
    fn same(&self, other: &Self) -> bool;
    /// Whether the entry was marked as used; it is not from then on.
    fn cool(&self) -> bool;
}
