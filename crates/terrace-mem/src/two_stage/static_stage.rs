//! What a map needs of the keys of a segment, whatever their form.

use crate::family::Family;
use crate::home::Home;
use crate::stage::{Plan, Stage, Training};
use alloc::vec::Vec;

/// A compact, read-only, sorted sequence of distinct keys (section 4 of the paper).
pub trait StaticStage<F: Family>: Sized + Send + Sync {
    /// Walks over the keys in both directions.
    type Cursor<'a>: KeyCursor<F>
    where
        Self: 'a;

    /// Builds the stage from the keys `from..to` of a sorted run. O(n).
    fn build(run: &F::Run, from: usize, to: usize, plan: &Plan<F>) -> Self;

    /// How many keys there are.
    fn len(&self) -> usize;

    /// The rank of `key`; `hash` gives its hash, for stages that need it. `likely` is called with
    /// ranks near it as soon as one is known, so that the caller can ask for the cache line of
    /// the value. O(log n).
    fn find(
        &self,
        key: F::Ref<'_>,
        hash: impl FnOnce() -> u64,
        likely: impl FnMut(usize),
    ) -> Option<usize>;

    /// How many keys are smaller than `key`. O(log n).
    fn seek(&self, key: F::Ref<'_>) -> usize;

    /// A cursor at a rank, which must be less than `len`.
    fn cursor(&self, rank: usize) -> Self::Cursor<'_>;

    /// A cursor at the first key that is not smaller than `key`.
    fn seek_cursor(&self, key: F::Ref<'_>) -> Option<Self::Cursor<'_>> {
        let rank = self.seek(key);
        (rank < self.len()).then(|| self.cursor(rank))
    }

    /// Appends all keys to a run. O(n).
    fn decode(&self, into: &mut F::Run);

    /// The stage of the keys whose rank is `live`, `n` of them, and those of `new`, which are
    /// others; adds to `before`, for each of `new`, how many live ones are less. None, and nothing
    /// done, where all keys have more than `most` bytes, or the stage has no better way than to
    /// decode and to build. O(bytes).
    fn merge(
        &self,
        _live: impl Fn(usize) -> bool,
        _n: usize,
        _new: &F::Run,
        _most: usize,
        _before: &mut Vec<u32>,
    ) -> Option<Self> {
        None
    }

    /// [`StaticStage::merge`] into a run, of any number of bytes.
    fn merge_run(
        &self,
        _live: impl Fn(usize) -> bool,
        _n: usize,
        _new: &F::Run,
        _before: &mut Vec<u32>,
    ) -> Option<F::Run> {
        None
    }

    /// Whether [`StaticStage::cut`] does anything.
    fn cuts(&self) -> bool {
        false
    }

    /// The stage of the keys whose rank is less than `at`, which is neither 0 nor `len`, and that of
    /// the others. None where it has no better way than to decode and to build. O(bytes).
    fn cut(&self, _at: usize) -> Option<(Self, Self)> {
        None
    }

    /// Asks for the cache lines that finding `key` starts with.
    fn prefetch(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64);

    /// Goes as far towards `key` as the lines asked for so far allow, asks for the next ones,
    /// and returns a rank near it where it sees one.
    fn approach(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> Option<usize>;

    /// [`StaticStage::prefetch`] for a search of the place of `key`, which may not be there.
    fn prefetch_place(&self, key: F::Ref<'_>) {
        self.prefetch(key, || F::hash(key));
    }

    /// [`StaticStage::approach`] for a search of the place of `key`.
    fn approach_place(&self, key: F::Ref<'_>) {
        self.approach(key, || F::hash(key));
    }

    /// Stores the first key; the stage must not be empty.
    fn first_key(&self, into: &mut F::Buf) {
        F::store(self.cursor(0).key(), into);
    }

    /// Stores the last key; the stage must not be empty.
    fn last_key(&self, into: &mut F::Buf) {
        F::store(self.cursor(self.len() - 1).key(), into);
    }

    /// Bytes of all keys as they are, of which less may be stored. O(blocks) or less.
    fn key_bytes(&self) -> usize;

    /// Bytes on the heap.
    fn bytes(&self) -> usize;

    /// Which stage it is.
    fn stage(&self) -> Stage;

    /// A copy whose keys lie there; none where this stage cannot say where they are to lie, or the
    /// memory is refused. O(bytes).
    fn placed(&self, _home: Home<'_>) -> Option<Self> {
        None
    }

    /// About so many bytes of what is stored, to find symbols in for the stages to come; none of stages
    /// that have no use for them.
    fn sample(&self, _bytes: usize) -> Option<Training> {
        None
    }

    /// A number that no other stage has or had, of keys that have [shortcuts](crate::shortcuts).
    fn id(&self) -> u64 {
        0
    }
}

/// A place in a stage; lends the key it stands at.
pub trait KeyCursor<F: Family> {
    /// The key.
    fn key(&self) -> F::Ref<'_>;
    /// The rank of the key.
    fn rank(&self) -> usize;
    /// Moves to the next key; false, and unmoved, where there is none.
    fn next(&mut self) -> bool;
    /// Moves to the key before; false, and unmoved, where there is none.
    fn prev(&mut self) -> bool;
}
