//! What a merge and a lookup need of the values of a segment.

#[cfg(feature = "place")]
use crate::home::Home;
use alloc::vec::Vec;

/// The values of a segment by rank: what a merge and a lookup need of them.
pub trait Vals: Default {
    /// What the dynamic stage has of a key.
    type Own;
    /// What a lookup lends of it, the same for both stages.
    type Ref<'a>
    where
        Self: 'a;
    /// The values of a run on its way into or out of a segment.
    type Row: Default;

    /// What a lookup lends of a value of the dynamic stage.
    fn lend<'a>(val: &'a Self::Own) -> Self::Ref<'a>
    where
        Self: 'a;
    /// Values that come out of the dynamic stage.
    fn row(vals: Vec<Self::Own>) -> Self::Row;
    /// How many keys have values in a row.
    fn row_len(row: &Self::Row) -> usize;
    /// Takes the values from key `at` on out of a row, of which nothing is left over then.
    fn split_row(row: &mut Self::Row, at: usize) -> Self::Row;
    /// Puts others behind those of a row.
    fn append_row(row: &mut Self::Row, more: Self::Row);
    /// The values of a row, and before each new one as many of them as `before` says.
    fn merge_rows(old: Self::Row, new: Vec<Self::Own>, before: &[u32]) -> Self::Row;
    /// The values of a segment.
    fn of(row: Self::Row) -> Self;
    /// The values that are there, in order.
    fn into_row(self) -> Self::Row;

    /// How many slots are dead.
    fn gone(&self) -> usize;
    /// How many slots are not dead.
    fn live(&self) -> usize;
    /// Whether slot `i` exists and has its value.
    fn is_live(&self, i: usize) -> bool;
    /// The first live slot that is not before `i`; none behind the last. O(words).
    fn next_live(&self, i: usize) -> Option<usize>;
    /// The last live slot before `i`, which must be at most the number of slots. O(words).
    fn last_live(&self, i: usize) -> Option<usize>;
    /// The value of slot `i`.
    fn get(&self, i: usize) -> Option<Self::Ref<'_>>;
    /// Takes the value out of slot `i`, which is dead from then on.
    fn take(&mut self, i: usize) -> Option<Self::Own>;
    /// Asks for the cache line of slot `i`.
    fn prefetch(&self, i: usize);
    /// How many values lie apart, which the next merge packs.
    fn apart(&self) -> usize {
        0
    }
    /// Packs what lies apart. No slot may be dead. O(values).
    fn pack(&mut self) {
        debug_assert_eq!(self.gone(), 0, "dead slots keep their ranks");
        *self = Self::of(core::mem::take(self).into_row());
    }
    /// Bytes on the heap.
    fn bytes(&self) -> usize;

    /// Moves the values to another memory; false, and they stay, where that is refused.
    #[cfg(feature = "place")]
    fn place(&mut self, home: Home<'_>) -> bool;
    /// Of the bytes those that stay on the heap.
    #[cfg(feature = "place")]
    fn beside(&self) -> usize;
    /// The value of slot `i` as the dynamic stage would have it, where that is one.
    #[cfg(feature = "place")]
    fn whole(&self, _: usize) -> Option<&Self::Own> {
        None
    }
}
