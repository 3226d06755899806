//! A concurrent ordered map whose nodes move between two memories.
//!
//! Kept true: the directory is locked before a part; a part that has left the directory has no
//! root; user code (`Ord`, `Clone`, `Drop`) runs under the latch of one part at most and the read
//! lock of the directory.

use super::art::{Art, ArtKey};
use super::b_tree::BTree;
use super::core::Core;
use super::kind::{Inserted, Kind, Making, Nodes, Removed, Rooted, Sought};
use super::masstree::Masstree;
use super::range::Range;
use crate::budget::Budget;
use crate::engine::{Engine, Stepped, Steps};
use crate::error::PlacementError;
use crate::heat::Ticker;
use crate::id::Tier;
use crate::model::{Model, Plain};
use crate::placement::{Opened, Placement};
use crate::stats::PlacementStats;
use crate::sync::{Arc, Mutex, whole};
use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering::Relaxed;

/// A concurrent ordered map over fast and slow memory: trees in parts, each under a latch, whose
/// nodes lie where they are used most. `T` is the kind of tree: a B+tree, [`Art`](super::Art) or
/// [`Masstree`](super::Masstree).
///
/// Values are returned as copies, since nodes move. `M` sees every node that is touched; with
/// [`Plain`] that is compiled away.
///
/// ```
/// use terrace_place::{Memory, Placement, PlacedTree, Steps};
///
/// let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.2).manual();
/// let tree = PlacedTree::<u64, u64>::new(placement)?;
/// for i in 0..10_000 {
///     tree.insert(i, i * i)?;
/// }
/// assert_eq!(tree.get(&12), Some(144));
/// while tree.place_step(Steps::nodes(256)) {}
/// let stats = tree.placement();
/// assert!(stats.fast_bytes <= stats.limit.unwrap());
/// # Ok::<(), terrace_place::PlacementError>(())
/// ```
pub struct PlacedTree<K, V, M = Plain, T = BTree>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
    T: Kind<K, V, M>,
{
    core: Arc<Core<K, V, M, T>>,
    engine: Arc<Mutex<Engine<Core<K, V, M, T>>>>,
    #[cfg(not(feature = "shuttle"))]
    thread: Option<super::thread::Worker>,
}

impl<K, V> PlacedTree<K, V>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty map.
    ///
    /// # Errors
    /// A memory cannot be had; the error says why and what to do.
    pub fn new(placement: Placement) -> Result<Self, PlacementError> {
        Self::with_model(placement, Plain)
    }
}

impl<K, V> PlacedTree<K, V, Plain, Art>
where
    K: ArtKey + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty map over an adaptive radix tree.
    ///
    /// # Errors
    /// As [`PlacedTree::new`].
    pub fn art(placement: Placement) -> Result<Self, PlacementError> {
        Self::with_model(placement, Plain)
    }
}

impl<K, V> PlacedTree<K, V, Plain, Masstree>
where
    K: ArtKey + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty map over a Masstree, for the same keys as the radix tree.
    ///
    /// # Errors
    /// As [`PlacedTree::new`].
    pub fn masstree(placement: Placement) -> Result<Self, PlacementError> {
        Self::with_model(placement, Plain)
    }
}

impl<K, V, M> PlacedTree<K, V, M>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    /// Bytes of a leaf and of an inner node.
    pub fn node_bytes() -> [usize; 2] {
        let sizes = <BTree as Kind<K, V, M>>::Nodes::sizes();
        [sizes[0] as usize, sizes[1] as usize]
    }
}

