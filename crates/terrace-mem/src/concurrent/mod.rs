//! `ConcurrentHybridMap`: the map in two stages for many threads.
//!
//! The key space is divided into parts, each with the entries of the dynamic stage in its range
//! under a latch of its own and one immutable segment of the static stage. What always holds:
//!
//! - A key is looked for in the dynamic stage of its part first and then in the segment that is
//!   published at that later time.
//! - A merge publishes the new segment before it removes entries from the dynamic stage, and
//!   removes only those whose version is the one it merged.
//! - A delete of a key that the segment may have is a tombstone in the dynamic stage; a merge
//!   leaves both out of the new segment.
//! - Every change of a key is made under the latch of its part and with the part in the
//!   directory: a part that was split, or left because it had no entries, is marked retired under
//!   its latch, and whoever finds that mark starts over at the directory.
//!
//! So each operation on a key takes effect at one moment between its call and its return.

mod cell;
mod iter;
mod merge;
mod part;
mod signal;

pub use iter::ConcurrentIter;

use crate::error::{KeyTooLong, OptionsError};
use crate::family::Family;
use crate::key::{IndexKey, MAX_KEY_LEN, Probe};
use crate::options::{Merging, Options, Trigger};
use crate::stage::Plan;
use crate::sync::{Arc, Mutex, thread};
use cell::EpochCell;
use crossbeam_epoch as epoch;
use merge::work;
use part::{Directory, Part, Weight};
use signal::Signal;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Mutex as PlainMutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The map without its background thread.
pub(crate) struct Shared<F: Family, V> {
    directory: EpochCell<Directory<F, V>>,
    len: AtomicUsize,
    plan: Plan<F>,
    options: Options,
    signal: Signal<F, V>,
    /// Held while the directory is replaced.
    turn: Mutex<()>,
}

/// An ordered map in two stages for many threads: all methods take `&self`.
///
/// Values are returned as clones. Merging runs on a background thread, which the map owns; with
/// [`Merging::Manual`] there is none and [`merge_all`](Self::merge_all) does it. Where writers
/// outrun the background thread, they merge the part they write to themselves.
///
/// Each operation on one key is linearizable. An iterator shows each part of the key space, a
/// few thousand entries (256 MiB of keys at most), as of one moment, but different parts as of
/// different ones.
///
/// If `V::clone` panics, the operation has not happened, or a merge is given up; the map stays
/// usable. Where a writer merges, such a panic comes out of an operation that has happened.
/// `V::clone` and the closures of `update` run under locks and must not use this map or another one
/// of its kind; `V::drop` may. Values of many kilobytes
/// belong into a `Box` or `Arc`, as with [`HybridMap`](crate::HybridMap).
///
/// # Panics
/// Methods that store a key panic when its encoded form is longer than [`MAX_KEY_LEN`];
/// [`try_insert`](Self::try_insert) returns an error instead.
///
/// ```
/// use std::thread;
/// use terrace_mem::ConcurrentHybridMap;
///
/// let map = ConcurrentHybridMap::<u64, u64>::new();
/// thread::scope(|scope| {
///     for t in 0..4 {
///         let map = &map;
///         scope.spawn(move || {
///             (0..1000).for_each(|i| assert_eq!(map.insert(&(i * 4 + t), i), None));
///         });
///     }
/// });
/// assert_eq!(map.len(), 4000);
/// assert_eq!(map.get(&4), Some(1));
/// assert_eq!(map.range(10..13).map(|(key, _)| key).collect::<Vec<_>>(), [10, 11, 12]);
/// ```
pub struct ConcurrentHybridMap<K: IndexKey, V: Clone + Send + Sync + 'static> {
    shared: Arc<Shared<K::Family, V>>,
    worker: PlainMutex<Option<thread::JoinHandle<()>>>,
    key: PhantomData<fn() -> K>,
}

