//! A concurrent ordered map whose nodes move between two memories.
//!
//! Kept true: the directory is locked before a part; a part that has left the directory has no
//! root; user code (`Ord`, `Clone`, `Drop`) runs under the latch of one part at most and the read
//! lock of the directory.

use super::art::{Art, ArtKey};
use super::b_tree::BTree;
use super::common::LEAF_CLASS;
use super::kind::{Inserted, Kind, Making, Nodes, Rooted, Sought};
use super::masstree::Masstree;
use super::range::Range;
use super::seat::{Held, Shown};
use crate::budget::{Budget, Limit};
use crate::engine::{Engine, Stepped, Steps, World};
use crate::error::PlacementError;
use crate::heat::{Heat, Noting, Ticker};
use crate::id::{CLASSES, Tier};
use crate::model::{Model, Plain};
use crate::placed::{Parts, Placed};
use crate::placement::{Opened, Placement};
use crate::stats::{Counters, PlacementStats};
use crate::sync::{Arc, Mutex, RwLock, whole};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A part and its latch.
#[derive(Debug)]
pub(super) struct Part<R>(pub(super) RwLock<R>);

/// Which part has which keys.
#[derive(Debug)]
pub(super) struct Directory<K, R> {
    /// The least key of each part but the first.
    pub(super) lows: Vec<K>,
    pub(super) parts: Vec<Arc<Part<R>>>,
}

impl<K: Ord, R> Directory<K, R> {
    #[inline(always)]
    pub(super) fn find<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.lows.partition_point(|low| low.borrow() <= key)
    }
}

