//! A part of the key space: its dynamic stage under a latch, its segment, and the directory.

use super::Seat;
use super::cell::EpochCell;
use crate::dynamic::Any;
use crate::family::Family;
use crate::family::Fences;
use crate::home::Block;
use crate::pair::Pair;
use crate::sync::RwLock;
use crate::two_stage::{DynamicCursor, DynamicStage, StaticStage};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

/// An entry of the dynamic stage: no value is a tombstone.
#[derive(Clone)]
pub struct Slot<V> {
    pub val: Option<V>,
    /// Different for each change in a part: a merge removes only what it has seen.
    pub version: u64,
}

/// The dynamic stage of a part.
pub struct Dynamic<F: Family, V> {
    pub tree: Any<F, Slot<V>>,
    /// How many entries of the tree are tombstones.
    gone: usize,
    /// How many entries the part has, of both stages.
    pub live: usize,
    pub version: u64,
    /// The part is no longer in the directory.
    pub retired: bool,
    /// No entry is less than this, where first ones were taken out: a search for the first one does
    /// not pass by their tombstones again.
    front: Option<F::Buf>,
    /// All entries are less than this, where last ones were taken out.
    back: Option<F::Buf>,
}

impl<F: Family, V> Dynamic<F, V> {
    /// Sets the value of a key, or its tombstone; returns the slot that was there.
    pub fn put(&mut self, key: F::Ref<'_>, val: Option<V>) -> Option<Slot<V>> {
        self.version += 1;
        if val.is_some() {
            self.stretch(key);
        }
        self.gone += usize::from(val.is_none());
        let slot = Slot {
            val,
            version: self.version,
        };
        let old = self.tree.insert(key, slot);
        self.forget(&old);
        old
    }

    /// Has the bounds of the entries hold for a new one.
    fn stretch(&mut self, key: F::Ref<'_>) {
        if let Some(front) = &mut self.front
            && F::cmp(key, F::load(front)).is_lt()
        {
            F::store(key, front);
        }
        if let Some(back) = &mut self.back
            && F::cmp(key, F::load(back)).is_ge()
        {
            F::store(key, back);
            if !F::successor(back) {
                self.back = None;
            }
        }
    }

    /// Notes that the first entry, or the last one, was taken out.
    pub fn popped(&mut self, key: &F::Buf, last: bool) {
        let end = if last {
            &mut self.back
        } else {
            &mut self.front
        };
        F::store(F::load(key), end.get_or_insert_default());
    }

    /// Bounds of all entries: from the one up to the other.
    pub fn span(&self) -> (Option<F::Ref<'_>>, Option<F::Ref<'_>>) {
        (
            self.front.as_ref().map(F::load),
            self.back.as_ref().map(F::load),
        )
    }

    /// Takes the slot of a key out.
    pub fn take(&mut self, key: F::Ref<'_>) -> Option<Slot<V>> {
        let old = self.tree.remove(key);
        self.forget(&old);
        old
    }

    fn forget(&mut self, old: &Option<Slot<V>>) {
        self.gone -= usize::from(old.as_ref().is_some_and(|slot| slot.val.is_none()));
    }

    /// Bytes of its nodes.
    #[cfg(feature = "place")]
    pub fn bytes(&self) -> usize {
        self.tree.bytes()
    }

    /// What there is to merge.
    pub fn weight(&self) -> Weight {
        Weight {
            len: self.tree.len(),
            gone: self.gone,
            live: self.live,
        }
    }
}

/// What says whether a part is due.
#[derive(Clone, Copy)]
pub struct Weight {
    /// Entries of the dynamic stage.
    pub len: usize,
    /// How many of them are tombstones.
    pub gone: usize,
    /// Entries of the part, of both stages.
    pub live: usize,
}

/// Immutable keys and values; no stage where there are none.
pub struct Fixed<F: Family, V> {
    pub keys: Option<F::Stage>,
    pub vals: Block<V>,
    /// In which memory they lie.
    pub seat: Seat,
}

impl<F: Family, V> Fixed<F, V> {
    #[inline]
    pub fn get(&self, key: F::Ref<'_>) -> Option<&V> {
        let likely = |near| crate::simd::prefetch(&self.vals, near);
        let rank = self.keys.as_ref()?.find(key, || F::hash(key), likely)?;
        Some(&self.vals[rank])
    }

    pub fn len(&self) -> usize {
        self.vals.len()
    }
}