#[track_caller]
fn stored<T>(result: Result<T, KeyTooLong>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> ConcurrentHybridMap<K, V> {
    /// An empty map with a background thread.
    pub fn new() -> Self {
        Self::with_options(Options::default()).expect("the default options go together")
    }

    /// An empty map with other options. [`Merging::Blocking`] means that a writer merges its
    /// part itself; `what`, `updates`, `filter` and `floor` are left at their defaults.
    ///
    /// # Errors
    /// When the options do not go together, or one is set that this map does not have; see
    /// [`OptionsError`].
    pub fn with_options(options: Options) -> Result<Self, OptionsError> {
        options.check_concurrent()?;
        let background = options.merging == Merging::Incremental;
        let shared = Arc::new(Shared {
            directory: EpochCell::new(Directory::new()),
            len: AtomicUsize::new(0),
            plan: options.plan()?,
            options,
            signal: Signal::default(),
            turn: Mutex::new(()),
        });
        let worker = background.then(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(&shared))
        });
        Ok(ConcurrentHybridMap {
            shared,
            worker: PlainMutex::new(worker),
            key: PhantomData,
        })
    }

    /// How many entries there are. While others write, a number that it recently was.
    pub fn len(&self) -> usize {
        self.shared.len.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `key`. O(log n).
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        key.probe(|key| self.shared.look(key, |val| val.cloned()))
    }

    /// Whether `key` is there. O(log n).
    pub fn contains_key<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        key.probe(|key| self.shared.look(key, |val| val.is_some()))
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`].
    pub fn insert<Q: Probe<K> + ?Sized>(&self, key: &Q, val: V) -> Option<V> {
        stored(self.try_insert(key, val))
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Errors
    /// [`KeyTooLong`] when the encoded key is longer than [`MAX_KEY_LEN`]; the map is unchanged.
    pub fn try_insert<Q: Probe<K> + ?Sized>(
        &self,
        key: &Q,
        val: V,
    ) -> Result<Option<V>, KeyTooLong> {
        key.probe(|key| {
            let len = <K::Family as Family>::size(key);
            if len > MAX_KEY_LEN {
                return Err(KeyTooLong { len });
            }
            Ok(self.shared.change(key, |old| (Some(val), old.cloned())))
        })
    }

    /// Removes the entry of `key` and returns its value. O(log n).
    pub fn remove<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        key.probe(|key| self.shared.change(key, |old| (None, old.cloned())))
    }

    /// Sets the value of `key` to what `change` makes of the one it has, none meaning that there
    /// is no entry, as one step that no other change comes between; returns the new value.
    /// `change` must not use the map. O(log n).
    ///
    /// ```
    /// let map = terrace_mem::ConcurrentHybridMap::<u64, u32>::new();
    /// map.update(&5, |old| Some(old.copied().unwrap_or(0) + 1));
    /// assert_eq!(map.update(&5, |old| old.map(|n| n * 10)), Some(10));
    /// assert_eq!(map.update(&5, |_| None), None);
    /// assert!(map.is_empty());
    /// ```
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`].
    pub fn update<Q: Probe<K> + ?Sized>(
        &self,
        key: &Q,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Option<V> {
        key.probe(|key| {
            let len = <K::Family as Family>::size(key);
            if len > MAX_KEY_LEN {
                stored(Err(KeyTooLong { len }))
            }
            self.shared.change(key, |old| {
                let new = change(old);
                (new.clone(), new)
            })
        })
    }

    /// All entries in order of their keys, cloned part by part.
    pub fn iter(&self) -> ConcurrentIter<'_, K, V> {
        ConcurrentIter::new(&self.shared, None, None)
    }

    /// The entries whose keys lie in `range`, in order, cloned part by part.
    pub fn range<Q, R>(&self, range: R) -> ConcurrentIter<'_, K, V>
    where
        Q: Probe<K> + ?Sized,
        R: RangeBounds<Q>,
    {
        let (from, to, empty) = crate::map::half_open::<K, Q, R>(&range);
        if empty {
            let least = <K::Family as Family>::Buf::default();
            return ConcurrentIter::new(&self.shared, None, Some(least));
        }
        ConcurrentIter::new(&self.shared, from, to)
    }

    /// Merges every part that has entries in the dynamic stage, so that what was there when it was
    /// called lies in the static stage, without what was deleted; parts that have no entries left
    /// are given up. O(n).
    pub fn merge_all(&self) {
        self.shared.merge_all();
    }

    /// How many entries the stages have: the dynamic one, tombstones among them, and the static
    /// one, dead entries among them. O(parts).
    pub fn stage_lens(&self) -> (usize, usize) {
        self.shared.stage_lens()
    }

    /// Heap bytes of both stages. O(parts).
    pub fn memory_usage(&self) -> crate::MemoryUsage {
        self.shared.usage()
    }
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// Gives the value of `key` to `see`.
    fn look<R>(&self, key: F::Ref<'_>, see: impl FnOnce(Option<&V>) -> R) -> R {
        let guard = epoch::pin();
        loop {
            let part = self.directory.load(&guard).find(key);
            let dynamic = part.read();
            if dynamic.retired {
                continue;
            }
            if let Some(slot) = dynamic.tree.get(key, false) {
                return see(slot.val.as_ref());
            }
            // The latch is given back first: a merge that publishes meanwhile is seen below.
            drop(dynamic);
            return see(part.segment.load(&guard).get(key));
        }
    }

    /// Replaces the value of `key` by the first of what `change` returns; returns the second.
    fn change<R>(&self, key: F::Ref<'_>, change: impl FnOnce(Option<&V>) -> (Option<V>, R)) -> R {
        let guard = epoch::pin();
        loop {
            let part = self.directory.load(&guard).find(key);
            let mut dynamic = part.write();
            if dynamic.retired {
                continue;
            }
            let (before, new, result) = {
                let old = match dynamic.tree.get(key, false) {
                    Some(slot) => slot.val.as_ref(),
                    None => part.segment.load(&guard).get(key),
                };
                let (new, result) = change(old);
                (old.is_some(), new, result)
            };
            let after = new.is_some();
            let replaced = if before || after {
                dynamic.put(key, new)
            } else {
                None
            };
            match (before, after) {
                (false, true) => {
                    dynamic.live += 1;
                    self.len.fetch_add(1, Ordering::Relaxed);
                }
                (true, false) => {
                    dynamic.live -= 1;
                    self.len.fetch_sub(1, Ordering::Relaxed);
                }
                _ => {}
            }
            let weight = dynamic.weight();
            drop(dynamic);
            // The drop of a user's value runs without the latch.
            drop(replaced);
            self.weigh(part, weight, &guard);
            return result;
        }
    }

    /// Has a part merged that is due.
    fn weigh(&self, part: &std::sync::Arc<Part<F, V>>, weight: Weight, guard: &epoch::Guard) {
        let due = self.due(part, weight, guard);
        match self.options.merging {
            _ if due == Due::Not => {}
            Merging::Manual => {}
            Merging::Incremental if due != Due::Long => {
                // A part without entries may see no other change that tells of it again.
                if !self.signal.send(part) && due == Due::Drained {
                    self.merge_part(part, true);
                }
            }
            _ => {
                self.merge_part(part, true);
            }
        }
    }

    /// Whether a part is to be merged.
    fn due(&self, part: &Part<F, V>, weight: Weight, guard: &epoch::Guard) -> Due {
        let Weight { len, gone, live } = weight;
        let fixed = part.segment.load(guard).len();
        let most = match self.options.trigger {
            Trigger::Constant(n) => n,
            Trigger::Ratio(ratio) => (fixed / ratio).max(self.options.segment_len / 8),
        };
        if len >= most {
            return match len >= most.saturating_mul(4) {
                true => Due::Long,
                false => Due::Now,
            };
        }
        // A merge copies what is not deleted: four entries or fewer for each tombstone.
        if gone >= FEW && gone * 4 > fixed + len - gone {
            return Due::Now;
        }
        // The last part stays. Without entries it would be due at each delete.
        match live == 0 && len > 0 && self.directory.load(guard).parts.len() > 1 {
            true => Due::Drained,
            false => Due::Not,
        }
    }
}

/// Fewer tombstones do not make a part due: to wake the background thread would cost more than
/// they do.
const FEW: usize = 16;

/// Whether a part is to be merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Not,
    Now,
    /// It has no entries and is to leave.
    Drained,
    /// So long that whoever writes to it does it.
    Long,
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Default for ConcurrentHybridMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for ConcurrentHybridMap<K, V>
where
    K: IndexKey + fmt::Debug,
    V: fmt::Debug + Clone + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Extend<(K, V)> for ConcurrentHybridMap<K, V> {
    /// Inserts one entry after the other.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, val) in entries {
            self.insert(&key, val);
        }
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> FromIterator<(K, V)>
    for ConcurrentHybridMap<K, V>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Drop for ConcurrentHybridMap<K, V> {
    fn drop(&mut self) {
        self.shared.signal.stop();
        let worker = self
            .worker
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(worker) = worker.take() {
            // It catches the panics of users' values.
            let _ = worker.join();
        }
        // Replaced directories, which other threads may have left, have the parts as well.
        cell::free();
    }
}