impl<K, V, M, T> PlacedTree<K, V, M, T>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
    T: Kind<K, V, M>,
{
    /// An empty map whose touches a model sees.
    ///
    /// # Errors
    /// As [`PlacedTree::new`].
    pub fn with_model(placement: Placement, model: M) -> Result<Self, PlacementError> {
        let Opened {
            sources,
            memories,
            limit,
            policy,
            notes,
            slots,
            background,
        } = placement.open()?;
        let two = memories.len() == 2;
        let heat = two && policy.moves();
        let births = if two {
            policy.births()
        } else {
            crate::policy::Births::Always(Tier::Fast)
        };
        let budget = Budget::new(limit);
        let nodes = T::nodes(Making {
            slots,
            sources,
            budget,
            births,
            heat,
            model,
        })?;
        let ticker = match heat {
            true => Ticker::new(policy.sampling()),
            false => Ticker::never(),
        };
        let ticker = (ticker, policy.calms());
        let core = Arc::new(Core::new(nodes, ticker, (memories, notes), limit)?);
        let engine = Arc::new(Mutex::new(Engine::new(policy)));
        #[cfg(not(feature = "shuttle"))]
        let thread = (heat && background).then(|| {
            let (core, engine) = (Arc::clone(&core), Arc::clone(&engine));
            super::thread::Worker::start(move |steps, hurry| {
                let mut engine = whole(engine.lock());
                if hurry {
                    engine.hurry();
                }
                core.step(&mut engine, steps) == Stepped::Busy
            })
        });
        #[cfg(feature = "shuttle")]
        let _ = background;
        Ok(PlacedTree {
            core,
            engine,
            #[cfg(not(feature = "shuttle"))]
            thread,
        })
    }

    /// The value of a key. O(log n).
    #[inline]
    pub fn get<Q: Sought<T> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        if core.is_due() {
            return core.get_noted(key, |val| val.cloned());
        }
        let dir = whole(core.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        T::get(&tree, &core.nodes, key, None).cloned()
    }

    /// Whether there is an entry. O(log n).
    pub fn contains_key<Q: Sought<T> + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        if core.is_due() {
            return core.get_noted(key, |val| val.is_some());
        }
        let dir = whole(core.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        T::get(&tree, &core.nodes, key, None).is_some()
    }

    /// Puts an entry in; the old value of the key, if there was one. O(log n).
    ///
    /// # Errors
    /// No memory for a node: the entries are as they were, but for the lost one.
    pub fn insert(&self, key: K, val: V) -> Result<Option<V>, PlacementError> {
        let core = &*self.core;
        let noting = core.tick();
        let (mut key, mut val) = (key, val);
        loop {
            let inserted = {
                let dir = whole(core.dir.read());
                let mut tree = whole(dir.parts[dir.find(&key)].0.write());
                let inserted = T::insert(&mut tree, &core.nodes, (key, val), noting)?;
                if let Inserted::New = inserted {
                    core.len.fetch_add(1, Relaxed);
                }
                inserted
            };
            match inserted {
                Inserted::New => return Ok(None),
                Inserted::Replaced(old, key) => {
                    drop(key);
                    return Ok(Some(old));
                }
                Inserted::Full(k, v) => (key, val) = (k, v),
            }
            core.split_part(&key)?;
        }
    }

    /// Changes the value of a key in its place; what `change` returns, if there is such a key. O(log n).
    ///
    /// `change` keeps others from the part of the key: it must be short, and not use this map.
    pub fn update<Q: Sought<T> + ?Sized, R>(
        &self,
        key: &Q,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        let noting = core.tick();
        let dir = whole(core.dir.read());
        let mut tree = whole(dir.parts[dir.find(key)].0.write());
        T::get_mut(&mut tree, &core.nodes, key, noting).map(change)
    }

    /// The value of a key; that which `make` makes, and which is put in, if there was none. O(log n).
    ///
    /// `make` keeps others from the part of the key: it must be short, and not use this map.
    ///
    /// # Errors
    /// As [`PlacedTree::insert`]; `make` may have been called.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Result<V, PlacementError>
    where
        K: Sought<T>,
    {
        let mut tried = self.core.get_or_insert(key, make)?;
        loop {
            match tried {
                Ok(val) => return Ok(val),
                Err((key, val)) => {
                    self.core.split_part(&key)?;
                    tried = self.core.get_or_insert(key, || val)?;
                }
            }
        }
    }

    /// Takes all entries out, at once for all who look. O(parts), and then O(n) to free them.
    pub fn clear(&self) {
        let core = &*self.core;
        let mut gone = vec![];
        let (first, _lows) = {
            let mut dir = whole(core.dir.write());
            let lows = std::mem::take(&mut dir.lows);
            lows.iter().for_each(|low| T::keys(&core.nodes).goes(low));
            for part in dir.parts.drain(1..) {
                let mut tree = whole(part.0.write());
                core.len.fetch_sub(tree.len(), Relaxed);
                gone.extend(tree.retire());
                tree.changed();
            }
            let mut tree = whole(dir.parts[0].0.write());
            core.len.fetch_sub(tree.len(), Relaxed);
            (T::clear(&mut tree, &core.nodes), lows)
        };
        // What keys and values do when they are dropped keeps no thread waiting.
        gone.extend(first.kid);
        core.nodes.free_all(gone);
        drop(first.entries);
    }

    /// Takes an entry out; its value, if there was one. O(log n).
    pub fn remove<Q: Sought<T> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        let (removed, empty) = {
            let dir = whole(core.dir.read());
            let mut tree = whole(dir.parts[dir.find(key)].0.write());
            let removed = T::remove(&mut tree, &core.nodes, key)?;
            core.len.fetch_sub(1, Relaxed);
            (removed, tree.len() == 0 && dir.parts.len() > 1)
        };
        if empty {
            core.drop_part(key);
        }
        // What the keys do when they are dropped finds a map that is whole, and keeps no thread waiting.
        let Removed { val, key, between } = removed;
        drop((key, between));
        Some(val)
    }

    /// Entries of a range, in the order of their keys or from behind, each a copy.
    pub fn range<R: RangeBounds<K>>(&self, range: R) -> Range<K, V, M, T> {
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        Range::new(Arc::clone(&self.core), from, to)
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> Range<K, V, M, T> {
        self.range::<(Bound<K>, Bound<K>)>((Bound::Unbounded, Bound::Unbounded))
    }

    /// Entries that there are.
    pub fn len(&self) -> usize {
        self.core.len.load(Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does a bounded piece of placing: whether there is more to do now. A thread does this unless
    /// the placement is [`Placement::manual`].
    pub fn place_step(&self, steps: Steps) -> bool {
        let mut engine = whole(self.engine.lock());
        self.core.step(&mut engine, steps) == Stepped::Busy
    }

    /// Lets the next period begin with few noted lookups, as when much time has passed.
    pub fn hurry(&self) {
        whole(self.engine.lock()).hurry();
    }

    /// Where the nodes lie, and what was done about it.
    pub fn placement(&self) -> PlacementStats {
        self.core.stats()
    }

    /// Nodes that there are: leaves and inner nodes, each fast and slow.
    pub fn nodes(&self) -> [[u64; 2]; 2] {
        let live = self.core.nodes.live();
        let inner = live[1..]
            .iter()
            .fold([0; 2], |sum, class| [sum[0] + class[0], sum[1] + class[1]]);
        [live[0], inner]
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.core.nodes.common().model
    }

    /// Walks all nodes: whether order, tiers and counted bytes are as they should be. O(n).
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        self.core.check()
    }
}

impl<K, V, M, T> std::fmt::Debug for PlacedTree<K, V, M, T>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
    T: Kind<K, V, M>,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacedTree")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K, V, M, T> Drop for PlacedTree<K, V, M, T>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
    T: Kind<K, V, M>,
{
    fn drop(&mut self) {
        #[cfg(not(feature = "shuttle"))]
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}