/// A range of keys, from `low` up to the `low` of the next part. The first one in the directory
/// begins at the least key, whatever its `low` is.
pub struct Part<F: Family, V> {
    /// Always a key of its range: the bounds of all parts are in order.
    pub low: F::Buf,
    dynamic: RwLock<Dynamic<F, V>>,
    pub segment: EpochCell<Fixed<F, V>>,
    /// Whether the part waits for the background thread; set under the lock of its queue.
    pub waits: AtomicBool,
    /// Held while the part is merged: one merge at a time.
    pub merging: crate::sync::Mutex<()>,
}

/// How many tombstones there are, and how many entries in both together.
fn count<F: Family, V>(tree: &Any<F, Slot<V>>, segment: &Fixed<F, V>) -> (usize, usize) {
    let (mut gone, mut live) = (0, segment.len());
    let mut at = tree.seek(None, || {});
    while let Some(pos) = &mut at {
        live -= usize::from(segment.get(pos.key()).is_some());
        match pos.val().val {
            Some(_) => live += 1,
            None => gone += 1,
        }
        if !pos.next() {
            at = None;
        }
    }
    (gone, live)
}

#[cfg(not(feature = "shuttle"))]
type Latch<'a, T> = std::sync::RwLockReadGuard<'a, T>;
#[cfg(not(feature = "shuttle"))]
type LatchMut<'a, T> = std::sync::RwLockWriteGuard<'a, T>;
#[cfg(feature = "shuttle")]
type Latch<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;
#[cfg(feature = "shuttle")]
type LatchMut<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

impl<F: Family, V: Send + Sync + 'static> Part<F, V> {
    /// A part with entries in both stages.
    pub fn new(low: F::Buf, tree: Any<F, Slot<V>>, version: u64, segment: Fixed<F, V>) -> Self {
        let (gone, live) = count(&tree, &segment);
        Part {
            low,
            dynamic: RwLock::new(Dynamic {
                tree,
                gone,
                live,
                version,
                retired: false,
                front: None,
                back: None,
            }),
            segment: EpochCell::new(segment),
            waits: AtomicBool::new(false),
            merging: crate::sync::Mutex::new(()),
        }
    }

    // A panic under the latch comes from a user's `clone` or `update` before anything was
    // changed, so what the latch guards is whole and poison is passed over.

    pub fn read(&self) -> Latch<'_, Dynamic<F, V>> {
        self.dynamic.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dynamic stage, if no writer changes it just now.
    #[cfg(feature = "place")]
    pub fn try_read(&self) -> Option<Latch<'_, Dynamic<F, V>>> {
        self.dynamic.try_read().ok()
    }

    pub fn write(&self) -> LatchMut<'_, Dynamic<F, V>> {
        self.dynamic.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All parts in order; replaced as a whole when one is split or leaves.
pub struct Directory<F: Family, V> {
    fences: F::Fences,
    pub parts: Vec<Arc<Part<F, V>>>,
}

impl<F: Family, V: Send + Sync + 'static> Directory<F, V> {
    /// One empty part for all keys.
    pub fn new(pair: Pair) -> Self {
        let none = Fixed {
            keys: None,
            vals: Block::default(),
            seat: Seat::default(),
        };
        let part = Part::new(F::Buf::default(), Any::new(pair), 0, none);
        Self::of(vec![Arc::new(part)])
    }

    pub fn of(parts: Vec<Arc<Part<F, V>>>) -> Self {
        debug_assert!(
            parts.is_sorted_by(|a, b| F::cmp(F::load(&a.low), F::load(&b.low)).is_lt()),
            "the bounds of the parts are out of order"
        );
        let mut fences = F::Fences::default();
        let least = F::Buf::default();
        for (i, part) in parts.iter().enumerate() {
            fences.insert(i, F::load(if i == 0 { &least } else { &part.low }));
        }
        Directory { fences, parts }
    }

    #[inline]
    pub fn find(&self, key: F::Ref<'_>) -> &Arc<Part<F, V>> {
        &self.parts[self.fences.find(key)]
    }

    /// The place of the part that `key` is in.
    pub fn index(&self, key: F::Ref<'_>) -> usize {
        self.fences.find(key)
    }

    /// The place of the part that the last keys before `key` are in.
    pub fn index_before(&self, key: F::Ref<'_>) -> usize {
        let i = self.fences.find(key);
        let begins = F::cmp(F::load(&self.parts[i].low), key).is_ge();
        i - usize::from(i > 0 && begins)
    }

    pub fn bytes(&self) -> usize {
        self.fences.heap() + self.parts.capacity() * size_of::<Arc<Part<F, V>>>()
    }
}
