//! What a form of keys is, and what it asks of each container that it brings along: runs, fixed keys, nodes,
//! bounds, shortcuts, static stages.
//!
//! A form names its containers and each container its form, so that the traits stand in one file. What keeps
//! them lies in files above this one, and which of those a form has is said in `families.rs`, above all of them.

use crate::home::Home;
use crate::plan::{Plan, Stage, Training};
use crate::search::partition_point;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::Debug;
use core::ops::Range;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::IntFamily {}
    impl Sealed for super::ByteFamily {}
}

/// A form that encoded keys have: [`IntFamily`] or [`ByteFamily`]. Sealed.
pub trait Family: sealed::Sealed + Sized + Send + Sync + 'static {
    /// An encoded key, borrowed.
    type Ref<'a>: Copy + Debug;
    /// An encoded key, owned.
    #[doc(hidden)]
    type Buf: Default + Clone + Debug + Send + Sync;
    /// The keys of a leaf of the dynamic stage.
    #[doc(hidden)]
    type LeafKeys: NodeKeys<Self>;
    /// The separators of an inner node of the dynamic stage.
    #[doc(hidden)]
    type InnerKeys: NodeKeys<Self>;
    /// A sorted run of keys on its way into or out of a static stage.
    #[doc(hidden)]
    type Run: KeyRun<Self>;
    /// Sorted keys that stay as they are.
    #[doc(hidden)]
    type Fixed: FixedKeys<Self>;
    /// The lower bounds of the segments.
    #[doc(hidden)]
    type Fences: Fences<Self>;
    /// The static stages for keys of this form.
    #[doc(hidden)]
    type Stage: StaticStage<Self>;
    /// Where keys that were looked up are.
    #[doc(hidden)]
    type Shortcuts: Shortcuts<Self>;

    /// Whole keys of a trie's leaves.
    #[cfg(feature = "pairs")]
    #[doc(hidden)]
    type Whole: WholeKeys<Self>;

    /// The key as bytes in the same order: in `room`, where it is none.
    #[doc(hidden)]
    fn as_bytes<'k: 'r, 'r>(key: Self::Ref<'k>, room: &'r mut [u8; 8]) -> &'r [u8];
    /// The key that these bytes are.
    #[doc(hidden)]
    fn of_bytes(bytes: &[u8]) -> Self::Ref<'_>;

    /// Words that a key takes in a table of hot copies.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    const KEY_WORDS: usize;
    /// Writes the key into this many words, as no other key is written; false where it is too long.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    fn pack(key: Self::Ref<'_>, into: &mut [u64]) -> bool;
    /// [`Family::hash`] of the key that was written into these words.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    fn packed_hash(words: &[u64]) -> u64;
    /// The key of a hot copy.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    type CopyKey: Copy + Eq + Default + Debug + Send + Sync;
    /// The key as that of a copy; none where it is too long.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    fn copy_key(key: Self::Ref<'_>) -> Option<Self::CopyKey>;
    /// [`Family::hash`] of the key.
    #[cfg(feature = "place")]
    #[doc(hidden)]
    fn copy_hash(key: &Self::CopyKey) -> u64;

    #[doc(hidden)]
    fn cmp(a: Self::Ref<'_>, b: Self::Ref<'_>) -> Ordering;
    #[doc(hidden)]
    fn hash(key: Self::Ref<'_>) -> u64;
    #[doc(hidden)]
    fn size(key: Self::Ref<'_>) -> usize;
    #[doc(hidden)]
    fn store(key: Self::Ref<'_>, into: &mut Self::Buf);
    #[doc(hidden)]
    fn load(buf: &Self::Buf) -> Self::Ref<'_>;
    /// Shortens `buf`, a key greater than `left`, to a key that still is.
    #[doc(hidden)]
    fn shorten(left: Self::Ref<'_>, buf: &mut Self::Buf);
    /// The least key greater than `key`; false where there is none.
    #[doc(hidden)]
    fn successor(key: &mut Self::Buf) -> bool;

    /// Bytes of a buffer on the heap.
    #[doc(hidden)]
    fn heap(buf: &Self::Buf) -> usize;

    #[doc(hidden)]
    fn owned(key: Self::Ref<'_>) -> Self::Buf {
        let mut buf = Self::Buf::default();
        Self::store(key, &mut buf);
        buf
    }
}

/// Keys stored as `u64`: all integers up to 64 bits, `bool`, `char`.
#[derive(Debug, Clone, Copy)]
pub struct IntFamily;

/// Keys stored as byte strings: `String`, `Vec<u8>`, `[u8; N]`, tuples, 128-bit integers.
#[derive(Debug, Clone, Copy)]
pub struct ByteFamily;

/// A growing sorted sequence of keys.
pub trait KeyRun<F: Family>: Default + Send + Sync {
    /// How many keys there are.
    fn len(&self) -> usize;
    /// Key `i`.
    fn get(&self, i: usize) -> F::Ref<'_>;
    /// Appends a key.
    fn push(&mut self, key: F::Ref<'_>);
    /// Appends the keys `from..to` of another run.
    fn append(&mut self, other: &Self, from: usize, to: usize);
    /// Puts a key in at `i`, with room for this many more keys and bytes where there is none. O(bytes).
    fn insert_at(&mut self, i: usize, key: F::Ref<'_>, room: (usize, usize));
    /// Takes key `i` out. O(bytes).
    fn remove_at(&mut self, i: usize);
    /// Leaves the first `n` keys.
    fn truncate(&mut self, n: usize);
    /// Makes room for more keys of this many bytes in total.
    fn reserve(&mut self, keys: usize, bytes: usize);
    /// Bytes of the keys `from..to`.
    fn key_bytes(&self, from: usize, to: usize) -> usize;
    /// Bytes on the heap.
    fn heap(&self) -> usize;
    /// Gives back what was allocated in advance.
    fn shrink(&mut self);
    /// Appends the keys `from..to` as plain bytes.
    fn write(&self, from: usize, to: usize, out: &mut Vec<u8>);
    /// Reads keys that [`KeyRun::write`] wrote.
    fn read(raw: &[u8]) -> Self;
    /// The keys as bytes in the same order.
    #[cfg(feature = "pairs")]
    fn plain(&self) -> crate::plain::PlainKeys<'_>;

    /// The first index of `from..to` whose key is not less than `key`. O(log distance).
    fn gallop(&self, from: usize, to: usize, key: F::Ref<'_>) -> usize {
        let (mut lo, mut step) = (from, 1);
        let mut hi = from;
        while hi < to && F::cmp(self.get(hi), key).is_lt() {
            lo = hi + 1;
            hi += step;
            step *= 2;
        }
        partition_point(lo, hi.min(to), |i| F::cmp(self.get(i), key).is_lt())
    }

    /// The first index of `from..to` whose key is greater than `key`. O(log n).
    fn upper_bound(&self, from: usize, to: usize, key: F::Ref<'_>) -> usize {
        partition_point(from, to, |i| F::cmp(self.get(i), key).is_le())
    }
}

/// A fixed sorted sequence of keys.
pub trait FixedKeys<F: Family>: Send + Sync {
    /// The keys `from..to` of a run.
    fn of(run: &F::Run, from: usize, to: usize) -> Self;
    /// All keys of a run.
    fn whole(run: F::Run) -> Self;
    /// Appends the keys `from..to` to a run.
    fn append_to(&self, from: usize, to: usize, run: &mut F::Run);
    /// Appends all keys to a run.
    fn decode(&self, run: &mut F::Run) {
        self.append_to(0, self.len(), run);
    }
    /// Asks for the line in the middle, where that is known without others.
    fn prefetch_middle(&self) {}
    /// Bytes of all keys.
    fn key_bytes(&self) -> usize;
    /// How many keys there are.
    fn len(&self) -> usize;
    /// Key `i`.
    fn get(&self, i: usize) -> F::Ref<'_>;
    /// Bytes on the heap.
    fn heap(&self) -> usize;

    /// The first index of `from..to` whose key is greater than `key`. O(log n).
    #[inline]
    fn upper_bound(&self, from: usize, to: usize, key: F::Ref<'_>) -> usize {
        partition_point(from, to, |i| F::cmp(self.get(i), key).is_le())
    }

    /// The first index of `from..to` whose key is not less than `key`. O(log n).
    #[inline]
    fn lower_bound(&self, from: usize, to: usize, key: F::Ref<'_>) -> usize {
        partition_point(from, to, |i| F::cmp(self.get(i), key).is_lt())
    }
}

/// The sorted keys of one node of a dynamic stage: a leaf, or an inner node.
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

/// The lower bounds of the segments.
pub trait Fences<F: Family>: Default + Send + Sync {
    /// The last segment whose bound is at most `key`.
    fn find(&self, key: F::Ref<'_>) -> usize;
    /// The bound of segment `i`; none behind the last.
    fn get(&self, i: usize) -> Option<F::Ref<'_>>;
    /// Puts a bound in at `i`. O(segments), as a move of memory.
    fn insert(&mut self, i: usize, key: F::Ref<'_>);
    /// Takes bounds out.
    fn remove(&mut self, which: Range<usize>);
    /// Bytes on the heap.
    fn heap(&self) -> usize;
}

/// Where a key and its value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The segment, by its place and by its id.
    pub segment: usize,
    pub id: u64,
    pub rank: usize,
}

/// Shortcuts for keys of one form.
pub trait Shortcuts<F: Family>: Default + Send + Sync {
    /// Whether there are any: for integers all that a lookup needs is about as near.
    const ANY: bool;
    /// Where `key` was when it was last found, if that is known. O(1).
    fn find(&self, key: F::Ref<'_>, hash: u64) -> Option<Spot>;
    /// What was found is no longer so: a key with this hash that is found by the long way takes the slot. O(1).
    fn leave(&self, hash: u64);
    /// `key` was found by the long way. O(1).
    fn note(&self, key: F::Ref<'_>, hash: u64, spot: Spot);
    /// A step towards this many slots. O(1).
    fn fit(&mut self, slots: usize);
    /// Bytes on the heap.
    fn bytes(&self) -> usize;
}

#[cfg(feature = "pairs")]
/// Where whole keys are.
pub trait WholeKeys<F: Family>: Default + Send + Sync {
    /// What a leaf has of its key.
    type Handle: Copy + Send + Sync;
    /// Keeps a key.
    fn put(&mut self, key: F::Ref<'_>) -> Self::Handle;
    /// The key.
    fn get<'a>(&'a self, handle: &'a Self::Handle) -> F::Ref<'a>;
    /// Gives the place of the key back.
    fn free(&mut self, handle: Self::Handle);
    /// Bytes allocated.
    fn bytes(&self) -> usize;
}

/// A compact, read-only, sorted sequence of distinct keys (section 4 of the paper).
pub trait StaticStage<F: Family>: Sized + Send + Sync {
    /// Walks over the keys in both directions.
    type Cursor<'a>: KeyCursor<F>
    where
        Self: 'a;

    /// Builds the stage from the keys `from..to` of a sorted run. O(n).
    fn build(run: &F::Run, from: usize, to: usize, plan: &Plan<F::Run>) -> Self;

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
    fn prefetch(&self, _key: F::Ref<'_>, _hash: impl FnOnce() -> u64) {}

    /// Goes as far towards `key` as the lines asked for so far allow, asks for the next ones,
    /// and returns a rank near it where it sees one.
    fn approach(&self, _key: F::Ref<'_>, _hash: impl FnOnce() -> u64) -> Option<usize> {
        None
    }

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

    /// About this many bytes of what is stored, to find symbols in for the stages to come; none of stages
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