/// What map, iterators and engine share.
pub(super) struct Core<K, V, M: Model, T: Kind<K, V, M>> {
    pub(super) nodes: T::Nodes,
    pub(super) dir: RwLock<Directory<K, T::Tree>>,
    pub(super) len: AtomicUsize,
    ticker: Option<Ticker>,
    counters: Counters,
    memories: Vec<String>,
    notes: Vec<String>,
    limit: Limit,
    values: PhantomData<fn() -> (V, M)>,
}

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
        let first = Part(RwLock::new(T::tree(&nodes)?));
        let core = Arc::new(Core {
            nodes,
            dir: RwLock::new(Directory {
                lows: vec![],
                parts: vec![Arc::new(first)],
            }),
            len: AtomicUsize::new(0),
            ticker: heat.then(|| Ticker::new(policy.sampling())),
            counters: Counters::default(),
            memories,
            notes,
            limit,
            values: PhantomData,
        });
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
        if let Some(noting) = core.tick() {
            return core.get_noted(key, noting, |val| val.cloned());
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
        if let Some(noting) = core.tick() {
            return core.get_noted(key, noting, |val| val.is_some());
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
            {
                let dir = whole(core.dir.read());
                let mut tree = whole(dir.parts[dir.find(&key)].0.write());
                match T::insert(&mut tree, &core.nodes, (key, val), noting)? {
                    Inserted::New => {
                        core.len.fetch_add(1, Relaxed);
                        return Ok(None);
                    }
                    Inserted::Replaced(old) => return Ok(Some(old)),
                    Inserted::Full(k, v) => (key, val) = (k, v),
                }
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
        // What keys and values do when they are dropped keeps nobody waiting.
        gone.extend(first.kid);
        gone.into_iter().for_each(|root| core.nodes.free_all(root));
        drop(first.entries);
    }

    /// Takes an entry out; its value, if there was one. O(log n).
    pub fn remove<Q: Sought<T> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        let (val, empty) = {
            let dir = whole(core.dir.read());
            let mut tree = whole(dir.parts[dir.find(key)].0.write());
            let val = T::remove(&mut tree, &core.nodes, key);
            if val.is_some() {
                core.len.fetch_sub(1, Relaxed);
            }
            (val, tree.len() == 0 && dir.parts.len() > 1)
        };
        if empty {
            core.drop_part(key);
        }
        val
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

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Core<K, V, M, T> {
    /// What this operation should note.
    #[inline(always)]
    pub(super) fn tick(&self) -> Option<Noting> {
        self.ticker.as_ref()?.tick()
    }

    /// Gives the value of a key to `see`; the way to it is noted. Apart, so that others keep nothing
    /// for it.
    #[cold]
    #[inline(never)]
    fn get_noted<Q: Sought<T> + ?Sized, R>(
        &self,
        key: &Q,
        noting: Noting,
        see: impl FnOnce(Option<&V>) -> R,
    ) -> R
    where
        K: Borrow<Q>,
    {
        let dir = whole(self.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        see(T::get(&tree, &self.nodes, key, Some(noting)))
    }

    fn world<'a>(&'a self, heat: &'a Heat) -> World<'a, Self> {
        World {
            structure: self,
            heat,
            budget: &self.nodes.common().budget,
            counters: &self.counters,
        }
    }

    fn step(&self, engine: &mut Engine<Self>, steps: Steps) -> Stepped {
        let Some(heat) = &self.nodes.common().heat else {
            return Stepped::Idle;
        };
        let parts = whole(self.dir.read()).parts.len();
        let directory = parts * (size_of::<Part<T::Tree>>() + size_of::<K>() + size_of::<usize>());
        let fixed = heat.bytes() + directory as u64 + T::keys(&self.nodes).bytes();
        self.nodes.common().budget.set_fixed(fixed);
        engine.step(&self.world(heat), steps)
    }

    /// The value of a key; if there is none, that which `make` makes and which is put in. Where the part
    /// must be split first key and value come back.
    fn get_or_insert(
        &self,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Result<Result<V, (K, V)>, PlacementError>
    where
        K: Sought<T>,
    {
        let noting = self.tick();
        let dir = whole(self.dir.read());
        let mut tree = whole(dir.parts[dir.find(&key)].0.write());
        if let Some(val) = T::get(&tree, &self.nodes, &key, noting) {
            return Ok(Ok(val.clone()));
        }
        let val = make();
        let copy = val.clone();
        match T::insert(&mut tree, &self.nodes, (key, val), None)? {
            Inserted::Full(key, val) => return Ok(Err((key, val))),
            Inserted::New => self.len.fetch_add(1, Relaxed),
            Inserted::Replaced(_) => 0,
        };
        Ok(Ok(copy))
    }

    /// Splits the part of a key, if it is still full.
    fn split_part(&self, key: &K) -> Result<(), PlacementError> {
        let mut dir = whole(self.dir.write());
        let at = dir.find(key);
        let split = T::split(&mut *whole(dir.parts[at].0.write()), &self.nodes)?;
        if let Some((low, tree)) = split {
            dir.lows.insert(at, low);
            dir.parts.insert(at + 1, Arc::new(Part(RwLock::new(tree))));
        }
        Ok(())
    }

    /// Takes the part of a key out of the directory, if it is still empty and not the only one.
    fn drop_part<Q: Ord + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let mut dir = whole(self.dir.write());
        let at = dir.find(key);
        if dir.parts.len() < 2 {
            return;
        }
        {
            let mut tree = whole(dir.parts[at].0.write());
            if tree.len() > 0 {
                return;
            }
            if let Some(root) = tree.retire() {
                self.nodes.free_all(root);
            }
            tree.changed();
        }
        dir.parts.remove(at);
        let low = dir.lows.remove(at.saturating_sub(1));
        T::keys(&self.nodes).goes(&low);
    }

    fn stats(&self) -> PlacementStats {
        let (budget, counters) = (&self.nodes.common().budget, &self.counters);
        let heat = self.nodes.common().heat.as_ref();
        PlacementStats {
            memories: self.memories.clone(),
            notes: self.notes.clone(),
            fast_bytes: budget.bytes(Tier::Fast),
            slow_bytes: budget.bytes(Tier::Slow),
            limit: (self.limit != Limit::All).then(|| budget.limit()),
            peak_fast_bytes: budget.peak(),
            heat_bytes: heat.map_or(0, Heat::bytes),
            key_bytes: T::keys(&self.nodes).bytes(),
            committed: self.nodes.committed(),
            samples: heat.map_or([0; 2], Heat::samples),
            promoted: counters.promoted.load(Relaxed),
            demoted: counters.demoted.load(Relaxed),
            busy: counters.busy.load(Relaxed),
            stale: counters.stale.load(Relaxed),
            no_room: counters.no_room.load(Relaxed),
            bound: counters.bound.load(Relaxed),
            over_budget: budget.over(),
            periods: counters.periods.load(Relaxed),
            coolings: counters.coolings.load(Relaxed),
            shifts: counters.shifts.load(Relaxed),
            threshold: counters.threshold.load(Relaxed),
            residence: self.nodes.residence(),
        }
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Parts for Core<K, V, M, T> {
    type Part = Arc<Part<T::Tree>>;

    fn parts(&self) -> Vec<Self::Part> {
        whole(self.dir.read()).parts.clone()
    }

    fn read(&self, part: &Self::Part, see: &mut dyn FnMut(&dyn Placed)) -> bool {
        let Ok(tree) = part.0.try_read() else {
            return false;
        };
        see(&Shown(&*tree, &self.nodes));
        true
    }

    fn write(&self, part: &Self::Part, change: &mut dyn FnMut(&mut dyn Placed)) -> bool {
        let Ok(mut tree) = part.0.try_write() else {
            return false;
        };
        change(&mut Held(&mut *tree, &self.nodes));
        true
    }

    fn sizes(&self) -> [u64; CLASSES] {
        T::Nodes::sizes()
    }

    fn live(&self) -> [u64; CLASSES] {
        self.nodes.live().map(|[fast, slow]| fast + slow)
    }

    fn is_leaf(&self, class: u8) -> bool {
        class == LEAF_CLASS
    }
}

impl<K, V, M: Model, T: Kind<K, V, M>> Drop for Core<K, V, M, T> {
    fn drop(&mut self) {
        // Values that own memory are dropped with their nodes.
        let parts = match self.dir.get_mut() {
            Ok(dir) => std::mem::take(&mut dir.parts),
            Err(poisoned) => std::mem::take(&mut poisoned.into_inner().parts),
        };
        for part in parts {
            let root = whole(part.0.write()).retire();
            if let Some(root) = root {
                self.nodes.free_all(root);
            }
        }
    }
}
