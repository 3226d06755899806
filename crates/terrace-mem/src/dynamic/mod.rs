//! The dynamic stage: an ordered structure that takes all writes, behind one trait.
//!
//! Which structure it is a map's [`Pair`](crate::Pair) says: [`Any`] is one of them. While it is small it
//! is two arrays, then a B+tree, whatever the pair: nothing else takes as few bytes. What always holds
//! of the B+tree: all leaves lie equally deep; an inner node has one child more than
//! separators; every key of child `i` is at least separator `i - 1` and less than separator `i`;
//! no node but an empty root is empty. Nodes that run empty are freed, others are not rebalanced:
//! the merge empties whole ranges soon.

mod any;
#[cfg(feature = "pairs")]
mod art;
mod byte_keys;
#[cfg(test)]
mod conformance;
mod few;
mod int_keys;
#[cfg(feature = "pairs")]
mod masstree;
mod node;
mod numbers;
mod pos;
#[cfg(feature = "pairs")]
mod skip_list;
#[cfg(feature = "pairs")]
mod slab;
mod tree;
#[cfg(feature = "pairs")]
mod whole;

pub use any::{Any, AnyPos};
pub use byte_keys::ByteKeys;
pub use int_keys::IntKeys;
pub use node::{CAP, FANOUT, Near};
#[cfg(feature = "pairs")]
pub use whole::{Classes, Inline, WholeKeys};

use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::stage::KeyRun;

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

/// The sorted keys of one node: [`CAP`] of a leaf at most, [`FANOUT`] of an inner one.
pub trait NodeKeys<F: Family>: Default + Send + Sync {
    /// How many keys there are.
    fn len(&self) -> usize;
    /// Key `i`.
    fn get(&self, i: usize) -> F::Ref<'_>;
    /// How many keys are smaller than `probe`.
    fn lower_bound(&self, probe: F::Ref<'_>) -> usize;
    /// How many keys are at most `probe`.
    fn upper_bound(&self, probe: F::Ref<'_>) -> usize;
    /// Where `probe` is, or where it would be.
    fn find(&self, probe: F::Ref<'_>) -> Result<usize, usize>;
    /// Asks for lines beside the node itself that an insert will change.
    fn warm(&self) {}
    /// Puts `key` at `i`; the node must not be full.
    fn insert(&mut self, i: usize, key: F::Ref<'_>);
    /// Takes out the keys `from..to`.
    fn remove(&mut self, from: usize, to: usize);
    /// Moves the keys from `at` on into a node of their own.
    fn split_off(&mut self, at: usize) -> Self;
    /// Bytes of the keys `from..to`.
    fn bytes(&self, from: usize, to: usize) -> usize;
    /// Bytes on the heap beside the node itself.
    fn heap(&self) -> usize;
    /// Whether the node must be split before it takes one more key.
    fn is_full(&self) -> bool;
}
