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
//!   directory: a part that was split, left because it had no entries, or had all its entries
//!   cleared away, is marked retired under its latch, and whoever finds that mark starts over at
//!   the directory.
//! - Who has several latches took them in the order of the keys.
//!
//! So each operation on a key, on the first or last entry, or on all entries at once takes effect
//! at one moment between its call and its return.

mod batch;
mod bulk;
mod cell;
mod change;
mod ends;
mod iter;
mod merge;
mod part;
#[cfg(feature = "place")]
mod placed;
mod replace;
mod shared;
mod signal;
mod start;
mod traits;
#[cfg(not(feature = "place"))]
mod unplaced;
mod walk;

pub use iter::ConcurrentIter;

use crate::error::{KeyTooLong, OptionsError};
use crate::family::Family;
use crate::key::{IndexKey, Probe};
use crate::map::{check, stored};
use crate::options::Options;
use crate::plan::Stage;
use crate::sync::Arc;
use change::Then;
use part::Directory;
#[cfg(feature = "place")]
use placed::{Placing, Seat};
use shared::Shared;
use start::Worker;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Mutex as PlainMutex;
use std::sync::atomic::Ordering;
#[cfg(not(feature = "place"))]
use unplaced::{Placing, Seat};

/// An ordered map in two stages for many threads: all methods take `&self`.
///
/// Values are returned as clones. Merging runs on a background thread, which the map owns; with
/// [`Merging::Manual`](crate::Merging::Manual) there is none and [`merge_all`](Self::merge_all) does
/// it. Where writers outrun the background thread, they merge the part they write to themselves.
///
/// # What happens at one moment
/// - Each operation on one key, [`first`](Self::first), [`last`](Self::last),
///   [`pop_first`](Self::pop_first), [`pop_last`](Self::pop_last) and [`clear`](Self::clear): they
///   are linearizable, all of them together. What `pop_first` returns was in the map, and no entry
///   with a lesser key was, at the moment when it was removed.
/// - An iterator shows runs of neighbouring entries, 64 of them at first and a few thousand later,
///   each run as of one moment, but different runs as of different ones, which come after the
///   iterator was made. It shows no key twice, and all in order; an entry that is there all the time
///   is shown. What `clone`, `==` and `{:?}` see is what an iterator shows.
/// - [`get_batch`](Self::get_batch), [`retain`](Self::retain) and `extend` are one operation on a
///   key after the other.
/// - [`len`](Self::len) is exact while no other thread changes the map.
///
/// # What users' code may do
/// If `V::clone` panics, the operation has not happened, or a merge is given up; the map stays
/// usable. Where a writer merges, such a panic comes out of an operation that has happened.
/// `V::clone` and the closures of `update`, `get_or_insert_with`, `remove_if` and `retain` run under
/// locks and must not use this map or another one of its kind; `V::drop` may. Values of many
/// kilobytes belong into a `Box` or `Arc`, as with [`HybridMap`](crate::HybridMap).
///
/// # Panics
/// Methods that store a key panic when its encoded form is longer than
/// [`MAX_KEY_LEN`](crate::MAX_KEY_LEN); [`try_insert`](Self::try_insert) returns an error instead.
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
/// assert_eq!(map.iter().next_back(), Some((3999, 999)));
/// ```
pub struct ConcurrentHybridMap<K: IndexKey, V: Clone + Send + Sync + 'static> {
    pub(crate) shared: Arc<Shared<K::Family, V>>,
    worker: PlainMutex<Option<Worker>>,
    key: PhantomData<fn() -> K>,
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> ConcurrentHybridMap<K, V> {
    /// An empty map with a background thread.
    pub fn new() -> Self {
        Self::with_options(Options::default()).expect("the default options go together")
    }

    /// An empty map with other options. [`Merging::Blocking`](crate::Merging::Blocking) means that a
    /// writer merges its part itself; `what`, `updates`, `filter` and `floor` are left at their
    /// defaults.
    ///
    /// # Errors
    /// When the options do not go together, or one is set that this map does not have; see
    /// [`OptionsError`].
    pub fn with_options(options: Options) -> Result<Self, OptionsError> {
        let (shared, worker) = Shared::start(options)?;
        Ok(ConcurrentHybridMap {
            shared,
            worker: PlainMutex::new(worker),
            key: PhantomData,
        })
    }

    /// How many entries there are. While others write, a number that it recently was. O(1).
    pub fn len(&self) -> usize {
        self.shared.len.load(Ordering::Relaxed)
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries, at one moment; the options stay. Waits for the merges that run. O(parts),
    /// and O(n) to free what is gone.
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, u64> = (0..9999).map(|i| (i, i)).collect();
    /// map.clear();
    /// assert!(map.is_empty() && map.iter().next().is_none());
    /// ```
    pub fn clear(&self) {
        self.shared
            .replace(Directory::new(self.shared.options.pair), 0);
    }

    /// The value of `key`. O(log n).
    pub fn get<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        key.probe(|key| self.shared.look(key, |val| val.cloned()))
    }

    /// The values of many keys, in the order asked for: the lookups overlap, so that one waits for
    /// memory while others do too. Each is as of a moment of its own. O(keys log n).
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, u64> = (0..9999).map(|i| (i, i * 2)).collect();
    /// assert_eq!(map.get_batch(&[&7, &10_000, &1]), [Some(14), None, Some(2)]);
    /// ```
    pub fn get_batch<Q: Probe<K> + ?Sized>(&self, keys: &[&Q]) -> Vec<Option<V>> {
        batch::get(&self.shared, keys)
    }

    /// Whether `key` is there. O(log n).
    pub fn contains_key<Q: Probe<K> + ?Sized>(&self, key: &Q) -> bool {
        key.probe(|key| self.shared.look(key, |val| val.is_some()))
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Panics
    /// When the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn insert<Q: Probe<K> + ?Sized>(&self, key: &Q, val: V) -> Option<V> {
        stored(self.try_insert(key, val))
    }

    /// Sets the value of `key` and returns the one it had. O(log n).
    ///
    /// # Errors
    /// [`KeyTooLong`] when the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN); the map
    /// is unchanged.
    pub fn try_insert<Q: Probe<K> + ?Sized>(
        &self,
        key: &Q,
        val: V,
    ) -> Result<Option<V>, KeyTooLong> {
        key.probe(|key| {
            check::<K::Family>(key)?;
            let set = |old: Option<&V>| (Then::Set(val), old.cloned());
            Ok(self.shared.change(key, set))
        })
    }

    /// The value of `key`; where it is not there, that of `make`, which is inserted. `make` is called
    /// once at most, and must not use the map. O(log n).
    ///
    /// ```
    /// let map = terrace_mem::ConcurrentHybridMap::<String, u32>::new();
    /// assert_eq!(map.get_or_insert_with("one", || 1), 1);
    /// assert_eq!(map.get_or_insert_with("one", || unreachable!()), 1);
    /// ```
    ///
    /// # Panics
    /// When the key is not there and its encoded form is longer than
    /// [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn get_or_insert_with<Q: Probe<K> + ?Sized>(&self, key: &Q, make: impl FnOnce() -> V) -> V {
        key.probe(|key| {
            // Where it is there, no thread has to wait.
            if let Some(val) = self.shared.look(key, |val| val.cloned()) {
                return val;
            }
            stored(check::<K::Family>(key));
            // Where another thread was first, what `make` holds is dropped without a lock.
            let mut make = Some(make);
            self.shared.change(key, |old| match old {
                Some(val) => (Then::Keep, val.clone()),
                None => {
                    let new = make.take().expect("a change is made once")();
                    (Then::Set(new.clone()), new)
                }
            })
        })
    }

    /// Sets the value of `key` to what `change` makes of the one it has, none meaning that there
    /// is no entry, as one step that no other change comes between; returns the new value.
    /// `change` is called once, and must not use the map. O(log n).
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
    /// When the encoded key is longer than [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
    pub fn update<Q: Probe<K> + ?Sized>(
        &self,
        key: &Q,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Option<V> {
        key.probe(|key| {
            stored(check::<K::Family>(key));
            self.shared.change(key, |old| {
                let new = change(old);
                (new.clone().map_or(Then::Remove, Then::Set), new)
            })
        })
    }

    /// Removes the entry of `key` and returns its value. O(log n).
    pub fn remove<Q: Probe<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Removes the entry of `key` if `gone` says so of its value, as one step that no other change
    /// comes between, and returns the value. `gone` is called once, if the key is there, and must
    /// not use the map. O(log n).
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, u32> = [(1, 10)].into();
    /// assert_eq!(map.remove_if(&1, |val| *val > 10), None);
    /// assert_eq!(map.remove_if(&1, |val| *val == 10), Some(10));
    /// ```
    pub fn remove_if<Q: Probe<K> + ?Sized>(
        &self,
        key: &Q,
        gone: impl FnOnce(&V) -> bool,
    ) -> Option<V> {
        key.probe(|key| {
            self.shared.change(key, |old| match old {
                Some(val) if gone(val) => (Then::Remove, Some(val.clone())),
                _ => (Then::Keep, None),
            })
        })
    }

    /// Keeps the entries for which `keep` is true. What is removed goes one entry after the other,
    /// each if `keep` is false also of the value that it has at that moment: `keep` may be called
    /// twice for an entry, and must not use the map. Entries that come meanwhile may be left out.
    /// O(n + removed log n).
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, u64> = (0..10_000).map(|i| (i, i)).collect();
    /// map.retain(|key, _| key % 1000 == 0);
    /// assert_eq!((map.len(), map.get(&3000)), (10, Some(3000)));
    /// ```
    pub fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        for (key, val) in self.iter() {
            if !keep(&key, &val) {
                self.remove_if(&key, |val| !keep(&key, val));
            }
        }
    }

    /// The entry with the least key. O(log n + parts that have run empty + deleted entries before it
    /// that are not merged yet).
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, &str> = [(3, "three"), (8, "eight")].into();
    /// assert_eq!(map.first(), Some((3, "three")));
    /// assert_eq!(map.last(), Some((8, "eight")));
    /// ```
    pub fn first(&self) -> Option<(K, V)> {
        self.shared.peek(false).map(Self::entry)
    }

    /// The entry with the greatest key. As [`first`](Self::first).
    pub fn last(&self) -> Option<(K, V)> {
        self.shared.peek(true).map(Self::entry)
    }

    /// [`first`](Self::first), as a `BTreeMap` calls it.
    pub fn first_key_value(&self) -> Option<(K, V)> {
        self.first()
    }

    /// [`last`](Self::last), as a `BTreeMap` calls it.
    pub fn last_key_value(&self) -> Option<(K, V)> {
        self.last()
    }

    /// Removes the entry with the least key and returns it, as one step: at the moment when it is
    /// removed there is no lesser key, and no two calls get the same entry. So threads can share a
    /// queue by it. O(log n + parts that have run empty); deleted entries are passed by once.
    ///
    /// ```
    /// let queue: terrace_mem::ConcurrentHybridMap<(u32, u64), &str> =
    ///     [((1, 0), "at once"), ((2, 1), "later"), ((1, 2), "next")].into();
    /// assert_eq!(queue.pop_first(), Some(((1, 0), "at once")));
    /// assert_eq!(queue.pop_first(), Some(((1, 2), "next")));
    /// assert_eq!(queue.pop_last(), Some(((2, 1), "later")));
    /// assert_eq!(queue.pop_first(), None);
    /// ```
    pub fn pop_first(&self) -> Option<(K, V)> {
        self.shared.pop(false).map(Self::entry)
    }

    /// Removes the entry with the greatest key and returns it. As [`pop_first`](Self::pop_first).
    pub fn pop_last(&self) -> Option<(K, V)> {
        self.shared.pop(true).map(Self::entry)
    }

    fn entry((key, val): (<K::Family as Family>::Buf, V)) -> (K, V) {
        (K::decode(<K::Family as Family>::load(&key)), val)
    }

    /// All entries in order of their keys, from both ends, cloned run by run. O(log n) to begin at
    /// each end, O(1) amortised for each entry.
    pub fn iter(&self) -> ConcurrentIter<'_, K, V> {
        ConcurrentIter::new(&self.shared, None, None)
    }

    /// All keys in order, from both ends. Clones the values, too.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> {
        self.iter().map(|entry| entry.0)
    }

    /// All values in the order of their keys, from both ends.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = V> {
        self.iter().map(|entry| entry.1)
    }

    /// The entries whose keys lie in `range`, in order, from both ends, cloned run by run. As
    /// [`iter`](Self::iter); empty where the start is behind the end.
    ///
    /// ```
    /// let map: terrace_mem::ConcurrentHybridMap<u64, u64> = (0..9999).map(|i| (i, i)).collect();
    /// let last: Vec<u64> = map.range(..5000).rev().take(3).map(|(key, _)| key).collect();
    /// assert_eq!(last, [4999, 4998, 4997]);
    /// ```
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

    /// Which static stages the segments have, with the number of entries in each, dead ones among
    /// them. O(parts).
    pub fn stages(&self) -> Vec<(Stage, usize)> {
        self.shared.stages()
    }

    /// Heap bytes of both stages. O(parts).
    pub fn memory_usage(&self) -> crate::MemoryUsage {
        self.shared.usage()
    }
}

impl<K: IndexKey, V: Clone + Send + Sync + 'static> Drop for ConcurrentHybridMap<K, V> {
    fn drop(&mut self) {
        self.shared.signal.stop();
        self.shared.place.stop();
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
